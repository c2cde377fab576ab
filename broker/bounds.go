package broker

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// MaxTime is the last instant that a store keeps: that of a schedule which
// never fires again.
var MaxTime = time.Unix(0, math.MaxInt64).UTC()

// within returns an error, which wraps ErrInvalid, when a text is too long.
func within(field string, size, limit int) error {
	if size > limit {
		return fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrInvalid, field, size, limit)
	}
	return nil
}

// atMost is within for the number of things in a list.
func atMost(field string, n, limit int) error {
	if n > limit {
		return fmt.Errorf("%w: %d %s, the limit is %d", ErrInvalid, n, field, limit)
	}
	return nil
}

// Validate checks the sizes of r. Its error wraps ErrInvalid, or ErrTooLarge for
// a call that is too large, and names the field.
func (r *ExtendRequest) Validate() error {
	if err := r.Worker.validate(); err != nil {
		return err
	}
	if r.TTL < 0 || r.TTL > MaxDelay {
		return fmt.Errorf("%w: lease of %v, allowed are 0 to %v", ErrInvalid, r.TTL, MaxDelay)
	}
	if n := len(r.Leases); n > MaxBatchJobs {
		return fmt.Errorf("%w: %d leases in one call, the limit is %d", ErrTooLarge, n, MaxBatchJobs)
	}
	if size := r.Size(); size > MaxCallBytes {
		return fmt.Errorf("%w: %d bytes of notes and log lines in one call, the limit is %d", ErrTooLarge, size, MaxCallBytes)
	}
	return nil
}

// Size is what the notes and lines of r count towards MaxCallBytes.
func (r *ExtendRequest) Size() (size int) {
	for i := range r.Leases {
		size += r.Leases[i].Size()
	}
	return size
}

// Size is what x counts towards MaxCallBytes.
func (x *Extension) Size() (size int) {
	if x.Progress != nil {
		size += len(x.Progress.Note)
	}
	for _, line := range x.Log {
		size += len(line)
	}
	return size
}

func (w *Worker) validate() error {
	for _, f := range [...]struct {
		field string
		value string
		limit int
	}{{"worker id", w.ID, MaxNameBytes}, {"worker name", w.Name, MaxNameBytes}, {"worker host", w.Host, MaxTagBytes}} {
		if err := within(f.field, len(f.value), f.limit); err != nil {
			return err
		}
	}
	for _, l := range [...]struct {
		field string
		names []string
	}{{"queue", w.Queues}, {"task", w.Tasks}} {
		if err := atMost(l.field+"s of a worker", len(l.names), MaxWorkerNames); err != nil {
			return err
		}
		for _, name := range l.names {
			if err := within(l.field+" of a worker", len(name), MaxNameBytes); err != nil {
				return err
			}
		}
	}
	if w.PID < 0 || w.Concurrency < 0 {
		return fmt.Errorf("%w: a worker with pid %d and concurrency %d: neither is below 0", ErrInvalid, w.PID, w.Concurrency)
	}
	return nil
}

// Validate checks everything about t that needs no store, its jobs excepted. Its
// error wraps ErrInvalid.
func (t *Tick) Validate() error {
	for _, name := range [...]struct{ field, value string }{{"queue", t.Queue}, {"schedule", t.Schedule}} {
		if err := ValidName(name.value); err != nil {
			return fmt.Errorf("%w: %s name %w", ErrInvalid, name.field, err)
		}
	}
	for _, at := range [...]struct {
		field string
		value time.Time
	}{{"due", t.Due}, {"next", t.Next}} {
		if !at.value.IsZero() && (at.value.After(MaxTime) || !at.value.After(time.Unix(0, 0))) {
			return fmt.Errorf("%w: tick of schedule %s: %s is %v, allowed are the years 1970 to %d", ErrInvalid, t.Schedule, at.field, at.value, MaxTime.Year())
		}
	}
	if t.Due.IsZero() && len(t.Jobs) > 0 {
		return fmt.Errorf("%w: the first tick of schedule %s only sets its cursor, and has %d jobs", ErrInvalid, t.Schedule, len(t.Jobs))
	}
	return nil
}

// Validate checks everything about a change that needs no store. Its error
// wraps ErrInvalid, or ErrTooLarge for a change that is too large, and names the
// field.
func (c *Change) Validate() error {
	if c.Declare || len(c.Undeclare) > 0 {
		if err := ValidName(c.Owner); err != nil {
			return fmt.Errorf("%w: owner %w", ErrInvalid, err)
		}
	}
	if c.Declare {
		switch {
		case len(c.Clear)+len(c.Undeclare) > 0:
			return fmt.Errorf("%w: a declaration clears by leaving out", ErrInvalid)
		case len(c.Pause)+len(c.Resume) > 0:
			return fmt.Errorf("%w: a declaration neither pauses nor resumes: an operator does", ErrInvalid)
		case c.Age < 0 || c.Age > MaxDelay:
			return fmt.Errorf("%w: a start %v ago, allowed are 0 to %v", ErrInvalid, c.Age, MaxDelay)
		}
	}
	if err := atMost("settings in one change", len(c.Set)+len(c.Clear)+len(c.Undeclare)+len(c.Pause)+len(c.Resume), MaxChangeSettings); err != nil {
		return err
	}
	for _, name := range c.Pause {
		if slices.Contains(c.Resume, name) {
			return fmt.Errorf("%w: schedule %.64q is both paused and resumed", ErrInvalid, name)
		}
	}
	return c.validateSet()
}

func (c *Change) validateSet() error {
	seen := make(map[SettingName]bool, len(c.Set))
	for i := range c.Set {
		t := &c.Set[i]
		if err := t.Validate(); err != nil {
			return err
		}
		if err := t.pure(); err != nil {
			return err
		}
		name := SettingName{t.Kind, t.Name}
		if seen[name] {
			return fmt.Errorf("%w: %s %q is set twice", ErrInvalid, t.Kind, t.Name)
		}
		if seen[name] = true; slices.Contains(c.Clear, name) {
			return fmt.Errorf("%w: %s %q is both set and cleared", ErrInvalid, t.Kind, t.Name)
		}
	}
	if size := c.Size(); size > MaxCallBytes {
		return fmt.Errorf("%w: settings of %d bytes in one change, the limit is %d", ErrTooLarge, size, MaxCallBytes)
	}
	return nil
}

// pure refuses what belongs to another kind of setting: nobody has checked it.
func (s *Setting) pure() error {
	for _, f := range [...]struct {
		kind SettingKind
		set  bool
	}{
		{LimitSetting, s.Limit != nil}, {WeightSetting, s.Weight != 0}, {CapacitySetting, s.Capacity != nil},
		{RetentionSetting, s.Retention != nil}, {AgeingSetting, s.Ageing != 0}, {ScheduleSetting, s.Schedule != nil},
	} {
		if f.set && f.kind != s.Kind {
			return fmt.Errorf("%w: %s %.64q: has the %s of another kind of setting", ErrInvalid, s.Kind, s.Name, f.kind)
		}
	}
	return nil
}

// settingBytes is more than the fields of a setting take that have no texts.
const settingBytes = 512

// Size is about what the settings of c take in a store, and what they count
// towards MaxCallBytes.
func (c *Change) Size() (size int) {
	for i := range c.Set {
		t := &c.Set[i]
		size += settingBytes
		if t.Limit != nil {
			for _, task := range t.Limit.Tasks {
				size += len(task) + 3
			}
		}
		if s := t.Schedule; s != nil { // as JSON: base64, and escapes at their worst
			size += len(s.Job.Payload)*4/3 + 6*(s.Job.Size()-len(s.Job.Payload)+len(s.Spec)+len(s.Zone))
		}
	}
	return size
}
