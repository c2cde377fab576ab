package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const openJobs = 100_000

// open measures how long it takes to open a store in which 100000 jobs wait,
// up to its first answer.
func (b *Bench) open() operation {
	var n int
	return operation{
		name: "open_100k", what: "open a store with 100000 jobs that wait, up to the first answer; the call is that",
		batch: 1000, raw: perSync(1000), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (func(context.Context) (round, error), func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			n = b.count(openJobs)
			if err := errors.Join(s.fill(ctx, n), s.client.Close()); err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) (round, error) { return b.openOnce(ctx, dir, n) }, func() error { return nil }, nil
		},
	}
}

func (b *Bench) openOnce(ctx context.Context, dir string, n int) (m round, err error) {
	begun := time.Now()
	s, err := openStore(dir, b.AllowUnsafeFS)
	if err != nil {
		return m, err
	}
	counts, err := s.client.Counts(ctx, "")
	m.took = time.Since(begun)
	m.jobs, m.syncs, m.calls = n, s.syncs(), []time.Duration{m.took}
	if err = errors.Join(err, s.client.Close()); err != nil {
		return m, err
	}
	if len(counts) != 1 || counts[0].Ready != int64(n) {
		return m, fmt.Errorf("%d jobs were enqueued, and the store counts %+v", n, counts)
	}
	return m, nil
}
