package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/spoolq/spool/internal/wire"
)

// record writes what an operator did, or tried to, into the audit log, and
// returns err.
func (s *Server) record(ctx context.Context, did, queue string, err error, more ...any) error {
	args := append([]any{"who", caller(ctx), "did", did, "queue", queue}, more...)
	if err == nil {
		s.audit.InfoContext(ctx, "operator", append(args, "outcome", "done")...)
		return nil
	}
	outcome := "refused"
	p, _ := s.problem(ctx, err).(*wire.Problem)
	if p != nil && p.Status >= 500 {
		outcome = "failed"
	}
	s.audit.WarnContext(ctx, "operator", append(args, "outcome", outcome, "error", err.Error())...)
	if p != nil {
		return p // it is logged once
	}
	return err
}

// filterOf is a filter as the audit log has it: the fields that choose.
func filterOf(f *wire.Filter) slog.Attr {
	var args []any
	text := func(name, value string) {
		if value != "" {
			args = append(args, slog.String(name, value))
		}
	}
	if len(f.IDs) > 0 {
		ids := make([]string, 0, min(len(f.IDs), maxListed))
		for _, id := range f.IDs[:min(len(f.IDs), maxListed)] {
			ids = append(ids, id.String())
		}
		text("ids", strings.Join(ids, ","))
		if len(f.IDs) > maxListed {
			args = append(args, slog.Int("ids_in_all", len(f.IDs)))
		}
	}
	text("states", strings.Join(f.States, ","))
	text("task", f.Task)
	text("tenant", f.Tenant)
	text("group", f.Group)
	text("key", f.Key)
	text("error_contains", f.ErrorContains)
	for _, age := range []struct {
		name  string
		value wire.Duration
	}{{"older_than", f.OlderThan}, {"newer_than", f.NewerThan}} {
		if age.value != 0 {
			text(age.name, time.Duration(age.value).String())
		}
	}
	if args == nil {
		return slog.String("filter", "every job")
	}
	return slog.Group("filter", args...)
}

// Bounds of a record.
const (
	maxListed   = 100     // ids
	maxRecorded = 8 << 10 // bytes of settings
)

// changeOf is what a change of settings says, without the payloads of schedules'
// jobs, which are nobody's to read here: values as long as they are few, else
// names.
func changeOf(c *wire.Change) (args []any) {
	add := func(name string, n int, v any) {
		if n == 0 {
			return
		}
		b, err := wire.Append(nil, v)
		if err == nil && len(b) <= maxRecorded {
			args = append(args, name, json.RawMessage(b))
			return
		}
		args = append(args, name, n)
	}
	var values []json.RawMessage
	var names []wire.SettingName
	for i := range c.Set {
		one := c.Set[i]
		if one.Schedule != nil {
			schedule := *one.Schedule
			schedule.Job.Payload, schedule.Job.PayloadBase64 = nil, nil
			schedule.Job.Headers, schedule.Job.HeaderBytes = nil, nil
			one.Schedule = &schedule
		}
		names = append(names, wire.SettingName{Kind: one.Kind, Name: one.Name})
		if b, err := wire.Append(nil, one); err == nil {
			values = append(values, b)
		}
	}
	if b, err := json.Marshal(values); err == nil && len(b) <= maxRecorded && len(values) > 0 {
		args = append(args, "set", json.RawMessage(b))
	} else {
		add("set", len(names), names)
	}
	add("clear", len(c.Clear), c.Clear)
	add("undeclare", len(c.Undeclare), c.Undeclare)
	add("pause", len(c.Pause), c.Pause)
	add("resume", len(c.Resume), c.Resume)
	if c.Owner != "" {
		args = append(args, "owner", c.Owner)
	}
	return args
}
