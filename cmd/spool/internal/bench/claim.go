package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// claimAck measures one goroutine that claims one job, acks it, and so on.
func (b *Bench) claimAck() operation {
	return operation{
		name: "claim_ack_1", what: "one goroutine claims a job and acks it, one after the other; the call is the pair", batch: 1, raw: perSync(1), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			run := func(ctx context.Context) (m round, err error) {
				if err := s.fill(ctx, b.count(10_000)); err != nil {
					return m, err
				}
				return s.claimAckFor(ctx, b.time(roundTime))
			}
			return run, s.client.Close, nil
		},
	}
}

// claimAckMany measures 64 goroutines that do the same.
func (b *Bench) claimAckMany() operation {
	return operation{
		name: "claim_ack_64", what: "64 goroutines of one process claim a job and ack it, one after the other; the call is the pair",
		batch: drainWorkers, raw: perSync(drainWorkers), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			run := func(ctx context.Context) (m round, err error) {
				if err := s.fill(ctx, b.count(100_000)); err != nil {
					return m, err
				}
				return s.manyFor(ctx, drainWorkers, b.time(roundTime))
			}
			return run, s.client.Close, nil
		},
	}
}

// manyFor lets n goroutines claim and ack for d.
func (s *store) manyFor(ctx context.Context, n int, d time.Duration) (m round, err error) {
	parts, errs := make([]round, n), make([]error, n)
	before, begun := s.syncs(), time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { parts[i], errs[i] = s.claimAckFor(ctx, d) })
	}
	wg.Wait()
	for _, part := range parts {
		m.jobs += part.jobs
		m.calls = append(m.calls, part.calls...)
	}
	m.took, m.syncs = time.Since(begun), s.syncs()-before
	return m, errors.Join(errs...)
}

func (s *store) claimAckFor(ctx context.Context, d time.Duration) (m round, err error) {
	before, begun := s.syncs(), time.Now()
	for time.Since(begun) < d {
		call := time.Now()
		leases, err := s.client.Claim(ctx, broker.ClaimRequest{Tasks: []string{task}, Max: 1, Worker: "bench"})
		if err != nil {
			return m, err
		}
		if len(leases) == 0 {
			break // the machine is faster than was thought: the round is shorter
		}
		if err := leases[0].Ack(ctx, nil); err != nil {
			return m, err
		}
		m.jobs++
		m.calls = append(m.calls, time.Since(call))
	}
	m.took, m.syncs = time.Since(begun), s.syncs()-before
	return m, nil
}

const (
	drainJobs    = 100_000
	drainWorkers = 64
)

// drain measures a worker with 64 slots that works all that waits.
func (b *Bench) drain() operation {
	return operation{
		name: "drain_100k", what: "a worker with 64 slots works 100000 jobs, every ack durable; the call is from the claim to the ack's answer",
		batch: drainWorkers, raw: perSync(drainWorkers), rounds: fewRuns,
		start: func(ctx context.Context, dir string) (func(context.Context) (round, error), func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			run := func(ctx context.Context) (round, error) { return s.drainAll(ctx, b.count(drainJobs)) }
			return run, s.client.Close, nil
		},
	}
}

// drainAll enqueues n jobs, and measures how long they take to be done.
func (s *store) drainAll(ctx context.Context, n int) (m round, err error) {
	if err := s.fill(ctx, n); err != nil {
		return m, err
	}
	var mu sync.Mutex
	done, failed := 0, error(nil)
	finished := func(l *spool.Lease, o spool.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if o.State != broker.Done && failed == nil {
			failed = errors.Join(fmt.Errorf("job %s ended %v", l.Job.ID, o.State), o.Err)
		}
		if done++; done%16 == 0 {
			m.calls = append(m.calls, time.Since(l.Job.ClaimedAt))
		}
	}
	w := spool.NewWorker(s.client, spool.WorkerConfig{Concurrency: drainWorkers, Drain: true, Hooks: spool.Hooks{Finished: finished}})
	spool.Define[[]byte](task).Handle(w, func(context.Context, []byte) error { return nil })
	before, begun := s.syncs(), time.Now()
	if err := w.Run(ctx); err != nil {
		return m, err
	}
	m.took, m.syncs, m.jobs = time.Since(begun), s.syncs()-before, done
	if done != n && failed == nil {
		failed = fmt.Errorf("%d jobs of %d are done", done, n)
	}
	return m, failed
}
