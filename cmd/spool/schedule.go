package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
	"github.com/spoolq/spool/internal/text"
)

type scheduleCmd struct {
	Add    scheduleAddCmd    `cmd:"" help:"Add a schedule, or change the one of that name."`
	List   scheduleListCmd   `cmd:"" help:"List the schedules, with when they are due and who set them."`
	Next   scheduleNextCmd   `cmd:"" help:"Show when an expression fires, and say in plain words what it means."`
	Pause  schedulePauseCmd  `cmd:"" help:"Stop a schedule."`
	Resume scheduleResumeCmd `cmd:"" help:"Let a schedule go on."`
	Remove scheduleRemoveCmd `cmd:"" help:"Remove an operator's schedule: what a program declares holds again."`
	Run    scheduleRunCmd    `cmd:"" help:"Enqueue the job of a schedule now, beside its instants."`
}

type scheduleAddCmd struct {
	Name    name        `arg:"" help:"Name of the schedule."`
	Expr    exact       `arg:"" help:"When: as spool schedule next takes it, in quotes."`
	Payload *exact      `arg:"" optional:"" help:"JSON or any text; - takes all of the input, byte for byte. None is an empty payload."`
	Task    name        `short:"t" required:"" placeholder:"NAME" help:"Task of the job."`
	Missed  cron.Missed `placeholder:"POLICY" help:"Instants that passed while nothing ran: latest (the last of them once), all (up to --cap), skip (those later than --grace are passed over); latest when not given."`
	Cap     int         `placeholder:"N" help:"With --missed=all or skip: run at most so many (100)."`
	Grace   span        `placeholder:"DURATION" help:"With --missed=skip: how late an instant may run (1m)."`
	instantFlags
	jobFlags
}

// Help is shown by spool schedule add --help.
func (*scheduleAddCmd) Help() string {
	return "Every running worker process of the store (spool work, or a program) enqueues what is due; each instant is enqueued once, by one of them. " +
		"A schedule of that name is replaced, and keeps its place in time unless the expression, zone or policy is another; if it is paused, it stays so."
}

// Run adds the schedule.
func (c *scheduleAddCmd) Run(a *app) error {
	set, err := c.setting(a)
	if err != nil {
		return err
	}
	return a.withSettings(creating, c.Queue, func(ctx context.Context, s *settings) error {
		old, err := s.find(ctx, set.Kind, set.Name)
		if err != nil {
			return err
		}
		if old != nil {
			set.Revision = old.Revision
		}
		if err := s.set(ctx, set); err != nil {
			return err
		}
		if err := a.inForce(ctx, s, set.Kind, set.Name); err != nil || a.json {
			return err
		}
		when, err := c.parse(c.Expr)
		if err != nil {
			return err
		}
		next := ""
		if first, ok := when.Next(a.now()); ok {
			next = "; next " + text.When(first, a.now())
		}
		return a.printf("%s%s", text.Safe(plainWords(when)), next)
	})
}

// setting makes the schedule that the flags say, without a store.
func (c *scheduleAddCmd) setting(a *app) (set broker.Setting, err error) {
	if _, err := c.parse(c.Expr); err != nil {
		return set, err
	}
	switch {
	case c.Cap != 0 && c.Missed == cron.Latest:
		return set, usagef("--cap goes with --missed=all or --missed=skip")
	case c.Grace != 0 && c.Missed != cron.Skip:
		return set, usagef("--grace goes with --missed=skip")
	}
	if err := c.check(); err != nil {
		return set, err
	}
	var payload []byte
	if c.Payload != nil {
		if payload, err = c.Payload.payload(a.in); err != nil {
			return set, err
		}
	}
	nowhere := &taker{}
	err = nowhere.try(func(ctx context.Context, client *spool.Client) error {
		return client.AddSchedule(ctx, spool.Schedule{
			Name: string(c.Name), Spec: string(c.Expr), Zone: string(c.Zone), DST: c.DST, Missed: c.Missed, Cap: c.Cap, Grace: time.Duration(c.Grace),
			Job: spool.Raw(string(c.Task), payload, c.options()...),
		})
	})
	if err != nil {
		return set, err
	}
	set = nowhere.change.Set[0]
	return set, textOnly(&set.Schedule.Job)
}

// textOnly refuses a job that a setting, which is kept as JSON, would change.
func textOnly(j *broker.NewJob) error {
	texts := map[string]string{"tenant": j.Tenant, "group": j.Group, "key": j.Key}
	for n, v := range j.Headers {
		texts["header "+n] = n + v
	}
	for what, s := range texts {
		if !utf8.ValidString(s) {
			return usagef("the %s is not UTF-8, and settings are kept as JSON: %q", what, s)
		}
	}
	return nil
}

type scheduleListCmd struct{ settingFlags }

// Run lists the schedules.
func (c *scheduleListCmd) Run(a *app) error {
	return a.listSettings(&c.settingFlags, broker.ScheduleSetting)
}

// schedules prints a list of them for people.
func (a *app) schedules(all []broker.QueueSetting) error {
	w := a.table("QUEUE", "SCHEDULE", "WHEN", "ZONE", "TASK", "NEXT", "MISSED", "BY", "REVISION", "DECLARED")
	for i := range all {
		t := &all[i].Setting
		s, declared := t.Schedule, "-"
		if t.Declared != nil {
			declared = scheduleGist(t.Declared.Schedule) + " by " + t.Declared.Owner
		}
		zone := cmp.Or(s.Zone, "UTC")
		if s.DST == cron.Vixie.String() {
			zone += " (" + s.DST + ")"
		}
		row(w, all[i].Queue, t.Name, text.Safe(s.Spec), text.Safe(zone), s.Job.Task, a.due(s), text.Safe(cmp.Or(s.Missed, cron.Latest.String())),
			text.Safe(cmp.Or(t.Owner, operator)), fmt.Sprint(t.Revision), text.Safe(declared))
	}
	return w.Flush()
}

// due says when a schedule fires next.
func (a *app) due(s *broker.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Due.IsZero():
		return "not taken up by a worker yet"
	case over(s.Due):
		return "never again"
	}
	return text.When(s.Due, a.now())
}

// scheduleFlags name a schedule that is there.
type scheduleFlags struct {
	Name  name `arg:"" help:"Name of the schedule."`
	Queue name `short:"q" default:"default" placeholder:"NAME" help:"Its queue (${default})."`
}

type schedulePauseCmd struct{ scheduleFlags }

// Help is shown by spool schedule pause --help.
func (*schedulePauseCmd) Help() string {
	return "A pause holds until spool schedule resume, whatever programs declare. What falls into it is missed then, as after downtime."
}

// Run pauses the schedule.
func (c *schedulePauseCmd) Run(a *app) error { return c.gate(a, true) }

type scheduleResumeCmd struct{ scheduleFlags }

// Run resumes the schedule.
func (c *scheduleResumeCmd) Run(a *app) error { return c.gate(a, false) }

// gate pauses or resumes.
func (c *scheduleFlags) gate(a *app, shut bool) error {
	return c.with(a, func(ctx context.Context, s *settings) error {
		act := s.client.ResumeSchedule
		if shut {
			act = s.client.PauseSchedule
		}
		if err := act(ctx, s.queue, string(c.Name)); err != nil {
			return err
		}
		return a.inForce(ctx, s, broker.ScheduleSetting, string(c.Name))
	})
}

// with opens the store and calls fn with the settings of the schedule's queue,
// if the schedule is there.
func (c *scheduleFlags) with(a *app, fn func(context.Context, *settings) error) error {
	return a.withSettings(changing, c.Queue, func(ctx context.Context, s *settings) error {
		if _, err := s.must(ctx, broker.ScheduleSetting, string(c.Name)); err != nil {
			return err
		}
		return fn(ctx, s)
	})
}

type scheduleRemoveCmd struct {
	Name name `arg:"" help:"Name of the schedule."`
	clearFlags
}

// Run removes the schedule.
func (c *scheduleRemoveCmd) Run(a *app) error {
	return a.clear(&c.clearFlags, broker.ScheduleSetting, string(c.Name))
}

type scheduleRunCmd struct{ scheduleFlags }

// Help is shown by spool schedule run --help.
func (*scheduleRunCmd) Help() string {
	return "Prints the job's id when the job is durable. The schedule's next instant stays what it was. A paused schedule can be run, too."
}

// Run enqueues the schedule's job.
func (c *scheduleRunCmd) Run(a *app) error {
	return a.withSettings(changing, c.Queue, func(ctx context.Context, s *settings) error {
		set, err := s.must(ctx, broker.ScheduleSetting, string(c.Name))
		if err != nil {
			return err
		}
		answer, err := s.client.TriggerSchedule(ctx, s.queue, string(c.Name))
		if err != nil {
			return err
		}
		e := enqueueCmd{Task: name(set.Schedule.Job.Task), jobFlags: jobFlags{Queue: c.Queue}}
		e.repeated(a, answer)
		if err := e.print(a, []spool.Enqueued{answer}); err != nil {
			return err
		}
		e.warn(ctx, a, s.client)
		return nil
	})
}
