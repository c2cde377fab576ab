package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// prepare fills a store with n jobs, compacts it if asked to, and closes it.
func (b *Bench) prepare(ctx context.Context, dir string, n int, compact bool) error {
	s, err := openStore(dir, b.AllowUnsafeFS)
	if err != nil {
		return err
	}
	err = s.fill(ctx, n)
	if err == nil && compact {
		_, err = s.file.Compact(ctx)
	}
	return errors.Join(err, s.client.Close())
}

func nothing() error { return nil }

// openMany measures the open of a store in which a million jobs wait.
func (b *Bench) openMany(name, from string, compact bool) operation {
	return operation{
		name: name, what: fmt.Sprintf("open a store with %d jobs that wait, %s, up to the first answer; the call is that", b.count(backlogJobs), from),
		batch: 1000, raw: perSync(1000), rounds: manyRuns, backlog: true,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			n := b.count(backlogJobs)
			if err := b.prepare(ctx, dir, n, compact); err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) (round, error) { return b.openOnce(ctx, dir, n) }, nothing, nil
		},
	}
}

// among measures claims of the very jobs that wait; its raw reading is the
// same where a thousand do.
func (b *Bench) among() operation {
	return operation{
		name: "claim_among_1m", what: fmt.Sprintf("one goroutine claims and acks one job after the other out of %d that wait; the call is the pair", b.count(backlogJobs)),
		raw: "the same out of 1000", rounds: manyRuns, backlog: true, own: true,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			many, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			few, err := openStore(dir+"-few", b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, errors.Join(err, many.client.Close())
			}
			end := func() error { return errors.Join(few.client.Close(), many.client.Close()) }
			if err := many.fill(ctx, b.count(backlogJobs)); err != nil {
				return nil, nil, errors.Join(err, end())
			}
			return func(ctx context.Context) (m round, err error) {
				var plain round
				for plain.took < b.time(roundTime) {
					if err := few.fill(ctx, 1000); err != nil {
						return m, err
					}
					part, err := few.claimAckFor(ctx, b.time(roundTime))
					if err != nil {
						return m, err
					}
					plain.jobs, plain.took = plain.jobs+part.jobs, plain.took+part.took
				}
				m, err = many.claimAckFor(ctx, b.time(roundTime))
				m.raw = plain.rate()
				return m, err
			}, end, nil
		},
	}
}

// fresh measures the whole life of a process that enqueues one job where a
// million wait; its raw reading is the same where none does.
func (b *Bench) fresh() operation {
	return operation{
		name: "enqueue_fresh_1m", what: fmt.Sprintf("a process starts, enqueues one job where %d wait, and ends; the call is all of that", b.count(backlogJobs)),
		raw: "the same into an empty store", rounds: manyRuns, backlog: true, own: true,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			empty := dir + "-empty"
			if err := errors.Join(b.prepare(ctx, dir, b.count(backlogJobs), true), b.prepare(ctx, empty, 0, false)); err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) (m round, err error) {
				var plain round
				for range 4 {
					if err := errors.Join(b.once(ctx, &plain, empty), b.once(ctx, &m, dir)); err != nil {
						return m, err
					}
				}
				m.raw = plain.rate()
				return m, nil
			}, nothing, nil
		},
	}
}

// once times a process that enqueues one job.
func (b *Bench) once(ctx context.Context, m *round, dir string) error {
	begun := time.Now()
	p, err := b.spawn(ctx, Role{Do: roleOnce, Store: dir})
	if err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	took := time.Since(begun)
	m.jobs, m.syncs, m.took = m.jobs+1, m.syncs+1, m.took+took
	m.calls = append(m.calls, took)
	return nil
}

// compact measures the calls of one goroutine while the same process compacts
// a million live jobs over and over; its raw reading is the same without.
func (b *Bench) compact() operation {
	return operation{
		name: "compacting_1m", what: fmt.Sprintf("one goroutine enqueues, claims and acks a job, over and over, while its process compacts %d live jobs; the call is each of the three", b.count(backlogJobs)),
		raw: "the same without a compaction", rounds: manyRuns, backlog: true, own: true,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			if err := b.prepare(ctx, dir, b.count(backlogJobs), false); err != nil {
				return nil, nil, err
			}
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) (round, error) { return s.besideCompaction(ctx, b.time(2*roundTime)) }, s.client.Close, nil
		},
	}
}

func (s *store) besideCompaction(ctx context.Context, d time.Duration) (m round, err error) {
	plain, err := s.livesUntil(ctx, time.After(d))
	if err != nil {
		return m, err
	}
	done, failed := make(chan time.Time), error(nil)
	go func() {
		defer close(done)
		_, failed = s.file.Compact(ctx)
	}()
	m, err = s.livesUntil(ctx, done)
	m.raw = plain.rate()
	return m, errors.Join(err, failed)
}

// livesUntil lets one goroutine enqueue, claim and ack jobs of a task of its
// own until an event.
func (s *store) livesUntil(ctx context.Context, end <-chan time.Time) (m round, err error) {
	const mine = "passing"
	timed := func(call func() error) {
		begun := time.Now()
		err = errors.Join(err, call())
		m.calls = append(m.calls, time.Since(begun))
	}
	before, begun := s.syncs(), time.Now()
	for err == nil {
		select {
		case <-end:
			m.took, m.syncs = time.Since(begun), s.syncs()-before
			return m, nil
		default:
		}
		var leases []*spool.Lease
		timed(func() error { _, err := s.client.Enqueue(ctx, spool.Raw(mine, payload())); return err })
		timed(func() (err error) {
			leases, err = s.client.Claim(ctx, broker.ClaimRequest{Tasks: []string{mine}, Max: 1, Worker: "bench"})
			return err
		})
		if err == nil && len(leases) != 1 {
			return m, fmt.Errorf("%d jobs of the one that waits were claimed", len(leases))
		}
		if err == nil {
			timed(func() error { return leases[0].Ack(ctx, nil) })
		}
		m.jobs++
	}
	return m, err
}
