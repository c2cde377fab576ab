package spool_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

var errUser = errors.New("user's error")

// instant is a task whose retries wait a second.
var instant = spool.Define[string]("t", spool.Backoff(spool.Exponential{Factor: 1, Jitter: -1}))

// one works at most one job at a time.
var one = spool.WorkerConfig{Concurrency: 1}

func TestHowARunIsSettled(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("outer: %w", err) }
	for _, c := range []struct {
		name     string
		err      error
		state    spool.State
		reason   string
		attempt  int
		due      time.Duration
		text     string
		failures int
	}{
		{"nil acks", nil, spool.Done, broker.ReasonAcked, 1, 0, "", 0},
		{"an error is retried with backoff", errUser, spool.Scheduled, broker.ReasonRetry, 1, time.Second, "user's error", 1},
		{"RetryAfter says when", wrapped(spool.RetryAfter(time.Hour, errUser)), spool.Scheduled, broker.ReasonRetry, 1, time.Hour, "outer: user's error", 1},
		{"RetryAfter needs no error", spool.RetryAfter(time.Hour, nil), spool.Scheduled, broker.ReasonRetry, 1, time.Hour, "to be retried in 1h0m0s", 1},
		{"a negative RetryAfter means now", spool.RetryAfter(-1, errUser), spool.Ready, broker.ReasonRetry, 1, 0, "user's error", 1},
		{"Snooze gives the attempt back", wrapped(spool.Snooze(time.Minute)), spool.Scheduled, broker.ReasonSnoozed, 0, time.Minute, "", 0},
		{"Bury makes a dead letter", wrapped(spool.Bury(errUser)), spool.Dead, broker.ReasonBuried, 1, 0, "outer: user's error", 1},
		{"Bury needs no error", spool.Bury(nil), spool.Dead, broker.ReasonBuried, 1, 0, "buried by its handler", 1},
		{"Cancel cancels", wrapped(spool.Cancel(errUser)), spool.Cancelled, broker.ReasonCancelled, 1, 0, "outer: user's error", 0},
		{"the outermost steering error counts", spool.Bury(spool.Snooze(time.Minute)), spool.Dead, broker.ReasonBuried, 1, 0, "snoozed for 1m0s", 1},
		{"steering is found in joined errors", errors.Join(errUser, spool.Bury(nil)), spool.Dead, broker.ReasonBuried, 1, 0, "user's error", 1},
		{"an error of bytes is kept byte for byte", errors.New("\x00\xff"), spool.Scheduled, broker.ReasonRetry, 1, time.Second, "\x00\xff", 1},
		{"a long error is cut", errors.New(strings.Repeat("é", 100_000)), spool.Scheduled, broker.ReasonRetry, 1, time.Second, strings.Repeat("é", 4000), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("x", kept))
				runs, once := 0, spool.WorkerConfig{Concurrency: 1}
				once.Hooks.Finished = func(_ *spool.Lease, o spool.Outcome) {
					want(b, "state told to the hook", o.State, c.state)
					if !errors.Is(o.Err, c.err) {
						b.Errorf("the hook was told of %v", o.Err)
					}
				}
				w := spool.NewWorker(b.Client, once)
				ctx, cancel := context.WithCancel(b.ctx)
				instant.Handle(w, func(context.Context, string) error { runs++; cancel(); return c.err })
				b.must(w.Run(ctx))
				want(b, "runs", runs, 1)
				j := b.wantState(id, c.state)
				want(b, "reason", j.Reason, c.reason)
				want(b, "attempt", j.Attempt, c.attempt)
				want(b, "failures", j.Failures, c.failures)
				wantText(b, j.Error, c.text)
				if c.state == spool.Scheduled {
					want(b, "due in", time.Until(j.RunAt).Round(time.Millisecond), c.due)
				}
				if len(j.Error) > broker.MaxErrorBytes {
					b.Fatalf("the error has %d bytes", len(j.Error))
				}
			})
		})
	}
}

func TestMaxAttemptsIsTheNumberOfRuns(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", spool.MaxAttempts(10)))
		var starts []time.Duration
		begin := time.Now()
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		instant.Handle(w, func(ctx context.Context, _ string) error {
			starts = append(starts, time.Since(begin))
			want(b, "attempt", spool.LeaseFrom(ctx).Job.Attempt, len(starts))
			return errUser
		})
		b.start(w)
		b.sleep(time.Minute)
		want(b, "runs", len(starts), 10)
		want(b, "last start", starts[9], 9*time.Second)
		j := b.wantState(id, spool.Dead)
		want(b, "reason", j.Reason, broker.ReasonAttempts)

		// Requeued, it has fresh attempts and backs off from the start again.
		starts = nil
		n, err := b.Requeue(b.ctx, spool.Filter{IDs: []spool.ID{id}})
		b.must(err)
		want(b, "requeued", n, 1)
		b.sleep(time.Minute)
		want(b, "runs after requeue", len(starts), 10)
	})
}

func TestBackoffIsTheWorkersOwn(t *testing.T) {
	policy := spool.RetryFunc(func(n int, err error) time.Duration {
		if !errors.Is(err, errUser) {
			panic("not the handler's error")
		}
		return time.Duration(n) * time.Minute
	})
	task := spool.Define[string]("t", spool.Backoff(policy))
	bubble(t, func(b *bench) {
		b.add(spool.Raw("t", []byte(`"x"`)))
		var starts []time.Duration
		begin := time.Now()
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		task.Handle(w, func(context.Context, string) error {
			starts = append(starts, time.Since(begin))
			if len(starts) == 4 {
				return nil
			}
			return errUser
		})
		b.start(w)
		b.sleep(time.Hour)
		want(b, "starts", fmt.Sprint(starts), "[0s 1m0s 3m0s 6m0s]")
	})
}

func TestABadBackoffHarmsNothing(t *testing.T) {
	for name, p := range map[string]spool.RetryFunc{
		"it panics":            func(int, error) time.Duration { panic("no") },
		"it is negative":       func(int, error) time.Duration { return -time.Hour },
		"it is far too long":   func(int, error) time.Duration { return 1<<63 - 1 },
		"it reads a bad error": func(_ int, err error) time.Duration { return time.Duration(len(err.Error())) },
	} {
		t.Run(name, func(t *testing.T) {
			task := spool.Define[string]("t", spool.Backoff(p))
			bubble(t, func(b *bench) {
				id := b.add(task.With("x"))
				w := spool.NewWorker(b.Client, spool.WorkerConfig{})
				ctx, cancel := context.WithCancel(b.ctx)
				task.Handle(w, func(context.Context, string) error { cancel(); return errUser })
				b.must(w.Run(ctx))
				j := b.job(id)
				want(b, "failures", j.Failures, 1)
				want(b, "text", j.Error, "user's error")
			})
		})
	}
}

func TestFortyThousandSnoozesAreNoAttempts(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x", spool.MaxAttempts(3), kept))
		runs := 0
		w := spool.NewWorker(b.Client, one)
		instant.Handle(w, func(ctx context.Context, _ string) error {
			runs++
			switch {
			case runs <= 40_000:
				return spool.Snooze(time.Second)
			case runs == 40_001:
				want(b, "attempt", spool.LeaseFrom(ctx).Job.Attempt, 1)
				return errUser
			}
			return nil
		})
		b.start(w)
		b.sleep(13 * time.Hour)
		j := b.wantState(id, spool.Done)
		want(b, "runs", runs, 40_002)
		want(b, "attempt", j.Attempt, 2)
	})
}

// badError is an error whose methods panic.
type badError struct{}

func (badError) Error() string { panic("in Error") }
func (badError) Is(error) bool { panic("in Is") }
func (badError) As(any) bool   { panic("in As") }

func TestEveryFormOfPanicIsAFailedAttempt(t *testing.T) {
	var nilMap map[string]int
	for _, c := range []struct {
		name  string
		fn    func() error
		parts []string
	}{
		{"panic of a text", func() error { panic("boom") }, []string{"panic: boom", "TestEveryFormOfPanic"}},
		{"panic of an error", func() error { panic(errUser) }, []string{"panic: user's error", "TestEveryFormOfPanic"}},
		{"panic of nil", func() error { panic(nil) }, []string{"panic: panic called with nil", "TestEveryFormOfPanic"}},
		{"panic of an error that panics", func() error { panic(badError{}) }, []string{"panic: ", "in Error", "TestEveryFormOfPanic"}},
		{"panic of a huge text", func() error { panic(strings.Repeat("x", 1<<20)) }, []string{"panic: xxx", "TestEveryFormOfPanic"}},
		{"a write to a nil map", func() error { nilMap["x"] = 1; return nil }, []string{"nil map", "TestEveryFormOfPanic"}},
		{"a deep stack", func() error { return deep(100_000) }, []string{"panic: deep", "deep"}},
		{"a goroutine that ends", func() error { goexit(); return nil }, []string{"ended its goroutine"}},
		{"an error whose methods panic", func() error { return badError{} }, []string{"badError", "panicked"}},
		{"a wrapped error whose methods panic", func() error { return errors.Join(errUser, badError{}) }, []string{"panicked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.add(instant.With("bad", spool.MaxAttempts(1)))
				w := spool.NewWorker(b.Client, one)
				instant.Handle(w, func(_ context.Context, in string) error {
					if in == "bad" {
						return c.fn()
					}
					return nil
				})
				b.start(w)
				synctest.Wait()
				j := b.wantState(id, spool.Dead)
				want(b, "failures", j.Failures, 1)
				wantText(b, j.Error, c.parts...)
				if len(j.Error) > broker.MaxErrorBytes {
					b.Fatalf("the text has %d bytes", len(j.Error))
				}
				// The one slot is free again.
				id = b.add(instant.With("good", kept))
				synctest.Wait()
				b.wantState(id, spool.Done)
			})
		})
	}
}

func TestAMiddlewareThatPanicsIsAFailedAttempt(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(instant.With("x"))
		w := spool.NewWorker(b.Client, one)
		w.Use(func(spool.Handler) spool.Handler {
			return func(context.Context, *spool.Lease) error { panic("in middleware") }
		})
		instant.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		synctest.Wait()
		wantText(b, b.wantState(id, spool.Scheduled).Error, "in middleware")
	})
}

func TestMiddlewareSeesTheLeaseBeforeItIsDecoded(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(spool.Raw("t", []byte("{"), spool.Header("h", "v")))
		var trace []string
		mark := func(name string) func(spool.Handler) spool.Handler {
			return func(next spool.Handler) spool.Handler {
				return func(ctx context.Context, l *spool.Lease) error {
					trace = append(trace, name+l.Job.Headers["h"]+string(l.Job.Payload))
					if spool.LeaseFrom(ctx) != l {
						b.Error("LeaseFrom gives another lease")
					}
					err := next(context.WithValue(ctx, valueKey{}, name), l)
					trace = append(trace, name)
					return err
				}
			}
		}
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
			w.Use(mark("a"), mark("b"))
			w.Use(mark("c"))
			instant.Handle(w, func(context.Context, string) error { return nil })
		})
		want(b, "calls", strings.Join(trace, " "), "av{ bv{ cv{ c b a")
		b.wantState(id, spool.Scheduled)
	})
}

type valueKey struct{}

func TestAHandlersContextCarriesRunsValues(t *testing.T) {
	bubble(t, func(b *bench) {
		b.add(instant.With("x"))
		w := spool.NewWorker(b.Client, one)
		ctx, cancel := context.WithCancel(context.WithValue(b.ctx, valueKey{}, "v"))
		var handler context.Context
		instant.Handle(w, func(ctx context.Context, _ string) error {
			handler = ctx
			cancel()
			time.Sleep(time.Second)
			want(b, "error after Run's context ended", ctx.Err(), nil)
			want(b, "value", ctx.Value(valueKey{}), any("v"))
			l := spool.LeaseFrom(context.WithValue(ctx, valueKey{}, 1))
			want(b, "task of the lease", l.Job.Task, "t")
			return nil
		})
		b.must(w.Run(ctx))
		if handler.Err() == nil {
			b.Fatal("the context outlives its run")
		}
	})
}

func TestATimeoutIsAFailedAttempt(t *testing.T) {
	for _, c := range []struct {
		name  string
		run   func(ctx context.Context) error
		state spool.State
	}{
		{"when the handler returns the context's error", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, spool.Scheduled},
		{"when the handler returns its own error", func(ctx context.Context) error { <-ctx.Done(); return errUser }, spool.Scheduled},
		{"unless the handler returns nil", func(ctx context.Context) error { <-ctx.Done(); return nil }, spool.Done},
		{"unless the handler steers", func(ctx context.Context) error { <-ctx.Done(); return spool.Bury(ctx.Err()) }, spool.Dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				task := spool.Define[string]("t", spool.Timeout(30*time.Second), spool.Backoff(spool.Exponential{First: time.Hour}))
				id := b.add(task.With("x", kept))
				w := spool.NewWorker(b.Client, one)
				task.Handle(w, func(ctx context.Context, _ string) error {
					start := time.Now()
					err := c.run(ctx)
					want(b, "cause", context.Cause(ctx), context.DeadlineExceeded)
					want(b, "took", time.Since(start), 30*time.Second)
					return err
				})
				b.start(w)
				b.sleep(time.Minute)
				j := b.wantState(id, c.state)
				if c.state == spool.Scheduled {
					want(b, "failures", j.Failures, 1)
					if !strings.Contains(j.Error, "deadline exceeded") && !strings.Contains(j.Error, "timeout of 30s is over: user's error") {
						b.Fatalf("the text does not tell of the timeout: %q", j.Error)
					}
				}
			})
		})
	}
}

// gauge counts what runs at a time.
type gauge struct {
	mu         sync.Mutex
	now, most  int
	started    int
	afterStart func(now int)
}

func (g *gauge) enter() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now, g.started = g.now+1, g.started+1
	g.most = max(g.most, g.now)
	if g.afterStart != nil {
		g.afterStart(g.now)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now--
	}
}

func TestNothingIsClaimedAheadOfAFreeSlot(t *testing.T) {
	bubble(t, func(b *bench) {
		for i := range 100 {
			b.add(instant.With(fmt.Sprint(i)))
		}
		var g gauge
		b.broker.claim = func(r broker.ClaimRequest) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if r.Max < 1 || r.Max > 7-g.now {
				b.Errorf("claims %d jobs with %d of 7 slots taken", r.Max, g.now)
			}
			return nil
		}
		b.broker.settle = func(s []broker.Settlement) error { time.Sleep(time.Millisecond); return nil }
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 7, Drain: true})
		instant.Handle(w, func(_ context.Context, in string) error {
			defer g.enter()()
			time.Sleep(time.Duration(1+len(in)) * time.Second)
			return nil
		})
		b.must(w.Run(b.ctx))
		want(b, "ran", g.started, 100)
		want(b, "ran at a time", g.most, 7)
		want(b, "claims", b.totals().Claimed, 100)
	})
}

// A worker that stays waits for its own update; one that drains never could.
func TestAQueueOfANewerVersionEndsADrainingWorkerAlone(t *testing.T) {
	bubble(t, func(b *bench) {
		b.broker.claim = func(broker.ClaimRequest) error { return fmt.Errorf("%w: a newer version", spool.ErrUnsupported) }
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Drain: true})
		instant.Handle(w, func(context.Context, string) error { return nil })
		b.wantErr(w.Run(b.ctx), spool.ErrUnsupported)
		w = spool.NewWorker(b.Client, spool.WorkerConfig{})
		instant.Handle(w, func(context.Context, string) error { return nil })
		stop := b.start(w)
		b.sleep(time.Hour)
		b.must(stop())
	})
}

func TestQueuesInStrictOrder(t *testing.T) {
	bubble(t, func(b *bench) {
		var got []string
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 1, Queues: []spool.QueueConfig{{Name: "high"}, {Name: "low"}}})
		instant.Handle(w, func(_ context.Context, in string) error {
			got = append(got, in)
			if in == "l1" { // comes while low has more
				b.add(instant.With("h3", spool.Queue("high")))
			}
			return nil
		})
		for _, q := range []string{"low", "high", "other"} {
			for i := range 2 {
				b.add(instant.With(q[:1]+fmt.Sprint(i+1), spool.Queue(q)))
			}
		}
		b.start(w)
		synctest.Wait()
		want(b, "order", strings.Join(got, " "), "h1 h2 l1 h3 l2")
		want(b, "of the queue not listened to", b.totals().Enqueued-b.totals().Claimed, 2)
	})
}

func TestQueuesByWeight(t *testing.T) {
	bubble(t, func(b *bench) {
		var got []string
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 1, Drain: true, Queues: []spool.QueueConfig{
			{Name: "a", Weight: 5}, {Name: "b", Weight: 2}, {Name: "c"}}})
		instant.Handle(w, func(_ context.Context, in string) error { got = append(got, in); return nil })
		for _, q := range []string{"a", "b", "c"} {
			for range 100 {
				b.add(instant.With(q, spool.Queue(q)))
			}
		}
		b.must(w.Run(b.ctx))
		want(b, "ran", len(got), 300)
		for i := 0; i+8 <= 104; i += 8 { // each window of the weights' sum, as long as all have jobs
			window := strings.Join(got[i:i+8], "")
			want(b, "shares of "+window, line(strings.Count(window, "a"), strings.Count(window, "b"), strings.Count(window, "c")), "5 2 1")
		}
	})
}

func TestConcurrencyOfAQueue(t *testing.T) {
	bubble(t, func(b *bench) {
		gauges := map[string]*gauge{"a": {}, "b": {}, "c": {}}
		for q := range gauges {
			for range 20 {
				b.add(instant.With(q, spool.Queue(q)))
			}
		}
		var all gauge
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 10, Drain: true, Queues: []spool.QueueConfig{
			{Name: "a", Concurrency: 2}, {Name: "b"}, {Name: "c", Concurrency: 3}}})
		instant.Handle(w, func(_ context.Context, q string) error {
			defer gauges[q].enter()()
			defer all.enter()()
			time.Sleep(time.Second)
			return nil
		})
		start := time.Now()
		b.must(w.Run(b.ctx))
		want(b, "a at a time", gauges["a"].most, 2)
		want(b, "b at a time", gauges["b"].most, 8)
		want(b, "c at a time", gauges["c"].most, 3)
		want(b, "in all at a time", all.most, 10)
		// a needs 10 rounds of 2; nothing waits longer than its limit asks.
		want(b, "took", time.Since(start).Round(time.Second), 10*time.Second)
	})
}

func TestASlotOfAFullQueueThatComesFreeIsUsedAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		var starts []time.Duration
		begin := time.Now()
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 10, Queues: []spool.QueueConfig{{Name: "a", Concurrency: 1}, {Name: "b"}}})
		instant.Handle(w, func(context.Context, string) error {
			starts = append(starts, time.Since(begin))
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		for range 4 {
			b.add(instant.With("x", spool.Queue("a")))
		}
		b.start(w)
		b.sleep(time.Second)
		want(b, "starts", fmt.Sprint(starts), "[0s 10ms 20ms 30ms]")
	})
}

func TestTasksThatAreNotHandledAreLeftAlone(t *testing.T) {
	bubble(t, func(b *bench) {
		other := b.add(spool.Raw("other", nil))
		b.add(instant.With("x"))
		w := spool.NewWorker(b.Client, one)
		instant.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		b.sleep(time.Minute)
		j := b.wantState(other, spool.Ready)
		want(b, "attempts", j.Attempt, 0)
		want(b, "claims", b.totals().Claimed, 1)
	})
}

func TestHandleAnyTakesWhatHasNoHandler(t *testing.T) {
	bubble(t, func(b *bench) {
		var got []string
		b.drain(one, func(w *spool.Worker) {
			w.HandleAny(func(_ context.Context, l *spool.Lease) error {
				got = append(got, "any:"+l.Job.Task+string(l.Job.Payload))
				return l.SetResult([]byte("r"))
			})
			instant.Handle(w, func(context.Context, string) error { got = append(got, "own"); return nil })
			b.add(spool.Raw("other", []byte("\xff")))
			b.add(instant.With("x"))
		})
		want(b, "ran", strings.Join(got, " "), "any:other\xff own")
		for j, err := range b.List(b.ctx, spool.Filter{}) {
			b.must(err)
			want(b, "result", string(j.Result), "r")
		}
	})
}

func TestAWorkerOfAThousandTasks(t *testing.T) {
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 4})
		ran := map[string]int{}
		var mu sync.Mutex
		for i := range 1000 {
			spool.Define[string](fmt.Sprintf("t%03d", i)).Handle(w, func(_ context.Context, in string) error {
				mu.Lock()
				defer mu.Unlock()
				ran[in]++
				return nil
			})
		}
		b.broker.claim = func(r broker.ClaimRequest) error {
			if len(r.Tasks) > broker.MaxClaimTasks {
				b.Errorf("a claim names %d tasks", len(r.Tasks))
			}
			return nil
		}
		for i := range 1000 {
			name := fmt.Sprintf("t%03d", i)
			b.add(spool.Define[string](name).With(name))
		}
		b.start(w)
		b.sleep(time.Second)
		want(b, "ran", len(ran), 1000)
		b.add(spool.Define[string]("t999").With("t999")) // while it is idle
		b.sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		want(b, "ran again", ran["t999"], 2)
	})
}

func TestAPausedQueueStartsNothing(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		instant.Handle(w, func(context.Context, string) error { runs.Add(1); return nil })
		b.start(w)
		for range 50 {
			b.must(b.Pause(b.ctx, "default"))
			b.must(b.Pause(b.ctx, "default"))
			b.add(instant.With("now"))
			b.add(instant.With("later", spool.Delay(time.Second)))
			before := runs.Load()
			b.sleep(10 * time.Second)
			want(b, "runs while paused", runs.Load(), before)
			b.must(b.Resume(b.ctx, "default"))
			b.sleep(time.Second)
			want(b, "runs after resume", runs.Load(), before+2)
		}
	})
}

func TestWorkersAreRegisteredWhileTheyRun(t *testing.T) {
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Name: "mailer", Concurrency: 3, Queues: []spool.QueueConfig{{Name: "q"}}})
		instant.Handle(w, func(context.Context, string) error { return nil })
		ids := map[string]bool{}
		for range 2 {
			stop := b.start(w)
			b.sleep(5 * time.Minute)
			workers, err := b.Workers(b.ctx, "")
			b.must(err)
			want(b, "workers", len(workers), 1)
			r := workers[0]
			want(b, "registration", line(r.Name, r.Queues, r.Tasks, r.Concurrency, r.PID > 0), "mailer [q] [t] 3 true")
			ids[r.ID] = true
			b.must(stop())
			workers, err = b.Workers(b.ctx, "")
			b.must(err)
			want(b, "workers after the end", len(workers), 0)
		}
		want(b, "ids of two starts", len(ids), 2)
	})
}

func TestRunRefusesAWorkerThatCannotWork(t *testing.T) {
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		b.wantErr(w.Run(b.ctx), spool.ErrInvalid)
		instant.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		synctest.Wait()
		b.wantErr(w.Run(b.ctx), spool.ErrInvalid)
	})
}

func TestBadWorkersPanic(t *testing.T) {
	bubble(t, func(b *bench) {
		for name, fn := range map[string]func(){
			"a bad name":           func() { spool.NewWorker(b.Client, spool.WorkerConfig{Name: "a b"}) },
			"negative concurrency": func() { spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: -1}) },
			"a negative TTL":       func() { spool.NewWorker(b.Client, spool.WorkerConfig{LeaseTTL: -1}) },
			"a bad queue":          func() { spool.NewWorker(b.Client, spool.WorkerConfig{Queues: []spool.QueueConfig{{}}}) },
			"no queue":             func() { spool.NewWorker(b.Client, spool.WorkerConfig{Queues: []spool.QueueConfig{}}) },
			"a queue twice": func() {
				spool.NewWorker(b.Client, spool.WorkerConfig{Queues: []spool.QueueConfig{{Name: "a"}, {Name: "a"}}})
			},
			"a negative weight": func() {
				spool.NewWorker(b.Client, spool.WorkerConfig{Queues: []spool.QueueConfig{{Name: "a", Weight: -1}}})
			},
			"two handlers of a task": func() {
				w := spool.NewWorker(b.Client, spool.WorkerConfig{})
				instant.Handle(w, func(context.Context, string) error { return nil })
				spool.Define[int]("t").Handle(w, func(context.Context, int) error { return nil })
			},
		} {
			func() {
				defer func() {
					if recover() == nil {
						b.Errorf("%s did not panic", name)
					}
				}()
				fn()
			}()
		}
	})
}

func TestHooksSeeEveryRun(t *testing.T) {
	bubble(t, func(b *bench) {
		var mu sync.Mutex
		var trace []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			trace = append(trace, fmt.Sprintf(format, args...))
		}
		cfg := spool.WorkerConfig{Concurrency: 1, Hooks: spool.Hooks{
			Started: func(l *spool.Lease) { note("start %s", l.Job.Payload) },
			Finished: func(l *spool.Lease, o spool.Outcome) {
				note("%s %s %s %v %v", l.Job.Payload, o.Kind, o.State, o.Err, o.Duration)
				panic("a bad hook")
			},
		}}
		b.add(instant.With("a"))
		b.add(instant.With("b"))
		b.add(instant.With("c"))
		b.drain(cfg, func(w *spool.Worker) {
			instant.Handle(w, func(ctx context.Context, in string) error {
				time.Sleep(time.Second)
				switch in {
				case "b":
					return spool.RetryAfter(time.Hour, errUser)
				case "c":
					return spool.LeaseFrom(ctx).Bury(ctx, errUser)
				}
				return nil
			})
		})
		slices.Sort(trace)
		want(b, "calls", strings.Join(trace, ", "),
			`"a" ack done <nil> 1s, "b" nack scheduled user's error 1s, "c"   <nil> 1s, start "a", start "b", start "c"`)
	})
}

func deep(n int) error {
	if n == 0 {
		panic("deep")
	}
	return deep(n - 1)
}

func goexit() { runtime.Goexit() }

func TestUnsettledJobsAreBounded(t *testing.T) {
	bubble(t, func(b *bench) {
		b.broker.max = 100
		c := spool.New(b.broker, spool.Config{})
		yielded, ran := 0, atomic.Int64{}
		_, err := spool.Define[number]("n").EnqueueMany(b.ctx, c, counted(10_000, &yielded))
		b.must(err)
		var down atomic.Bool
		down.Store(true)
		b.broker.settle = func(s []broker.Settlement) error {
			if len(s) > 100 {
				b.Errorf("a call settles %d jobs", len(s))
			}
			if down.Load() {
				return errDisk
			}
			return nil
		}
		w := spool.NewWorker(c, spool.WorkerConfig{Concurrency: 10, Logger: quietConfig.Logger})
		spool.Define[number]("n").Handle(w, func(context.Context, number) error { ran.Add(1); return nil })
		b.start(w)
		b.sleep(time.Minute)
		if n := ran.Load(); n < 2048 || n > 2048+10 {
			b.Errorf("%d jobs ran while none could be settled", n)
		}
		down.Store(false)
		b.sleep(time.Minute)
		want(b, "acked", b.totals().Acked, 10_000)
	})
}

func TestASlotThatComesFreeBetweenTwoClaimsIsUsedAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		begin := time.Now()
		var second time.Duration
		free := make(chan struct{})
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 10, Queues: []spool.QueueConfig{{Name: "a", Concurrency: 1}, {Name: "b"}}})
		instant.Handle(w, func(_ context.Context, in string) error {
			if in == "2" {
				second = time.Since(begin)
				return nil
			}
			<-free
			return nil
		})
		b.add(instant.With("1", spool.Queue("a")))
		b.add(instant.With("2", spool.Queue("a")))
		asked, last := false, ""
		b.broker.claim = func(r broker.ClaimRequest) error {
			now := strings.Join(r.Queues, " ")
			if !asked && now == "b" && last == "b" {
				asked = true // a is full, and what is asked for next leaves it out
				close(free)
				time.Sleep(time.Millisecond)
			}
			last = now
			return nil
		}
		b.start(w)
		b.sleep(time.Minute)
		want(b, "asked", asked, true)
		want(b, "start of the second job", second, time.Millisecond)
	})
}

func TestAHookThatEndsItsGoroutineHarmsNothing(t *testing.T) {
	bubble(t, func(b *bench) {
		var finished atomic.Int32
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Concurrency: 1, Hooks: spool.Hooks{
			Started:  func(l *spool.Lease) { endsAt(l, "start") },
			Finished: func(l *spool.Lease, _ spool.Outcome) { finished.Add(1); endsAt(l, "finish") },
		}})
		instant.Handle(w, func(ctx context.Context, in string) error {
			if in == "own finish" {
				return spool.LeaseFrom(ctx).Ack(ctx, nil)
			}
			return nil
		})
		for _, in := range []string{"start", "finish", "own finish", "finish", "none"} {
			b.add(instant.With(in, spool.MaxAttempts(1)))
		}
		stop := b.start(w)
		synctest.Wait()
		b.must(stop())
		n := b.totals()
		want(b, "acked, died, finished", line(n.Acked, n.Died, finished.Load()), "4 1 5")
	})
}

func endsAt(l *spool.Lease, when string) {
	if strings.HasSuffix(string(l.Job.Payload), when+`"`) {
		goexit()
	}
}
