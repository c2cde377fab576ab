package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// named looks up the jobs that a command names one by one, so that what it does
// not change can be told apart: a job that is not there has State 0.
func (c *choice) named(ctx context.Context, client *spool.Client) (jobs []spool.Job, err error) {
	if len(c.IDs) == 0 || !c.empty() {
		return nil, nil
	}
	seen := map[spool.ID]bool{}
	for _, id := range c.IDs {
		if id := spool.ID(id); !seen[id] {
			seen[id] = true
			job, err := client.Get(ctx, id)
			if err != nil && !errors.Is(err, spool.ErrNotFound) {
				return nil, err
			}
			job.ID = id
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// shownUnchanged is how many jobs that stay as they are get a line each.
const shownUnchanged = 10

// unchanged fails when a command changed fewer jobs than it names, and says in
// what state the others were, and what would do.
func (a *app) unchanged(jobs []spool.Job, changed int, cmd *broker.Command) error {
	if changed >= len(jobs) {
		return nil
	}
	end, rest := errSaid, 0
	for i := range jobs {
		j := &jobs[i]
		why := refusal(j, cmd.Kind)
		if why == "" {
			continue
		}
		if j.State == 0 {
			end = errNothing
		}
		if rest++; rest <= shownUnchanged {
			a.note("job %s %s", j.ID, why)
		}
	}
	switch {
	case rest == 0:
		a.note("%s changed meanwhile: spool show ID says what it is now", text.Plural(int64(len(jobs)-changed), "job", "jobs"))
	case rest > shownUnchanged:
		a.note("and %d more", rest-shownUnchanged)
	}
	return end
}

// refusal says why a command leaves a job as it is, and what would do; "" when
// it does not.
func refusal(j *spool.Job, kind broker.CommandKind) string {
	if j.State == 0 {
		return "is not there: it never was, was deleted, or is finished and no longer kept; spool list shows what is there"
	}
	switch kind {
	case broker.CancelJobs:
		return notCancelled(j)
	case broker.RequeueJobs:
		return notRequeued(j)
	case broker.DeleteJobs:
		return notDeleted(j)
	}
	return ""
}

func notCancelled(j *spool.Job) string {
	switch {
	case j.State == spool.Leased && j.CancelRequested:
		return fmt.Sprintf("is leased, and to be cancelled already: worker %s has been told", text.Safe(j.Worker))
	case j.State == spool.Done:
		return "is done: there is nothing left to cancel"
	case j.State == spool.Dead:
		return fmt.Sprintf("is dead, so that it does not run again: spool dead delete %s removes it, spool dead requeue %s runs it again", j.ID, j.ID)
	case j.State == spool.Cancelled:
		return fmt.Sprintf("is cancelled already (%s)", j.Reason)
	}
	return ""
}

func notRequeued(j *spool.Job) string {
	switch j.State {
	case spool.Scheduled:
		return "is scheduled, not dead: it runs by itself, and spool explain " + j.ID.String() + " says when"
	case spool.Ready:
		return "is ready, not dead: it runs by itself, and spool explain " + j.ID.String() + " says what it waits for"
	case spool.Leased:
		return "is leased, not dead: it runs now, and again by itself when that fails"
	case spool.Done:
		return "is done, not dead: to run it once more, enqueue it anew (spool show " + j.ID.String() + " --payload prints its payload)"
	case spool.Cancelled:
		return fmt.Sprintf("is cancelled (%s), not dead: to run it after all, enqueue it anew (spool show %s --payload prints its payload)", j.Reason, j.ID)
	}
	return ""
}

func notDeleted(j *spool.Job) string {
	switch j.State {
	case spool.Scheduled, spool.Ready, spool.Leased:
		return fmt.Sprintf("is %s, not dead: spool cancel %s ends it", j.State, j.ID)
	case spool.Done, spool.Cancelled:
		return fmt.Sprintf("is %s, not dead: it goes when its retention is over, or with spool purge %s --state=%s", j.State, j.Queue, j.State)
	}
	return ""
}
