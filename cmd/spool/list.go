package main

import (
	"context"
	"errors"
	"strconv"
	"text/tabwriter"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cmd/spool/internal/text"
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
			v.Explanation = &why
			return a.object(v)
		}
		return a.details(&job, &why)
	})
}

type statsCmd struct {
	Queue name `short:"q" placeholder:"NAME" help:"Of this queue."`
}

// statsView is what stats prints with --json.
type statsView struct {
	Health  broker.Health   `json:"health"`
	Counts  []broker.Count  `json:"counts"`
	Workers []broker.Worker `json:"workers"`
}

// Run shows the numbers.
func (c *statsCmd) Run(a *app) error {
	return a.with(reading, func(ctx context.Context, client *spool.Client) (err error) {
		v := statsView{Counts: []broker.Count{}, Workers: []broker.Worker{}}
		if v.Health, err = client.Health(ctx); err != nil {
			return err
		}
		counts, err := client.Counts(ctx, string(c.Queue))
		if err != nil {
			return err
		}
		workers, err := client.Workers(ctx, string(c.Queue))
		if err != nil {
			return err
		}
		v.Counts, v.Workers = append(v.Counts, counts...), append(v.Workers, workers...)
		if a.json {
			return a.object(v)
		}
		return a.stats(&v)
	})
}

func (a *app) stats(v *statsView) error {
	health := string(v.Health.Status)
	if v.Health.Text != "" {
		health += ": " + text.Safe(v.Health.Text)
	}
	if err := a.printf("store %s is %s", a.dir, health); err != nil {
		return err
	}
	if len(v.Counts) > 0 {
		w := a.table("\nQUEUE", "TASK", "SCHEDULED", "READY", "LEASED", "DONE", "DEAD", "CANCELLED", "| EVER ENQUEUED", "ACKED", "FAILED", "EXPIRED", "DIED")
		for _, n := range v.Counts {
			queue := n.Queue
			if n.Paused {
				queue += " (paused)"
			}
			cells := []string{queue, n.Task}
			for _, s := range broker.States {
				cells = append(cells, text.Count(n.Of(s)))
			}
			t := n.Totals
			row(w, append(cells, "| "+text.Count(t.Enqueued), text.Count(t.Acked), text.Count(t.Failed), text.Count(t.Expired), text.Count(t.Died))...)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(v.Workers) == 0 {
		return a.printf("\nno live workers")
	}
	w := a.table("\nWORKER", "HOST", "PID", "QUEUES", "TASKS", "RUNNING", "STARTED")
	for _, k := range v.Workers {
		row(w, text.Safe(k.Name), text.Safe(k.Host), strconv.Itoa(k.PID), names(k.Queues, "every queue"), names(k.Tasks, "any task"),
			strconv.Itoa(k.Leases)+"/"+strconv.Itoa(k.Concurrency), text.Ago(k.StartedAt, a.now()))
	}
	return w.Flush()
}

// names joins names for a table, and cuts a long list.
func names(list []string, none string) string {
	const most = 4
	s := none
	for i, n := range list {
		switch {
		case i == 0:
			s = n
		case i == most:
			return s + " and " + strconv.Itoa(len(list)-most) + " more"
		default:
			s += "," + n
		}
	}
	return s
}
