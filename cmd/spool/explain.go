package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

type explainCmd struct {
	ID jobID `arg:"" name:"id" help:"Id of the job."`
}

// Help is shown by spool explain --help.
func (*explainCmd) Help() string {
	return "The first that holds it back of: final, leased, batch, scheduled, paused, no_worker, limit, rate, behind; none when nothing does. " +
		"--json has reason and the details: until, after, behind, worker, limit, holders."
}

// explanationView is an explanation as --json prints it.
type explanationView struct {
	broker.Explanation
	After string `json:"after,omitempty"`
}

func newExplanationView(x broker.Explanation) explanationView {
	return explanationView{x, durationField(x.After)}
}

// explainedView is what explain prints with --json.
type explainedView struct {
	ID    broker.ID    `json:"id"`
	Queue string       `json:"queue"`
	Task  string       `json:"task"`
	State broker.State `json:"state"`
	explanationView
}

// Run says why the job does not run now.
func (c *explainCmd) Run(a *app) error {
	return a.with(reading, func(ctx context.Context, client *spool.Client) error {
		job, err := client.Get(ctx, broker.ID(c.ID))
		if err != nil {
			return err
		}
		x, err := client.Broker().Explain(ctx, job.Ref())
		if err != nil {
			return err
		}
		if a.json {
			return a.object(explainedView{job.ID, job.Queue, job.Task, job.State, newExplanationView(x)})
		}
		return a.explain(ctx, client, &job, &x)
	})
}

// explain says why a job does not run, and what would change that.
func (a *app) explain(ctx context.Context, client *spool.Client, j *broker.Job, x *broker.Explanation) error {
	if err := a.printf("%s: %s", x.Reason, text.Safe(x.Text)); err != nil {
		return err
	}
	if !x.Until.IsZero() {
		if err := a.printf("until %s", text.When(x.Until, a.now())); err != nil {
			return err
		}
	}
	if who := whoIs(ctx, client, j.Queue, x.Worker); who != "" {
		if err := a.printf("by %s", text.Safe(who)); err != nil {
			return err
		}
	}
	if x.Reason == broker.WhyFinal && j.Error != "" {
		if err := a.printf("error: %s", text.Line(j.Error, "       ")); err != nil {
			return err
		}
	}
	for _, h := range x.Holders {
		if err := a.printf("held by %s", h.ID); err != nil {
			return err
		}
	}
	if way := wayOut(j, x); way != "" {
		return a.printf("what would change it: %s", way)
	}
	return nil
}

// whoIs names a worker that lives, as stats lists it; "" when there is none of
// that id (a lease may be in the name of somebody who claimed by hand).
func whoIs(ctx context.Context, client *spool.Client, queue, id string) string {
	if id == "" {
		return ""
	}
	workers, err := client.Workers(ctx, queue)
	if err != nil {
		return "" // a nicety
	}
	for _, w := range workers {
		if w.ID == id {
			return fmt.Sprintf("%s on host %s, process %d", w.Name, w.Host, w.PID)
		}
	}
	return ""
}

// wayOut says what would let the job run, or run sooner.
func wayOut(j *broker.Job, x *broker.Explanation) string {
	switch x.Reason {
	case broker.WhyPaused:
		return "spool resume " + j.Queue
	case broker.WhyMoving:
		if movedAway(x.Text) {
			return afterMove
		}
		return "the end of the move: spool migrate, with the stores that it was given before, goes on with it"
	case broker.WhyNoWorker:
		return fmt.Sprintf("a worker for it, as spool work --queue %s --task %s --exec COMMAND, or a program that handles the task", j.Queue, j.Task)
	case broker.WhyLimit:
		if x.Limit == "" {
			return "the end of the job that holds its group: done, dead or cancelled"
		}
		return fmt.Sprintf("the end of a job that holds the limit, or another limit: spool limit set %s --queue %s", x.Limit, j.Queue)
	case broker.WhyRate:
		return fmt.Sprintf("time, or another rate: spool limit set %s --queue %s", x.Limit, j.Queue)
	case broker.WhyBehind:
		return "more workers, or spool weight, spool ageing or a higher priority for what is to go first"
	case broker.WhyScheduled:
		return "time alone: it is due in " + text.Span(max(x.After, time.Millisecond))
	case broker.WhyBatch:
		return "the end of the batch's other jobs: done, dead or cancelled"
	case broker.WhyLeased:
		if j.CancelRequested {
			return "the end of the run: its worker is asked to stop it"
		}
		return "the end of the run; spool cancel asks the worker to stop it"
	case broker.WhyFinal:
		if j.State == broker.Dead {
			return "spool dead requeue " + j.ID.String()
		}
		return fmt.Sprintf("an enqueue anew, since it is final (spool show %s --payload prints its payload)", j.ID)
	}
	return ""
}
