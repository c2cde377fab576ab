package filebroker

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
)

// configure changes the settings of a queue.
func (c *twin) configure(queue string, change broker.Change) {
	c.s.Helper()
	c.step("configure")
	must(c.s, c.real.Configure(context.Background(), broker.NewCall(), queue, change))
	must(c.s, c.model.Configure(context.Background(), broker.NewCall(), queue, change))
	c.done(true)
}

// tick moves the cursor of a schedule.
func (c *twin) tick(t broker.Tick) {
	c.s.Helper()
	c.step("tick")
	won, _, err := c.real.Tick(context.Background(), broker.NewCall(), t)
	must(c.s, err)
	want, _, err := c.model.Tick(context.Background(), broker.NewCall(), t)
	must(c.s, err)
	if won != want {
		c.s.Fatalf("tick: won %v, the model says %v", won, want)
	}
	c.done(true)
}

// claimIn claims jobs of a queue, and wants those numbers.
func (c *twin) claimIn(queue string, most int, n ...int) {
	c.s.Helper()
	leases := c.claim(broker.ClaimRequest{Queues: []string{queue}, Max: most, TTL: hour, Worker: "flow", Remote: true})
	if len(leases) != len(n) {
		c.s.Fatalf("%d leases in %s, want %v", len(leases), queue, n)
	}
	for i, l := range leases {
		if l.Job.ID != labID(n[i]) {
			c.s.Fatalf("claimed %v in %s, want number %d", l.Job.ID, queue, n[i])
		}
	}
}

// everyFlow plays settings of every kind, limits that bind, schedules, batches,
// full queues and repeats of keys. It leaves no job but those of its queues.
func everyFlow(s *scene, a, b *twin, n int) {
	tag := string(rune('a' + n/200))
	everySetting(s, a, b, "f"+tag, n)
	everyLimit(a, b, "f"+tag, n+20)
	everyBatch(a, b, "b"+tag, n+40)
	everyRepeat(a, b, "k"+tag, n+60)
}

// everySetting declares and sets settings, clears one, and moves a schedule.
func everySetting(s *scene, a, b *twin, queue string, n int) {
	hourly := broker.Schedule{Spec: "@hourly", Zone: "UTC", Missed: "all", Cap: 3, Job: broker.NewJob{Task: "tick", Headers: map[string]string{"a": "b"}}}
	a.configure(queue, broker.Change{Declare: true, Owner: "program", Start: broker.ID{byte(n), 1}, Set: []broker.Setting{
		{Kind: broker.LimitSetting, Name: "rate", Limit: &broker.Limit{Tasks: []string{"t"}, Count: 3, Every: hour}},
		{Kind: broker.LimitSetting, Name: "running", Limit: &broker.Limit{Tasks: []string{"u"}, Per: broker.PerGroup, Running: 1}},
		{Kind: broker.WeightSetting, Name: "x", Weight: 3},
		{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 6, DropOldest: true}},
		{Kind: broker.RetentionSetting, Name: "u", Retention: &broker.Retention{Done: 2 * hour, Dead: 30 * hour, Cancelled: -1}},
		{Kind: broker.ScheduleSetting, Name: "hourly", Schedule: &hourly},
	}})
	b.configure(queue, broker.Change{Set: []broker.Setting{
		{Kind: broker.WeightSetting, Name: "x", Weight: 2},
		{Kind: broker.WeightSetting, Name: "y", Weight: 9},
	}})
	b.configure(queue, broker.Change{Clear: []broker.SettingName{{Kind: broker.WeightSetting, Name: "y"}}})
	b.configure(queue, broker.Change{Pause: []string{"hourly"}})
	a.configure(queue, broker.Change{Resume: []string{"hourly"}})
	b.configure(queue, broker.Change{Set: []broker.Setting{{Kind: broker.ScheduleSetting, Name: "stopped", Schedule: &hourly}}, Pause: []string{"stopped"}})
	due := s.m.Clock.Wall().Add(-time.Minute).Truncate(time.Second)
	a.tick(broker.Tick{Queue: queue, Schedule: "hourly", Next: due})
	tick := broker.Tick{Queue: queue, Schedule: "hourly", Due: due, Next: due.Add(hour), Jobs: []broker.NewJob{{ID: labID(n), Task: "tick"}}}
	b.tick(tick)
	a.tick(tick) // it is won already: no frame
	a.claimIn(queue, 1, n)
	a.endIn(queue, broker.Ack, nil, n)
}

// everyLimit claims from lanes that limits, groups and shares hold back, and
// fills a queue over its capacity.
func everyLimit(a, b *twin, queue string, n int) {
	of := func(k int, task, tenant, group string, ordered bool) broker.NewJob {
		return labJob(k, func(j *broker.NewJob) { j.Task, j.Tenant, j.Group, j.Ordered = task, tenant, group, ordered })
	}
	a.enqueue(queue, of(n, "t", "x", "", false), of(n+1, "t", "y", "", false), of(n+2, "t", "x", "", false), of(n+3, "t", "x", "", false))
	b.enqueue(queue, of(n+4, "u", "", "g", false), of(n+5, "u", "", "g", false))
	got := a.claim(broker.ClaimRequest{Queues: []string{queue}, Tasks: []string{"t"}, Max: 9, TTL: hour, Worker: "flow", Remote: true})
	if len(got) != 3 {
		a.s.Fatalf("%d claims within the rate, want 3", len(got))
	}
	b.claim(broker.ClaimRequest{Queues: []string{queue}, Tasks: []string{"u"}, Max: 9, TTL: hour, Worker: "flow", Remote: true})
	a.enqueue(queue, of(n+6, "v", "z", "h", true), of(n+7, "v", "z", "h", true)) // two over the capacity: the oldest are dropped
	a.command(broker.CancelJobs, broker.Filter{Queue: queue}, "")
	a.pass(2 * hour) // leases run out
	a.command(broker.CancelJobs, broker.Filter{Queue: queue}, "")
	a.command(broker.DeleteJobs, broker.Filter{Queue: queue}, "")
}

// everyBatch enqueues a batch and ends its members.
func everyBatch(a, b *twin, queue string, n int) {
	member := func(k int, ordinal uint32) broker.NewJob {
		return labJob(k, func(j *broker.NewJob) { j.Batch, j.BatchOrdinal, j.MaxAttempts = labID(n), ordinal, 1 })
	}
	whole := labJob(n, func(j *broker.NewJob) { j.BatchSize = 2 })
	a.enqueue(queue, whole, member(n+1, 0), member(n+2, 1))
	b.claimIn(queue, 9, n+1, n+2)
	b.endIn(queue, broker.Ack, nil, n+1)
	a.endIn(queue, broker.Nack, nil, n+2) // dead: the batch is complete
	a.claimIn(queue, 9, n)
	a.endIn(queue, broker.Ack, nil, n)
}

// everyRepeat repeats keys in every way.
func everyRepeat(a, b *twin, queue string, n int) {
	keyed := func(k int, repeat broker.KeyRepeat, payload string, delay time.Duration) broker.NewJob {
		return labJob(k, func(j *broker.NewJob) {
			j.Key, j.KeyRepeat, j.Payload, j.Delay = "key", repeat, []byte(payload), delay
		})
	}
	a.enqueue(queue, keyed(n, broker.RepeatReplace, "one", time.Minute))
	b.enqueue(queue, keyed(n+1, broker.RepeatReplace, "two", 2*time.Minute))
	b.enqueue(queue, keyed(n+2, broker.RepeatDebounce, "three", 3*time.Minute))
	a.pass(4 * time.Minute)
	a.claimIn(queue, 9, n)
	a.endIn(queue, broker.Ack, nil, n)
}
