package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// enqueueBy measures n goroutines that enqueue one job a call.
func enqueueBy(n int) operation {
	name := fmt.Sprintf("enqueue_%d", n)
	return operation{
		name: name,
		rows: []row{{name: name, what: fmt.Sprintf("%s, one job a call", producers(n)), unit: "jobs/s", batch: n, faster: true}},
		run: func(t *trial) (out []sample, err error) {
			q, err := t.open(n)
			if err != nil {
				return nil, err
			}
			defer closing(q, &err)
			r, err := enqueueFor(t.ctx, q, t.server(), n, t.scale.limit)
			return []sample{t.sample(name, r)}, err
		},
	}
}

func producers(n int) string {
	if n == 1 {
		return "1 producer"
	}
	return fmt.Sprintf("%d producers in one process", n)
}

// enqueueFor lets n goroutines enqueue for d.
func enqueueFor(ctx context.Context, q queue, s *server, n int, d time.Duration) (r report, err error) {
	m := newMeter(q, s)
	var jobs atomic.Int64
	err = together(n, func() error {
		for time.Since(m.begun) < d && ctx.Err() == nil {
			if err := q.enqueue(payload); err != nil {
				return err
			}
			jobs.Add(1)
		}
		return nil
	})
	r.Jobs = int(jobs.Load())
	m.read(&r)
	return r, err
}

const batchJobs = 1000

// enqueueBatches measures one goroutine that enqueues a thousand jobs a call.
func enqueueBatches() operation {
	const name = "enqueue_batch_1000"
	return operation{
		name: name,
		rows: []row{{name: name, what: "1 producer, 1,000 jobs a call", unit: "jobs/s", batch: batchJobs, faster: true}},
		run: func(t *trial) (out []sample, err error) {
			q, err := t.open(1)
			if err != nil {
				return nil, err
			}
			defer closing(q, &err)
			b, ok := q.(batcher)
			if !ok {
				return nil, none("one job a call")
			}
			r, err := t.measure(q, func() (n int, err error) {
				for begun := time.Now(); time.Since(begun) < t.scale.limit && err == nil; n += batchJobs {
					err = b.enqueueMany(batchJobs, payload)
				}
				return n, err
			})
			return []sample{t.sample(name, r)}, err
		},
	}
}
