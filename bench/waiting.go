package main

import (
	"errors"
	"os"
	"time"
)

const (
	openings    = 3
	waitingFill = 6 // seconds
)

// waiting measures what jobs that wait cost: to open, in memory, on the disk.
func waiting() operation {
	return operation{
		name: "waiting_1m", once: true,
		rows: []row{
			{name: "open_1m", what: "open with 1,000,000 waiting, in a fresh process (a server: start), up to the first job", unit: "ms"},
			{name: "memory_1m", what: "memory for each waiting job after that (without the page cache)", unit: "B"},
			{name: "disk_1m", what: "disk for each waiting job, payload of 100 bytes included", unit: "B"},
		},
		run: (*trial).waiting,
	}
}

func (t *trial) waiting() ([]sample, error) {
	jobs := t.atMost(t.scale.waiting, waitingFill)
	empty, err := t.emptyMemory()
	if err != nil {
		return nil, err
	}
	q, err := t.open(64)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fill(t.ctx, q, jobs), q.close()); err != nil {
		return nil, err
	}
	use := t.peer.disk
	if use == nil {
		use = t.filesUse
	}
	bytes, err := use(t.at)
	if err != nil {
		return nil, err
	}
	out := []sample{{Row: "disk_1m", Value: float64(bytes) / float64(jobs)}}
	for range openings {
		r, err := t.openOnce(empty)
		if err != nil {
			return nil, err
		}
		memory := sample{Row: "memory_1m", Value: float64(r.Memory) / float64(jobs)}
		if t.peer.server == "postgres" {
			memory = sample{Row: "memory_1m", None: "in shared buffers, whatever waits"}
		}
		open := sample{Row: "open_1m", Value: float64(r.First.Nanoseconds()) / 1e6, CPU: micros(r.CPU) / float64(jobs)}
		out = append(out, open, memory)
	}
	for i := range out {
		if jobs < fullScale.waiting {
			out[i].Jobs = jobs
		}
	}
	return out, nil
}

// filesUse is what the files of the queue, or of the whole server, take.
func (t *trial) filesUse(at place) (int64, error) {
	if s := t.server(); s != nil {
		return diskUse(s.dir)
	}
	return diskUse(at.Dir)
}

// emptyMemory is what the server has after a start without jobs.
func (t *trial) emptyMemory() (int64, error) {
	s := t.server()
	if s == nil {
		return 0, nil
	}
	q, err := t.open(1)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(q.close(), s.stop(), s.start()); err != nil {
		return 0, err
	}
	return s.memory(), nil
}

// openOnce opens the filled queue. empty is the memory of the server when it
// had no jobs.
func (t *trial) openOnce(empty int64) (r report, err error) {
	s := t.server()
	if s == nil {
		cs, _, err := t.children(role{Do: openRole, Peer: t.peer.name, Place: t.at})
		if err != nil {
			return r, err
		}
		return cs[0], nil
	}
	if err := s.stop(); err != nil {
		return r, err
	}
	begun := time.Now()
	if err := s.start(); err != nil {
		return r, err
	}
	q, err := t.peer.open(t.at, mode{callers: 1})
	if err != nil {
		return r, err
	}
	defer closing(q, &err)
	first, err := firstJob(q)
	if err != nil {
		return r, err
	}
	r.First, r.CPU = first.Sub(begun), s.cpu()
	r.Memory = max(0, s.memory()-empty)
	return r, nil
}

// memory is that of the server's first process.
func (s *server) memory() int64 {
	if s == nil || s.cmd == nil {
		return 0
	}
	n, err := anonBytes(s.cmd.Process.Pid)
	if err != nil {
		return 0
	}
	return n
}

// clean removes what the trial left.
func (t *trial) clean() error { return os.RemoveAll(t.at.Dir) }
