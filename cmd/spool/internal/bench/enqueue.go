package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spoolq/spool"
)

// enqueue measures n goroutines of one process that enqueue one job at a time.
func (b *Bench) enqueue(n int) operation {
	what := "one goroutine enqueues one job after the other"
	if n > 1 {
		what = fmt.Sprintf("%d goroutines of one process enqueue one job after the other", n)
	}
	return operation{
		name: fmt.Sprintf("enqueue_%d", n), what: what, batch: n, raw: perSync(n), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (func(context.Context) (round, error), func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			run := func(ctx context.Context) (round, error) { return s.enqueueFor(ctx, n, 1, b.time(roundTime)) }
			return run, s.client.Close, nil
		},
	}
}

const batchJobs = 1000

// enqueueBatch measures one goroutine that enqueues a thousand jobs in a call.
func (b *Bench) enqueueBatch() operation {
	return operation{
		name: "enqueue_batch_1000", what: "one goroutine enqueues 1000 jobs in each call", batch: batchJobs, raw: perSync(batchJobs), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (func(context.Context) (round, error), func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			run := func(ctx context.Context) (round, error) { return s.enqueueFor(ctx, 1, batchJobs, b.time(roundTime)) }
			return run, s.client.Close, nil
		},
	}
}

// enqueueFor lets callers enqueue batches for d.
func (s *store) enqueueFor(ctx context.Context, callers, batch int, d time.Duration) (m round, err error) {
	calls := make([][]time.Duration, callers)
	errs := make([]error, callers)
	before, begun := s.syncs(), time.Now()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			specs := make([]spool.Spec, batch)
			for time.Since(begun) < d && errs[i] == nil {
				for k := range specs {
					specs[k] = spool.Raw(task, payload())
				}
				call := time.Now()
				_, errs[i] = s.client.Enqueue(ctx, specs...)
				calls[i] = append(calls[i], time.Since(call))
			}
		})
	}
	wg.Wait()
	m.took, m.syncs = time.Since(begun), s.syncs()-before
	for _, c := range calls {
		m.jobs += len(c) * batch
		m.calls = append(m.calls, c...)
	}
	return m, errors.Join(errs...)
}

const (
	processesName = "enqueue_4procs"
	processes     = 4
)

// enqueueProcesses measures four processes with one goroutine each.
func (b *Bench) enqueueProcesses() operation {
	return operation{
		name: processesName, shares: true, what: "four processes, with one goroutine each, enqueue one job after the other", batch: 1, raw: perSync(1), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (func(context.Context) (round, error), func() error, error) {
			var all group
			for range processes {
				p, err := b.spawn(ctx, Role{Do: roleEnqueue, Store: dir})
				if err != nil {
					return nil, nil, errors.Join(err, all.end())
				}
				all = append(all, p)
			}
			return func(context.Context) (round, error) { return all.obey(b.time(roundTime)) }, all.end, nil
		},
	}
}

// group is processes that work at the same time.
type group []*process

// obey lets all of them do what they do for d.
func (g group) obey(d time.Duration) (m round, err error) {
	for _, p := range g {
		if err := p.tell(order{For: d}); err != nil {
			return m, err
		}
	}
	least, most := -1, 0
	for _, p := range g {
		var r report
		if err := p.hear(&r); err != nil {
			return m, err
		}
		m.jobs += r.Jobs
		m.syncs += r.Syncs
		m.calls = append(m.calls, r.Calls...)
		m.took = max(m.took, r.Took)
		if least < 0 || r.Jobs < least {
			least = r.Jobs
		}
		most = max(most, r.Jobs)
	}
	if most > 0 {
		m.share = float64(least) / float64(most)
	}
	return m, nil
}

func (g group) end() error {
	var errs []error
	for _, p := range g {
		errs = append(errs, p.end())
	}
	return errors.Join(errs...)
}
