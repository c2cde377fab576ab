package spool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

func TestALostLeaseStopsItsHandler(t *testing.T) {
	for _, c := range []struct {
		name string
		ret  error
	}{{"which returns nil", nil}, {"which returns the cause", spool.ErrLeaseLost}, {"which steers", spool.Bury(errUser)}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x", kept))
				outcomes := make(chan spool.Outcome, 2)
				w := spool.NewWorker(b.Client, spool.WorkerConfig{Hooks: spool.Hooks{Finished: func(_ *spool.Lease, o spool.Outcome) { outcomes <- o }}})
				var stale *spool.Lease
				instant.Handle(w, func(ctx context.Context, _ string) error {
					l := spool.LeaseFrom(ctx)
					if stale != nil {
						if l.Token <= stale.Token {
							b.Errorf("token %d comes after %d", l.Token, stale.Token)
						}
						return nil
					}
					stale = l
					// Somebody else ends the lease.
					b.must(b.Lease(l.Job.Ref(), l.Token).Nack(ctx, time.Minute, errUser))
					start := time.Now()
					<-ctx.Done()
					want(b, "cause", context.Cause(ctx), spool.ErrLeaseLost)
					if d := time.Since(start); d > 10*time.Second {
						b.Errorf("it took %v", d)
					}
					return c.ret
				})
				b.start(w)
				b.sleep(30 * time.Second)
				want(b, "reason", b.wantState(id, spool.Scheduled).Reason, broker.ReasonRetry)
				outcome := <-outcomes
				want(b, "kind told to the hook", outcome.Kind, 0)
				b.wantErr(outcome.Err, spool.ErrLeaseLost)
				b.sleep(time.Minute)
				want(b, "attempt", b.wantState(id, spool.Done).Attempt, 2)
				b.wantErr(stale.Extend(b.ctx, 0), spool.ErrLeaseLost)
			})
		})
	}
}

func TestAHandlerEndsBeforeTheLeaseThatCannotBeExtended(t *testing.T) {
	for name, wait := range map[string]time.Duration{"beats fail at once": 0, "beats hang": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x"))
				const ttl = 30 * time.Second
				w := spool.NewWorker(b.Client, spool.WorkerConfig{LeaseTTL: ttl})
				var last atomic.Pointer[time.Time]
				var cut atomic.Bool
				b.broker.Broker = hangBroker{b.broker.Broker, func(ctx context.Context) error {
					if !cut.Load() {
						now := time.Now()
						last.Store(&now)
						return nil
					}
					sleepCtx(ctx, wait)
					return errDisk
				}}
				ran := false
				instant.Handle(w, func(ctx context.Context, _ string) error {
					if ran {
						return nil
					}
					ran = true
					time.Sleep(95 * time.Second) // beats come
					want(b, "error", ctx.Err(), nil)
					cut.Store(true)
					<-ctx.Done()
					want(b, "cause", context.Cause(ctx), spool.ErrLeaseLost)
					if d := time.Since(*last.Load()); d < ttl/2 || d > ttl {
						b.Errorf("it ended %v after the last beat, the lease lasts %v", d, ttl)
					}
					cut.Store(false)
					return nil
				})
				b.start(w)
				b.sleep(5 * time.Minute)
				_, err := b.Get(b.ctx, id)
				b.wantErr(err, spool.ErrNotFound)
				n := b.totals()
				want(b, "claimed, expired, acked", line(n.Claimed, n.Expired, n.Acked), "2 1 1")
			})
		})
	}
}

// lateBroker answers its first claim that has a job so much later.
type lateBroker struct {
	broker.Broker
	late time.Duration
	once *atomic.Bool
	age  bool // whether it says how old the leases are
}

func (l lateBroker) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	got, err := l.Broker.Claim(ctx, c, r)
	if !l.age {
		got.Asked = time.Time{}
	}
	if len(got.Leases) > 0 && l.once.CompareAndSwap(false, true) {
		sleepCtx(ctx, l.late)
	}
	return got, err
}

// Extend takes a moment, so that a handler that is started before its lease is
// looked at does begin.
func (l lateBroker) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	sleepCtx(ctx, time.Millisecond)
	return l.Broker.Extend(ctx, r)
}

func TestAHandlerStartsWithALeaseThatIsNotOver(t *testing.T) {
	const ttl = 30 * time.Second
	for _, c := range []struct {
		name string
		late time.Duration
		age  bool
		runs string // attempts of the job that a handler saw
	}{
		{"a claim answered at once", 0, true, "[1]"},
		{"a claim answered when its lease is nearly over", ttl - time.Second, true, "[1]"},
		{"a claim answered when its lease is over", 2 * ttl, true, "[2]"},
		{"the same from a broker that does not say when it asked", 2 * ttl, false, "[2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x"))
				other := b.broker.another()
				defer other.Close()
				b.broker.Broker = lateBroker{b.broker.Broker, c.late, &atomic.Bool{}, c.age}
				w := spool.NewWorker(b.Client, spool.WorkerConfig{LeaseTTL: ttl})
				var runs []int
				instant.Handle(w, func(ctx context.Context, _ string) error {
					l := spool.LeaseFrom(ctx)
					runs = append(runs, l.Job.Attempt)
					time.Sleep(2 * time.Second)
					job, err := b.Get(b.ctx, id)
					if err != nil || job.Token != l.Token || job.State != spool.Leased {
						b.Errorf("attempt %d runs beside its lease: %v %v, %v", l.Job.Attempt, job.State, job.Token, err)
					}
					return nil
				})
				b.start(w)
				for range 20 { // another process keeps the store up meanwhile
					b.sleep(ttl / 5)
					_, err := other.Maintain(b.ctx)
					b.must(err)
				}
				want(b, "attempts that ran", fmt.Sprint(runs), c.runs)
			})
		})
	}
}

type hangBroker struct {
	broker.Broker
	before func(ctx context.Context) error
}

func (h hangBroker) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	if err := h.before(ctx); err != nil {
		return nil, err
	}
	return h.Broker.Extend(ctx, r)
}

func sleepCtx(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestHeartbeatsKeepALongJob(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", kept))
		var beats []time.Duration
		start := time.Now()
		b.broker.extend = func(r broker.ExtendRequest) error {
			if len(r.Leases) > 0 {
				beats = append(beats, time.Since(start))
			}
			return nil
		}
		w := spool.NewWorker(b.Client, spool.WorkerConfig{LeaseTTL: 9 * time.Second})
		instant.Handle(w, func(context.Context, string) error { time.Sleep(time.Hour); return nil })
		b.start(w)
		b.sleep(30 * time.Minute)
		// Deaf to the distance to its start, the lease still ends soon.
		j := b.wantState(id, spool.Leased)
		if left := time.Until(j.LeaseExpiresAt); left > 9*time.Second || left <= 0 {
			b.Errorf("after 30 minutes the lease has %v left", left)
		}
		b.sleep(time.Hour)
		want(b, "attempts", b.wantState(id, spool.Done).Attempt, 1)
		if n := len(beats); n < 1100 || n > 1300 {
			b.Errorf("%d beats in an hour", n)
		}
	})
}

func TestShortJobsAreNotExtended(t *testing.T) {
	bubble(t, func(b *bench) {
		extended := 0
		b.broker.extend = func(r broker.ExtendRequest) error { extended += len(r.Leases); return nil }
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 1})
		instant.Handle(w, func(context.Context, string) error { time.Sleep(900 * time.Millisecond); return nil })
		for range 100 {
			b.add(instant.With("x"))
		}
		b.start(w)
		b.sleep(2 * time.Minute)
		want(b, "acked", b.totals().Acked, 100)
		want(b, "extensions of jobs shorter than a second", extended, 0)
	})
}

func TestCancelOfAJobThatWaits(t *testing.T) {
	for name, prepare := range map[string]func(b *bench) spool.ID{
		"ready":     func(b *bench) spool.ID { return b.add(instant.With("x")) },
		"scheduled": func(b *bench) spool.ID { return b.add(instant.With("x", spool.Delay(time.Second))) },
		"to be retried": func(b *bench) spool.ID {
			id := b.add(instant.With("x"))
			b.drain(one, func(w *spool.Worker) { instant.Handle(w, func(context.Context, string) error { return errUser }) })
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := prepare(b)
				n, err := b.Cancel(b.ctx, spool.Filter{IDs: []spool.ID{id}})
				b.must(err)
				want(b, "cancelled", n, 1)
				b.wantState(id, spool.Cancelled)
				w := spool.NewWorker(b.Client, one)
				instant.Handle(w, func(context.Context, string) error { b.Error("it ran"); return nil })
				b.start(w)
				b.sleep(time.Minute)
				b.wantState(id, spool.Cancelled)
				n, err = b.Cancel(b.ctx, spool.Filter{IDs: []spool.ID{id}})
				b.must(err)
				want(b, "cancelled again", n, 0)
			})
		})
	}
}

func TestCancelOfAJobThatRuns(t *testing.T) {
	for _, c := range []struct {
		name   string
		ret    error
		state  spool.State
		within time.Duration
		after  time.Duration
	}{
		{"which returns an error", errUser, spool.Cancelled, 0, time.Minute},
		{"which returns the cause", spool.ErrCancelled, spool.Cancelled, 0, time.Minute},
		{"which asks for a retry", spool.RetryAfter(0, errUser), spool.Cancelled, 0, time.Minute},
		{"which finishes all the same", nil, spool.Done, 0, time.Minute},
		{"right after its start", errUser, spool.Cancelled, time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x", kept))
				var asked time.Time
				w := spool.NewWorker(b.Client, one)
				instant.Handle(w, func(ctx context.Context, _ string) error {
					<-ctx.Done()
					want(b, "cause", context.Cause(ctx), spool.ErrCancelled)
					if d := time.Since(asked); d > c.within {
						b.Errorf("it was told after %v", d)
					}
					return c.ret
				})
				b.start(w)
				b.sleep(c.after)
				synctest.Wait()
				asked = time.Now()
				n, err := b.Cancel(b.ctx, spool.Filter{IDs: []spool.ID{id}})
				b.must(err)
				want(b, "changed", n, 1)
				b.sleep(time.Minute)
				j := b.wantState(id, c.state)
				want(b, "attempts", j.Attempt, 1)
				after := b.totals()
				want(b, "ends", after.Acked+after.Cancelled+after.Failed, 1)
			})
		})
	}
}

func TestCancelAtTheEndOfARunEndsItOnce(t *testing.T) {
	for _, ret := range []error{nil, errUser} {
		for d := -3 * time.Millisecond; d <= 3*time.Millisecond; d += time.Millisecond {
			t.Run(fmt.Sprintf("%v before it returns %v", d, ret), func(t *testing.T) {
				bubble(t, func(b *bench) {
					id := b.add(instant.With("x", kept, spool.MaxAttempts(1)))
					b.broker.settle = func([]broker.Settlement) error { time.Sleep(2 * time.Millisecond); return nil }
					w := spool.NewWorker(b.Client, one)
					instant.Handle(w, func(context.Context, string) error { time.Sleep(time.Minute); return ret })
					b.start(w)
					b.sleep(time.Minute - d)
					changed, err := b.Cancel(b.ctx, spool.Filter{IDs: []spool.ID{id}})
					b.must(err)
					b.sleep(time.Minute)
					j, n := b.job(id), b.totals()
					if !j.State.Final() {
						b.Fatalf("the job is %s", j.State)
					}
					want(b, "ends", n.Acked+n.Cancelled+n.Died, 1)
					if changed == 0 && j.State == spool.Cancelled {
						b.Error("cancelled though nothing was changed")
					}
				})
			})
		}
	}
}

func TestFollowUpsExistOnceTheirJobIsAcked(t *testing.T) {
	next := spool.Define[string]("next", spool.Queue("other"))
	for _, c := range []struct {
		name   string
		ret    error
		exists bool
	}{{"after nil", nil, true}, {"not after an error", errUser, false}, {"not after a snooze", spool.Snooze(time.Hour), false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.add(instant.With("x"))
				var ids []spool.ID
				w := spool.NewWorker(b.Client, one)
				instant.Handle(w, func(ctx context.Context, _ string) error {
					l := spool.LeaseFrom(ctx)
					e, err := next.Enqueue(ctx, l, "1", spool.Header("h", "v"))
					b.must(err)
					ids = append(ids, e.ID)
					answers, err := l.Enqueue(ctx, next.With("2", spool.Delay(time.Hour)), next.With("3"))
					b.must(err)
					ids = append(ids, answers[0].ID, answers[1].ID)
					_, err = b.Get(ctx, e.ID)
					b.wantErr(err, spool.ErrNotFound)
					_, err = next.Enqueue(ctx, l, "\xff")
					b.wantErr(err, spool.ErrInvalid)
					return c.ret
				})
				stop := b.start(w)
				synctest.Wait()
				b.must(stop())
				for i, id := range ids {
					j, err := b.Get(b.ctx, id)
					if !c.exists {
						b.wantErr(err, spool.ErrNotFound)
						continue
					}
					b.must(err)
					want(b, "state", j.State, []spool.State{spool.Ready, spool.Scheduled, spool.Ready}[i])
					want(b, "queue", j.Queue, "other")
				}
			})
		})
	}
}

func TestALeasesFollowUpsHaveALimit(t *testing.T) {
	bubble(t, func(b *bench) {
		b.add(instant.With("x"))
		leases, err := b.Claim(b.ctx, broker.ClaimRequest{})
		b.must(err)
		l := leases[0]
		limit := b.Broker().Caps().MaxBatch
		yielded := 0
		n, err := spool.Define[number]("n").EnqueueMany(b.ctx, l, counted(limit+10, &yielded))
		b.wantErr(err, spool.ErrTooLarge)
		want(b, "recorded", n, 0)
		n, err = spool.Define[number]("n").EnqueueMany(b.ctx, l, counted(limit-1, &yielded))
		b.must(err)
		want(b, "recorded", n, limit-1)
		_, err = l.Enqueue(b.ctx, instant.With("y"))
		b.wantErr(err, spool.ErrTooLarge)
		b.must(l.Ack(b.ctx, nil))
		want(b, "enqueued", b.totals().Enqueued, int64(limit))
		_, err = l.Enqueue(b.ctx, instant.With("y"))
		b.wantErr(err, spool.ErrLeaseLost)
	})
}

func TestAHandlerMaySettleByItself(t *testing.T) {
	for _, c := range []struct {
		name   string
		settle func(ctx context.Context, l *spool.Lease) error
		state  spool.State
	}{
		{"ack", func(ctx context.Context, l *spool.Lease) error { return l.Ack(ctx, []byte("r")) }, spool.Done},
		{"nack", func(ctx context.Context, l *spool.Lease) error { return l.Nack(ctx, time.Hour, errUser) }, spool.Scheduled},
		{"snooze", func(ctx context.Context, l *spool.Lease) error { return l.Snooze(ctx, time.Hour) }, spool.Scheduled},
		{"bury", func(ctx context.Context, l *spool.Lease) error { return l.Bury(ctx, nil) }, spool.Dead},
		{"cancel", func(ctx context.Context, l *spool.Lease) error { return l.Cancel(ctx, errUser) }, spool.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x"))
				calls := 0
				b.broker.settle = func([]broker.Settlement) error { calls++; return nil }
				b.drain(one, func(w *spool.Worker) {
					instant.Handle(w, func(ctx context.Context, _ string) error {
						l := spool.LeaseFrom(ctx)
						b.must(c.settle(ctx, l))
						b.must(c.settle(ctx, l)) // the same again gives the same answer
						return errUser           // and no more
					})
				})
				b.wantState(id, c.state)
				want(b, "settlements", calls, 2)
			})
		})
	}
}

func TestASettlementOfTheHandlersThatFailsLeavesItToTheWorker(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", kept))
		first := true
		b.broker.settle = func([]broker.Settlement) error {
			if first {
				first = false
				return errDisk
			}
			return nil
		}
		b.drain(one, func(w *spool.Worker) {
			instant.Handle(w, func(ctx context.Context, _ string) error {
				b.wantErr(spool.LeaseFrom(ctx).Bury(ctx, nil), errDisk)
				return nil
			})
		})
		b.wantState(id, spool.Done)
	})
}

func TestProgressAndLinesAreSent(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", kept))
		var lines []string
		beats := 0
		b.broker.extend = func(r broker.ExtendRequest) error {
			if beats++; beats == 2 { // the first after the registration
				return errDisk
			}
			for _, x := range r.Leases {
				lines = append(lines, x.Log...)
			}
			return nil
		}
		w := spool.NewWorker(b.Client, spool.WorkerConfig{LeaseTTL: 9 * time.Second})
		instant.Handle(w, func(ctx context.Context, _ string) error {
			l := spool.LeaseFrom(ctx)
			l.Log("first")
			l.Progress(-5, "")
			l.Progress(40, strings.Repeat("n", 300))
			time.Sleep(time.Minute)
			j := b.job(id)
			want(b, "progress with a heartbeat", line(j.Progress.Percent, len(j.Progress.Note)), "40 256")
			for i := range 150 {
				l.Log(fmt.Sprint("line ", i))
			}
			l.Log(strings.Repeat("x", 10_000))
			l.Progress(101, "end")
			return nil
		})
		b.start(w)
		b.sleep(2 * time.Minute)
		j := b.wantState(id, spool.Done)
		want(b, "progress before the settlement", line(j.Progress.Percent, j.Progress.Note), "100 end")
		want(b, "lines", line(len(lines), lines[0], lines[100], lines[101]), "102 first line 99 (51 lines did not fit)")
	})
}

// TestMoreNotesThanACallHoldsAreSentInSeveral: those of finished jobs before
// their settlements, those of running ones with the beats.
func TestMoreNotesThanACallHoldsAreSentInSeveral(t *testing.T) {
	const jobs = 120 // of 100 KiB each
	for name, runs := range map[string]time.Duration{"finished": 0, "running": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var ids []spool.ID
				for range jobs {
					ids = append(ids, b.add(greet.With("x", spool.Retain(time.Hour))))
				}
				w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: jobs})
				greet.Handle(w, func(ctx context.Context, _ string) error {
					for range 100 {
						spool.LeaseFrom(ctx).Log(strings.Repeat("l", 1<<10))
					}
					sleepCtx(ctx, runs)
					return nil
				})
				b.start(w)
				b.sleep(time.Minute)
				want(b, "faults", b.log.count("op=extend"), 0)
				for i, id := range ids {
					if n := len(b.job(id).Log); n == 0 {
						b.Errorf("job %d has lost its lines", i)
					}
				}
				b.must(b.stopAll())
			})
		})
	}
}

func TestNotesThatCannotBeSentAreKept(t *testing.T) {
	bubble(t, func(b *bench) {
		b.add(instant.With("x"))
		leases, err := b.Claim(b.ctx, broker.ClaimRequest{})
		b.must(err)
		l := leases[0]
		fail := true
		var lines []string
		b.broker.extend = func(r broker.ExtendRequest) error {
			if fail {
				return errDisk
			}
			lines = append(lines, r.Leases[0].Log...)
			return nil
		}
		for i := range 60 {
			l.Log(fmt.Sprint(i))
		}
		b.wantErr(l.Extend(b.ctx, time.Minute), errDisk)
		for i := range 60 {
			l.Log(fmt.Sprint(60 + i))
		}
		fail = false
		b.must(l.Extend(b.ctx, time.Minute))
		want(b, "lines", line(len(lines), lines[0], lines[99], lines[100]), "101 0 99 (20 lines did not fit)")
	})
}

func TestTheLowLevel(t *testing.T) {
	bubble(t, func(b *bench) {
		none, err := b.Claim(b.ctx, broker.ClaimRequest{Wait: time.Minute})
		b.must(err)
		want(b, "leases of an empty store", len(none), 0)
		id := b.add(instant.With("x", kept))
		leases, err := b.Claim(b.ctx, broker.ClaimRequest{Queues: []string{"default"}, Tasks: []string{"t"}, TTL: time.Minute, Worker: "me"})
		b.must(err)
		l := leases[0]
		want(b, "lease", line(l.Job.ID == id, l.Job.Attempt, time.Until(l.ExpiresAt)), "true 1 1m0s")

		// Another process knows it by queue, id and token.
		same := b.Lease(broker.Ref{Queue: "default", ID: id}, l.Token)
		b.must(same.Extend(b.ctx, 10*time.Minute))
		want(b, "expiry", time.Until(b.job(id).LeaseExpiresAt), 10*time.Minute)
		wrong := b.Lease(broker.Ref{Queue: "default", ID: id}, l.Token-1)
		b.wantErr(wrong.Extend(b.ctx, 0), spool.ErrLeaseLost)
		b.wantErr(wrong.Ack(b.ctx, nil), spool.ErrLeaseLost)
		b.wantErr(l.Nack(b.ctx, -1, nil), spool.ErrInvalid)
		b.wantErr(l.Extend(b.ctx, -1), spool.ErrInvalid)
		b.wantErr(l.Ack(b.ctx, make([]byte, 1<<20+1)), spool.ErrTooLarge)
		_, err = b.Cancel(b.ctx, spool.Filter{IDs: []spool.ID{id}})
		b.must(err)
		b.wantErr(l.Extend(b.ctx, 0), spool.ErrCancelled)
		b.must(same.Ack(b.ctx, []byte("\xff")))
		j := b.wantState(id, spool.Done)
		want(b, "result", string(j.Result), "\xff")
		b.wantErr(l.Nack(b.ctx, 0, errUser), spool.ErrLeaseLost)

		for name, r := range map[string]broker.ClaimRequest{
			"too many jobs": {Max: 1001}, "a negative max": {Max: -1}, "a negative TTL": {TTL: -1}, "a negative wait": {Wait: -1},
			"a bad queue": {Queues: []string{""}}, "a bad task": {Tasks: []string{"a b"}}, "too many tasks": {Tasks: make([]string, 257)},
		} {
			if _, err := b.Claim(b.ctx, r); !errors.Is(err, spool.ErrInvalid) {
				b.Errorf("a claim with %s: %v", name, err)
			}
		}
	})
}

func TestReleaseGivesBackTheOldPlace(t *testing.T) {
	bubble(t, func(b *bench) {
		var ids []spool.ID
		for range 3 {
			ids = append(ids, b.add(instant.With("x")))
		}
		leases, err := b.Claim(b.ctx, broker.ClaimRequest{Max: 2})
		b.must(err)
		b.must(leases[0].Release(b.ctx))
		leases, err = b.Claim(b.ctx, broker.ClaimRequest{Max: 3})
		b.must(err)
		want(b, "order", leases[0].Job.ID == ids[0] && leases[1].Job.ID == ids[2], true)
		want(b, "attempt", leases[0].Job.Attempt, 1)
	})
}

func TestADetachedLeaseLetsHandlersBeTested(t *testing.T) {
	ctx := t.Context()
	l := spool.LeaseFrom(ctx)
	l.Progress(50, "half")
	l.Log("line")
	if err := l.SetResult([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_, errEnqueue := greet.Enqueue(ctx, l, "x")
	_, errMany := greet.EnqueueMany(ctx, l, slices.Values([]string{"x"}))
	for what, err := range map[string]error{
		"enqueue": errEnqueue, "enqueue many": errMany, "extend": l.Extend(ctx, 0), "ack": l.Ack(ctx, nil), "nack": l.Nack(ctx, 0, nil),
		"snooze": l.Snooze(ctx, 0), "release": l.Release(ctx), "bury": l.Bury(ctx, nil), "cancel": l.Cancel(ctx, nil),
	} {
		if !errors.Is(err, spool.ErrLeaseLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestALeaseIsKeptWhileItsSettlementFails(t *testing.T) {
	bubble(t, func(b *bench) {
		start := time.Now()
		until := func(d time.Duration) error {
			if time.Since(start) < d {
				return errDisk
			}
			return nil
		}
		// Beats fail for longer than a running handler would be let go on.
		b.broker.extend = func(broker.ExtendRequest) error { return until(28 * time.Second) }
		b.broker.settle = func([]broker.Settlement) error { return until(5 * time.Minute) }
		w := spool.NewWorker(b.Client, one)
		instant.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		b.sleep(time.Second)
		id := b.add(instant.With("x", kept))
		b.sleep(10 * time.Minute)
		want(b, "attempts", b.wantState(id, spool.Done).Attempt, 1)
		want(b, "expired", b.totals().Expired, 0)
	})
}

func TestALeakedGoroutineCannotSettle(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", kept))
		var l *spool.Lease
		w := spool.NewWorker(b.Client, one)
		instant.Handle(w, func(ctx context.Context, _ string) error { l = spool.LeaseFrom(ctx); return nil })
		var well atomic.Bool
		b.broker.settle = func([]broker.Settlement) error {
			if !well.Load() {
				return errDisk
			}
			return nil
		}
		stop := b.start(w)
		synctest.Wait() // the handler has returned, its ack waits
		b.wantErr(l.Bury(b.ctx, errUser), spool.ErrLeaseLost)
		b.wantErr(l.SetResult([]byte("late")), spool.ErrLeaseLost)
		_, err := instant.Enqueue(b.ctx, l, "late")
		b.wantErr(err, spool.ErrLeaseLost)
		well.Store(true)
		b.must(stop())
		want(b, "result", b.wantState(id, spool.Done).HasResult, false)
	})
}

func TestWhatIsHandedOverIsTheCallersAgain(t *testing.T) {
	raw := spool.DefineFunc[[]byte, []byte]("raw", kept)
	bubble(t, func(b *bench) {
		buf := []byte("abc")
		first := b.add(raw.With(buf))
		copy(buf, "xyz")
		var follow spool.ID
		var down atomic.Bool
		down.Store(true)
		b.broker.settle = func([]broker.Settlement) error {
			if down.Load() {
				return errDisk
			}
			return nil
		}
		w := spool.NewWorker(b.Client, one)
		raw.Handle(w, func(ctx context.Context, in []byte) ([]byte, error) {
			if string(in) != "abc" {
				return in, nil
			}
			e, err := raw.Enqueue(ctx, spool.LeaseFrom(ctx), buf)
			follow = e.ID
			return buf, err
		})
		b.start(w)
		synctest.Wait()
		copy(buf, "---")
		down.Store(false)
		b.sleep(time.Minute)
		want(b, "result", string(b.wantState(first, spool.Done).Result), "xyz")
		want(b, "payload of the follow-up", string(b.job(follow).Payload), "xyz")
	})
}
