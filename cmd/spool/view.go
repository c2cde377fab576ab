package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// jobView is a job as --json prints it: the contract's own names, with
// durations as the flags take them. Payload and result are base64, and text
// beside that when they are UTF-8. Other strings that are not UTF-8 stand in
// Bytes too, base64, since JSON has no place for them.
type jobView struct {
	*broker.Job
	Timeout     string            `json:"timeout,omitempty"`
	StartWithin string            `json:"start_within,omitempty"`
	Retain      string            `json:"retain,omitempty"`
	PayloadText *string           `json:"payload_text,omitempty"`
	ResultText  *string           `json:"result_text,omitempty"`
	Bytes       map[string][]byte `json:"bytes,omitempty"`

	Explanation *explanationView `json:"explanation,omitempty"` // of show
}

func newJobView(j *broker.Job) jobView {
	v := jobView{Job: j, Timeout: durationField(j.Timeout), StartWithin: durationField(j.StartWithin), Retain: durationField(j.Retain)}
	if utf8.Valid(j.Payload) {
		v.PayloadText = ptr(string(j.Payload))
	}
	if j.HasResult && utf8.Valid(j.Result) {
		v.ResultText = ptr(string(j.Result))
	}
	for name, s := range map[string]string{"error": j.Error, "tenant": j.Tenant, "group": j.Group, "key": j.Key} {
		v.odd(name, s)
	}
	for name, value := range j.Headers {
		v.odd("headers."+name, value)
	}
	return v
}

func (v *jobView) odd(name, s string) {
	if !utf8.ValidString(s) {
		if v.Bytes == nil {
			v.Bytes = map[string][]byte{}
		}
		v.Bytes[name] = []byte(s)
	}
}

func durationField(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func ptr[T any](v T) *T { return &v }

// widths of what lists show of bytes.
const (
	listHead = 60
	showHead = 2000
)

// table returns a writer of aligned columns; end it with Flush.
func (a *app) table(columns ...string) *tabwriter.Writer {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	row(w, columns...)
	return w
}

// row writes one line of a table. What cannot be written shows at the flush.
func row(w *tabwriter.Writer, cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) }

// when says what matters of a job's times in its state.
func when(j *broker.Job, now time.Time) string {
	switch j.State {
	case broker.Scheduled:
		return "due " + text.Ago(j.RunAt, now)
	case broker.Ready:
		return "for " + text.Span(now.Sub(j.RunAt))
	case broker.Leased:
		return "lease ends " + text.Ago(j.LeaseExpiresAt, now)
	default:
		return text.Ago(j.FinishedAt, now)
	}
}

// state is a job's state with what is worth saying beside it.
func state(j *broker.Job) string {
	switch {
	case j.CancelRequested:
		return j.State.String() + " (to be cancelled)"
	case j.Reason != "" && j.Reason != broker.ReasonAcked && j.Reason != j.State.String():
		return j.State.String() + " (" + j.Reason + ")"
	}
	return j.State.String()
}

// gist is the last column of a list: why a dead job died, else the payload.
func gist(j *broker.Job) string {
	if j.State == broker.Dead && j.Error != "" {
		return text.Head([]byte(j.Error), listHead)
	}
	return text.Head(j.Payload, listHead)
}

func attempts(j *broker.Job) string { return fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts) }

// details writes all of a job.
func (a *app) details(j *broker.Job, why *broker.Explanation) error {
	now := a.now()
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	field := func(name, value string) {
		if value != "" && value != "-" {
			row(w, name, value)
		}
	}
	field("job", j.ID.String())
	field("queue", j.Queue)
	field("task", j.Task)
	field("state", state(j))
	if why != nil && !j.State.Final() {
		field("why", text.Safe(why.Text))
	}
	if j.Priority != 0 {
		field("priority", fmt.Sprint(j.Priority))
	}
	field("attempt", fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts))
	if j.Failures > 0 {
		field("failures", fmt.Sprint(j.Failures))
	}
	placing(j, field)
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		field("header", text.Safe(name+"="+j.Headers[name]))
	}
	field("enqueued", text.When(j.EnqueuedAt, now))
	field("due", text.When(j.RunAt, now))
	field("claimed", text.When(j.ClaimedAt, now))
	field("lease ends", text.When(j.LeaseExpiresAt, now))
	field("finished", text.When(j.FinishedAt, now))
	field("worker", text.Safe(j.Worker))
	if j.Token > 0 {
		field("token", j.Token.String())
	}
	if j.Progress != (broker.Progress{}) {
		field("progress", fmt.Sprintf("%d %% %s", j.Progress.Percent, text.Safe(j.Progress.Note)))
	}
	if len(j.Log) > 0 {
		field("log", text.Line(strings.Join(j.Log, "\n"), "\t"))
	}
	if j.Error != "" {
		field("error", text.Line(j.Error, "\t"))
	}
	field("payload", body(j.Payload))
	if j.HasResult {
		field("result", body(j.Result))
	}
	return w.Flush()
}

// placing writes what decides when and beside which others a job runs.
func placing(j *broker.Job, field func(name, value string)) {
	field("tenant", text.Safe(j.Tenant))
	field("group", text.Safe(j.Group))
	if j.Ordered {
		field("ordered", "one job of its group at a time")
	}
	field("key", text.Safe(j.Key))
	if !j.Batch.IsZero() {
		field("batch", fmt.Sprintf("member %d of %s", j.BatchOrdinal, j.Batch))
	}
	for _, d := range [...]struct {
		name  string
		value time.Duration
	}{{"timeout", j.Timeout}, {"start within", j.StartWithin}, {"retain", j.Retain}} {
		if d.value != 0 {
			field(d.name, text.Span(d.value))
		}
	}
}

// body shows bytes with their size.
func body(b []byte) string {
	if len(b) == 0 {
		return "(empty)"
	}
	return text.Bytes(int64(len(b))) + ": " + text.Head(b, showHead)
}

// changed counts what a command changed.
type changed struct {
	Changed int `json:"changed"`
}

// reportChanged says how many jobs a command changed.
func (a *app) reportChanged(did string, n int) error {
	if a.json {
		return a.object(changed{n})
	}
	return a.printf("%s %s", text.Plural(int64(n), "job", "jobs"), did)
}

// leaseView is a claimed job as --json prints it.
type leaseView struct {
	jobView
	Token     broker.Token `json:"token"`
	ExpiresAt time.Time    `json:"expires_at"`
}

func newLeaseView(l *spool.Lease) leaseView {
	return leaseView{jobView: newJobView(&l.Job), Token: l.Token, ExpiresAt: l.ExpiresAt}
}
