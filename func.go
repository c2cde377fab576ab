package spool

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// Func is a task with a result, made by DefineFunc. Its result is kept for an
// hour after the job is done, unless Retain says otherwise.
type Func[In, Out any] struct{ Task[In] }

// DefineFunc declares a task with a result: see Define.
func DefineFunc[In, Out any](name string, opts ...TaskOption) *Func[In, Out] {
	f := &Func[In, Out]{Task: *Define[In](name, opts...)}
	f.results = true
	return f
}

// Handle makes w run fn for the jobs of the task, and keeps what it returns with
// a nil error as the job's result. A result that cannot be encoded, or is over
// the client's PayloadMax, is a failed attempt.
func (f *Func[In, Out]) Handle(w *Worker, fn func(context.Context, In) (Out, error)) {
	w.handle(&f.spec, func(ctx context.Context, l *Lease) error {
		in, err := f.Decode(l.client, l.Job)
		if err != nil {
			return err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return err
		}
		result, err := l.client.encodeResult(l.Job, out)
		if err != nil {
			return err
		}
		return l.SetResult(result)
	})
}

// encodeResult encodes with the codec that the job names.
func (c *Client) encodeResult(job Job, out any) ([]byte, error) {
	codec, err := c.codecs.result(job.Headers)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	b, name, err := c.codecs.encode(codec, out)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if name == rawName {
		b = bytes.Clone(b) // it is settled after the handler has gone on
	}
	if b == nil {
		b = []byte{} // nil would mean that there is none
	}
	return b, nil
}

// Enqueue adds one job and returns what to wait for its result with.
func (f *Func[In, Out]) Enqueue(ctx context.Context, to Enqueuer, in In, opts ...JobOption) (Pending[Out], error) {
	spec := f.With(in, opts...)
	answers, err := to.Enqueue(ctx, spec)
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("enqueue %s: %d answers came back for one job", f.Name(), len(answers))
	}
	if err != nil {
		return Pending[Out]{}, err
	}
	c, _ := to.(*Client)
	return Pending[Out]{Enqueued: answers[0], client: c, queue: spec.Queue()}, nil
}

// Await waits for the result of a job that any process enqueued, as
// Pending.Await does.
func (f *Func[In, Out]) Await(ctx context.Context, c *Client, id ID) (out Out, err error) {
	ref, err := c.find(ctx, id)
	if err != nil {
		return out, err
	}
	return await[Out](ctx, c, ref)
}

// Pending is a job whose result can be waited for.
type Pending[Out any] struct {
	Enqueued
	client *Client
	queue  string
}

// Await waits until the job is final and returns its result. A job that ended
// without one gives a *JobError. ErrNotFound is returned when the job is gone:
// deleted, or dropped after its retention. A job that was enqueued through a
// Lease or a fake cannot be waited for here: use Func.Await.
func (p Pending[Out]) Await(ctx context.Context) (out Out, err error) {
	if p.client == nil {
		return out, fmt.Errorf("await: %w: the job was not enqueued through a client", ErrUnsupported)
	}
	return await[Out](ctx, p.client, broker.Ref{Queue: p.queue, ID: p.ID})
}

// awaitStep is how long one call to the broker waits.
const awaitStep = 30 * time.Second

func await[Out any](ctx context.Context, c *Client, ref broker.Ref) (out Out, err error) {
	for {
		jobs, err := c.broker.Await(ctx, []broker.Ref{ref}, awaitStep)
		if err != nil {
			return out, fmt.Errorf("await job %s: %w", ref.ID, err)
		}
		if len(jobs) == 0 {
			continue
		}
		job := jobs[0]
		if job.State == 0 {
			return out, fmt.Errorf("await job %s: %w", ref.ID, ErrNotFound)
		}
		if !job.State.Final() {
			continue
		}
		return decodeResult[Out](c, job)
	}
}

func decodeResult[Out any](c *Client, job Job) (out Out, err error) {
	if job.State != Done || !job.HasResult {
		return out, &JobError{Job: job}
	}
	codec, err := c.codecs.result(job.Headers)
	if err != nil {
		return out, fmt.Errorf("result of job %s: %w", job.ID, err)
	}
	name := codec.Name()
	if _, raw := any(&out).(*[]byte); raw {
		name = rawName
	}
	if err := c.codecs.decode(name, job.Result, &out); err != nil {
		return out, fmt.Errorf("result of job %s: %w", job.ID, err)
	}
	return out, nil
}

// JobError is returned by Await when the job ended without a result.
type JobError struct {
	Job Job // as it ended: State, Reason and Error say how
}

// Error names the job, its state and the text of its last failure.
func (e *JobError) Error() string {
	s := fmt.Sprintf("spool: job %s is %s", e.Job.ID, e.Job.State)
	if e.Job.State == Done {
		return s + " without a result"
	}
	if e.Job.Reason != "" {
		s += " (" + e.Job.Reason + ")"
	}
	if e.Job.Error != "" {
		s += ": " + e.Job.Error
	}
	return s
}
