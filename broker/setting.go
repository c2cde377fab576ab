package broker

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Setting is a record of the store that governs one queue: a limit, a weight,
// a capacity, a retention, ageing, or a schedule. Kind and Name are its
// identity within the queue; of the other fields the one of its kind is set.
//
// Code declares settings under an owner, an operator sets them by hand. An
// operator's setting wins over a declared one of the same kind and name until
// it is cleared; the declared one is kept meanwhile, and shown in Declared.
type Setting struct {
	Kind SettingKind `json:"kind"`
	// Name: of a limit or schedule, its own; of a weight, a tenant; of a
	// retention, a task, or "" for the whole queue; of a capacity, "" for the
	// queue or "tenant" for each tenant; of ageing, "".
	Name string `json:"name"`

	Limit     *Limit     `json:"limit,omitempty"`
	Weight    int        `json:"weight,omitempty"` // 1 to MaxWeight
	Capacity  *Capacity  `json:"capacity,omitempty"`
	Retention *Retention `json:"retention,omitempty"`
	// Ageing is the step in which waiting jobs rise: one that is ready for that
	// long goes before one of the next higher priority that has just become ready.
	Ageing   time.Duration `json:"ageing,omitempty"`
	Schedule *Schedule     `json:"schedule,omitempty"`

	// Owner is who declared it; "" says that an operator set it.
	Owner string `json:"owner,omitempty"`
	// Revision rises with every change of the setting. In a change it is what
	// the caller saw; 0 changes it whatever it is now.
	Revision uint64 `json:"revision,omitempty"`
	// Declared is what code declares while an operator's setting wins.
	Declared *Setting `json:"declared,omitempty"`
}

// SettingKind is the sort of a Setting.
type SettingKind string

// The kinds of settings.
const (
	LimitSetting     SettingKind = "limit"
	WeightSetting    SettingKind = "weight"
	CapacitySetting  SettingKind = "capacity"
	RetentionSetting SettingKind = "retention"
	AgeingSetting    SettingKind = "ageing"
	ScheduleSetting  SettingKind = "schedule"
)

// MaxWeight is the largest weight of a tenant. A tenant without one has 1.
const MaxWeight = 10_000

// Limit is a ceiling on the claims of some tasks: a rate, or a number of
// unfinished leases, in total or for each tenant or group by itself. At most
// MaxTaskLimits limits bind one task. A job over a limit is not claimed: it
// keeps its place and burns no attempt. Limits are counted at claim instants on
// the broker's clock; a release refunds nothing; a new epoch (a restart of the
// machine) starts with empty buckets. A handler that outlives its lease may
// overlap with the next.
type Limit struct {
	Tasks []string `json:"tasks"` // that it binds; one at least, MaxLimitTasks at most
	Per   Scope    `json:"per,omitempty"`
	// Rate: Count claims per Every, Burst at once (at least 1; 0 means Count).
	Count int64         `json:"count,omitempty"`
	Every time.Duration `json:"every,omitempty"`
	Burst int64         `json:"burst,omitempty"`
	// Running: unfinished leases at a time. Either this or a rate is set.
	Running int `json:"running,omitempty"`
}

// MaxTaskLimits is how many limits may bind one task.
const MaxTaskLimits = 4

// Scope says by what a limit counts.
type Scope string

// The scopes of a limit.
const (
	PerQueue  Scope = ""       // all jobs that it binds together
	PerTenant Scope = "tenant" // each tenant by itself
	PerGroup  Scope = "group"  // each group by itself; a job without one counts for its tenant
)

// Capacity is a ceiling on what waits and runs in a queue: scheduled, ready
// and leased jobs, and their bytes (payload and headers). Only Enqueue is
// checked; follow-ups, ticks and requeues may overshoot. A capacity below what
// is there drops nothing.
type Capacity struct {
	Jobs  int64 `json:"jobs,omitempty"`  // 0 means no ceiling
	Bytes int64 `json:"bytes,omitempty"` // 0 means no ceiling
	// DropOldest makes room by cancelling the ready job of the lowest
	// priority that waits longest (of the same tenant, for a tenant's
	// capacity), instead of refusing.
	DropOldest bool `json:"drop_oldest,omitempty"`
}

// Retention is how long finished jobs of a queue or task are kept; it stands
// in for NewJob.Retain 0. 0 means the default of that state, negative means not
// at all. Dead 0 keeps dead letters for ever.
type Retention struct {
	Done      time.Duration `json:"done,omitempty"`
	Dead      time.Duration `json:"dead,omitempty"`
	Cancelled time.Duration `json:"cancelled,omitempty"`
}

// Schedule enqueues a job at each instant of an expression. The broker keeps
// the cursor; what the expression means is the client's business (package
// cron), since it alone moves the cursor.
type Schedule struct {
	Spec   string        `json:"spec"`             // five or six fields, @hourly, @every 5m
	Zone   string        `json:"zone,omitempty"`   // IANA name; "" means UTC
	DST    string        `json:"dst,omitempty"`    // "wall" (default) or "vixie"
	Missed string        `json:"missed,omitempty"` // "latest" (default), "all", "skip"
	Cap    int           `json:"cap,omitempty"`    // at most so many of the missed, up to MaxMissed; 0 means 100
	Grace  time.Duration `json:"grace,omitempty"`  // for "skip": how late is not missed; 0 means 1 minute
	Job    NewJob        `json:"job"`              // without Delay, At and batch; ID is unused. Its strings are UTF-8

	// What follows is kept by the broker beside what was set or declared. In a
	// change it means nothing; of a Declared schedule it is zero.

	// Paused says that an operator stopped the schedule: Change.Pause.
	Paused bool `json:"paused,omitempty"`
	// Due is the cursor: the next instant. It is zero until the first Tick set
	// it, and again when Spec, Zone or DST change.
	Due time.Time `json:"due,omitzero"`
}

// Change is one change of a queue's settings, made in one commit.
type Change struct {
	// Declare says that Set replaces everything that Owner had declared for the
	// queue: the start of a program, or its rollback, ends with its own set. An
	// unchanged schedule keeps its cursor.
	Declare bool
	Owner   string // who declares, or of whom Undeclare is
	// Start names the start of the program that declares, and Age is how long
	// ago that was, 0 to MaxDelay. The last start wins: once one of an owner has
	// declared for the queue, ErrConflict refuses an older one that comes late,
	// whatever it declares. The same start may declare again. A zero Start is
	// one of its own. (How long ago, since it is the broker's clock that decides
	// which of two starts is the later one.) A start that left nothing declared
	// is remembered for StartKept.
	Start ID
	Age   time.Duration
	// Set adds or replaces settings: an operator's when Declare is not set.
	Set []Setting
	// Clear removes an operator's settings, so that what is declared holds
	// again. One that was never set is no error; one that is in Set, too, is
	// refused.
	Clear []SettingName
	// Undeclare removes what Owner declares under these names, an operator's
	// settings over it excepted: for what a program left that is gone. Its next
	// start declares it again. What Owner does not declare is no error.
	Undeclare []SettingName
	// Pause and Resume name schedules that an operator stops, or lets go on. A
	// pause is a fact beside the setting: no declaration, no operator's change
	// and no clearing ends it, and it changes no revision; only a schedule that
	// is gone takes its pause along. They come after Set, Clear and Undeclare, and are
	// refused with ErrConflict when there is no such schedule then.
	Pause, Resume []string
}

// StartKept is how long the start of an owner who declares nothing is known.
const StartKept = 7 * 24 * time.Hour

// SettingName is the identity of a setting within its queue.
type SettingName struct {
	Kind SettingKind `json:"kind"`
	Name string      `json:"name"`
}

// Tick moves a schedule's cursor and enqueues the jobs of the instants that it
// passes.
type Tick struct {
	Queue, Schedule string
	Due             time.Time // where the caller saw the cursor
	Next            time.Time // where it goes; zero when the expression never fires again
	Jobs            []NewJob
}

// QueueSetting is a setting and the queue that it governs.
type QueueSetting struct {
	Queue string `json:"queue"`
	Setting
}

// Validate checks everything about s that needs no store. Its error wraps
// ErrInvalid and names the field.
func (s *Setting) Validate() error {
	bad := func(format string, args ...any) error {
		what := fmt.Sprintf("%.64s %.64q", s.Kind, s.Name)
		if s.Name == "" && (s.Kind == CapacitySetting || s.Kind == RetentionSetting || s.Kind == AgeingSetting) {
			what = string(s.Kind) + " of the queue"
		}
		return fmt.Errorf("%w: %s: %s", ErrInvalid, what, fmt.Sprintf(format, args...))
	}
	switch s.Kind {
	case LimitSetting:
		if err := ValidName(s.Name); err != nil {
			return bad("its name %v", err)
		}
		if s.Limit == nil {
			return bad("has no limit")
		}
		return s.Limit.validate(bad)
	case WeightSetting:
		if !utf8.ValidString(s.Name) {
			return bad("the tenant is not valid UTF-8")
		}
		if s.Weight < 1 || s.Weight > MaxWeight {
			return bad("weight is %d, allowed are 1 to %d", s.Weight, MaxWeight)
		}
		if len(s.Name) > MaxTagBytes {
			return bad("the tenant has %d bytes, the limit is %d", len(s.Name), MaxTagBytes)
		}
	case CapacitySetting:
		c := s.Capacity
		if c == nil || c.Jobs < 0 || c.Bytes < 0 || c.Jobs == 0 && c.Bytes == 0 {
			return bad("a capacity is a number of jobs or bytes above 0")
		}
		if s.Name != "" && s.Name != TenantCapacity {
			return bad("a capacity is for the queue (%q) or for each tenant (%q)", "", TenantCapacity)
		}
	case RetentionSetting:
		if s.Retention == nil {
			return bad("has no retention")
		}
		if max(s.Retention.Done, s.Retention.Dead, s.Retention.Cancelled) > MaxDelay {
			return bad("a retention is at most 100 years")
		}
		if s.Name != "" {
			if err := ValidName(s.Name); err != nil {
				return bad("the task %v", err)
			}
		}
	case AgeingSetting:
		if s.Ageing <= 0 || s.Ageing > MaxDelay {
			return bad("the step is %v, it has to be above 0 and at most 100 years", s.Ageing)
		}
	case ScheduleSetting:
		if err := ValidName(s.Name); err != nil {
			return bad("its name %v", err)
		}
		if s.Schedule == nil || s.Schedule.Spec == "" {
			return bad("has no expression")
		}
		return s.Schedule.validate(bad)
	default:
		return bad("is of no known kind")
	}
	return nil
}

// TenantCapacity is the name of the capacity that each tenant has.
const TenantCapacity = "tenant"

func (l *Limit) validate(bad func(string, ...any) error) error {
	rate := l.Count != 0 || l.Every != 0 || l.Burst != 0
	switch {
	case len(l.Tasks) == 0:
		return bad("it binds no task")
	case len(l.Tasks) > MaxLimitTasks:
		return bad("it binds %d tasks, the limit is %d", len(l.Tasks), MaxLimitTasks)
	case rate == (l.Running != 0):
		return bad("it is either a rate or a number of running jobs")
	case rate && (l.Count < 1 || l.Every < 1 || l.Burst < 0):
		return bad("a rate of %d per %v with burst %d: each has to be above 0", l.Count, l.Every, l.Burst)
	case rate && (l.Count > 1e9 || l.Every > MaxDelay || l.Burst > 1e9):
		return bad("a rate of %d per %v with burst %d is out of range", l.Count, l.Every, l.Burst)
	case l.Running < 0:
		return bad("%d running jobs: it has to be above 0", l.Running)
	case l.Per != PerQueue && l.Per != PerTenant && l.Per != PerGroup:
		return bad("scope %q is none of \"\", tenant, group", l.Per)
	}
	for _, t := range l.Tasks {
		if err := ValidName(t); err != nil {
			return bad("the task %v", err)
		}
	}
	return nil
}

func (s *Schedule) validate(bad func(string, ...any) error) error {
	j := &s.Job
	if err := j.Validate(0); err != nil {
		return err
	}
	// A setting is kept as JSON, which has no other bytes than UTF-8.
	for _, f := range [...]struct{ field, value string }{
		{"expression", s.Spec}, {"zone", s.Zone}, {"tenant of its job", j.Tenant}, {"group of its job", j.Group}, {"key of its job", j.Key},
	} {
		if !utf8.ValidString(f.value) {
			return bad("the %s is not valid UTF-8: %.64q", f.field, f.value)
		}
	}
	for name, value := range j.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return bad("the header %.64q of its job is not valid UTF-8: %.64q", name, value)
		}
	}
	switch {
	case s.DST != "" && s.DST != "wall" && s.DST != "vixie":
		return bad("DST policy %.64q is unknown, allowed are wall (or nothing) and vixie", s.DST)
	case s.Missed != "" && s.Missed != "latest" && s.Missed != "all" && s.Missed != "skip":
		return bad("policy %.64q for missed instants is unknown, allowed are latest (or nothing), all and skip", s.Missed)
	case len(s.Spec) > MaxSpecBytes:
		return bad("the expression has %d bytes, the limit is %d", len(s.Spec), MaxSpecBytes)
	case len(s.Zone) > MaxTagBytes:
		return bad("the zone has %d bytes, the limit is %d", len(s.Zone), MaxTagBytes)
	case s.Cap < 0 || s.Cap > MaxMissed:
		return bad("the cap is %d, allowed are 1 to %d (0 means 100)", s.Cap, MaxMissed)
	case s.Grace < 0 || s.Grace > MaxDelay:
		return bad("the grace is %v, allowed are 0 (which means 1 minute) to %v", s.Grace, MaxDelay)
	case j.Delay != 0 || !j.At.IsZero():
		return bad("its job has a delay or a time, but is due at the instants of the expression")
	case j.BatchSize > 0 || !j.Batch.IsZero():
		return bad("its job is part of a batch, which is enqueued in one call with all its members")
	}
	return nil
}
