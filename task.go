package spool

import (
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// Task is a declared sort of job: a name, the type of its arguments, and the
// defaults of its jobs. It is made by Define, holds no store, and is safe for
// concurrent use; producer and worker share it, usually as a package variable.
type Task[In any] struct {
	spec                     taskSpec
	results                  bool
	keyBy, tenantBy, groupBy func(In) string
}

// Define declares a task. Arguments are encoded by the client's codec, []byte
// is stored as it is. Arguments may grow by fields; another shape is another
// task name.
//
// Define keeps no registry. It panics when the name or an option is bad, as
// regexp.MustCompile does: a declaration is part of the program's text.
func Define[In any](name string, opts ...TaskOption) *Task[In] {
	t := &Task[In]{}
	t.spec.queue = DefaultQueue
	t.spec.job.Task = name
	for _, o := range opts {
		o.applyTask(&t.spec)
	}
	if t.spec.keySet {
		t.spec.fail("a key for all jobs of the task would let only one wait: use KeyBy")
	}
	t.keyBy = typedBy[In](&t.spec, "KeyBy", t.spec.keyBy)
	t.tenantBy = typedBy[In](&t.spec, "TenantBy", t.spec.tenantBy)
	t.groupBy = typedBy[In](&t.spec, "GroupBy", t.spec.groupBy)
	err := t.spec.err
	if err == nil {
		err = t.spec.job.Validate(0)
	}
	if err != nil {
		panic(fmt.Sprintf("spool: Define(%q): %v", name, err))
	}
	t.spec.retry = orDefault(t.spec.retry)
	return t
}

func orDefault(p RetryPolicy) RetryPolicy {
	if p == nil {
		return Exponential{}
	}
	return p
}

// typedBy checks that a selector takes the task's own type.
func typedBy[In any](t *taskSpec, option string, fn any) func(In) string {
	if fn == nil {
		return nil
	}
	typed, ok := fn.(func(In) string)
	if !ok || typed == nil {
		t.fail("%s takes a %T, the task needs a %T that is not nil", option, fn, typed)
	}
	return typed
}

// Name returns the task's name.
func (t *Task[In]) Name() string { return t.spec.job.Task }

// With returns a job of the task, for a mixed Enqueue. Bad options and
// arguments show when it is enqueued.
func (t *Task[In]) With(in In, opts ...JobOption) Spec {
	s := t.base(opts)
	t.set(&s, in)
	return s
}

// base is a job of the task without arguments.
func (t *Task[In]) base(opts []JobOption) Spec {
	s := Spec{job: t.spec.jobSpec.nextLevel(), results: t.results}
	for _, o := range opts {
		o.applyJob(&s.job)
	}
	return s
}

// set gives s, which base made, its arguments and what follows from them.
func (t *Task[In]) set(s *Spec, in In) {
	s.args = in
	if t.keyBy != nil && !s.job.keySet {
		if s.job.job.Key = t.keyBy(in); s.job.job.Key == "" {
			s.job.job.KeyRepeat, s.job.job.KeyHold, s.job.job.KeyFor = broker.RepeatFirst, broker.HoldUntilFinal, 0 // of no key
		}
	}
	if t.tenantBy != nil && !s.job.tenantSet {
		s.job.job.Tenant = t.tenantBy(in)
	}
	if t.groupBy != nil && !s.job.groupSet {
		s.job.job.Group = t.groupBy(in)
	}
}

// Enqueue adds one job: see Client.Enqueue for what is promised.
func (t *Task[In]) Enqueue(ctx context.Context, to Enqueuer, in In, opts ...JobOption) (Enqueued, error) {
	answers, err := to.Enqueue(ctx, t.With(in, opts...))
	if err != nil {
		return Enqueued{}, err
	}
	if len(answers) != 1 {
		return Enqueued{}, fmt.Errorf("enqueue %s: %d answers came back for one job", t.Name(), len(answers))
	}
	return answers[0], nil
}

// Decode returns the arguments of a job of this task, as its handler would get
// them.
func (t *Task[In]) Decode(c *Client, job Job) (in In, err error) {
	err = c.codecs.decode(job.Headers[headerCodec], job.Payload, &in)
	return in, err
}

// Handle makes w run fn for the jobs of the task: see Worker for what fn's
// context carries and what its error does. Arguments that do not decode are a
// failed attempt. It panics when w handles a task of that name already.
func (t *Task[In]) Handle(w *Worker, fn func(context.Context, In) error) {
	w.handle(&t.spec, func(ctx context.Context, l *Lease) error {
		in, err := t.Decode(l.client, l.Job)
		if err != nil {
			return err
		}
		return fn(ctx, in)
	})
}
