package spool

import (
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// Cancel ends the chosen jobs that wait as cancelled, and asks the workers of
// those that run to stop: such a job ends cancelled, or done when its handler
// finishes all the same. It returns how many jobs it changed. Final jobs are
// left as they are. A zero Filter chooses all jobs of all queues.
func (c *Client) Cancel(ctx context.Context, f Filter) (int, error) {
	return c.Apply(ctx, broker.Command{Kind: broker.CancelJobs, Filter: f})
}

// Requeue makes the chosen dead and cancelled jobs ready again, with fresh
// attempts, and returns how many. Others are left as they are: what waits or
// runs needs no requeue, and what is done is enqueued anew.
func (c *Client) Requeue(ctx context.Context, f Filter) (int, error) {
	return c.Apply(ctx, broker.Command{Kind: broker.RequeueJobs, Filter: f})
}

// Delete removes the chosen jobs, those that run excepted, and returns how many.
// A zero Filter chooses all jobs of all queues.
func (c *Client) Delete(ctx context.Context, f Filter) (int, error) {
	return c.Apply(ctx, broker.Command{Kind: broker.DeleteJobs, Filter: f})
}

// Pause stops the claiming of jobs of the queue, in every process, until Resume.
// Jobs that run go on.
func (c *Client) Pause(ctx context.Context, queue string) error {
	return c.applyQueue(ctx, broker.PauseQueue, queue)
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, queue string) error {
	return c.applyQueue(ctx, broker.ResumeQueue, queue)
}

func (c *Client) applyQueue(ctx context.Context, kind broker.CommandKind, queue string) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", ErrInvalid, err)
	}
	_, err := c.Apply(ctx, broker.Command{Kind: kind, Filter: Filter{Queue: queue}})
	return err
}

// Apply carries out a command in steps until it is finished, for every queue
// when its filter names none, and returns how many jobs it changed, also
// beside an error. A step is one commit; jobs that come to match while it runs
// may be left out. IDs that are empty but not nil choose no job.
func (c *Client) Apply(ctx context.Context, cmd broker.Command) (changed int, err error) {
	if cmd.Filter.IDs != nil && len(cmd.Filter.IDs) == 0 {
		return 0, nil
	}
	queues, err := c.queues(ctx, cmd.Filter.Queue)
	if err != nil {
		return 0, err
	}
	for _, q := range queues {
		step := cmd
		step.Filter.Queue = q
		for {
			var done broker.Step
			err := c.repeat(ctx, func(call broker.Call) (err error) {
				done, err = c.broker.Apply(ctx, call, step)
				return err
			})
			if err != nil {
				return changed, fmt.Errorf("queue %s: %w", q, err)
			}
			changed += done.Changed
			if step.Cursor = done.Cursor; step.Cursor == "" {
				break
			}
		}
	}
	return changed, nil
}
