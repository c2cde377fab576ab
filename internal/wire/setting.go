package wire

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// Setting governs one queue: kind and name are its identity within it, and the
// field of its kind is set.
type Setting struct {
	Queue     string           `json:"queue,omitzero" doc:"In answers: the queue that it governs."`
	Kind      string           `json:"kind" enum:"limit,weight,capacity,retention,ageing,schedule"`
	Name      string           `json:"name,omitzero" doc:"Of a limit or schedule, its own; of a weight, a tenant; of a retention, a task, or none for the queue; of a capacity, none for the queue or \"tenant\" for each tenant."`
	Limit     *Limit           `json:"limit,omitzero"`
	Weight    int              `json:"weight,omitzero" doc:"The tenant's share, 1 to 10000."`
	Capacity  *broker.Capacity `json:"capacity,omitzero"`
	Retention *Retention       `json:"retention,omitzero"`
	Ageing    Duration         `json:"ageing,omitzero" doc:"The step in which waiting jobs rise by one priority."`
	Schedule  *Schedule        `json:"schedule,omitzero"`
	Owner     string           `json:"owner,omitzero" doc:"Who declared it; left out of what an operator set."`
	Revision  uint64           `json:"revision,omitzero" doc:"Rises with every change. In a change: what the caller saw; left out to change it whatever it is."`
	Declared  *Setting         `json:"declared,omitzero" doc:"What code declares while an operator's setting wins."`
}

// Limit is a ceiling on the claims of some tasks: a rate, or a number of jobs
// that run.
type Limit struct {
	Tasks   []string `json:"tasks" doc:"That it binds."`
	Per     string   `json:"per,omitzero" enum:"tenant,group" doc:"By what it counts; together when left out."`
	Count   int64    `json:"count,omitzero" doc:"Of a rate: so many per every."`
	Every   Duration `json:"every,omitzero" example:"1s"`
	Burst   int64    `json:"burst,omitzero" doc:"Of a rate: so many at once; count when left out."`
	Running int      `json:"running,omitzero" doc:"Jobs that run at a time, in place of a rate."`
}

// Retention is how long finished jobs are kept: left out for the default,
// negative for not at all.
type Retention struct {
	Done      Duration `json:"done,omitzero"`
	Dead      Duration `json:"dead,omitzero" doc:"For ever when left out."`
	Cancelled Duration `json:"cancelled,omitzero"`
}

// Schedule enqueues a job at each instant of an expression.
type Schedule struct {
	Spec   string    `json:"spec" doc:"Five or six fields, @hourly, @every 5m." example:"0 4 * * *"`
	Zone   string    `json:"zone,omitzero" doc:"An IANA name; UTC when left out." example:"Europe/Berlin"`
	DST    string    `json:"dst,omitzero" enum:"wall,vixie"`
	Missed string    `json:"missed,omitzero" enum:"latest,all,skip" doc:"What of the instants that nobody saw is run; latest when left out."`
	Cap    int       `json:"cap,omitzero" doc:"At most so many of the missed; 100 when left out."`
	Grace  Duration  `json:"grace,omitzero" doc:"Of skip: how late is not missed; 1m when left out."`
	Job    NewJob    `json:"job" doc:"Without id, delay, at and batch."`
	Paused bool      `json:"paused,omitzero" doc:"In answers: an operator stopped it."`
	Due    time.Time `json:"due,omitzero" doc:"In answers: the next instant."`
}

// SettingOf is the shape of s.
func SettingOf(queue string, s *broker.Setting) Setting {
	v := Setting{
		Queue: queue, Kind: string(s.Kind), Name: s.Name, Weight: s.Weight, Capacity: s.Capacity,
		Ageing: Duration(s.Ageing), Owner: s.Owner, Revision: s.Revision,
	}
	if l := s.Limit; l != nil {
		v.Limit = &Limit{l.Tasks, string(l.Per), l.Count, Duration(l.Every), l.Burst, l.Running}
	}
	if r := s.Retention; r != nil {
		v.Retention = &Retention{Duration(r.Done), Duration(r.Dead), Duration(r.Cancelled)}
	}
	if c := s.Schedule; c != nil {
		v.Schedule = &Schedule{c.Spec, c.Zone, c.DST, c.Missed, c.Cap, Duration(c.Grace), NewJobOf(&c.Job), c.Paused, c.Due}
	}
	if s.Declared != nil {
		d := SettingOf("", s.Declared)
		v.Declared = &d
	}
	return v
}

// Setting returns what v is the shape of.
func (v *Setting) Setting() (s broker.Setting, err error) {
	s = broker.Setting{
		Kind: broker.SettingKind(v.Kind), Name: v.Name, Weight: v.Weight, Capacity: v.Capacity,
		Ageing: time.Duration(v.Ageing), Owner: v.Owner, Revision: v.Revision,
	}
	if l := v.Limit; l != nil {
		s.Limit = &broker.Limit{
			Tasks: l.Tasks, Per: broker.Scope(l.Per), Count: l.Count, Every: time.Duration(l.Every), Burst: l.Burst, Running: l.Running,
		}
	}
	if r := v.Retention; r != nil {
		s.Retention = &broker.Retention{Done: time.Duration(r.Done), Dead: time.Duration(r.Dead), Cancelled: time.Duration(r.Cancelled)}
	}
	if c := v.Schedule; c != nil {
		job, err := c.Job.NewJob()
		if err != nil {
			return s, err
		}
		s.Schedule = &broker.Schedule{
			Spec: c.Spec, Zone: c.Zone, DST: c.DST, Missed: c.Missed, Cap: c.Cap, Grace: time.Duration(c.Grace),
			Job: job, Paused: c.Paused, Due: c.Due,
		}
	}
	if v.Declared != nil {
		d, err := v.Declared.Setting()
		if err != nil {
			return s, err
		}
		s.Declared = &d
	}
	return s, nil
}

// Settings are the settings in force.
type Settings struct {
	Settings []Setting `json:"settings"`
}

func (v Settings) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "settings", v.Settings, appendSetting)
	return o.close()
}

func (v Setting) appendTo(b []byte) []byte { return appendSetting(b, &v) }

func appendSetting(b []byte, v *Setting) []byte {
	o := open(b)
	o.text("queue", v.Queue)
	o.text("kind", v.Kind)
	o.text("name", v.Name)
	if l := v.Limit; l != nil {
		o.nested("limit", func(o *object) {
			o.list("tasks", l.Tasks)
			o.text("per", l.Per)
			o.int("count", l.Count)
			o.duration("every", l.Every)
			o.int("burst", l.Burst)
			o.int("running", int64(l.Running))
		})
	}
	o.int("weight", int64(v.Weight))
	if c := v.Capacity; c != nil {
		o.nested("capacity", func(o *object) {
			o.int("jobs", c.Jobs)
			o.int("bytes", c.Bytes)
			o.bool("drop_oldest", c.DropOldest)
		})
	}
	if r := v.Retention; r != nil {
		o.nested("retention", func(o *object) {
			o.duration("done", r.Done)
			o.duration("dead", r.Dead)
			o.duration("cancelled", r.Cancelled)
		})
	}
	o.duration("ageing", v.Ageing)
	if v.Schedule != nil {
		o.nested("schedule", v.Schedule.members)
	}
	o.text("owner", v.Owner)
	o.int("revision", int64(v.Revision))
	if v.Declared != nil {
		o.name("declared")
		o.b = appendSetting(o.b, v.Declared)
	}
	return o.close()
}

func (v *Schedule) members(o *object) {
	o.text("spec", v.Spec)
	o.text("zone", v.Zone)
	o.text("dst", v.DST)
	o.text("missed", v.Missed)
	o.int("cap", int64(v.Cap))
	o.duration("grace", v.Grace)
	o.name("job")
	o.b = appendNewJob(o.b, &v.Job)
	o.bool("paused", v.Paused)
	o.time("due", v.Due)
}

// nested writes an object as a member.
func (o *object) nested(name string, members func(o *object)) {
	o.name(name)
	inner := open(o.b)
	members(&inner)
	o.b = inner.close()
}

// SettingName is the identity of a setting within its queue.
type SettingName struct {
	Kind string `json:"kind" enum:"limit,weight,capacity,retention,ageing,schedule"`
	Name string `json:"name,omitzero"`
}

// Change is one change of a queue's settings, made in one commit.
type Change struct {
	Set       []Setting     `json:"set,omitzero" doc:"Adds or replaces settings."`
	Clear     []SettingName `json:"clear,omitzero" doc:"Removes an operator's settings, so that what is declared holds again."`
	Pause     []string      `json:"pause,omitzero" doc:"Schedules to stop."`
	Resume    []string      `json:"resume,omitzero" doc:"Schedules that go on."`
	Undeclare []SettingName `json:"undeclare,omitzero" doc:"Removes what owner declares."`
	Owner     string        `json:"owner,omitzero" doc:"Who declares, or of whom undeclare is."`
	Declare   bool          `json:"declare,omitzero" doc:"Set replaces everything that owner had declared for the queue."`
	Start     broker.ID     `json:"start,omitzero" doc:"Names the start of the program that declares."`
	Age       Duration      `json:"age,omitzero" doc:"How long ago that was."`
}

// ChangeOf is the shape of c.
func ChangeOf(c *broker.Change) Change {
	v := Change{
		Declare: c.Declare, Owner: c.Owner, Start: c.Start, Age: Duration(c.Age), Pause: c.Pause, Resume: c.Resume,
		Clear: namesOf(c.Clear), Undeclare: namesOf(c.Undeclare),
	}
	for i := range c.Set {
		v.Set = append(v.Set, SettingOf("", &c.Set[i]))
	}
	return v
}

// Change returns what v is the shape of.
func (v *Change) Change() (c broker.Change, err error) {
	c = broker.Change{
		Declare: v.Declare, Owner: v.Owner, Start: v.Start, Age: time.Duration(v.Age), Pause: v.Pause, Resume: v.Resume,
		Clear: namesIn(v.Clear), Undeclare: namesIn(v.Undeclare),
	}
	for i := range v.Set {
		s, err := v.Set[i].Setting()
		if err != nil {
			return c, err
		}
		c.Set = append(c.Set, s)
	}
	return c, nil
}

func namesOf(names []broker.SettingName) (all []SettingName) {
	for _, n := range names {
		all = append(all, SettingName{string(n.Kind), n.Name})
	}
	return all
}

func namesIn(names []SettingName) (all []broker.SettingName) {
	for _, n := range names {
		all = append(all, broker.SettingName{Kind: broker.SettingKind(n.Kind), Name: n.Name})
	}
	return all
}

func (v Change) appendTo(b []byte) []byte {
	o := open(b)
	if v.Set != nil {
		array(&o, "set", v.Set, appendSetting)
	}
	for _, l := range []struct {
		field string
		names []SettingName
	}{{"clear", v.Clear}, {"undeclare", v.Undeclare}} {
		if l.names != nil {
			array(&o, l.field, l.names, func(b []byte, n *SettingName) []byte {
				o := open(b)
				o.text("kind", n.Kind)
				o.text("name", n.Name)
				return o.close()
			})
		}
	}
	o.list("pause", v.Pause)
	o.list("resume", v.Resume)
	o.text("owner", v.Owner)
	o.bool("declare", v.Declare)
	o.id("start", v.Start)
	o.duration("age", v.Age)
	return o.close()
}
