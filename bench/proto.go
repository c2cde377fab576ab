package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

var protoPeer = &peer{
	name: "proto", durability: "fdatasync before every answer; a claim rides along",
	how:   "the ceiling for Go: a log with sums and group commit, no retry, no expiry, no compaction; nobody could use it",
	alone: true,
	open: func(at place, m mode) (queue, error) {
		f, err := os.OpenFile(filepath.Join(at.Dir, "log"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		p := &proto{file: f, next: newFlight()}
		p.work = sync.NewCond(&p.mu)
		return p, p.replay()
	},
}

// proto is no queue to use: it is the least that a log with group commit has to
// do. One sync is in flight; who finds none flies with what is buffered, the
// others wait for the next one.
type proto struct {
	mu     sync.Mutex
	work   *sync.Cond // jobs became ready, or the queue is stopped
	file   *os.File
	end    int64 // of the log
	size   int64 // of the file, which is made ahead
	buf    []byte
	spare  []byte
	next   *flight
	busy   bool
	synced int64
	lastID uint64
	ready  []protoJob // head first
	head   int
	stop   bool
}

// flight is one write and one sync, for all that gathered before it.
type flight struct {
	done chan struct{}
	err  error
	jobs []protoJob
}

type protoJob struct {
	id     uint64
	offset int64
	size   int32
}

const (
	protoHeader = 24 // sum, size, kind, padding, id
	protoAhead  = 64 << 20

	kindJob   = 1
	kindClaim = 2
	kindAck   = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newFlight() *flight { return &flight{done: make(chan struct{})} }

// put buffers a record. The caller holds mu.
func (p *proto) put(kind byte, id uint64, body []byte) {
	at := len(p.buf)
	var h [protoHeader]byte
	binary.LittleEndian.PutUint32(h[4:], uint32(len(body)))
	h[8] = kind
	binary.LittleEndian.PutUint64(h[16:], id)
	p.buf = append(append(p.buf, h[:]...), body...)
	binary.LittleEndian.PutUint32(p.buf[at:], crc32.Checksum(p.buf[at+4:], castagnoli))
}

// add buffers a job, which is ready once its flight has landed.
func (p *proto) add(b []byte) {
	p.lastID++
	p.next.jobs = append(p.next.jobs, protoJob{p.lastID, p.end + int64(len(p.buf)) + protoHeader, int32(len(b))})
	p.put(kindJob, p.lastID, b)
}

// wait returns when all that is buffered is synced. The caller holds mu, and
// no longer does afterwards.
func (p *proto) wait() error {
	f := p.next
	if p.busy {
		p.mu.Unlock()
		<-f.done
		return f.err
	}
	p.busy = true
	p.fly()
	return f.err
}

// fly writes and syncs what is buffered, and hands on to a flight of its own
// when more has gathered. The caller holds mu, and no longer does afterwards.
func (p *proto) fly() {
	f, buf, offset := p.next, p.buf, p.end
	p.next, p.buf = newFlight(), p.spare[:0]
	p.end += int64(len(buf))
	f.err = p.grow()
	p.mu.Unlock()
	if f.err == nil {
		_, f.err = p.file.WriteAt(buf, offset)
	}
	if f.err == nil {
		f.err = unix.Fdatasync(int(p.file.Fd()))
	}
	close(f.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced++
	p.spare = buf
	p.ready = append(p.ready, f.jobs...)
	for range f.jobs {
		p.work.Signal()
	}
	if p.busy = len(p.buf) > 0; p.busy {
		go func() {
			p.mu.Lock()
			p.fly()
		}()
	}
}

// grow makes the file longer than the log.
func (p *proto) grow() error {
	if p.end <= p.size {
		return nil
	}
	p.size = (p.end/protoAhead + 1) * protoAhead
	return unix.Fallocate(int(p.file.Fd()), 0, 0, p.size)
}

func (p *proto) enqueue(b []byte) error { return p.enqueueMany(1, b) }

func (p *proto) enqueueMany(n int, b []byte) error {
	p.mu.Lock()
	for range n {
		p.add(b)
	}
	return p.wait()
}

func (p *proto) take() (any, error) {
	p.mu.Lock()
	if p.head == len(p.ready) {
		p.mu.Unlock()
		return nil, nil
	}
	return p.claim()
}

// claim takes the first job. The caller holds mu, and no longer does afterwards.
func (p *proto) claim() (any, error) {
	job := p.ready[p.head]
	if p.head++; p.head == len(p.ready) {
		p.ready, p.head = p.ready[:0], 0
	}
	p.put(kindClaim, job.id, nil)
	p.mu.Unlock()
	b := make([]byte, job.size)
	_, err := p.file.ReadAt(b, job.offset)
	return job.id, err
}

func (p *proto) ack(job any) error {
	p.mu.Lock()
	p.put(kindAck, job.(uint64), nil)
	return p.wait()
}

func (p *proto) run(ctx context.Context, slots int, started func()) error {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stop = true
		p.work.Broadcast()
	})()
	return together(slots, func() error {
		for {
			p.mu.Lock()
			for p.head == len(p.ready) && !p.stop {
				p.work.Wait()
			}
			if p.stop {
				p.mu.Unlock()
				return nil
			}
			job, err := p.claim()
			if err != nil {
				return err
			}
			started()
			if err := p.ack(job); err != nil {
				return err
			}
		}
	})
}

// replay reads the log up to the first record that is not whole.
func (p *proto) replay() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.size = info.Size()
	r := bufio.NewReaderSize(p.file, 1<<20)
	acked := map[uint64]bool{}
	rec := make([]byte, protoHeader)
	for {
		rec = rec[:protoHeader]
		if _, err := io.ReadFull(r, rec); err != nil {
			return p.replayed(acked, err)
		}
		size := int(binary.LittleEndian.Uint32(rec[4:]))
		if kind := rec[8]; kind < kindJob || kind > kindAck || size > 1<<20 {
			return p.replayed(acked, nil)
		}
		rec = slices.Grow(rec, size)[:protoHeader+size]
		if _, err := io.ReadFull(r, rec[protoHeader:]); err != nil {
			return p.replayed(acked, err)
		}
		if crc32.Checksum(rec[4:], castagnoli) != binary.LittleEndian.Uint32(rec) {
			return p.replayed(acked, nil)
		}
		switch id := binary.LittleEndian.Uint64(rec[16:]); rec[8] {
		case kindJob:
			p.lastID = id
			p.ready = append(p.ready, protoJob{id, p.end + protoHeader, int32(size)})
		case kindAck:
			acked[id] = true
		}
		p.end += int64(len(rec))
	}
}

// replayed drops what is done, and the error that the end of the file is.
func (p *proto) replayed(acked map[uint64]bool, err error) error {
	if len(acked) > 0 {
		p.ready = slices.DeleteFunc(p.ready, func(j protoJob) bool { return acked[j.id] })
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("replay: %w", err)
}

func (p *proto) syncs() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced
}

func (p *proto) close() error { return p.file.Close() }
