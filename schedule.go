package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
	"github.com/spoolq/spool/internal/timetable"
)

// Schedule enqueues a job at each instant of an expression. Declare it in
// WorkerConfig.Schedules, or add it by hand with Client.AddSchedule.
//
// Every running worker is a scheduler, unless it is told not to be one; any
// number of them enqueue each job once. A new schedule begins with the first
// instant after it is known; one whose Spec, Zone or DST changes begins anew.
//
// Its jobs carry the headers spool.schedule (its name) and spool.tick (the
// instant that the job is for, in RFC 3339).
type Schedule struct {
	// Name is its own within the queue of its job; "" means the job's task.
	Name string
	// Spec is an expression as package cron reads it: "30 2 * * MON-FRI",
	// "@hourly", "@every 5m".
	Spec string
	// Zone is the name of an IANA time zone; "" means UTC.
	Zone string
	// DST is what happens where the zone's clock is moved; by default cron.Wall.
	DST cron.DST
	// Missed is what happens to instants that passed while no scheduler ran, or
	// while the schedule was paused; by default the latest is run.
	Missed cron.Missed
	// Cap is for cron.All and cron.Skip the most of them; 0 means 100.
	Cap int
	// Grace is for cron.Skip how late one may still run; 0 means one minute.
	Grace time.Duration
	// Job is made by Task.With or Raw, with its queue, priority, key, tenant and
	// so on, but no Delay or At. Its arguments are encoded once.
	Job Spec
}

// setting is the schedule as the store keeps it, checked.
func (s *Schedule) setting(c *Client) (queue string, set broker.Setting, err error) {
	name := s.Name
	if name == "" {
		name = s.Job.Task()
	}
	bad := func(field string, err error) (string, broker.Setting, error) {
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return "", broker.Setting{}, fmt.Errorf("schedule %q: %s: %w", name, field, err)
	}
	if s.Job.Task() == "" {
		return bad("Job", errors.New("is missing: make it with Task.With or Raw"))
	}
	if err := broker.ValidName(name); err != nil {
		return bad("Name", err)
	}
	if err := broker.ValidName(s.Job.Queue()); err != nil {
		return bad("Job", fmt.Errorf("queue name %w", err))
	}
	job, err := s.Job.encode(c, 0)
	if err != nil {
		return bad("Job", err)
	}
	if job.Delay != 0 || !job.At.IsZero() {
		return bad("Job", errors.New("has a Delay or At: it is due at the instants of the expression"))
	}
	job.ClearID() // each tick has its own
	sched := broker.Schedule{
		Spec: s.Spec, Zone: s.Zone, DST: s.DST.String(), Missed: s.Missed.String(), Cap: s.Cap, Grace: s.Grace, Job: job,
	}
	if field, _, err := timetable.Read(&sched); err != nil {
		return bad(field, err)
	}
	return s.Job.Queue(), broker.Setting{Kind: broker.ScheduleSetting, Name: name, Schedule: &sched}, nil
}

// Schedules returns the schedules in force of a queue, sorted; queue "" means
// all. Schedule.Due is the next instant: zero until a scheduler has seen it, and
// in the year 2262 when there is no further one.
func (c *Client) Schedules(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	all, err := c.Settings(ctx, queue)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	kept := all[:0]
	for _, s := range all {
		if s.Kind == broker.ScheduleSetting {
			kept = append(kept, s)
		}
	}
	return kept, nil
}

// AddSchedule adds a schedule by hand, or replaces the one of that name in its
// job's queue. It wins over what code declares under that name until it is
// removed. ErrInvalid is returned when it can never be right, as when its
// expression never fires; nothing is stored then.
func (c *Client) AddSchedule(ctx context.Context, s Schedule) error {
	queue, set, err := s.setting(c)
	if err != nil {
		return fmt.Errorf("add schedule: %w", err)
	}
	return c.Configure(ctx, queue, broker.Change{Set: []broker.Setting{set}})
}

// RemoveSchedule removes a schedule that was added by hand; what code declares
// under its name then holds again. ErrNotFound is returned when there is none,
// ErrInvalid when code declares it: it goes when code no longer does.
func (c *Client) RemoveSchedule(ctx context.Context, queue, name string) error {
	s, err := c.schedule(ctx, queue, name)
	if err != nil {
		return fmt.Errorf("remove schedule: %w", err)
	}
	if s.Owner != "" {
		return fmt.Errorf("remove schedule: %w: %s of queue %s is declared by the code of %s: remove it there, or pause it; when that program is gone, broker.Change.Undeclare removes it", ErrInvalid, name, queue, s.Owner)
	}
	return c.Configure(ctx, queue, broker.Change{Clear: []broker.SettingName{{Kind: broker.ScheduleSetting, Name: name}}})
}

// PauseSchedule stops a schedule until ResumeSchedule, also when code declares
// it, and through any deploy. ErrNotFound is returned when there is none.
func (c *Client) PauseSchedule(ctx context.Context, queue, name string) error {
	return c.changeSchedule(ctx, queue, name, "pause", broker.Change{Pause: []string{name}})
}

// ResumeSchedule ends a pause. The instants that passed meanwhile are missed
// ones: the schedule's Missed decides about them.
func (c *Client) ResumeSchedule(ctx context.Context, queue, name string) error {
	return c.changeSchedule(ctx, queue, name, "resume", broker.Change{Resume: []string{name}})
}

// changeSchedule makes a change of a schedule that has to be there.
func (c *Client) changeSchedule(ctx context.Context, queue, name, verb string, change broker.Change) error {
	_, err := c.schedule(ctx, queue, name)
	if err == nil {
		if err = c.Configure(ctx, queue, change); errors.Is(err, ErrConflict) { // it is gone since
			err = &noSchedule{queue, name}
		}
	}
	if err != nil {
		return fmt.Errorf("%s schedule: %w", verb, err)
	}
	return nil
}

// TriggerSchedule enqueues the schedule's job now, also when it is paused, and
// leaves its instants as they are. The job is for no instant of the schedule: it
// has no header spool.tick.
func (c *Client) TriggerSchedule(ctx context.Context, queue, name string) (Enqueued, error) {
	s, err := c.schedule(ctx, queue, name)
	if err != nil {
		return Enqueued{}, fmt.Errorf("trigger schedule: %w", err)
	}
	job := tickJob(&s, broker.NewID(), time.Time{})
	answers, err := c.intercept(c.commit)(ctx, queue, []broker.NewJob{job})
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("%d answers came back for one job", len(answers))
	}
	if err != nil {
		return Enqueued{}, fmt.Errorf("trigger schedule %s of queue %s: %w", name, queue, err)
	}
	return answers[0], nil
}

func (c *Client) schedule(ctx context.Context, queue, name string) (broker.QueueSetting, error) {
	if err := broker.ValidName(queue); err != nil {
		return broker.QueueSetting{}, fmt.Errorf("%w: queue name %w", ErrInvalid, err)
	}
	all, err := c.Settings(ctx, queue)
	if err != nil {
		return broker.QueueSetting{}, err
	}
	for _, s := range all {
		if s.Kind == broker.ScheduleSetting && s.Name == name {
			return s, nil
		}
	}
	return broker.QueueSetting{}, &noSchedule{queue, name}
}

// noSchedule is the ErrNotFound of a schedule.
type noSchedule struct{ queue, name string }

func (e *noSchedule) Error() string {
	return fmt.Sprintf("spool: queue %s has no schedule %q", e.queue, e.name)
}

func (e *noSchedule) Is(target error) bool { return target == ErrNotFound }

// tickJob makes the job of an instant; a zero one means that it has none.
func tickJob(s *broker.QueueSetting, id ID, at time.Time) broker.NewJob {
	job := s.Schedule.Job
	job.ID = id
	job.Headers = withHeader(job.Headers, headerSchedule, s.Name)
	if !at.IsZero() {
		job.Headers[headerTick] = at.UTC().Format(time.RFC3339Nano)
	}
	return job
}

// withHeader returns a copy with one more.
func withHeader(h map[string]string, name, value string) map[string]string {
	more := make(map[string]string, len(h)+2)
	for k, v := range h {
		more[k] = v
	}
	more[name] = value
	return more
}
