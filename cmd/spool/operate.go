package main

import (
	"context"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

type cancelCmd struct {
	choice
	Reason exact `placeholder:"TEXT" help:"Why; it is kept with the jobs."`
}

// Help is shown by spool cancel --help.
func (*cancelCmd) Help() string {
	return "Jobs that wait end cancelled at once. Workers of jobs that run are told: such a job ends cancelled, or done when it finishes all the same."
}

// Run cancels.
func (c *cancelCmd) Run(a *app) error {
	return a.change(&c.choice, "cancelled", broker.Command{Kind: broker.CancelJobs, Reason: string(c.Reason)})
}

// change carries out a command on chosen jobs and says how many it changed.
func (a *app) change(c *choice, did string, cmd broker.Command) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	f.States = cmd.Filter.States
	cmd.Filter = f
	return a.with(changing, func(ctx context.Context, client *spool.Client) error {
		named, err := c.named(ctx, client)
		if err != nil {
			return err
		}
		n, err := client.Apply(ctx, cmd)
		if err != nil {
			a.note("%s %s before that", text.Plural(int64(n), "job was", "jobs were"), did)
			return err
		}
		if err := a.reportChanged(did, n); err != nil {
			return err
		}
		return a.unchanged(named, n, &cmd)
	})
}

type pauseCmd struct {
	Queue name `arg:"" help:"Name of the queue."`
}

// Run pauses the queue.
func (c *pauseCmd) Run(a *app) error { return a.gate(c.Queue, true) }

type resumeCmd struct {
	Queue name `arg:"" help:"Name of the queue."`
}

// Run resumes the queue.
func (c *resumeCmd) Run(a *app) error { return a.gate(c.Queue, false) }

// gate pauses or resumes a queue.
func (a *app) gate(queue name, shut bool) error {
	return a.with(changing, func(ctx context.Context, c *spool.Client) error {
		act, did := c.Resume, "resumed"
		if shut {
			act, did = c.Pause, "paused: running jobs go on, none is claimed until spool resume "+string(queue)
		}
		known, err := c.Counts(ctx, string(queue))
		if err != nil {
			return err
		}
		if err := act(ctx, string(queue)); err != nil {
			return err
		}
		if len(known) == 0 && shut {
			a.note("queue %s has had no jobs yet, and is paused for those to come: is that its name? spool stats lists the queues", queue)
		}
		if a.json {
			return a.object(map[string]any{"queue": queue, "paused": shut})
		}
		return a.printf("queue %s is %s", queue, did)
	})
}

type purgeCmd struct {
	Queue name        `arg:"" help:"Name of the queue."`
	State []stateName `short:"s" placeholder:"STATE" help:"Only jobs in these states; in all but leased when none is given."`
	Yes   bool        `short:"y" help:"Do it. Without this the command only says how many there are."`
}

// Run deletes the jobs of a queue.
func (c *purgeCmd) Run(a *app) error {
	f := spool.Filter{Queue: string(c.Queue), States: states(c.State)}
	if len(f.States) == 0 {
		f.States = []broker.State{broker.Scheduled, broker.Ready, broker.Done, broker.Dead, broker.Cancelled}
	}
	how := reading
	if c.Yes {
		how = changing
	}
	return a.with(how, func(ctx context.Context, client *spool.Client) error {
		if c.Yes {
			n, err := client.Delete(ctx, f)
			if err != nil {
				return err
			}
			if n > 0 && a.url == "" {
				a.note("the room they took on the disk comes back when the store is compacted: spool compact does it now")
			}
			return a.reportChanged("deleted", n)
		}
		counts, err := client.Counts(ctx, string(c.Queue))
		if err != nil {
			return err
		}
		n := int64(0)
		for i := range counts {
			for _, s := range f.States {
				n += counts[i].Of(s)
			}
		}
		return usagef("this would delete %s of queue %s: say --yes to do it", text.Plural(n, "job", "jobs"), c.Queue)
	})
}
