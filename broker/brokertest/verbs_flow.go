package brokertest

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// change makes a change of the usual queue's settings and returns its error.
func (f *fixture) change(c broker.Change) error {
	f.Helper()
	return f.b.Configure(f.ctx, broker.NewCall(), queue, c)
}

// set sets settings of the usual queue as an operator does.
func (f *fixture) set(settings ...broker.Setting) {
	f.Helper()
	f.must("set", f.change(broker.Change{Set: settings}))
}

// declare declares all that an owner has for the usual queue.
func (f *fixture) declare(owner string, settings ...broker.Setting) {
	f.Helper()
	f.must("declare", f.change(broker.Change{Declare: true, Owner: owner, Set: settings}))
}

// clear clears operator's settings of the usual queue.
func (f *fixture) clear(settings ...broker.Setting) {
	f.Helper()
	var c broker.Change
	for i := range settings {
		c.Clear = append(c.Clear, nameOf(&settings[i]))
	}
	f.must("clear", f.change(c))
}

// pause stops schedules of the usual queue, as an operator does.
func (f *fixture) pause(names ...string) {
	f.Helper()
	f.must("pause", f.change(broker.Change{Pause: names}))
}

// resume lets schedules of the usual queue go on.
func (f *fixture) resume(names ...string) {
	f.Helper()
	f.must("resume", f.change(broker.Change{Resume: names}))
}

// settings reads the settings in force of a queue, "" for all.
func (f *fixture) settings(queue string) []broker.QueueSetting {
	f.Helper()
	all, err := f.b.Settings(f.ctx, queue)
	f.must("settings", err)
	return all
}

// inForce reads one setting of the usual queue; its Kind is "" for none.
func (f *fixture) inForce(kind broker.SettingKind, name string) broker.Setting {
	f.Helper()
	for _, s := range f.settings(queue) {
		if s.Kind == kind && s.Name == name {
			return s.Setting
		}
	}
	return broker.Setting{}
}

// wantSettings wants the usual queue to have exactly these settings in force,
// in the order of their kinds and names, whoever set them.
func (f *fixture) wantSettings(what string, settings ...broker.Setting) {
	f.Helper()
	got := f.settings(queue)
	if len(got) != len(settings) {
		f.Errorf("%s: %d settings, want %d:\n%s", what, len(got), len(settings), settingsText(got))
		return
	}
	for i := range settings {
		if g, w := settingText(cloneSetting(&got[i].Setting)), settingText(cloneSetting(&settings[i])); g != w {
			f.Errorf("%s: setting %d is %s, want %s", what, i, g, w)
		}
	}
}

// running is a limit of n running jobs of some tasks, the usual one if none is
// named.
func running(name string, per broker.Scope, n int, tasks ...string) broker.Setting {
	return broker.Setting{Kind: broker.LimitSetting, Name: name, Limit: &broker.Limit{Tasks: orUsual(tasks), Per: per, Running: n}}
}

// rated is a limit of count claims per every, burst at once.
func rated(name string, per broker.Scope, count int64, every time.Duration, burst int64, tasks ...string) broker.Setting {
	return broker.Setting{Kind: broker.LimitSetting, Name: name, Limit: &broker.Limit{
		Tasks: orUsual(tasks), Per: per, Count: count, Every: every, Burst: burst,
	}}
}

func orUsual(tasks []string) []string {
	if len(tasks) == 0 {
		return []string{task}
	}
	return tasks
}

func weight(tenant string, n int) broker.Setting {
	return broker.Setting{Kind: broker.WeightSetting, Name: tenant, Weight: n}
}

func capacity(name string, c broker.Capacity) broker.Setting {
	return broker.Setting{Kind: broker.CapacitySetting, Name: name, Capacity: &c}
}

func retention(task string, r broker.Retention) broker.Setting {
	return broker.Setting{Kind: broker.RetentionSetting, Name: task, Retention: &r}
}

func ageing(step time.Duration) broker.Setting {
	return broker.Setting{Kind: broker.AgeingSetting, Ageing: step}
}

func schedule(name, spec string) broker.Setting {
	return broker.Setting{Kind: broker.ScheduleSetting, Name: name, Schedule: &broker.Schedule{Spec: spec, Job: broker.NewJob{Task: task}}}
}

// everyKind is one setting of each kind, in the order of Settings.
func everyKind() []broker.Setting {
	s := schedule("nightly", "0 3 * * *")
	*s.Schedule = broker.Schedule{
		Spec: "0 3 * * *", Zone: "Europe/Paris", DST: "vixie", Missed: "all", Cap: 7, Grace: time.Minute,
		Job: broker.NewJob{Task: "report", Payload: []byte("\x00\xff{}"), Headers: map[string]string{"h": "1"}, Priority: -3, Tenant: "acme", Group: "g", Ordered: true, Key: "k"},
	}
	return []broker.Setting{
		ageing(90 * time.Second), capacity("", broker.Capacity{Jobs: 1_000_000, Bytes: 1 << 40, DropOldest: true}),
		capacity(broker.TenantCapacity, broker.Capacity{Jobs: 1000}),
		running("slots", broker.PerGroup, 3, "a", "b"), rated("speed", broker.PerTenant, 10, time.Second, 2),
		retention("", broker.Retention{Done: time.Hour, Dead: 24 * time.Hour}), retention("mail", broker.Retention{Cancelled: -1}),
		s, weight("acme", 7), weight("b\x00 \"c\"", broker.MaxWeight),
	}
}

// of is a plain job of a tenant.
func of(tenant string) broker.NewJob {
	return with(func(n *broker.NewJob) { n.Tenant = tenant })
}

// ofGroup is a plain job of a group.
func ofGroup(group string) broker.NewJob {
	return with(func(n *broker.NewJob) { n.Group = group })
}

// tenants lists whose the leased jobs are, in the order of the leases.
func tenants(leases []broker.Lease) (names []string) {
	for _, l := range leases {
		names = append(names, l.Job.Tenant)
	}
	return names
}

// hold takes up to limit jobs of the usual queue for longer than any case lasts.
func (f *fixture) hold(limit int) []broker.Lease {
	f.Helper()
	return f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: limit, TTL: 10_000 * time.Hour}).Leases
}

// holdOne takes exactly one job in that way.
func (f *fixture) holdOne() broker.Lease {
	f.Helper()
	return exactly(f, "leases", f.hold(1), 1)[0]
}

// tickTo moves a schedule's cursor from due to next, with jobs, and returns
// whether it did.
func (f *fixture) tickTo(name string, due, next time.Time, jobs ...broker.NewJob) bool {
	f.Helper()
	won, now, err := f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: name, Due: due, Next: next, Jobs: jobs})
	f.must("tick", err)
	f.wantTime("now", now, f.now())
	return won
}
