package spool

import (
	"context"
	"fmt"
)

// Batch is the answer of EnqueueBatch.
type Batch struct {
	ID      ID   // of the completion job
	Members []ID // in the order of the call
}

// EnqueueBatch adds members and done, their completion job, in one commit. done
// waits until each member had its first final state: done, dead or cancelled
// (deleted is one, too); a requeue of a member changes nothing. Then it is a
// ready job like any other.
//
// To look the members up, its handler needs their ids (Batch.Members), and they
// need a Retain, since a done job without a result is dropped at once. Job.Batch
// of a member is the id of the completion job.
//
// All jobs belong to one queue, and to one call: at most Caps.MaxBatch jobs. A
// job of a batch cannot have a key, since a job that holds the key already, and
// stands in for it, might be in no batch; done cannot have a Delay or At.
// ErrInvalid is returned for these, and for a batch without members.
func (c *Client) EnqueueBatch(ctx context.Context, done Spec, members ...Spec) (Batch, error) {
	batch, err := c.prepareBatch(done, members)
	if err != nil {
		return Batch{}, fmt.Errorf("enqueue batch: %w", err)
	}
	jobs := batch.jobs
	answers, err := c.intercept(c.commit)(ctx, batch.queue, jobs)
	if err == nil && len(answers) != len(jobs) {
		err = fmt.Errorf("%d answers came back for %d jobs", len(answers), len(jobs))
	}
	if err != nil {
		return Batch{}, fmt.Errorf("enqueue batch to %s: %w", batch.queue, err)
	}
	b := Batch{ID: answers[0].ID, Members: make([]ID, len(members))}
	for i := range members {
		b.Members[i] = answers[i+1].ID
	}
	return b, nil
}

// prepareBatch encodes and checks a batch: the completion job is the first.
func (c *Client) prepareBatch(done Spec, members []Spec) (*queueJobs, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("%w: it has no members", ErrInvalid)
	}
	all := append([]Spec{done}, members...)
	for i := range all {
		s, what := &all[i], "the completion job"
		if i > 0 {
			what = fmt.Sprintf("member %d of %d", i, len(members))
		}
		switch {
		case s.Task() == "":
			return nil, fmt.Errorf("%w: %s is missing: make it with Task.With or Raw", ErrInvalid, what)
		case s.job.queue != done.job.queue:
			return nil, fmt.Errorf("%w: %s belongs to queue %s, the completion job to %s: a batch is in one queue", ErrInvalid, what, s.job.queue, done.job.queue)
		case s.job.job.Key != "":
			return nil, fmt.Errorf("%w: %s (%s) has the key %q: a job of a batch cannot have one", ErrInvalid, what, s.Task(), s.job.job.Key)
		case i == 0 && (s.job.job.Delay != 0 || !s.job.job.At.IsZero()):
			return nil, fmt.Errorf("%w: the completion job has a Delay or At, but it waits for the members", ErrInvalid)
		}
	}
	groups, err := c.prepare(all, 0)
	if err != nil {
		return nil, err
	}
	jobs := groups[0].jobs
	jobs[0].BatchSize = uint32(len(members))
	for i := range members {
		jobs[i+1].Batch, jobs[i+1].BatchOrdinal = jobs[0].ID, uint32(i)
	}
	return groups[0], nil
}
