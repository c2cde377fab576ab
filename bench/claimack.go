package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// claimAckBy measures n goroutines that claim one job, ack it, and so on.
func claimAckBy(n int) operation {
	name := fmt.Sprintf("claim_ack_%d", n)
	what := "1 worker claims a job and acks it, one at a time, acks durable"
	if n > 1 {
		what = fmt.Sprintf("%d workers in one process, each one at a time", n)
	}
	return operation{
		name: name,
		rows: []row{{name: name, what: what, unit: "jobs/s", batch: n, faster: true}},
		run: func(t *trial) (out []sample, err error) {
			q, err := t.open(n)
			if err != nil {
				return nil, err
			}
			defer closing(q, &err)
			tk, ok := q.(taker)
			if !ok {
				return nil, none("no call that claims one job")
			}
			perSecond := 20_000 // more than anybody does
			if n > 1 {
				perSecond = 200_000
			}
			if t.peer.pace > 0 {
				perSecond = min(perSecond, t.peer.pace)
			}
			jobs := int(float64(perSecond) * t.scale.limit.Seconds())
			if err := fill(t.ctx, q, jobs); err != nil {
				return nil, err
			}
			r, err := t.measure(q, func() (int, error) { return claimAckFor(t, tk, n) })
			return []sample{t.sample(name, r)}, err
		},
	}
}

// claimAckFor returns early when nothing is left.
func claimAckFor(t *trial, q taker, n int) (int, error) {
	var jobs atomic.Int64
	begun := time.Now()
	err := together(n, func() error {
		for time.Since(begun) < t.scale.limit && t.ctx.Err() == nil {
			job, err := q.take()
			if err != nil || job == nil {
				return err
			}
			if err := q.ack(job); err != nil {
				return err
			}
			jobs.Add(1)
		}
		return nil
	})
	return int(jobs.Load()), err
}
