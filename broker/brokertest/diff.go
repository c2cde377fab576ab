package brokertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// diffJobs says in which fields two jobs differ, or "". Times are compared to
// the millisecond; nil and empty bytes or headers are the same.
func diffJobs(a, b broker.Job) string {
	var diff []string
	say := func(field string, same bool, x, y any) {
		if !same {
			diff = append(diff, fmt.Sprintf("%s %v / %v", field, x, y))
		}
	}
	say("state", a.State == b.State, a.State, b.State)
	say("reason", a.Reason == b.Reason, a.Reason, b.Reason)
	say("name", a.Ref() == b.Ref() && a.Task == b.Task, a.Ref(), b.Ref())
	say("priority", a.Priority == b.Priority, a.Priority, b.Priority)
	say("tags", a.Tenant == b.Tenant && a.Group == b.Group && a.Ordered == b.Ordered && a.Key == b.Key,
		[]any{a.Tenant, a.Group, a.Ordered, a.Key}, []any{b.Tenant, b.Group, b.Ordered, b.Key})
	say("payload", bytes.Equal(a.Payload, b.Payload), short(a.Payload), short(b.Payload))
	say("headers", maps.Equal(a.Headers, b.Headers), a.Headers, b.Headers)
	say("attempt", a.Attempt == b.Attempt, a.Attempt, b.Attempt)
	say("max attempts", a.MaxAttempts == b.MaxAttempts, a.MaxAttempts, b.MaxAttempts)
	say("policy", a.Timeout == b.Timeout && a.StartWithin == b.StartWithin && a.Retain == b.Retain,
		[]any{a.Timeout, a.StartWithin, a.Retain}, []any{b.Timeout, b.StartWithin, b.Retain})
	for _, t := range []struct {
		field string
		a, b  time.Time
	}{
		{"enqueued at", a.EnqueuedAt, b.EnqueuedAt}, {"run at", a.RunAt, b.RunAt}, {"claimed at", a.ClaimedAt, b.ClaimedAt},
		{"finished at", a.FinishedAt, b.FinishedAt}, {"lease expires at", a.LeaseExpiresAt, b.LeaseExpiresAt},
	} {
		say(t.field, t.a.IsZero() == t.b.IsZero() && t.a.Sub(t.b).Abs() <= time.Millisecond, t.a, t.b)
	}
	say("worker", a.Worker == b.Worker, a.Worker, b.Worker)
	say("cancel requested", a.CancelRequested == b.CancelRequested, a.CancelRequested, b.CancelRequested)
	say("result", a.HasResult == b.HasResult && bytes.Equal(a.Result, b.Result), short(a.Result), short(b.Result))
	say("error", a.Error == b.Error, short([]byte(a.Error)), short([]byte(b.Error)))
	say("failures", a.Failures == b.Failures, a.Failures, b.Failures)
	say("progress", a.Progress == b.Progress, a.Progress, b.Progress)
	say("log", slices.Equal(a.Log, b.Log), a.Log, b.Log)
	say("batch", a.Batch == b.Batch && a.BatchOrdinal == b.BatchOrdinal, a.Batch, b.Batch)
	return strings.Join(diff, "; ")
}

// short shows the head of some bytes.
func short(b []byte) string {
	if len(b) > 32 {
		return fmt.Sprintf("%q… (%d bytes)", b[:32], len(b))
	}
	return fmt.Sprintf("%q", b)
}
