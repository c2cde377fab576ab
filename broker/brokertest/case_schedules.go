package brokertest

import (
	"errors"
	"time"

	"github.com/spoolq/spool/broker"
)

// cursor is the usual queue's cursor of a schedule.
func (f *fixture) cursor(name string) time.Time {
	f.Helper()
	s := f.inForce(broker.ScheduleSetting, name)
	if s.Schedule == nil {
		f.Fatalf("there is no schedule %s", name)
	}
	return s.Schedule.Due
}

// wantCursor wants a schedule's cursor at an instant.
func (f *fixture) wantCursor(what string, due time.Time) {
	f.Helper()
	if got := f.cursor("s"); !got.Equal(due) {
		f.Errorf("%s: the cursor is at %v, want %v", what, got, due)
	}
}

// scheduled begins a case with the schedule s, whose cursor is at a whole
// minute that is past, and returns that.
func (f *fixture) scheduled() time.Time {
	f.Helper()
	f.set(schedule("s", "* * * * *"))
	due := f.now().Add(-time.Hour).Truncate(time.Minute)
	want(f, "first tick", f.tickTo("s", time.Time{}, due), true)
	return due
}

var scheduleRules = []rule{
	{"a schedule has no cursor until the first tick sets it", func(f *fixture) {
		f.set(schedule("s", "* * * * *"))
		f.wantCursor("at first", time.Time{})
		due := f.now().Add(time.Hour)
		want(f, "a tick from elsewhere", f.tickTo("s", f.now().Add(-time.Hour), due), false)
		f.wantCursor("then", time.Time{})
		want(f, "the first tick", f.tickTo("s", time.Time{}, due), true)
		f.wantCursor("set", due)
		want(f, "another first tick", f.tickTo("s", time.Time{}, due.Add(time.Hour)), false)
		f.wantCursor("still", due)
	}},
	{"a first tick with jobs is refused", func(f *fixture) {
		f.set(schedule("s", "* * * * *"))
		_, _, err := f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: "s", Next: f.now(), Jobs: []broker.NewJob{plain()}})
		f.wantErr("tick", err, broker.ErrInvalid)
		f.wantCursor("then", time.Time{})
		want(f, "depth", f.depth(), 0)
	}},
	{"a tick moves the cursor and enqueues its jobs, once", func(f *fixture) {
		due := f.scheduled()
		a, b := plain(), plain()
		b.Priority, b.Delay, b.Tenant, b.Payload = 3, time.Hour, "x", []byte("p")
		want(f, "won", f.tickTo("s", due, due.Add(time.Minute), a, b), true)
		f.wantCursor("then", due.Add(time.Minute))
		f.wantState(broker.Ref{Queue: queue, ID: a.ID}, broker.Ready, "")
		j := f.wantState(broker.Ref{Queue: queue, ID: b.ID}, broker.Scheduled, "")
		want(f, "priority", j.Priority, 3)
		want(f, "payload", string(j.Payload), "p")
		want(f, "the same tick again", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		want(f, "depth", f.depth(), 2)
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 2)
	}},
	{"a tick may pass several instants, or have no jobs", func(f *fixture) {
		due := f.scheduled()
		want(f, "three at once", f.tickTo("s", due, due.Add(3*time.Minute), plain(), plain(), plain()), true)
		want(f, "none", f.tickTo("s", due.Add(3*time.Minute), due.Add(4*time.Minute)), true)
		want(f, "depth", f.depth(), 3)
	}},
	{"a tick is not won before its time", func(f *fixture) {
		f.set(schedule("s", "* * * * *"))
		due := f.now().Add(tick)
		f.tickTo("s", time.Time{}, due)
		want(f, "too early", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		if f.h.Advance != nil {
			f.advance(tick - time.Millisecond)
			want(f, "a little too early", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
			f.advance(time.Millisecond)
		} else {
			f.advance(tick)
		}
		want(f, "in time", f.tickTo("s", due, due.Add(time.Minute), plain()), true)
		want(f, "depth", f.depth(), 1)
	}},
	{"a tick that does not go forward is not won", func(f *fixture) {
		due := f.scheduled()
		for _, next := range []time.Time{due, due.Add(-time.Minute)} {
			won, _, err := f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: "s", Due: due, Next: next, Jobs: []broker.NewJob{plain()}})
			if won || err != nil && !errors.Is(err, broker.ErrInvalid) {
				f.Errorf("to %v: won %v, error %v", next, won, err)
			}
		}
		f.wantCursor("then", due)
		want(f, "depth", f.depth(), 0)
	}},
	{"a tick to a time that no store can keep is refused", func(f *fixture) {
		due := f.scheduled()
		for _, at := range []time.Time{
			broker.MaxTime.Add(1), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0), time.Unix(-1, 0), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			for what, t := range map[string]broker.Tick{"due": {Due: at, Next: due}, "next": {Due: due, Next: at}} {
				t.Queue, t.Schedule, t.Jobs = queue, "s", []broker.NewJob{plain()}
				won, _, err := f.b.Tick(f.ctx, broker.NewCall(), t)
				f.wantErr(what+" "+at.String(), err, broker.ErrInvalid)
				want(f, "won", won, false)
			}
		}
		f.wantCursor("then", due)
		want(f, "depth", f.depth(), 0)
		want(f, "to the last one", f.tickTo("s", due, broker.MaxTime), true)
		f.wantCursor("then", broker.MaxTime)
	}},
	{"a schedule that fires no more is never won again", func(f *fixture) {
		due := f.scheduled()
		want(f, "the last", f.tickTo("s", due, time.Time{}, plain()), true)
		if got := f.cursor("s"); got.Year() < 2200 {
			f.Errorf("the cursor is at %v, want it far away", got)
		}
		for _, from := range []time.Time{{}, due, f.cursor("s")} {
			want(f, "another", f.tickTo("s", from, time.Time{}), false)
		}
		f.set(schedule("s", "@hourly"))
		f.wantCursor("with another expression", time.Time{})
	}},
	{"a paused schedule is not won, and goes on where it was", func(f *fixture) {
		due := f.scheduled()
		f.pause("s")
		want(f, "shown as paused", f.inForce(broker.ScheduleSetting, "s").Schedule.Paused, true)
		f.pause("s")
		want(f, "paused", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		f.wantCursor("paused", due)
		want(f, "depth", f.depth(), 0)
		f.resume("s")
		want(f, "shown as paused", f.inForce(broker.ScheduleSetting, "s").Schedule.Paused, false)
		f.resume("s")
		want(f, "resumed", f.tickTo("s", due, due.Add(time.Minute), plain()), true)
	}},
	{"a schedule that is not there is not won", func(f *fixture) {
		due := f.scheduled()
		want(f, "another name", f.tickTo("none", due, due.Add(time.Minute), plain()), false)
		want(f, "no name that was set", f.tickTo("none", time.Time{}, due), false)
		won, _, err := f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: "other", Schedule: "s", Due: due, Next: due.Add(time.Minute), Jobs: []broker.NewJob{plain()}})
		f.must("tick of another queue", err)
		want(f, "another queue", won, false)
		f.clear(schedule("s", ""))
		want(f, "removed", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		want(f, "depth", f.depth(), 0)
	}},
	{"a schedule that comes again begins anew", func(f *fixture) {
		due := f.scheduled()
		f.clear(schedule("s", ""))
		f.set(schedule("s", "* * * * *"))
		f.wantCursor("then", time.Time{})
		want(f, "its old tick", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
	}},
	{"a change of the instants resets the cursor, any other keeps it", func(f *fixture) {
		due := f.scheduled()
		keeps := map[string]func(s *broker.Schedule){
			"missed": func(s *broker.Schedule) { s.Missed = "all" }, "cap": func(s *broker.Schedule) { s.Cap = 3 },
			"grace": func(s *broker.Schedule) { s.Grace = time.Hour },
			"job":   func(s *broker.Schedule) { s.Job.Task, s.Job.Payload = "other", []byte("new") },
			"due":   func(s *broker.Schedule) { s.Due = due.Add(time.Hour) }, "nothing": func(*broker.Schedule) {},
		}
		for what, change := range keeps {
			s := schedule("s", "* * * * *")
			change(s.Schedule)
			f.set(s)
			f.wantCursor(what, due)
		}
		resets := map[string]func(s *broker.Schedule){
			"expression": func(s *broker.Schedule) { s.Spec = "@hourly" }, "zone": func(s *broker.Schedule) { s.Zone = "Asia/Tokyo" },
			"daylight saving": func(s *broker.Schedule) { s.DST = "vixie" },
		}
		for what, change := range resets {
			s := schedule("s", "* * * * *")
			f.set(s)
			f.tickTo("s", f.cursor("s"), due)
			f.wantCursor("before", due)
			change(s.Schedule)
			f.set(s)
			f.wantCursor(what, time.Time{})
			want(f, what+": the old tick", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		}
	}},
	{"a redeclaration and an operator's pause keep the cursor", func(f *fixture) {
		s := schedule("s", "* * * * *")
		f.declare("p", s)
		due := f.now().Add(-time.Hour).Truncate(time.Minute)
		f.tickTo("s", time.Time{}, due)
		f.declare("p", s, weight("x", 2))
		f.wantCursor("declared again", due)
		f.pause("s")
		f.wantCursor("paused by an operator", due)
		f.declare("p", s)
		want(f, "paused", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		f.resume("s")
		f.wantCursor("as declared", due)
		want(f, "tick", f.tickTo("s", due, due.Add(time.Minute), plain()), true)
		other := schedule("s", "@hourly")
		f.set(other)
		f.wantCursor("with an operator's expression", time.Time{})
		f.tickTo("s", time.Time{}, due)
		f.declare("p", schedule("s", "@daily"))
		f.wantCursor("another is declared below it", due)
		f.clear(s)
		f.wantCursor("that is in force", time.Time{})
	}},
	{"a pause is the operator's alone: no other change ends it, and it ends with its schedule", func(f *fixture) {
		paused := func() bool { return f.inForce(broker.ScheduleSetting, "s").Schedule.Paused }
		s := schedule("s", "* * * * *")
		f.declare("p", s)
		before := f.inForce(broker.ScheduleSetting, "s").Revision
		f.pause("s")
		now := f.inForce(broker.ScheduleSetting, "s")
		if now.Owner != "p" || now.Revision != before || now.Declared != nil {
			f.Errorf("a pause makes it %s", settingText(&now))
		}
		for what, change := range map[string]func(){
			"the same declared again":    func() { f.declare("p", s) },
			"another declared":           func() { f.declare("p", schedule("s", "@hourly")) },
			"declared by another":        func() { f.declare("q", s) },
			"an operator's over it":      func() { f.set(schedule("s", "@daily")) },
			"the operator's cleared":     func() { f.clear(s) },
			"an operator's, not paused":  func() { f.set(schedule("s", "@daily")); f.clear(s) },
			"what is set says otherwise": func() { o := schedule("s", "@daily"); o.Schedule.Paused = false; f.set(o); f.clear(s) },
		} {
			change()
			want(f, "paused after "+what, paused(), true)
		}
		f.resume("s")
		o := schedule("s", "* * * * *")
		o.Schedule.Paused = true
		f.set(o)
		want(f, "paused by what is set", paused(), false)
		f.clear(s)
		f.pause("s")
		f.declare("p")
		f.declare("q")
		want(f, "kind of what is gone", f.inForce(broker.ScheduleSetting, "s").Kind, "")
		f.declare("p", s)
		want(f, "paused when it comes again", paused(), false)
	}},
	{"a pause of a schedule that is not there, or in a declaration, is refused whole", func(f *fixture) {
		f.set(schedule("s", "* * * * *"), weight("s2", 1))
		f.wantErr("pause", f.change(broker.Change{Pause: []string{"s", "s2"}, Set: []broker.Setting{weight("x", 2)}}), broker.ErrConflict)
		f.wantErr("resume", f.change(broker.Change{Resume: []string{"none"}}), broker.ErrConflict)
		f.wantErr("what goes", f.change(broker.Change{Pause: []string{"s"}, Clear: []broker.SettingName{{Kind: broker.ScheduleSetting, Name: "s"}}}), broker.ErrConflict)
		f.wantErr("both", f.change(broker.Change{Pause: []string{"s"}, Resume: []string{"s"}}), broker.ErrInvalid)
		f.wantErr("declared", f.change(broker.Change{Declare: true, Owner: "p", Pause: []string{"s"}}), broker.ErrInvalid)
		f.wantErr("declared", f.change(broker.Change{Declare: true, Owner: "p", Resume: []string{"s"}}), broker.ErrInvalid)
		f.wantSettings("then", schedule("s", "* * * * *"), weight("s2", 1))
		want(f, "paused", f.inForce(broker.ScheduleSetting, "s").Schedule.Paused, false)
		f.must("new and paused", f.change(broker.Change{Set: []broker.Setting{schedule("n", "@hourly")}, Pause: []string{"n"}}))
		want(f, "paused", f.inForce(broker.ScheduleSetting, "n").Schedule.Paused, true)
	}},
	{"what is gone from a declaration is gone, and does not fire", func(f *fixture) {
		f.declare("p", schedule("s", "* * * * *"), schedule("s2", "* * * * *"))
		due := f.now().Add(-time.Hour).Truncate(time.Minute)
		f.tickTo("s", time.Time{}, due)
		f.tickTo("s2", time.Time{}, due)
		f.declare("p", schedule("s2", "* * * * *"))
		want(f, "dropped", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		want(f, "kept", f.tickTo("s2", due, due.Add(time.Minute), plain()), true)
	}},
	{"of several clients one wins each tick", func(f *fixture) {
		due := f.scheduled()
		for i := range 10 {
			won := make([]bool, 5)
			f.each(5, func(n int, b broker.Broker) {
				w, _, err := b.Tick(f.ctx, broker.NewCall(), broker.Tick{
					Queue: queue, Schedule: "s", Due: due, Next: due.Add(time.Minute), Jobs: []broker.NewJob{plain()},
				})
				if err != nil {
					f.Errorf("tick: %v", err)
				}
				won[n] = w
			})
			winners := 0
			for _, w := range won {
				if w {
					winners++
				}
			}
			want(f, "winners", winners, 1)
			want(f, "depth", f.depth(), int64(i+1))
			due = due.Add(time.Minute)
		}
	}},
	{"a job of a tick that is there already is not added again", func(f *fixture) {
		due := f.scheduled()
		n := keyed("k", broker.HoldUntilFinal, 0)
		want(f, "won", f.tickTo("s", due, due.Add(time.Minute), n), true)
		again := keyed("k", broker.HoldUntilFinal, 0)
		want(f, "a held key", f.tickTo("s", due.Add(time.Minute), due.Add(2*time.Minute), again), true)
		want(f, "a known id", f.tickTo("s", due.Add(2*time.Minute), due.Add(3*time.Minute), n), true)
		want(f, "depth", f.depth(), 1)
		f.wantCursor("then", due.Add(3*time.Minute))
	}},
	{"a tick with a bad job is refused, and moves nothing", func(f *fixture) {
		due := f.scheduled()
		for what, jobs := range map[string][]broker.NewJob{
			"a bad task": {plain(), {Task: "a b"}}, "a negative delay": {{Task: task, Delay: -1}}, "half a batch": batch(2)[:2],
		} {
			_, _, err := f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: "s", Due: due, Next: due.Add(time.Minute), Jobs: jobs})
			f.wantErr(what, err, broker.ErrInvalid)
		}
		f.wantCursor("then", due)
		want(f, "depth", f.depth(), 0)
		want(f, "a batch", f.tickTo("s", due, due.Add(time.Minute), batch(2)...), true)
		want(f, "depth", f.depth(), 3)
	}},
	{"the next instant comes whatever becomes of the jobs of the last", func(f *fixture) {
		due := f.scheduled()
		for i, end := range []func(l broker.Lease){
			func(l broker.Lease) { f.end(l, broker.Bury) }, func(l broker.Lease) { f.end(l, broker.Cancel) },
			func(l broker.Lease) { f.end(l, broker.Nack) }, func(broker.Lease) { f.command(broker.DeleteJobs) },
		} {
			want(f, "won", f.tickTo("s", due, due.Add(time.Minute), plain()), true)
			due = due.Add(time.Minute)
			end(f.one())
			f.wantCursor("then", due)
			want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, int64(i+1))
		}
	}},
	{"a wall clock that steps back repeats no tick, and one that steps on loses none", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		due := f.scheduled()
		want(f, "won", f.tickTo("s", due, due.Add(time.Minute), plain()), true)
		f.h.StepWall(-3 * time.Hour)
		want(f, "the same again", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
		want(f, "the next, not due yet", f.tickTo("s", due.Add(time.Minute), due.Add(2*time.Minute), plain()), false)
		f.h.StepWall(24 * time.Hour)
		want(f, "the next", f.tickTo("s", due.Add(time.Minute), due.Add(2*time.Minute), plain()), true)
		want(f, "depth", f.depth(), 2)
	}},
	{"a claim that waits gets the job of a tick", func(f *fixture) {
		due := f.scheduled()
		claim := f.claiming(f.ctx, f.open())
		n := plain()
		f.tickTo("s", due, due.Add(time.Minute), n)
		claim.done()
		f.must("claim", claim.err)
		want(f, "job", exactly(f, "leases", claim.leases, 1)[0].Job.ID, n.ID)
	}},
	{"a cursor outlives the last client", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.declare("p", schedule("s", "* * * * *"))
		due := f.now().Add(-time.Hour).Truncate(time.Minute)
		f.tickTo("s", time.Time{}, due)
		for range 2 {
			want(f, "won", f.tickTo("s", due, due.Add(time.Minute), plain()), true)
			f.must("close", f.b.Close())
			f.b = f.open()
			want(f, "the same again", f.tickTo("s", due, due.Add(time.Minute), plain()), false)
			due = due.Add(time.Minute)
			f.declare("p", schedule("s", "* * * * *"))
			f.wantCursor("reopened", due)
		}
	}},
}
