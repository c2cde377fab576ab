package spool

import (
	"context"
	"fmt"
	"iter"

	"github.com/spoolq/spool/broker"
)

// Get returns the job with that id; each queue is asked. ErrNotFound is returned
// when there is none (any more).
func (c *Client) Get(ctx context.Context, id ID) (Job, error) {
	queues, err := c.queues(ctx, "")
	if err != nil {
		return Job{}, fmt.Errorf("get job %s: %w", id, err)
	}
	refs := make([]broker.Ref, len(queues))
	for i, q := range queues {
		refs[i] = broker.Ref{Queue: q, ID: id}
	}
	if len(refs) == 0 {
		return Job{}, fmt.Errorf("get job %s: %w", id, ErrNotFound)
	}
	jobs, err := c.broker.Get(ctx, refs)
	if err != nil {
		return Job{}, fmt.Errorf("get job %s: %w", id, err)
	}
	for _, j := range jobs {
		if j.State != 0 {
			return j, nil
		}
	}
	return Job{}, fmt.Errorf("get job %s: %w", id, ErrNotFound)
}

func (c *Client) find(ctx context.Context, id ID) (broker.Ref, error) {
	job, err := c.Get(ctx, id)
	return job.Ref(), err
}

// pageJobs is how many jobs List asks for at a time.
const pageJobs = 200

// List returns the jobs that f chooses, payloads included: queue by queue, state
// by state in the order of a job's life, and in each in the order in which jobs
// entered it. Jobs that change state during the walk can be missed or seen
// twice. An error is the last thing that is yielded.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		if f.IDs != nil && len(f.IDs) == 0 {
			return
		}
		queues, err := c.queues(ctx, f.Queue)
		if err != nil {
			yield(Job{}, fmt.Errorf("list: %w", err))
			return
		}
		states := f.States
		if len(states) == 0 {
			states = broker.States[:]
		}
		for _, q := range queues {
			for _, s := range states {
				part := f
				part.Queue, part.States = q, []State{s}
				if !c.listState(ctx, part, yield) {
					return
				}
			}
		}
	}
}

// listState yields one state of one queue and reports whether to go on.
func (c *Client) listState(ctx context.Context, f Filter, yield func(Job, error) bool) bool {
	for cursor := ""; ; {
		page, err := c.broker.List(ctx, f, cursor, pageJobs)
		if err != nil {
			yield(Job{}, fmt.Errorf("list queue %s: %w", f.Queue, err))
			return false
		}
		for _, j := range page.Jobs {
			if !yield(j, nil) {
				return false
			}
		}
		if page.Cursor == "" {
			return true
		}
		cursor = page.Cursor
	}
}

// Counts returns the kept numbers by queue and task, sorted; queue "" means all.
// It costs the number of tasks, not of jobs.
func (c *Client) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	return c.broker.Counts(ctx, queue)
}

// Workers returns the workers that live; queue "" means all, else those that
// listen to it.
func (c *Client) Workers(ctx context.Context, queue string) ([]broker.Worker, error) {
	return c.broker.Workers(ctx, queue)
}

// Explain says why the job is not running now.
func (c *Client) Explain(ctx context.Context, id ID) (broker.Explanation, error) {
	ref, err := c.find(ctx, id)
	if err != nil {
		return broker.Explanation{}, err
	}
	return c.broker.Explain(ctx, ref)
}

// Watch returns events of the jobs that f chooses, or of changes of settings, from
// now on, from every client. They are hints for a display: a slow reader misses some. The channel
// is closed when ctx ends or the client is closed.
func (c *Client) Watch(ctx context.Context, f Filter) (<-chan broker.Event, error) {
	return c.broker.Watch(ctx, f)
}

// Health says how the store is.
func (c *Client) Health(ctx context.Context) (broker.Health, error) { return c.broker.Health(ctx) }
