package spool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

func TestShutdownLetsRunningJobsFinish(t *testing.T) {
	bubble(t, func(b *bench) {
		running, waiting := b.add(instant.With("x", kept)), spool.ID{}
		w := spool.NewWorker(b.Client, one)
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(ctx context.Context, _ string) error {
			waiting = b.add(instant.With("y"))
			cancel()
			time.Sleep(20 * time.Second)
			return ctx.Err()
		})
		start := time.Now()
		b.must(w.Run(ctx))
		want(b, "took", time.Since(start), 20*time.Second)
		b.wantState(running, spool.Done)
		want(b, "attempts of the job that waits", b.wantState(waiting, spool.Ready).Attempt, 0)
	})
}

func TestShutdownGivesBackWhatItCancels(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		state   spool.State
		attempt int
	}{
		{"when the handler returns the cause", spool.ErrShutdown, spool.Ready, 0},
		{"when the handler returns its own error", errUser, spool.Ready, 0},
		{"unless the handler finishes", nil, spool.Done, 1},
		{"unless the handler steers", spool.Bury(errUser), spool.Dead, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x", kept))
				w := spool.NewWorker(b.Client, one)
				ctx, cancel := context.WithCancel(b.ctx)
				instant.Handle(w, func(ctx context.Context, _ string) error {
					cancel()
					<-ctx.Done()
					want(b, "cause", context.Cause(ctx), spool.ErrShutdown)
					return c.err
				})
				start := time.Now()
				b.must(w.Run(ctx))
				want(b, "took", time.Since(start), 25*time.Second)
				j := b.wantState(id, c.state)
				want(b, "attempt", j.Attempt, c.attempt)
				want(b, "expired", b.totals().Expired, 0)
			})
		})
	}
}

func TestANegativeShutdownTimeoutCancelsAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x"))
		w := spool.NewWorker(b.Client, spool.WorkerConfig{ShutdownTimeout: -1})
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(ctx context.Context, _ string) error {
			cancel()
			<-ctx.Done()
			time.Sleep(time.Second)
			return ctx.Err()
		})
		start := time.Now()
		b.must(w.Run(ctx))
		want(b, "took", time.Since(start), time.Second)
		b.wantState(id, spool.Ready)
	})
}

func TestAHandlerThatIgnoresItsCancellationIsLeft(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", kept))
		finished := make(chan spool.Outcome, 2)
		hooks := spool.Hooks{Finished: func(_ *spool.Lease, o spool.Outcome) { finished <- o }}
		w := spool.NewWorker(b.Client, spool.WorkerConfig{ShutdownTimeout: 2 * time.Second, LeaseTTL: 10 * time.Second, Hooks: hooks})
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(ctx context.Context, _ string) error {
			if spool.LeaseFrom(ctx).Job.Attempt == 2 {
				return nil
			}
			cancel()
			time.Sleep(time.Minute)
			return nil // too late
		})
		start := time.Now()
		err := w.Run(ctx)
		want(b, "took", time.Since(start), 2200*time.Millisecond)
		var left *spool.ShutdownError
		if !errors.As(err, &left) || len(left.Jobs) != 1 || left.Jobs[0].ID != id {
			b.Fatalf("error is %v", err)
		}
		wantText(b, err.Error(), "1 jobs", "default/"+id.String(), "(t)")

		b.wantState(id, spool.Leased) // until its lease expires
		b.sleep(11 * time.Second)
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
			instant.Handle(w, func(context.Context, string) error { return nil })
		})
		j := b.wantState(id, spool.Done)
		want(b, "attempt", j.Attempt, 2)
		b.sleep(time.Hour) // the first handler returns
		select {
		case o := <-finished:
			if o.Kind != 0 || !errors.Is(o.Err, spool.ErrLeaseLost) {
				b.Errorf("the first run ended as %+v", o)
			}
		default:
			b.Error("nobody was told that the first run settled nothing")
		}
		after := b.totals()
		want(b, "acked", after.Acked, 1)
		want(b, "expired", after.Expired, 1)
		want(b, "failed", after.Failed, 0)
	})
}

func TestTheEndOfAShutdownSettlesOnce(t *testing.T) {
	for _, d := range []time.Duration{-time.Millisecond, 0, time.Millisecond, 2400 * time.Millisecond} {
		t.Run(fmt.Sprint("the handler returns ", d, " after its cancellation"), func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x"))
				w := spool.NewWorker(b.Client, one)
				ctx, cancel := context.WithCancel(b.ctx)
				instant.Handle(w, func(ctx context.Context, _ string) error {
					cancel()
					time.Sleep(25*time.Second + d)
					if err := context.Cause(ctx); err != nil {
						return err
					}
					return spool.ErrShutdown
				})
				err := w.Run(ctx)
				b.sleep(time.Minute)
				_, e := b.Broker().Maintain(b.ctx) // expires what was left
				b.must(e)
				j, n := b.job(id), b.totals()
				settled := n.Failed + n.Acked
				switch {
				case d > 2*time.Second: // after the grace
					if err == nil || n.Expired != 1 {
						b.Fatalf("Run returned %v, %d leases expired", err, n.Expired)
					}
				case j.Reason == broker.ReasonReleased:
					b.must(err)
					settled++
					want(b, "attempt", j.Attempt, 0)
				default:
					b.must(err)
					want(b, "reason", j.Reason, broker.ReasonRetry)
				}
				want(b, "ends", settled+n.Expired, 1)
			})
		})
	}
}

func TestHeartbeatsGoOnDuringShutdown(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", kept))
		w := spool.NewWorker(b.Client, spool.WorkerConfig{LeaseTTL: 3 * time.Second, ShutdownTimeout: time.Minute})
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(ctx context.Context, _ string) error {
			cancel()
			time.Sleep(50 * time.Second)
			return nil
		})
		other := spool.NewWorker(b.Client, spool.WorkerConfig{})
		instant.Handle(other, func(context.Context, string) error { b.Error("the job ran twice"); return nil })
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		b.start(other)
		b.must(<-done)
		want(b, "attempts", b.wantState(id, spool.Done).Attempt, 1)
		want(b, "expired", b.totals().Expired, 0)
	})
}

func TestShutdownSettlesAllThatIsFinished(t *testing.T) {
	bubble(t, func(b *bench) {
		for range 100 {
			b.add(instant.With("x"))
		}
		var well atomic.Bool
		b.broker.settle = func([]broker.Settlement) error {
			if !well.Load() {
				return errDisk
			}
			return nil
		}
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 100})
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(context.Context, string) error { return nil })
		time.AfterFunc(10*time.Second, cancel)
		time.AfterFunc(20*time.Second, func() { well.Store(true) })
		b.must(w.Run(ctx))
		want(b, "acked", b.totals().Acked, 100)
	})
}

func TestShutdownListsWhatItCouldNotSettle(t *testing.T) {
	bubble(t, func(b *bench) {
		for range 12 {
			b.add(instant.With("x"))
		}
		b.broker.settle = func([]broker.Settlement) error { return errDisk }
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 12})
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(context.Context, string) error { return nil })
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		err := w.Run(ctx)
		var left *spool.ShutdownError
		if !errors.As(err, &left) || len(left.Jobs) != 12 {
			b.Fatal(err)
		}
		wantText(b, err.Error(), "12 jobs", " …")
		want(b, "took", time.Since(start), 28*time.Second)
	})
}

func TestRunEndsThoughTheBrokerHangs(t *testing.T) {
	bubble(t, func(b *bench) {
		hung := make(chan struct{})
		defer close(hung)
		b.add(instant.With("x"))
		b.broker.settle = func([]broker.Settlement) error { <-hung; return errDisk }
		b.broker.extend = func(broker.ExtendRequest) error { <-hung; return errDisk }
		w := spool.NewWorker(b.Client, one)
		ctx, cancel := context.WithCancel(b.ctx)
		instant.Handle(w, func(context.Context, string) error { return nil })
		time.AfterFunc(time.Minute, cancel)
		end := make(chan error)
		start := time.Now()
		go func() { end <- w.Run(ctx) }()
		select {
		case <-end:
		case <-time.After(5 * time.Minute):
			b.Fatal("Run did not return")
		}
		if d := time.Since(start); d > time.Minute+35*time.Second {
			b.Fatalf("Run took %v", d)
		}
	})
}

func TestALeaseThatComesTooLateIsGivenBack(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x"))
		w := spool.NewWorker(b.Client, one)
		ctx, cancel := context.WithCancel(b.ctx)
		b.broker.claim = func(broker.ClaimRequest) error { cancel(); return nil }
		inner := b.broker.Broker
		b.broker.Broker = deafBroker{inner} // decides though the context has ended
		instant.Handle(w, func(context.Context, string) error { b.Error("it ran"); return nil })
		b.must(w.Run(ctx))
		j := b.wantState(id, spool.Ready)
		want(b, "reason", j.Reason, broker.ReasonReleased)
		want(b, "attempt", j.Attempt, 0)
	})
}

type deafBroker struct{ broker.Broker }

func (d deafBroker) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	return d.Broker.Claim(context.WithoutCancel(ctx), c, r)
}

func TestNothingIsLeftBehind(t *testing.T) {
	bubble(t, func(b *bench) {
		task := spool.Define[number]("t", spool.Timeout(time.Minute), spool.Retain(-1))
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 8, Logger: slog.New(slog.DiscardHandler)})
		task.Handle(w, func(ctx context.Context, n number) error {
			if n.N%100 == 0 {
				<-ctx.Done() // a time-out
				return nil
			}
			return nil
		})
		stop := b.start(w)
		fill := func(n int) {
			yielded := 0
			_, err := task.EnqueueMany(b.ctx, b.Client, counted(n, &yielded))
			b.must(err)
			b.sleep(time.Duration(n) * time.Second)
			synctest.Wait()
		}
		fill(1000)
		goroutines, heap := runtime.NumGoroutine(), heapInUse()
		for range 20 {
			fill(1000)
		}
		want(b, "acked", b.totals().Acked, 21_000)
		if n := runtime.NumGoroutine(); n > goroutines {
			b.Errorf("%d goroutines became %d", goroutines, n)
		}
		if h := heapInUse(); h > heap+heap/2 {
			b.Errorf("a heap of %d bytes became %d", heap, h)
		}
		b.must(stop())
	})
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAFaultNeverEndsAWorker(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		set  func(f *fakeBroker, err error)
	}{
		{"of a claim", errDisk, func(f *fakeBroker, err error) { f.claim = func(broker.ClaimRequest) error { return err } }},
		{"of a settlement", spool.ErrFull, func(f *fakeBroker, err error) { f.settle = func([]broker.Settlement) error { return err } }},
		{"of a poisoned store", spool.ErrPoisoned, func(f *fakeBroker, err error) { f.settle = func([]broker.Settlement) error { return err } }},
		{"of a closed store", spool.ErrClosed, func(f *fakeBroker, err error) { f.claim = func(broker.ClaimRequest) error { return err } }},
		{"of a settlement whose reply is lost", spool.ErrUnknown, func(f *fakeBroker, err error) { f.settled = func() error { return err } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var faults, runs, acks atomic.Int32
				cfg := spool.WorkerConfig{LeaseTTL: 6 * time.Second, Hooks: spool.Hooks{Fault: func(_ string, err error) {
					b.wantErr(err, c.err)
					faults.Add(1)
				}, Finished: func(_ *spool.Lease, o spool.Outcome) {
					if o.Kind == broker.Ack && o.State == spool.Done && o.Err == nil {
						acks.Add(1)
					}
				}}}
				w := spool.NewWorker(b.Client, cfg)
				instant.Handle(w, func(context.Context, string) error { runs.Add(1); return nil })
				b.start(w)
				b.broker.set(func() { c.set(b.broker, c.err) })
				first := b.add(instant.With("x"))
				b.sleep(time.Hour)
				if n := faults.Load(); n < 3600/5 || n > 3600 {
					b.Errorf("tried %d times in an hour", n)
				}
				want(b, "logged", b.log.count("broker fault"), 1)
				b.broker.set(func() { b.broker.claim, b.broker.settle, b.broker.settled = nil, nil, nil })
				second := b.add(instant.With("x"))
				b.sleep(10 * time.Second)
				want(b, "runs", runs.Load(), 2)
				want(b, "acked", b.totals().Acked, 2)
				want(b, "told to the hook", acks.Load(), 2)
				want(b, "logged", b.log.count("well again"), 1)
				for _, id := range []spool.ID{first, second} {
					_, err := b.Get(b.ctx, id)
					b.wantErr(err, spool.ErrNotFound)
				}
			})
		})
	}
}

func TestAFaultIsLoggedOncePerChange(t *testing.T) {
	bubble(t, func(b *bench) {
		n := 0
		b.broker.claim = func(broker.ClaimRequest) error {
			n++
			return fmt.Errorf("fault %d", n/10)
		}
		w := spool.NewWorker(b.Client, one)
		instant.Handle(w, func(context.Context, string) error { return nil })
		stop := b.start(w)
		b.sleep(10 * time.Minute)
		b.must(stop())
		if logged := b.log.count("broker fault"); n < 100 || logged != n/10+1 {
			b.Fatalf("%d claims, %d lines", n, logged)
		}
	})
}

func TestOneJobCannotHoldUpTheSettlementOfOthers(t *testing.T) {
	for _, err := range []error{spool.ErrTooLarge, spool.ErrInvalid} {
		t.Run(err.Error(), func(t *testing.T) {
			bubble(t, func(b *bench) {
				calls := 0
				b.broker.settle = func(list []broker.Settlement) error {
					calls++
					if calls == 5 { // in the middle of settling one by one
						return errDisk
					}
					for _, s := range list {
						if string(s.Result) == "bad" {
							return fmt.Errorf("result: %w", err)
						}
					}
					return nil
				}
				for i := range 10 {
					b.add(spool.Raw("t", []byte{byte(i)}, kept))
				}
				var outcomes []string
				w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 10, Hooks: spool.Hooks{
					Finished: func(_ *spool.Lease, o spool.Outcome) { outcomes = append(outcomes, o.Kind.String()) }}})
				w.HandleAny(func(_ context.Context, l *spool.Lease) error {
					if l.Job.Payload[0] == 4 {
						return l.SetResult([]byte("bad"))
					}
					return nil
				})
				stop := b.start(w)
				b.sleep(500 * time.Millisecond)
				b.must(stop())
				want(b, "acked", b.totals().Acked, 9)
				want(b, "failed", b.totals().Failed, 1)
				all := strings.Join(outcomes, " ")
				want(b, "outcomes", line(strings.Count(all, "nack"), len(outcomes)), "1 10")
				for j, err := range b.List(b.ctx, spool.Filter{States: []spool.State{spool.Scheduled}}) {
					b.must(err)
					wantText(b, j.Error, "ack: result: ")
				}
			})
		})
	}
}

func TestAClosedClientEndsItsWorkers(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // of the worker's start
	}{{"closed before the worker starts", 0}, {"closed while the worker waits", time.Minute}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: slog.New(slog.DiscardHandler)})
				w := spool.NewWorker(client, spool.WorkerConfig{})
				instant.Handle(w, func(context.Context, string) error { return nil })
				if c.after == 0 {
					client.Close()
				}
				time.AfterFunc(c.after, func() { client.Close() })
				if err := w.Run(t.Context()); !errors.Is(err, spool.ErrClosed) {
					t.Errorf("run: %v", err)
				}
			})
		})
	}
}
