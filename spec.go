package spool

import (
	"fmt"
	"strconv"

	"github.com/spoolq/spool/broker"
)

// Spec is one job to enqueue, made by Task.With or Raw: its task, options and
// arguments, not encoded yet. It may be enqueued more than once, and from
// several goroutines as long as nobody changes what its arguments point to.
type Spec struct {
	job     jobSpec
	args    any
	raw     bool // args is the payload, a []byte, of no declared codec
	results bool // the task has results
}

// Raw returns a job with a payload of any bytes, for a task of that name. It
// names no codec: a handler that takes []byte gets the payload as it is,
// another reads it as JSON.
func Raw(task string, payload []byte, opts ...JobOption) Spec {
	s := Spec{args: payload, raw: true}
	s.job.job.Task = task
	s.job.queue = DefaultQueue
	for _, o := range opts {
		o.applyJob(&s.job)
	}
	return s
}

// Task returns the name of the job's task.
func (s Spec) Task() string { return s.job.job.Task }

// Queue returns the name of the job's queue.
func (s Spec) Queue() string { return s.job.queue }

// Key returns the job's idempotency key; "" means none.
func (s Spec) Key() string { return s.job.job.Key }

// Args returns the arguments as they were given, for a fake Enqueuer to look at.
func (s Spec) Args() any { return s.args }

// encode makes the job for the broker: encoded, with our headers and an id, and
// checked as far as that needs no store. depth is that of the chain of
// follow-ups that it goes on.
func (s *Spec) encode(c *Client, depth int) (broker.NewJob, error) {
	job := s.job.job
	if err := s.job.check(); err != nil {
		return job, fmt.Errorf("task %s: %w", job.Task, err)
	}
	codec := ""
	if s.raw {
		job.Payload, _ = s.args.([]byte)
	} else {
		var err error
		if job.Payload, codec, err = c.codecs.encode(c.codecs.first, s.args); err != nil {
			return job, fmt.Errorf("task %s: %w", job.Task, err)
		}
	}
	result := ""
	if s.results && codec == rawName {
		result = c.codecs.first.Name()
	}
	job.Headers = c.headers(job.Headers, codec, result, depth)
	if err := job.Validate(c.payloadMax); err != nil {
		return job, fmt.Errorf("task %s: %w", job.Task, err)
	}
	if job.ID.IsZero() {
		job.MakeID()
	}
	return job, nil
}

// check returns the first bad option, or what the options want of each other.
func (s *jobSpec) check() error {
	switch {
	case s.err != nil:
		return s.err
	case s.job.Key == "" && s.job.KeyHold != broker.HoldUntilFinal:
		return fmt.Errorf("%w: KeyWindow and KeyUntilStarted need a Key or KeyBy: they say how long the key is held", ErrInvalid)
	case s.job.KeyRepeat == broker.RepeatFirst:
		return nil
	}
	name := "Replace"
	if s.job.KeyRepeat == broker.RepeatDebounce {
		name = "Debounce"
	}
	switch {
	case s.job.Key == "":
		return fmt.Errorf("%w: %s needs a Key or KeyBy: it is about the job that holds the key", ErrInvalid, name)
	case name == "Debounce" && s.job.Delay == 0 && s.job.At.IsZero() && !s.delaySet:
		return fmt.Errorf("%w: Debounce needs a Delay (or At): how long after the last call the job runs", ErrInvalid)
	}
	return nil
}

// headers joins the caller's headers with ours. Jobs without headers of their
// own share one map while no interceptor could write to it.
func (c *Client) headers(own map[string]string, codec, result string, depth int) map[string]string {
	if len(own) == 0 && result == "" && depth == 0 && len(c.onEnqueue) == 0 {
		if h := c.plain[codec]; h != nil {
			return h
		}
	}
	h := make(map[string]string, len(own)+4)
	for k, v := range own {
		h[k] = v
	}
	h[headerVersion] = version
	if codec != "" {
		h[headerCodec] = codec
	}
	if result != "" {
		h[headerResult] = result
	}
	if depth > 0 {
		h[headerDepth] = strconv.Itoa(depth)
	}
	return h
}
