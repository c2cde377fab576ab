package spool

import (
	"fmt"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// DefaultQueue is the queue of a job whose task and call name none.
const DefaultQueue = "default"

// TaskOption is an option of Define and DefineFunc.
type TaskOption interface{ applyTask(*taskSpec) }

// JobOption is an option of one job, and, given to Define, the default for all
// jobs of the task: the call decides before the task.
type JobOption interface {
	TaskOption
	applyJob(*jobSpec)
}

// taskSpec is what a declaration says beside its types.
type taskSpec struct {
	jobSpec
	retry                    RetryPolicy
	keyBy, tenantBy, groupBy any // func(In) string
	limits                   []taskLimit
}

// jobSpec is a job before its arguments are encoded.
type jobSpec struct {
	queue string
	job   broker.NewJob
	// The options of this level (the declaration, or the call): the call's
	// Delay replaces the declaration's At, but one level may not have both.
	delaySet, atSet, keySet, tenantSet, groupSet, repeatSet bool
	err                                                     error // the first bad option
}

// nextLevel forgets which options were set, and by its copy leaves the
// declaration as it was.
func (s jobSpec) nextLevel() jobSpec {
	s.delaySet, s.atSet, s.keySet, s.tenantSet, s.groupSet, s.repeatSet = false, false, false, false, false, false
	return s
}

func (s *jobSpec) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
}

type jobOption func(*jobSpec)

func (o jobOption) applyJob(s *jobSpec)   { o(s) }
func (o jobOption) applyTask(t *taskSpec) { o(&t.jobSpec) }

type taskOption func(*taskSpec)

func (o taskOption) applyTask(t *taskSpec) { o(t) }

// Queue names the queue; the default is DefaultQueue.
func Queue(name string) JobOption {
	return jobOption(func(s *jobSpec) {
		if err := broker.ValidName(name); err != nil {
			s.fail("queue name %w", err)
		}
		s.queue = name
	})
}

// Priority orders the jobs of a queue: higher first, default 0.
func Priority(p int32) JobOption { return jobOption(func(s *jobSpec) { s.job.Priority = p }) }

// Delay makes the job due that long after the store takes it; 0 means at once.
// It is counted by the store's clock and cannot be joined with At.
func Delay(d time.Duration) JobOption {
	return jobOption(func(s *jobSpec) {
		s.job.Delay, s.delaySet = d, true
		if !s.atSet {
			s.job.At = time.Time{}
		}
	})
}

// At makes the job due at a time of the wall clock; a time that is past means
// at once. It cannot be joined with Delay.
func At(t time.Time) JobOption {
	return jobOption(func(s *jobSpec) {
		if t.IsZero() {
			s.fail("the time of At is zero")
		}
		s.job.At, s.atSet = t, true
		if !s.delaySet {
			s.job.Delay = 0
		}
	})
}

// Key makes the enqueue idempotent: while a job of the same task and queue
// holds the key, the enqueue adds nothing and answers with that job (Existing,
// and Differs when the payload is another). A key is held until its job is
// final; KeyWindow and KeyUntilStarted change that. Replace and Debounce let a
// repeat change the job that waits.
func Key(key string) JobOption {
	return jobOption(func(s *jobSpec) {
		if key == "" {
			s.fail("the key is empty")
		}
		s.job.Key, s.keySet = key, true
	})
}

// KeyWindow holds the key for d from the enqueue, whatever becomes of the job. It
// needs a Key or KeyBy.
func KeyWindow(d time.Duration) JobOption {
	return jobOption(func(s *jobSpec) {
		if d <= 0 {
			s.fail("key window %v is not positive", d)
		}
		s.job.KeyHold, s.job.KeyFor = broker.HoldFor, d
	})
}

// KeyUntilStarted holds the key until the job is claimed for the first time, so
// that an enqueue during its run adds a job. It needs a Key or KeyBy.
func KeyUntilStarted() JobOption {
	return jobOption(func(s *jobSpec) { s.job.KeyHold, s.job.KeyFor = broker.HoldUntilStarted, 0 })
}

// Replace lets an enqueue whose key is held by a job that waits replace that
// job's arguments, headers and timeout; its id, its place and its due time stay.
// A job that runs or is final is left as it is. The answer says Existing in
// either case. It needs a Key or KeyBy.
func Replace() JobOption { return repeat(broker.RepeatReplace) }

// Debounce is Replace that moves the due time, too: with Delay(d) the job runs d
// after the last of the calls with its key, with the arguments of that call. It
// needs a Key or KeyBy, and a Delay or At.
func Debounce() JobOption { return repeat(broker.RepeatDebounce) }

func repeat(r broker.KeyRepeat) JobOption {
	return jobOption(func(s *jobSpec) {
		if s.repeatSet && s.job.KeyRepeat != r {
			s.fail("both Replace and Debounce are given; use one")
		}
		s.job.KeyRepeat, s.repeatSet = r, true
	})
}

// Ordered runs the jobs of one group one at a time, in the order of the queue (by
// priority, then by the time at which each became ready, so that a delayed job
// holds nobody up before it is due). The next one waits until the job before it
// is done, dead or cancelled, its retries and snoozes included. A job without a
// group belongs to the group of its tenant's name.
func Ordered() JobOption { return jobOption(func(s *jobSpec) { s.job.Ordered = true }) }

// Tenant says who the job is for. The tenants of a queue take turns, in jobs of
// one priority, so that a flood from one delays another's job by one turn at
// most. A tenant of weight 3 has three jobs in a turn; each has weight 1 until an
// operator says otherwise (Client.Configure with a broker.WeightSetting, or spool
// weight).
func Tenant(name string) JobOption {
	return jobOption(func(s *jobSpec) { s.job.Tenant, s.tenantSet = name, true })
}

// Group is the value that per-group limits count by, and that Ordered keeps in
// sequence; the default is the tenant.
func Group(name string) JobOption {
	return jobOption(func(s *jobSpec) { s.job.Group, s.groupSet = name, true })
}

// MaxAttempts is the number of runs in all, 1 or more: MaxAttempts(10) is ten
// runs. The default is 20. A run that crashed counts; a snooze and a shutdown
// do not.
func MaxAttempts(n int) JobOption {
	return jobOption(func(s *jobSpec) {
		if n < 1 {
			s.fail("max attempts is %d: 1 or more are allowed", n)
		}
		s.job.MaxAttempts = n
	})
}

// Timeout ends the context of each run after d; the run is then a failed
// attempt, unless the handler returns nil. 0, the default, means no timeout.
func Timeout(d time.Duration) JobOption { return jobOption(func(s *jobSpec) { s.job.Timeout = d }) }

// StartWithin cancels the job when it was not started d after it was due; 0,
// the default, means never.
func StartWithin(d time.Duration) JobOption {
	return jobOption(func(s *jobSpec) { s.job.StartWithin = d })
}

// Retain keeps the job and its result for d after it is done or cancelled. By
// default, and with 0, a done job is dropped at once, or after one hour when it
// has a result; a negative d drops both at once. Dead letters stay.
func Retain(d time.Duration) JobOption { return jobOption(func(s *jobSpec) { s.job.Retain = d }) }

// Header adds a pair that travels with the job. Names that start with "spool."
// are refused.
func Header(name, value string) JobOption {
	return jobOption(func(s *jobSpec) {
		if name == "" || strings.HasPrefix(name, ownPrefix) {
			s.fail("header name %.64q is empty or starts with %q", name, ownPrefix)
		}
		headers := make(map[string]string, len(s.job.Headers)+1)
		for k, v := range s.job.Headers { // a copy: the map may be the declaration's
			headers[k] = v
		}
		headers[name] = value
		s.job.Headers = headers
	})
}

// Backoff says how long to wait after a failed attempt of the task. The default
// is the zero Exponential. It acts in the worker, so a change holds for jobs
// that wait already.
func Backoff(p RetryPolicy) TaskOption {
	return taskOption(func(t *taskSpec) {
		if p == nil {
			t.fail("the retry policy is nil")
			return
		}
		if e, ok := p.(Exponential); ok {
			if err := e.validate(); err != nil {
				t.fail("%w", err)
			}
		}
		t.retry = p
	})
}

// KeyBy takes the key from the arguments; "" means none. A Key given to the
// enqueue comes first. fn must be pure; its type must be the task's.
func KeyBy[In any](fn func(In) string) TaskOption {
	return taskOption(func(t *taskSpec) { t.keyBy = fn })
}

// TenantBy takes the tenant from the arguments, unless the enqueue names one.
func TenantBy[In any](fn func(In) string) TaskOption {
	return taskOption(func(t *taskSpec) { t.tenantBy = fn })
}

// GroupBy takes the group from the arguments, unless the enqueue names one.
func GroupBy[In any](fn func(In) string) TaskOption {
	return taskOption(func(t *taskSpec) { t.groupBy = fn })
}
