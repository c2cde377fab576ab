package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// drain measures the peer's own worker runtime on jobs that wait.
func drain() operation {
	const name, slots = "drain_100k", 64
	return operation{
		name: name,
		rows: []row{{name: name, what: "100,000 waiting no-op jobs through the product's own workers, 64 at a time, acks durable", unit: "jobs/s", batch: slots, faster: true}},
		run: func(t *trial) (out []sample, err error) {
			q, err := t.open(slots)
			if err != nil {
				return nil, err
			}
			defer closing(q, &err)
			run, err := runtimeOf(q)
			if err != nil {
				return nil, err
			}
			if t.opened != nil {
				t.opened()
			}
			jobs := t.atMost(t.scale.drain, drainFill)
			if err := fill(t.ctx, q, jobs); err != nil {
				return nil, err
			}
			if t.filled != nil {
				t.filled(jobs)
			}
			r, err := t.drainAll(q, run, slots, jobs)
			s := t.sample(name, r)
			if jobs < fullScale.drain {
				s.Jobs = jobs
			}
			return []sample{s}, err
		},
	}
}

const (
	drainFill     = 4                // seconds
	drainTime     = 2 * time.Second  // the slow ones are measured on what they did by then
	drainPatience = 15 * time.Second // for the first job
)

// drainAll runs workers until all jobs were started, or for drainTime.
func (t *trial) drainAll(q queue, run func(context.Context, int, func()) error, slots, jobs int) (r report, err error) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var started atomic.Int64
	first, all, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	m := newMeter(q, t.server())
	go func() {
		ended <- run(ctx, slots, func() {
			switch started.Add(1) {
			case 1:
				close(first)
			case int64(jobs):
				close(all)
			}
		})
	}()
	select {
	case <-first:
	case <-time.After(drainPatience):
		cancel()
		return r, errors.Join(fmt.Errorf("no job was started within %v", drainPatience), <-ended)
	case err := <-ended:
		return r, errors.Join(errors.New("the workers ended by themselves"), err)
	}
	select {
	case <-all:
	case <-time.After(drainTime):
	}
	r.Jobs = int(started.Load())
	m.read(&r)
	cancel()
	return r, <-ended
}
