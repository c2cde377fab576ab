package spool

import (
	"context"
	"fmt"
	"iter"

	"github.com/spoolq/spool/broker"
)

// EnqueueMany adds a job for each value of in, with the same options. It takes
// values as it goes and commits them in chunks as large as the broker allows,
// each all or none; a client that waits for room (Block) makes them smaller when
// a queue is full. It returns how many leading values are durable (of a Lease:
// are recorded). After an error it reads in no further, and the caller may go
// on from value n.
func (t *Task[In]) EnqueueMany(ctx context.Context, to Enqueuer, in iter.Seq[In], opts ...JobOption) (n int, err error) {
	base := t.base(opts)
	if base.job.keySet {
		return 0, fmt.Errorf("enqueue many %s: %w: one key for all jobs would let only one wait: use KeyBy", t.Name(), ErrInvalid)
	}
	var ch chunk
	if own, ok := to.(taker); ok {
		c, depth, err := own.encoder()
		if err != nil {
			return 0, fmt.Errorf("enqueue many %s: %w", t.Name(), err)
		}
		ch = &jobChunk{to: own, client: c, depth: depth, queue: base.job.queue}
	} else {
		ch = &specChunk{to: to}
	}
	for v := range in {
		s := base
		t.set(&s, v)
		n, err = ch.add(ctx, &s)
		if err != nil {
			return n, fmt.Errorf("enqueue many: after %d jobs: %w", n, err)
		}
	}
	n, err = ch.flush(ctx)
	if err != nil {
		return n, fmt.Errorf("enqueue many: after %d jobs: %w", n, err)
	}
	return n, nil
}

// taker is an Enqueuer of ours.
type taker interface {
	// encoder returns who encodes jobs, and how deep in a chain of follow-ups
	// they are.
	encoder() (c *Client, depth int, err error)
	// take adds jobs that are encoded and checked, through the interceptors, and
	// returns how many leading ones it added.
	take(ctx context.Context, queue string, jobs []broker.NewJob) (n int, err error)
}

func (c *Client) encoder() (*Client, int, error) { return c, 0, nil }

// take adds jobs in one call, unless it is to wait for room: then in as many as
// it takes, since so many may never have room at once.
func (c *Client) take(ctx context.Context, queue string, jobs []broker.NewJob) (n int, err error) {
	size := len(jobs)
	for n < len(jobs) {
		part := jobs[n:min(n+size, len(jobs))]
		add := c.commit
		if len(part) > 1 {
			add = c.offer
		}
		switch _, err := c.intercept(add)(ctx, queue, part); {
		case err == nil:
			n, size = n+len(part), 2*len(part)
		case c.whenFull == Block && len(part) > 1 && fullError(err) != nil:
			size = len(part) / 2
		default:
			return n, fmt.Errorf("enqueue to %s: %w", queue, err)
		}
	}
	return n, nil
}

// chunk gathers jobs; both methods return how many are committed so far.
type chunk interface {
	add(ctx context.Context, s *Spec) (int, error)
	flush(ctx context.Context) (int, error)
}

// jobChunk fills calls to a Client or a Lease.
type jobChunk struct {
	to          taker
	client      *Client
	depth       int
	queue       string
	jobs        []broker.NewJob
	bytes, done int
}

func (ch *jobChunk) add(ctx context.Context, s *Spec) (int, error) {
	job, err := s.encode(ch.client, ch.depth)
	if err != nil {
		return ch.done, fmt.Errorf("job %d: %w", ch.done+len(ch.jobs)+1, err)
	}
	caps, size := &ch.client.caps, job.Size()
	if len(ch.jobs) >= caps.MaxBatch || ch.bytes+size > caps.MaxBytes {
		if n, err := ch.flush(ctx); err != nil {
			return n, err
		}
	}
	if ch.jobs == nil {
		ch.jobs = make([]broker.NewJob, 0, min(caps.MaxBatch, 1000))
	}
	ch.jobs, ch.bytes = append(ch.jobs, job), ch.bytes+size
	return ch.done, nil
}

func (ch *jobChunk) flush(ctx context.Context) (int, error) {
	if len(ch.jobs) == 0 {
		return ch.done, nil
	}
	n, err := ch.to.take(ctx, ch.queue, ch.jobs)
	if ch.done += n; err != nil {
		return ch.done, err
	}
	clear(ch.jobs) // let go of the payloads
	ch.jobs, ch.bytes = ch.jobs[:0], 0
	return ch.done, nil
}

// fakeBatch is the chunk for an Enqueuer that is not ours.
const fakeBatch = 1000

// specChunk fills calls to any Enqueuer.
type specChunk struct {
	to    Enqueuer
	specs []Spec
	done  int
}

func (ch *specChunk) add(ctx context.Context, s *Spec) (int, error) {
	if len(ch.specs) == fakeBatch {
		if n, err := ch.flush(ctx); err != nil {
			return n, err
		}
	}
	ch.specs = append(ch.specs, *s)
	return ch.done, nil
}

func (ch *specChunk) flush(ctx context.Context) (int, error) {
	if len(ch.specs) == 0 {
		return ch.done, nil
	}
	if _, err := ch.to.Enqueue(ctx, ch.specs...); err != nil {
		return ch.done, err
	}
	ch.done += len(ch.specs)
	ch.specs = nil // the Enqueuer may have kept it
	return ch.done, nil
}
