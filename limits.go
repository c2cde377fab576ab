package spool

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/limit"
)

// LimitOption is an option of RateLimit and RunningLimit.
type LimitOption interface{ applyLimit(*taskLimit) }

type limitOption func(*taskLimit)

func (o limitOption) applyLimit(l *taskLimit) { o(l) }

// taskLimit is a limit of a declaration: without its tasks, and named by its
// bucket.
type taskLimit struct {
	broker.Limit
	bucket string
	scopes int // how many options named one
	err    error
}

// RateLimit keeps the claims of the task's jobs to a rate, such as "10/s",
// "0.5/s", "100/m burst 20"; limit.ParseRate reads it. Without a burst as many
// as the count may go at once. A job over the rate is not claimed: it keeps its
// place, and no attempt is counted.
//
// With a burst of 1 what a claim is late by is lost, since no two claims may be
// closer than the rate says. In a store in a directory on Linux that is some ten
// microseconds each, so that "100/s burst 1" comes to 99 a second or more; else
// up to a millisecond, and on a busy machine as long as a process waits for a
// processor. A burst makes up for as much time as the rate takes to earn it.
//
// A limit is declared to the store by the workers that handle the task, when
// they start, and from then on holds for every process. It binds the jobs in
// the queue that the task's declaration names; a job that an enqueue puts into
// another queue is free of it. At most four limits bind a task.
func RateLimit(rate string, opts ...LimitOption) TaskOption {
	return taskOption(func(t *taskSpec) {
		r, err := limit.ParseRate(rate)
		if err != nil {
			t.fail("rate limit: %w", err)
			return
		}
		t.addLimit(broker.Limit{Count: int64(r.Count), Every: r.Per, Burst: int64(r.Burst)}, "rate", opts)
	})
}

// RunningLimit keeps the number of the task's jobs that run at a time to n, over
// all processes: those whose lease has not ended, so that the slots of a worker
// that dies come free. For the rest it is as RateLimit.
func RunningLimit(n int, opts ...LimitOption) TaskOption {
	return taskOption(func(t *taskSpec) {
		if n < 1 {
			t.fail("running limit is %d: 1 or more are allowed", n)
			return
		}
		t.addLimit(broker.Limit{Running: n}, "running", opts)
	})
}

// PerTenant counts each tenant by itself.
func PerTenant() LimitOption { return scope(broker.PerTenant) }

// PerGroup counts each group by itself; a job without a group counts for its
// tenant.
func PerGroup() LimitOption { return scope(broker.PerGroup) }

func scope(s broker.Scope) LimitOption {
	return limitOption(func(l *taskLimit) { l.Per, l.scopes = s, l.scopes+1 })
}

// Bucket names the limit. Tasks whose limits name one bucket share it: they are
// counted together. They have to be handled by the same worker, name the same
// queue, and say the same of the limit. Without it a limit is the task's own,
// and named after the task, its kind and its scope ("send_email.rate.tenant").
func Bucket(name string) LimitOption {
	return limitOption(func(l *taskLimit) {
		if err := broker.ValidName(name); err != nil {
			l.err = cmp.Or(l.err, fmt.Errorf("bucket name %w", err))
		}
		l.bucket = name
	})
}

// addLimit adds a limit to the declaration.
func (t *taskSpec) addLimit(rule broker.Limit, kind string, opts []LimitOption) {
	l := taskLimit{Limit: rule}
	for _, o := range opts {
		o.applyLimit(&l)
	}
	if l.bucket == "" {
		l.bucket = t.job.Task + "." + kind
		if l.Per != broker.PerQueue {
			l.bucket += "." + string(l.Per)
		}
		if len(l.bucket) > broker.MaxNameBytes {
			l.err = cmp.Or(l.err, fmt.Errorf("the task's name is too long to name its limit after: name it with Bucket"))
		}
	}
	same := func(o taskLimit) bool { return o.bucket == l.bucket }
	switch {
	case l.err != nil:
		t.fail("%s limit: %w", kind, l.err)
	case l.scopes > 1:
		t.fail("%s limit: it is counted either by tenant or by group", kind)
	case slices.ContainsFunc(t.limits, same):
		t.fail("%s limit: there is another one with the name %s: name one of them with Bucket", kind, l.bucket)
	case len(t.limits) == broker.MaxTaskLimits:
		t.fail("%s limit: a task has at most %d limits", kind, broker.MaxTaskLimits)
	default:
		t.limits = append(t.limits, l)
	}
}

// setting is the limit as the store keeps it, for one task.
func (l *taskLimit) setting(task string) broker.Setting {
	rule := l.Limit
	rule.Tasks = []string{task}
	return broker.Setting{Kind: broker.LimitSetting, Name: l.bucket, Limit: &rule}
}
