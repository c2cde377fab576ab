package main

import (
	"context"
	"errors"
	"os"
	"time"
)

// operation is what is done to every peer. It gives figures for one or more rows.
type operation struct {
	name string
	rows []row
	once bool // it takes long, and gives all its samples in the first run
	run  func(t *trial) ([]sample, error)
}

// trial is one run of one operation on one peer.
type trial struct {
	ctx   context.Context
	peer  *peer
	at    place
	scale scale

	opened func()         // nil, or called when a drain has its empty queue,
	filled func(jobs int) // and when so many jobs wait
}

// scale is how long and how large.
type scale struct {
	runs    int
	limit   time.Duration // of one run
	drain   int           // jobs
	waiting int           // jobs
	idle    int           // jobs of latency_idle
}

var (
	fullScale  = scale{runs: 3, limit: 500 * time.Millisecond, drain: 100_000, waiting: 1_000_000, idle: 8}
	quickScale = scale{runs: 1, limit: 250 * time.Millisecond, drain: 30_000, waiting: 100_000, idle: 5}
)

func operations() []operation {
	return []operation{
		enqueueBy(1), enqueueBy(8), enqueueBy(64), enqueueByProcesses(), enqueueBatches(),
		claimAckBy(1), claimAckBy(64), drain(), through(), latencyBusy(), latencyIdle(), waiting(),
	}
}

// open opens the peer's queue with nothing in it.
func (t *trial) open(callers int) (queue, error) {
	if err := os.MkdirAll(t.at.Dir, 0o755); err != nil {
		return nil, err
	}
	return t.peer.open(t.at, mode{fresh: true, callers: callers})
}

// prepare makes the peer's queue with nothing in it, for child processes.
func (t *trial) prepare() error {
	if t.peer.alone {
		return none("one process at a time")
	}
	q, err := t.open(1)
	if err != nil {
		return err
	}
	return q.close()
}

func (t *trial) server() *server { return t.at.servers[t.peer.server] }

// atMost cuts a number of jobs to what the peer can be filled with in some
// seconds.
func (t *trial) atMost(n, seconds int) int {
	if t.peer.fills > 0 {
		return min(n, t.peer.fills*seconds)
	}
	return n
}

// sample turns a report into the sample of a row.
func (t *trial) sample(row string, r report) sample {
	s := sample{Row: row, Value: float64(r.Jobs) / r.Took.Seconds()}
	if n := float64(r.Jobs); r.Jobs > 0 {
		s.Commands, s.Scripts, s.Server = float64(r.Commands)/n, float64(r.Scripts)/n, micros(r.ServerCPU)/n
		s.CPU = micros(r.CPU) / float64(r.Jobs)
		if r.Syncs > 0 {
			perJob := float64(r.Syncs) / float64(r.Jobs)
			s.Syncs = &perJob
		}
	}
	return s
}

// measure times fn, which returns how many jobs it did.
func (t *trial) measure(q queue, fn func() (int, error)) (r report, err error) {
	m := newMeter(q, t.server())
	r.Jobs, err = fn()
	m.read(&r)
	return r, err
}

// closing joins the error of closing q.
func closing(q queue, err *error) { *err = errors.Join(*err, q.close()) }
