package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
	"github.com/spoolq/spool/internal/text"
	"github.com/spoolq/spool/limit"
)

// settingView is a setting as --json prints it: rates as text, durations as the
// flags take them. Of the fields from Limit on, that of its kind is there; none,
// when nothing is in force (after clear).
type settingView struct {
	Queue    string             `json:"queue"`
	Kind     broker.SettingKind `json:"kind"`
	Name     string             `json:"name"`
	Owner    string             `json:"owner,omitempty"` // who declared it; "" is an operator
	Revision uint64             `json:"revision,omitempty"`

	Limit     *limitView       `json:"limit,omitempty"`
	Weight    int              `json:"weight,omitempty"`
	Capacity  *broker.Capacity `json:"capacity,omitempty"`
	Retention *retentionView   `json:"retention,omitempty"`
	Ageing    string           `json:"ageing,omitempty"`
	Schedule  *scheduleView    `json:"schedule,omitempty"`

	Declared *settingView `json:"declared,omitempty"`
}

type limitView struct {
	Tasks   []string     `json:"tasks"`
	Per     broker.Scope `json:"per,omitempty"`
	Rate    string       `json:"rate,omitempty"`
	Running int          `json:"running,omitempty"`
}

// retentionView says how long finished jobs are kept: a duration, none, or
// default.
type retentionView struct {
	Done      string `json:"done"`
	Dead      string `json:"dead"`
	Cancelled string `json:"cancelled"`
}

type scheduleView struct {
	Spec   string      `json:"spec"`
	Zone   string      `json:"zone,omitempty"`
	DST    string      `json:"dst,omitempty"`
	Missed string      `json:"missed,omitempty"`
	Cap    int         `json:"cap,omitempty"`
	Grace  string      `json:"grace,omitempty"`
	Paused bool        `json:"paused,omitempty"`
	Due    *time.Time  `json:"due,omitempty"` // absent until a scheduler has seen it, and when it never fires again
	Job    jobToBeView `json:"job"`
}

// jobToBeView is the job that a schedule enqueues.
type jobToBeView struct {
	Task        string            `json:"task"`
	Payload     []byte            `json:"payload"`
	PayloadText *string           `json:"payload_text,omitempty"`
	Priority    int32             `json:"priority,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Group       string            `json:"group,omitempty"`
	Ordered     bool              `json:"ordered,omitempty"`
	Key         string            `json:"key,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Timeout     string            `json:"timeout,omitempty"`
	StartWithin string            `json:"start_within,omitempty"`
	Retain      string            `json:"retain,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

func newSettingView(queue string, t *broker.Setting) settingView {
	v := settingView{
		Queue: queue, Kind: t.Kind, Name: t.Name, Owner: t.Owner, Revision: t.Revision,
		Weight: t.Weight, Capacity: t.Capacity, Ageing: durationField(t.Ageing),
	}
	if l := t.Limit; l != nil {
		v.Limit = &limitView{Tasks: l.Tasks, Per: l.Per, Rate: rateText(l), Running: l.Running}
	}
	if r := t.Retention; r != nil {
		exact := time.Duration.String
		v.Retention = &retentionView{keepText(r.Done, exact), keepText(r.Dead, exact), keepText(r.Cancelled, exact)}
	}
	if t.Schedule != nil {
		v.Schedule = newScheduleView(t.Schedule)
	}
	if t.Declared != nil {
		d := newSettingView(queue, t.Declared)
		v.Declared = &d
	}
	return v
}

func newScheduleView(s *broker.Schedule) *scheduleView {
	j := &s.Job
	v := &scheduleView{
		Spec: s.Spec, Zone: s.Zone, DST: s.DST, Missed: s.Missed, Cap: s.Cap, Grace: durationField(s.Grace), Paused: s.Paused,
		Job: jobToBeView{
			Task: j.Task, Payload: j.Payload, Priority: j.Priority, Tenant: j.Tenant, Group: j.Group, Ordered: j.Ordered, Key: j.Key,
			MaxAttempts: j.MaxAttempts, Timeout: durationField(j.Timeout), StartWithin: durationField(j.StartWithin),
			Retain: durationField(j.Retain), Headers: j.Headers,
		},
	}
	if utf8.Valid(j.Payload) {
		v.Job.PayloadText = ptr(string(j.Payload))
	}
	if !s.Due.IsZero() && !over(s.Due) {
		v.Due = &s.Due
	}
	return v
}

// over says that a cursor stands where a schedule never fires again.
func over(due time.Time) bool { return due.Year() >= 2262 }

// rateText is the rate of a limit as the flag takes it, "" when it has none.
func rateText(l *broker.Limit) string {
	if l.Count == 0 {
		return ""
	}
	return limit.Rate{Count: int(l.Count), Per: l.Every, Burst: int(l.Burst)}.String()
}

// keepText is how long something is kept, as the flag takes it.
func keepText(d time.Duration, span func(time.Duration) string) string {
	switch {
	case d == 0:
		return "default"
	case d < 0:
		return "none"
	}
	return span(d)
}

// gistOf is a setting in a few words.
func gistOf(t *broker.Setting) string {
	switch {
	case t.Limit != nil:
		return limitGist(t.Limit)
	case t.Capacity != nil:
		return capacityGist(t.Capacity)
	case t.Retention != nil:
		r := t.Retention
		return fmt.Sprintf("done %s, dead %s, cancelled %s", keepText(r.Done, text.Span), keepText(r.Dead, text.Span), keepText(r.Cancelled, text.Span))
	case t.Ageing > 0:
		return "one priority for each " + text.Span(t.Ageing) + " of waiting"
	case t.Schedule != nil:
		return scheduleGist(t.Schedule)
	}
	return fmt.Sprint(t.Weight)
}

func limitGist(l *broker.Limit) string {
	s := rateText(l)
	if l.Running > 0 {
		s = fmt.Sprintf("%d running", l.Running)
	}
	if l.Per != broker.PerQueue {
		s += " for each " + string(l.Per)
	}
	return s + " of " + strings.Join(l.Tasks, ", ")
}

func capacityGist(c *broker.Capacity) string {
	var parts []string
	if c.Jobs > 0 {
		parts = append(parts, text.Plural(c.Jobs, "job", "jobs"))
	}
	if c.Bytes > 0 {
		parts = append(parts, text.Bytes(c.Bytes))
	}
	if c.DropOldest {
		parts = append(parts, "dropping the oldest")
	}
	return strings.Join(parts, ", ")
}

func scheduleGist(s *broker.Schedule) string {
	words := []string{s.Spec}
	if s.Zone != "" {
		words = append(words, s.Zone)
	}
	if s.DST == cron.Vixie.String() {
		words = append(words, "dst "+s.DST)
	}
	if s.Paused {
		words = append(words, "(paused)")
	}
	return strings.Join(append(words, "enqueues", s.Job.Task), " ")
}
