package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// movedAway says of what a count or an explanation says of a queue whether its
// move to another store has ended.
func movedAway(moving string) bool { return strings.Contains(moving, "has moved to ") }

// afterMove is what there is to do about a queue that has moved away.
const afterMove = "use that store; spool migrate, with the same two stores, takes along what came here since, and with the two exchanged it moves the queue back"

// left is what a worker that drains has left of its queues and tasks.
type left struct {
	scheduled, ready, leased int64
	resting                  []broker.Count // a sum for each queue that gives out nothing
}

// leftBehind says what jobs a drain has left, and why.
func (c *workCmd) leftBehind(ctx context.Context, a *app, client *spool.Client) error {
	counts, err := client.Counts(ctx, "")
	if err != nil {
		return err
	}
	l := c.left(counts)
	for i := range l.resting {
		q := &l.resting[i]
		jobs := text.Plural(q.Scheduled+q.Ready, "job waits there", "jobs wait there")
		switch {
		case movedAway(q.Moving):
			a.note("queue %s %s, and no job of it is given out here: %s; %s", q.Queue, text.Safe(q.Moving), jobs, afterMove)
		case q.Moving != "":
			a.note("queue %s %s, and rests until the move has ended: %s", q.Queue, text.Safe(q.Moving), jobs)
		default:
			a.note("queue %s is paused until spool resume %s: %s", q.Queue, q.Queue, jobs)
		}
	}
	if l.ready > 0 {
		a.note("%s ready, and held back by a limit or an order, or new: spool explain ID says why", text.Plural(l.ready, "job is", "jobs are"))
	}
	if l.leased > 0 {
		a.note("%s elsewhere, or its worker has died and its lease has not ended", text.Plural(l.leased, "job still runs", "jobs still run"))
	}
	if l.scheduled == 0 {
		return nil
	}
	next, err := c.nextDue(ctx, client, a.now())
	if err == nil {
		a.note("%s left scheduled%s", text.Plural(l.scheduled, "job is", "jobs are"), next)
	}
	return err
}

// takes says whether the worker takes jobs of a queue and task.
func (c *workCmd) takes(queue, task string) bool {
	return (len(c.Queue) == 0 || slices.Contains(c.Queue, name(queue))) && (task == "" || len(c.Task) == 0 || slices.Contains(c.Task, name(task)))
}

// left sums up what the worker would have taken. A queue that rests counts when
// jobs wait in it, or when it was asked for.
func (c *workCmd) left(counts []broker.Count) (l left) {
	for i := range counts {
		n := &counts[i]
		if !c.takes(n.Queue, n.Task) {
			continue
		}
		l.leased += n.Leased
		if !n.Paused && n.Moving == "" {
			l.scheduled, l.ready = l.scheduled+n.Scheduled, l.ready+n.Ready
			continue
		}
		if n.Scheduled+n.Ready == 0 && len(c.Queue) == 0 {
			continue
		}
		if last := len(l.resting) - 1; last >= 0 && l.resting[last].Queue == n.Queue {
			l.resting[last].Scheduled += n.Scheduled
			l.resting[last].Ready += n.Ready
			continue
		}
		l.resting = append(l.resting, *n)
	}
	return l
}

// maxLook is how many scheduled jobs of a queue are looked at for the next one.
const maxLook = 1000

// nextDue says when the next scheduled job is due; of more than maxLook jobs, by
// when one is. A job that waits for others, not for a time, says nothing of it.
func (c *workCmd) nextDue(ctx context.Context, client *spool.Client, now time.Time) (string, error) {
	f := spool.Filter{States: []spool.State{spool.Scheduled}}
	if len(c.Queue) == 1 {
		f.Queue = string(c.Queue[0])
	}
	if len(c.Task) == 1 {
		f.Task = string(c.Task[0])
	}
	var next time.Time
	looked := 0
	for j, err := range client.List(ctx, f) {
		if err != nil {
			return "", err
		}
		if looked++; looked > maxLook {
			break
		}
		if c.takes(j.Queue, j.Task) && j.RunAt.After(now) && (next.IsZero() || j.RunAt.Before(next)) {
			next = j.RunAt
		}
	}
	switch {
	case next.IsZero():
		return "", nil
	case looked > maxLook:
		return ", one of them due in " + text.Span(next.Sub(now)) + " or sooner", nil
	}
	return ", the next due in " + text.Span(next.Sub(now)), nil
}
