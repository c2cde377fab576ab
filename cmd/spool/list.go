package main

import (
	"context"
	"errors"
	"strconv"
	"text/tabwriter"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

type listCmd struct {
	filterFlags
	State []stateName `short:"s" placeholder:"STATE" help:"In these states: scheduled, ready, leased, done, dead, cancelled; all when none is given."`
	Limit int         `short:"n" default:"50" placeholder:"N" help:"At most this many jobs; 0 means all (${default})."`
}

// Run lists jobs.
func (c *listCmd) Run(a *app) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return usagef("--limit is negative: a number, or 0 for all, would do")
	}
	f.States = states(c.State)
	return a.with(reading, func(ctx context.Context, client *spool.Client) error { return a.list(ctx, client, f, c.Limit) })
}

// errEnough ends a walk over jobs.
var errEnough = errors.New("enough")

// list prints the jobs that f chooses, in their order. A page of a table is
// aligned by itself, so that a long list begins at once.
func (a *app) list(ctx context.Context, c *spool.Client, f spool.Filter, limit int) error {
	const page = 200
	var w *tabwriter.Writer
	n := 0
	err := each(ctx, c, f, func(j *broker.Job) error {
		if limit > 0 && n == limit {
			return errEnough
		}
		if n++; a.json {
			return a.object(newJobView(j))
		}
		if w == nil {
			w = a.table("ID", "QUEUE", "TASK", "STATE", "PRI", "ATTEMPT", "WHEN", "PAYLOAD (OF THE DEAD: ERROR)")
		}
		row(w, j.ID.String(), j.Queue, j.Task, state(j), strconv.Itoa(int(j.Priority)), attempts(j), when(j, a.now()), gist(j))
		if n%page == 0 {
			return w.Flush()
		}
		return nil
	})
	if w != nil {
		if ferr := w.Flush(); err == nil {
			err = ferr
		}
	}
	switch {
	case errors.Is(err, errEnough):
		if ferr := a.out.Flush(); ferr != nil {
			return ferr
		}
		a.note("there are more: --limit %d is reached", limit)
		return nil
	case err == nil && n == 0 && !a.json:
		a.note("no jobs")
	}
	return err
}

// each calls fn for every job that f chooses, until it returns an error.
func each(ctx context.Context, c *spool.Client, f spool.Filter, fn func(*broker.Job) error) error {
	for j, err := range c.List(ctx, f) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := fn(&j); err != nil {
			return err
		}
	}
	return nil
}

type showCmd struct {
	ID      jobID `arg:"" name:"id" help:"Id of the job."`
	Payload bool  `xor:"bytes" help:"Print the payload alone, byte for byte."`
	Result  bool  `xor:"bytes" help:"Print the result alone, byte for byte."`
}

// Run shows the job.
func (c *showCmd) Run(a *app) error {
	return a.with(reading, func(ctx context.Context, client *spool.Client) error {
		job, err := client.Get(ctx, broker.ID(c.ID))
		if err != nil {
			return err
		}
		switch {
		case c.Payload:
			_, err := a.out.Write(job.Payload)
			return err
		case c.Result && !job.HasResult:
			return usagef("job %s has no result: it is %s", job.ID, job.State)
		case c.Result:
			_, err := a.out.Write(job.Result)
			return err
		}
		why, err := client.Broker().Explain(ctx, job.Ref())
		if err != nil {
			return err
		}
		if a.json {
			v := newJobView(&job)
			v.Explanation = ptr(newExplanationView(why))
			return a.object(v)
		}
		return a.details(&job, &why)
	})
}
