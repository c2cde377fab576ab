// Package spooltest helps to test producers and handlers: a client on a store
// in memory, and a worker that works what waits.
//
// The store reads no clock but package time, so inside a testing/synctest
// bubble the bubble's clock is the only one: delays, retries, leases, limits
// and schedules run on it.
//
// What a program does when its store fails, or when it dies half way, can be
// tested, too: [Client.Fail], [Client.CrashAfter] and [Client.Restart].
package spooltest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
)

// Config sets up a client. Its zero value works.
type Config struct {
	Client spool.Config // its Logger is by default the test's output
	// Worker sets up Client.Worker, which always drains. Its default name is
	// "spooltest", and by default it waits for no handler when it is stopped.
	Worker spool.WorkerConfig
}

// Client is a client of a store in memory, with one worker: what one process of
// a program has.
type Client struct {
	*spool.Client
	// Worker is where a test registers its handlers. It runs in Drain.
	Worker *spool.Worker

	t     testing.TB
	cfg   Config
	store *faulty
	runs  atomic.Int64
	alive context.Context // until the crash
	die   context.CancelFunc
}

// New returns a client of an empty store, which is closed when the test ends.
// What its worker logs goes to the test's output.
func New(t testing.TB) *Client {
	t.Helper()
	return NewWith(t, Config{})
}

// NewWith is New with a configuration.
func NewWith(t testing.TB, cfg Config) *Client {
	t.Helper()
	if cfg.Client.Logger == nil {
		cfg.Client.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return newClient(t, cfg, membroker.New(membroker.Config{}))
}

func newClient(t testing.TB, cfg Config, b *membroker.Broker) *Client {
	c := &Client{t: t, cfg: cfg}
	c.alive, c.die = context.WithCancel(context.Background())
	c.store = &faulty{Broker: b, fail: map[Call][]*countdown{}, die: map[Call]*countdown{}, crashed: c.Crash}
	c.Client = spool.New(c.store, cfg.Client)
	w := cfg.Worker
	w.Name, w.ShutdownTimeout, w.Drain = cmp.Or(w.Name, "spooltest"), cmp.Or(w.ShutdownTimeout, -1), true
	finished := w.Hooks.Finished
	w.Hooks.Finished = func(l *spool.Lease, o spool.Outcome) {
		c.runs.Add(1)
		if finished != nil {
			finished(l, o)
		}
	}
	c.Worker = spool.NewWorker(c.Client, w)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return c
}

// Drain works until no job that c.Worker handles is ready, follow-ups included,
// and fails the test unless that took n runs of handlers, failed ones included.
// Schedules that are due enqueue their jobs first. Jobs that are scheduled (a
// delay, a retry), or wait for a limit, stay where they are: in a bubble, sleep
// until they are due and drain again.
func (c *Client) Drain(n int) {
	c.t.Helper()
	before := c.runs.Load()
	if err := c.work(); err != nil {
		c.t.Fatalf("drain: %v", err)
	}
	if c.alive.Err() != nil {
		c.t.Fatalf("drain: the client has crashed: go on with Restart")
	}
	if got := c.runs.Load() - before; got != int64(n) {
		c.t.Fatalf("drain: handlers ran %d times, want %d", got, n)
	}
}

// work runs the worker until it is drained, or the client crashes.
func (c *Client) work() error {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	defer context.AfterFunc(c.alive, cancel)()
	return c.Worker.Run(ctx)
}

// Fail makes the n-th call of that kind from now (1 is the next one) fail with
// err, or with ErrFault when err is nil: it does not take place. It may be
// called more than once, before and while the worker runs.
func (c *Client) Fail(call Call, n int, err error) {
	c.t.Helper()
	if n < 1 {
		c.t.Fatalf("fail call %d: the next one is 1", n)
	}
	c.store.arm(call, n, cmp.Or(err, ErrFault))
}

// Crash is the sudden death of the client's process: its leases expire, so that
// its jobs are ready for others and the attempt counts, its workers are gone,
// and every call of it returns ErrClosed from now on. A handler may call it, and
// should then return: whatever it returns, nothing is settled. What is in the
// store is kept for Restart.
func (c *Client) Crash() {
	c.die()
	if err := c.store.Close(); err != nil {
		c.t.Errorf("crash: %v", err)
	}
}

// CrashAfter crashes the client after the n-th call of that kind from now (1 is
// the next one): the call takes place, and its answer is heard by nobody.
// DrainUntilCrash works until then.
func (c *Client) CrashAfter(call Call, n int) {
	c.t.Helper()
	if n < 1 {
		c.t.Fatalf("crash after call %d: the next one is 1", n)
	}
	c.store.armCrash(call, n)
}

// DrainUntilCrash works until the client crashes, and fails the test when it
// does not. Handlers that run at that moment are cancelled, and have two seconds
// to return: they are of a dead process.
func (c *Client) DrainUntilCrash() {
	c.t.Helper()
	err := c.work()
	if c.alive.Err() == nil {
		c.t.Fatalf("drain until the crash: there was none (%v)", err)
	}
	if left := (*spool.ShutdownError)(nil); err != nil && !errors.As(err, &left) {
		c.t.Fatalf("drain until the crash: %v", err)
	}
}

// Restart returns a fresh client of the same store, as the program's next start
// has, with the same configuration and a worker without handlers. c need not
// have crashed: then both live, as two processes do.
func (c *Client) Restart() *Client {
	c.t.Helper()
	return newClient(c.t, c.cfg, c.store.Another())
}

// RequireEnqueued fails the test unless exactly n jobs of the task wait, ready
// or scheduled, in any queue. It returns their arguments in the order in which
// they were enqueued. Of a task with a result, pass the Task in it.
func RequireEnqueued[In any](t testing.TB, c *Client, task *spool.Task[In], n int) []In {
	t.Helper()
	var jobs []spool.Job
	for j, err := range c.List(t.Context(), spool.Filter{Task: task.Name(), States: []spool.State{spool.Scheduled, spool.Ready}}) {
		if err != nil {
			t.Fatalf("list jobs of %s: %v", task.Name(), err)
		}
		jobs = append(jobs, j)
	}
	if len(jobs) != n {
		t.Fatalf("%d jobs of %s wait, want %d", len(jobs), task.Name(), n)
	}
	slices.SortFunc(jobs, func(a, b spool.Job) int { return slices.Compare(a.ID[:], b.ID[:]) }) // ids of one process rise
	args := make([]In, n)
	for i, j := range jobs {
		var err error
		if args[i], err = task.Decode(c.Client, j); err != nil {
			t.Fatalf("job %s: %v", j.ID, err)
		}
	}
	return args
}
