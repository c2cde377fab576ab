package spool

import (
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// Enqueuer takes jobs: a *Client, the *Lease of the running job (follow-ups: the
// jobs exist once its ack commits), or a fake.
type Enqueuer interface {
	Enqueue(ctx context.Context, jobs ...Spec) ([]Enqueued, error)
}

// EnqueueFunc adds jobs to one queue. An interceptor (Config.OnEnqueue) wraps
// it: it may look, refuse with an error, add headers (each job's map is then
// its own), or change the jobs before it calls the next.
type EnqueueFunc func(ctx context.Context, queue string, jobs []broker.NewJob) ([]Enqueued, error)

// Enqueue adds jobs of any tasks. When it returns nil, all are durable; answers
// are in the order of jobs. Jobs of one queue are added all or none. Jobs of
// several queues are one commit for each queue, in the order in which the
// queues first appear: after an error, the answers with an ID are those of jobs
// that were added, and the error names the queue at which it stopped.
//
// Everything that needs no store is checked before anything is written: names,
// sizes, options, arguments (ErrInvalid, ErrTooLarge). When a capacity has no
// room for the jobs of a queue, Config.WhenFull decides.
func (c *Client) Enqueue(ctx context.Context, jobs ...Spec) ([]Enqueued, error) {
	groups, err := c.prepare(jobs, 0)
	if err != nil {
		return nil, err
	}
	answers := make([]Enqueued, len(jobs))
	for _, g := range groups {
		got, err := c.intercept(c.commit)(ctx, g.queue, g.jobs)
		if err == nil && len(got) != len(g.jobs) {
			err = fmt.Errorf("%d answers came back for %d jobs", len(got), len(g.jobs))
		}
		if err != nil {
			return answers, fmt.Errorf("enqueue to %s: %w", g.queue, err)
		}
		for i, at := range g.at {
			answers[at] = got[i]
		}
	}
	return answers, nil
}

// queueJobs are the jobs of one call that go to one queue.
type queueJobs struct {
	queue string
	jobs  []broker.NewJob
	at    []int // their places in the call
	bytes int
}

// prepare encodes and checks specs and sorts them by queue.
func (c *Client) prepare(specs []Spec, depth int) ([]*queueJobs, error) {
	var groups []*queueJobs
	var g *queueJobs
	for i := range specs {
		s := &specs[i]
		job, err := s.encode(c, depth)
		if err != nil {
			return nil, fmt.Errorf("enqueue: job %d of %d: %w", i+1, len(specs), err)
		}
		if g == nil || g.queue != s.job.queue {
			if g = find(groups, s.job.queue); g == nil {
				if err := broker.ValidName(s.job.queue); err != nil {
					return nil, fmt.Errorf("enqueue: %w: queue name %w", ErrInvalid, err)
				}
				g = &queueJobs{queue: s.job.queue}
				g.jobs, g.at = make([]broker.NewJob, 0, len(specs)-i), make([]int, 0, len(specs)-i)
				groups = append(groups, g)
			}
		}
		g.jobs, g.at, g.bytes = append(g.jobs, job), append(g.at, i), g.bytes+job.Size()
	}
	for _, g := range groups {
		if len(g.jobs) > c.caps.MaxBatch || g.bytes > c.caps.MaxBytes {
			return nil, fmt.Errorf("enqueue: %w: %d jobs of %d bytes for queue %s, the limits of one call are %d and %d",
				ErrTooLarge, len(g.jobs), g.bytes, g.queue, c.caps.MaxBatch, c.caps.MaxBytes)
		}
	}
	return groups, nil
}

func find(groups []*queueJobs, queue string) *queueJobs {
	for _, g := range groups {
		if g.queue == queue {
			return g
		}
	}
	return nil
}

// intercept puts the client's interceptors around last.
func (c *Client) intercept(last EnqueueFunc) EnqueueFunc {
	for i := len(c.onEnqueue) - 1; i >= 0; i-- {
		last = c.onEnqueue[i](last)
	}
	return last
}

// recheck looks again at jobs that interceptors may have changed.
func (c *Client) recheck(jobs []broker.NewJob) error {
	if len(c.onEnqueue) == 0 {
		return nil
	}
	for i := range jobs {
		if err := jobs[i].Validate(c.payloadMax); err != nil {
			return fmt.Errorf("task %s, after the interceptors: %w", jobs[i].Task, err)
		}
	}
	return nil
}
