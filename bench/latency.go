package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// latencyBusy enqueues a job each 5 to 11 ms.
func latencyBusy() operation {
	gap := func(i int) time.Duration { return time.Duration(5+i%7) * time.Millisecond }
	return latency("latency_busy", "a job each 5 to 11 ms", gap, func(s scale) int { return int(s.limit / (12 * time.Millisecond)) })
}

// latencyIdle lets everything go cold between two jobs.
func latencyIdle() operation {
	gap := func(i int) time.Duration { return time.Duration(220+13*(i%5)) * time.Millisecond }
	return latency("latency_idle", "a job each 220 to 272 ms", gap, func(s scale) int { return s.idle })
}

// latency measures from the call of an enqueue to the start of the handler, in
// another process where the peer can have two.
func latency(name, what string, gap func(i int) time.Duration, jobs func(scale) int) operation {
	what = "from the call of enqueue to the start of the handler in another process (the same one for those that cannot have two), " + what
	return operation{
		name: name,
		rows: []row{{name: name + "_p50", what: what + "; median", unit: "µs"}, {name: name + "_p99", what: "the same; the worst of 100, or of all when a run has fewer", unit: "µs"}},
		run: func(t *trial) (out []sample, err error) {
			q, err := t.open(1)
			if err != nil {
				return nil, err
			}
			defer closing(q, &err)
			w, err := t.listen(q)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, w.end()) }()
			pause(t.ctx, 300*time.Millisecond) // for runtimes that start slowly
			var took []time.Duration
			for i, begun := 0, time.Now(); i < jobs(t.scale) && (i < latencyFew || time.Since(begun) < latencyTime); i++ {
				if pause(t.ctx, gap(i)); t.ctx.Err() != nil {
					return nil, context.Cause(t.ctx)
				}
				begun := monotonic()
				if err := q.enqueue(payload); err != nil {
					return nil, err
				}
				started, err := w.next()
				if err != nil {
					return nil, err
				}
				took = append(took, started-begun)
			}
			return []sample{
				{Row: name + "_p50", Value: micros(percentile(took, 0.5))},
				{Row: name + "_p99", Value: micros(percentile(took, 0.99))},
			}, nil
		},
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// listener is a worker that says when each job started.
type listener struct {
	starts <-chan time.Duration
	end    func() error
}

const (
	latencyPatience = 5 * time.Second
	latencyTime     = 3 * time.Second // of a run; one that is slower has fewer jobs,
	latencyFew      = 3               // but not fewer than these
)

func (l *listener) next() (time.Duration, error) {
	select {
	case d, ok := <-l.starts:
		if !ok {
			return 0, errors.New("the worker ended")
		}
		return d, nil
	case <-time.After(latencyPatience):
		return 0, fmt.Errorf("a job was not started within %v", latencyPatience)
	}
}

// listen starts the worker with 64 slots.
func (t *trial) listen(q queue) (*listener, error) {
	const slots = 64
	starts := make(chan time.Duration, 64)
	if !t.peer.alone && !t.peer.deaf {
		c, err := spawn(role{Do: tellRole, Peer: t.peer.name, Place: t.at, Slots: slots})
		if err != nil {
			return nil, err
		}
		go func() {
			defer close(starts)
			for c.out.Scan() {
				if ns, err := strconv.ParseInt(c.out.Text(), 10, 64); err == nil {
					starts <- time.Duration(ns)
				}
			}
		}()
		return &listener{starts, c.end}, nil
	}
	run, err := runtimeOf(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, slots, func() { starts <- monotonic() }) }()
	return &listener{starts, func() error { cancel(); return <-ended }}, nil
}
