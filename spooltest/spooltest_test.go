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
		"no handler": {func(t testing.TB) { spooltest.New(t).Drain(0) }, "drain: run worker: spool: invalid: the worker handles no task: call Handle first"},
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
