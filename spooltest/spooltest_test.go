package spooltest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/spooltest"
)

type email struct{ To string }

var (
	send    = spool.Define[email]("send", spool.Backoff(spool.Exponential{First: time.Hour, Jitter: -1}))
	measure = spool.DefineFunc[string, int]("measure")
)

// signUp is a producer under test.
func signUp(ctx context.Context, to spool.Enqueuer, name string) error {
	_, err := send.Enqueue(ctx, to, email{To: name}, spool.Key(name))
	return err
}

func TestAProducerAndAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := spooltest.New(t)
		for _, name := range []string{"ada", "grace", "ada"} {
			if err := signUp(t.Context(), c, name); err != nil {
				t.Fatal(err)
			}
		}
		args := spooltest.RequireEnqueued(t, c, send, 2)
		if fmt.Sprint(args) != "[{ada} {grace}]" {
			t.Fatalf("arguments are %v", args)
		}
		spooltest.RequireEnqueued(t, c, &measure.Task, 0)

		down := true
		send.Handle(c.Worker, func(ctx context.Context, in email) error {
			if down {
				return errors.New("mail server is down")
			}
			_, err := measure.Enqueue(ctx, spool.LeaseFrom(ctx), in.To)
			return err
		})
		measure.Handle(c.Worker, func(_ context.Context, in string) (int, error) { return len(in), nil })
		c.Drain(2)
		spooltest.RequireEnqueued(t, c, send, 2) // to be retried
		c.Drain(0)
		down = false
		time.Sleep(time.Hour)
		c.Drain(4)
		spooltest.RequireEnqueued(t, c, send, 0)
	})
}

func TestSchedulesAndLimitsRunOnTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := spool.Define[string]("report", spool.RateLimit("1/m"))
		c := spooltest.NewWith(t, spooltest.Config{Worker: spool.WorkerConfig{
			Schedules: []spool.Schedule{{Spec: "@daily", Job: report.With("daily")}},
		}})
		report.Handle(c.Worker, func(context.Context, string) error { return nil })
		c.Drain(0)
		time.Sleep(24 * time.Hour)
		c.Drain(1)
		for range 2 {
			if _, err := report.Enqueue(t.Context(), c, "by hand"); err != nil {
				t.Fatal(err)
			}
		}
		c.Drain(0) // over the rate
		spooltest.RequireEnqueued(t, c, report, 2)
		time.Sleep(time.Minute)
		c.Drain(1)
	})
}

func TestTheNthCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := spooltest.New(t)
		c.Fail(spooltest.Enqueue, 2, spool.ErrFull)
		c.Fail(spooltest.Enqueue, 3, nil)
		for i, want := range []error{nil, spool.ErrFull, spooltest.ErrFault, nil} {
			if err := signUp(t.Context(), c, fmt.Sprint(i)); !errors.Is(err, want) {
				t.Fatalf("call %d: error is %v, want %v", i+1, err, want)
			}
		}
		spooltest.RequireEnqueued(t, c, send, 2)
		// A worker goes on after any fault.
		for _, call := range []spooltest.Call{spooltest.Claim, spooltest.Extend, spooltest.Settle} {
			c.Fail(call, 1, nil)
		}
		send.Handle(c.Worker, func(context.Context, email) error { return nil })
		c.Drain(2)
		c.Fail(spooltest.Apply, 1, nil)
		if err := c.Pause(t.Context(), "default"); !errors.Is(err, spooltest.ErrFault) {
			t.Fatalf("error is %v", err)
		}
		c.Fail(spooltest.Configure, 1, nil)
		if err := c.AddSchedule(t.Context(), spool.Schedule{Spec: "@daily", Job: send.With(email{})}); !errors.Is(err, spooltest.ErrFault) {
			t.Fatalf("error is %v", err)
		}
	})
}

func TestACrashAfterEachStep(t *testing.T) {
	for _, c := range []struct {
		name     string
		after    spooltest.Call
		attempts int // of the run in the fresh client; 0 when there is none
	}{
		{"the claim: the attempt is burnt, the handler never ran", spooltest.Claim, 2},
		{"the settlement: the job is done, though nobody heard it", spooltest.Settle, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old := spooltest.New(t)
				runs, attempt := 0, 0
				handle := func(c *spooltest.Client) {
					send.Handle(c.Worker, func(ctx context.Context, _ email) error {
						runs++
						attempt = spool.LeaseFrom(ctx).Job.Attempt
						_, err := measure.Enqueue(ctx, spool.LeaseFrom(ctx), "follow-up")
						return err
					})
				}
				handle(old)
				if err := signUp(t.Context(), old, "ada"); err != nil {
					t.Fatal(err)
				}
				old.CrashAfter(c.after, 1)
				old.DrainUntilCrash()
				if err := signUp(t.Context(), old, "grace"); !errors.Is(err, spool.ErrClosed) {
					t.Fatalf("after the crash: error is %v", err)
				}
				attempt = 0
				fresh := old.Restart()
				handle(fresh)
				fresh.Drain(min(c.attempts, 1))
				if attempt != c.attempts || runs != 1 {
					t.Fatalf("%d runs, attempt %d in the fresh client", runs, attempt)
				}
				spooltest.RequireEnqueued(t, fresh, &measure.Task, 1)
			})
		})
	}
}

func TestACrashInAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := spooltest.NewWith(t, spooltest.Config{Worker: spool.WorkerConfig{Concurrency: 1}})
		for _, name := range []string{"ada", "grace"} {
			if err := signUp(t.Context(), old, name); err != nil {
				t.Fatal(err)
			}
		}
		send.Handle(old.Worker, func(_ context.Context, e email) error {
			if e.To == "ada" {
				old.Crash()
			}
			return nil
		})
		old.DrainUntilCrash()
		fresh := old.Restart()
		workers, err := fresh.Workers(t.Context(), "")
		if err != nil || len(workers) != 0 {
			t.Fatalf("workers are %v, error %v", workers, err)
		}
		var got []string
		send.Handle(fresh.Worker, func(ctx context.Context, e email) error {
			got = append(got, fmt.Sprint(e.To, spool.LeaseFrom(ctx).Job.Attempt))
			return nil
		})
		fresh.Drain(2)
		if fmt.Sprint(got) != "[ada2 grace1]" {
			t.Fatalf("runs after the restart are %v", got)
		}
	})
}

// fakeT notes a failure.
type fakeT struct {
	testing.TB
	failed string
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestFailuresAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func(t testing.TB)
		want string
	}{
		"too few jobs": {func(t testing.TB) {
			spooltest.RequireEnqueued(t, spooltest.New(t), send, 1)
		}, "0 jobs of send wait, want 1"},
		"too few runs": {func(t testing.TB) {
			c := spooltest.New(t)
			send.Handle(c.Worker, func(context.Context, email) error { return nil })
			c.Drain(1)
		}, "drain: handlers ran 0 times, want 1"},
		"no crash": {func(t testing.TB) {
			c := spooltest.New(t)
			send.Handle(c.Worker, func(context.Context, email) error { return nil })
			c.CrashAfter(spooltest.Settle, 1)
			c.DrainUntilCrash()
		}, "drain until the crash: there was none"},
		"a crash that was not expected": {func(t testing.TB) {
			c := spooltest.New(t)
			send.Handle(c.Worker, func(context.Context, email) error { return nil })
			c.Crash()
			c.Drain(0)
		}, "go on with Restart"},
		"a failure of no call":  {func(t testing.TB) { spooltest.New(t).Fail(spooltest.Claim, 0, nil) }, "the next one is 1"},
		"a crash after no call": {func(t testing.TB) { spooltest.New(t).CrashAfter(spooltest.Claim, 0) }, "the next one is 1"},
		"no handler":            {func(t testing.TB) { spooltest.New(t).Drain(0) }, "drain: run worker: spool: invalid: the worker handles no task: call Handle first"},
		"other arguments": {func(t testing.TB) {
			c := spooltest.New(t)
			if _, err := c.Enqueue(t.Context(), spool.Raw("measure", []byte("1"))); err != nil {
				t.Fatalf("%v", err)
			}
			spooltest.RequireEnqueued(t, c, &measure.Task, 1)
		}, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeT{TB: t}
			done := make(chan struct{})
			go func() { defer close(done); c.fn(f) }()
			<-done
			if !strings.Contains(f.failed, c.want) {
				t.Fatalf("it failed with %q, want %q", f.failed, c.want)
			}
		})
	}
}
