package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

const (
	backlogJobs = 1_000_000
	limitedTask = "limited"
	strangeTask = "unhandled"
)

// backlogs are the rows about jobs that wait and cannot be claimed.
func (b *Bench) backlogs() []operation {
	wait := fmt.Sprintf("while %d jobs wait ", b.count(backlogJobs))
	return []operation{
		b.behind("claim_behind_limit_1m", wait+"behind one limited group that the worker handles as well",
			[]string{limitedTask, task}, (*store).fillLimited),
		b.behind("claim_unhandled_1m", wait+"of a task that the worker does not handle",
			[]string{task}, func(s *store, ctx context.Context, n int) error {
				return s.fillWith(ctx, n, spool.Raw(strangeTask, payload()))
			}),
		b.openMany("open_1m_log", "from the log alone", false), b.openMany("open_1m_checkpoint", "from a checkpoint", true),
		b.among(), b.fresh(), b.compact(),
	}
}

// behind measures one goroutine that claims jobs one after the other from a
// store with a backlog; its raw reading is the same from one without.
func (b *Bench) behind(name, what string, tasks []string, fill func(*store, context.Context, int) error) operation {
	return operation{
		name: name, what: "one goroutine claims one job after the other, " + what, raw: "the same without them", rounds: manyRuns, backlog: true, own: true,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			var with, without *store
			end := func() error {
				var errs []error
				for _, s := range []*store{with, without} {
					if s != nil {
						errs = append(errs, s.client.Close())
					}
				}
				return errors.Join(errs...)
			}
			var err error
			if without, err = openStore(dir+"-without", b.AllowUnsafeFS); err == nil {
				with, err = openStore(dir, b.AllowUnsafeFS)
			}
			if err == nil {
				err = errors.Join(fill(without, ctx, 1), fill(with, ctx, b.count(backlogJobs)))
			}
			if err != nil {
				return nil, nil, errors.Join(err, end())
			}
			turn := 0
			return func(ctx context.Context) (m round, err error) {
				var plain round
				turn++
				for i := range 2 { // in turns, so that neither always comes first
					s, to := without, &plain
					if (turn+i)%2 == 0 {
						s, to = with, &m
					}
					if *to, err = s.claimFor(ctx, tasks, b.count(claimJobs), b.time(roundTime)); err != nil {
						return m, err
					}
				}
				m.raw = plain.rate()
				return m, nil
			}, end, nil
		},
	}
}

// fillLimited makes n jobs of one group wait behind a limit that one of them
// holds.
func (s *store) fillLimited(ctx context.Context, n int) error {
	change := broker.Change{Set: []broker.Setting{{
		Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{limitedTask}, Per: broker.PerGroup, Running: 1},
	}}}
	if err := s.client.Configure(ctx, spool.DefaultQueue, change); err != nil {
		return err
	}
	if err := s.fillWith(ctx, n+1, spool.Raw(limitedTask, payload(), spool.Group("g"))); err != nil {
		return err
	}
	leases, err := s.client.Claim(ctx, broker.ClaimRequest{Tasks: []string{limitedTask}, Max: 1, Worker: "bench", TTL: 24 * time.Hour})
	if err == nil && len(leases) != 1 {
		err = fmt.Errorf("%d jobs of a limit of one were claimed", len(leases))
	}
	return err
}

const claimJobs = 20_000 // of one round, at most

// claimFor enqueues jobs, claims them one by one for d, and gives all back.
func (s *store) claimFor(ctx context.Context, tasks []string, n int, d time.Duration) (m round, err error) {
	if err := s.fill(ctx, n); err != nil {
		return m, err
	}
	var claimed []*spool.Lease
	before, begun := s.syncs(), time.Now()
	for time.Since(begun) < d {
		call := time.Now()
		leases, err := s.client.Claim(ctx, broker.ClaimRequest{Tasks: tasks, Max: 1, Worker: "bench"})
		if err != nil {
			return m, err
		}
		if len(leases) == 0 {
			break // the machine is faster than was thought: the round is shorter
		}
		claimed = append(claimed, leases...)
		m.calls = append(m.calls, time.Since(call))
	}
	m.took, m.jobs, m.syncs = time.Since(begun), len(claimed), s.syncs()-before
	for _, l := range claimed {
		if l.Job.Task != task {
			return m, fmt.Errorf("a job of task %s was claimed, over its limit", l.Job.Task)
		}
	}
	_, err = s.client.Delete(ctx, broker.Filter{Queue: spool.DefaultQueue, Task: task})
	return m, errors.Join(err, s.ack(ctx, claimed))
}

// ack acks jobs in few commits.
func (s *store) ack(ctx context.Context, leases []*spool.Lease) error {
	for len(leases) > 0 {
		n := min(len(leases), 1000)
		all := make([]broker.Settlement, n)
		for i, l := range leases[:n] {
			all[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
		}
		answers, err := s.client.Broker().Settle(ctx, broker.NewCall(), all)
		if err != nil {
			return err
		}
		for i := range answers {
			if answers[i].Err != nil {
				return answers[i].Err
			}
		}
		leases = leases[n:]
	}
	return nil
}
