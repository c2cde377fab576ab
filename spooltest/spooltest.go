// Package spooltest helps to test producers and handlers: a client on a store
// in memory, and a worker that works what waits.
//
// The store reads no clock but package time, so inside a testing/synctest
// bubble delays, retries and leases run on the bubble's clock.
package spooltest

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
)

// Client is a client of an empty store in memory, with one worker.
type Client struct {
	*spool.Client
	// Worker is where a test registers its handlers. It runs in Drain.
	Worker *spool.Worker

	t    testing.TB
	runs atomic.Int64
}

// New returns a client that is closed when the test ends. What its worker logs
// goes to the test's output.
func New(t testing.TB) *Client {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	c := &Client{Client: spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: log}), t: t}
	c.Worker = spool.NewWorker(c.Client, spool.WorkerConfig{
		Name: "spooltest", Drain: true,
		Hooks: spool.Hooks{Finished: func(*spool.Lease, spool.Outcome) { c.runs.Add(1) }},
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return c
}

// Drain works until no job that c.Worker handles is ready, follow-ups included,
// and fails the test unless that took n runs of handlers, failed ones included.
// Jobs that are scheduled (a delay, a retry) stay where they are: in a bubble,
// sleep until they are due and drain again.
func (c *Client) Drain(n int) {
	c.t.Helper()
	before := c.runs.Load()
	if err := c.Worker.Run(c.t.Context()); err != nil {
		c.t.Fatalf("drain: %v", err)
	}
	if got := c.runs.Load() - before; got != int64(n) {
		c.t.Fatalf("drain: handlers ran %d times, want %d", got, n)
	}
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
