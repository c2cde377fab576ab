package cron

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name, expr, zone string
		due, now         string
		catchUp          CatchUp
		run              string
		next             string
		skipped          bool
	}{
		{"the cursor is ahead", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T14:59:59", CatchUp{}, "", "2026-08-01T15:00", false},
		{"the clock stepped back by a year", "0 15 * * *", "", "2026-08-01T15:00", "2025-08-01T15:00", CatchUp{Missed: All}, "", "2026-08-01T15:00", false},
		{"due right now", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T15:00", CatchUp{}, "2026-08-01T15:00", "2026-08-02T15:00", false},
		{"down from 14:57 to 15:03: once, late", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T15:03", CatchUp{}, "2026-08-01T15:00", "2026-08-02T15:00", false},
		{"the same, skipped as too late", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T15:03", CatchUp{Missed: Skip}, "", "2026-08-02T15:00", true},
		{"the same, within its grace", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T15:03", CatchUp{Missed: Skip, Grace: 5 * time.Minute}, "2026-08-01T15:00", "2026-08-02T15:00", false},
		{"late by exactly the grace", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T15:01", CatchUp{Missed: Skip}, "2026-08-01T15:00", "2026-08-02T15:00", false},
		{"late by a second more", "0 15 * * *", "", "2026-08-01T15:00", "2026-08-01T15:01:01", CatchUp{Missed: Skip}, "", "2026-08-02T15:00", true},
		{"an hour of quarters: the latest", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:50", CatchUp{}, "2026-08-01T15:45", "2026-08-01T16:00", true},
		{"an hour of quarters: all", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:50", CatchUp{Missed: All}, "2026-08-01T15:00 2026-08-01T15:15 2026-08-01T15:30 2026-08-01T15:45", "2026-08-01T16:00", false},
		{"an hour of quarters: two", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:50", CatchUp{Missed: All, Cap: 2}, "2026-08-01T15:30 2026-08-01T15:45", "2026-08-01T16:00", true},
		{"as many as the cap", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:50", CatchUp{Missed: All, Cap: 4}, "2026-08-01T15:00 2026-08-01T15:15 2026-08-01T15:30 2026-08-01T15:45", "2026-08-01T16:00", false},
		{"those within the grace", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:50", CatchUp{Missed: Skip, Grace: 20 * time.Minute}, "2026-08-01T15:30 2026-08-01T15:45", "2026-08-01T16:00", true},
		{"all of them within the grace", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:20", CatchUp{Missed: Skip, Grace: time.Hour}, "2026-08-01T15:00 2026-08-01T15:15", "2026-08-01T15:30", false},
		{"within the grace and above the cap", "*/15 * * * *", "", "2026-08-01T15:00", "2026-08-01T15:50", CatchUp{Missed: Skip, Grace: time.Hour, Cap: 1}, "2026-08-01T15:45", "2026-08-01T16:00", true},
		{"the clock stepped forward by an hour", "@every 5s", "", "2026-08-01T15:00", "2026-08-01T16:00:02", CatchUp{}, "2026-08-01T16:00", "2026-08-01T16:00:05", true},
		{"a wall time in a gap was missed by nobody", "30 2 * * *", "America/New_York", "2026-03-07T07:30", "2026-03-08T12:00", CatchUp{Missed: All}, "2026-03-07T07:30", "2026-03-09T06:30", false},
		{"a cursor that is no tick by today's rules still counts", "0 15 * * *", "", "2026-08-01T14:30", "2026-08-01T14:31", CatchUp{}, "2026-08-01T14:30", "2026-08-01T15:00", false},
		{"the same among others", "0 15 * * *", "", "2026-08-01T14:30", "2026-08-02T16:00", CatchUp{Missed: All}, "2026-08-01T14:30 2026-08-01T15:00 2026-08-02T15:00", "2026-08-03T15:00", false},
		{"the last tick of all", "0 0 31 12 *", "", "9999-12-31T00:00", "9999-12-31T00:01", CatchUp{}, "9999-12-31T00:00", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := schedule(t, c.expr, c.zone, Wall).Plan(at(t, c.due), at(t, c.now), c.catchUp)
			var run []time.Time
			for _, word := range strings.Fields(c.run) {
				run = append(run, at(t, word))
			}
			var next time.Time
			if c.next != "" {
				next = at(t, c.next)
			}
			if !slices.Equal(p.Run, run) || !p.Next.Equal(next) || p.Skipped != c.skipped {
				t.Errorf("got %v\nwant %v, %v, %t", p, run, next, c.skipped)
			}
		})
	}
}

// Downtime of any length costs little, whatever ran how often.
func TestPlanIsBounded(t *testing.T) {
	for _, expr := range []string{"* * * * *", "* * * * * *", "@every 1ms", "*/7 3 1 1 *", "0 0 29 2 *"} {
		for _, away := range []time.Duration{30 * 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
			for m := Latest; m <= Skip; m++ {
				s := schedule(t, expr, "Europe/Berlin", Wall)
				due, ok := s.Next(at(t, "2026-08-01"))
				if !ok {
					t.Fatal("never")
				}
				var p Plan
				inTime(t, 50*time.Millisecond, func() { p = s.Plan(due, due.Add(away), CatchUp{Missed: m, Grace: time.Hour}) })
				if n := len(p.Run); n > DefaultCap || m == Latest && n != 1 {
					t.Errorf("%q %v after %v runs %d", expr, m, away, n)
				}
			}
		}
	}
}

// The plan against the list of all ticks, and a plan that is carried out in steps.
func TestPlanAgreesWithTheListOfTicks(t *testing.T) {
	exprs := []string{"* * * * *", "*/15 * * * *", "30 1 * * *", "30 2 * * *", "0 0 * * 1", "@every 7m", "0,30 1-3 * * *"}
	for range 500 {
		dst := DST(rand.IntN(2))
		s := schedule(t, exprs[rand.IntN(len(exprs))], "America/New_York", dst)
		due, ok := s.Next(at(t, "2026-03-06").Add(time.Duration(rand.Int64N(int64(48 * time.Hour)))))
		if !ok {
			t.Fatal("never")
		}
		now := due.Add(time.Duration(rand.Int64N(int64(60 * time.Hour))))
		if rand.IntN(4) == 0 {
			now = due.Add(time.Duration(rand.Int64N(int64(3 * time.Minute))))
		}
		c := CatchUp{Missed: Missed(rand.IntN(3)), Cap: rand.IntN(40), Grace: time.Duration(rand.IntN(4)) * time.Hour}
		p := s.Plan(due, now, c)
		var all []time.Time
		next := due
		for ; !next.After(now); next, _ = s.Next(next) {
			all = append(all, next)
		}
		want := chosen(all, now, c)
		if !slices.Equal(p.Run, want) || !p.Next.Equal(next) || p.Skipped != (len(want) < len(all)) {
			t.Fatalf("%v %v: due %v, now %v, %+v: got %v\nwant %v, next %v", s.expr, dst, due, now, c, p, want, next)
		}
		if len(p.Run) > 1 {
			k := rand.IntN(len(p.Run))
			if rest := s.Plan(p.Run[k], now, c); !slices.Equal(rest.Run, p.Run[k:]) || !rest.Next.Equal(p.Next) {
				t.Fatalf("from %v on: %v, want %v", p.Run[k], rest, p.Run[k:])
			}
		}
	}
}

func chosen(all []time.Time, now time.Time, c CatchUp) []time.Time {
	limit := c.Cap
	if limit == 0 {
		limit = 100
	}
	if c.Missed == Latest {
		limit = 1
	}
	if c.Missed == Skip {
		grace := c.Grace
		if grace == 0 {
			grace = time.Minute
		}
		all = slices.DeleteFunc(slices.Clone(all), func(at time.Time) bool { return now.Sub(at) > grace })
	}
	return all[max(0, len(all)-limit):]
}

// A restart every 50 minutes does not move an interval's phase.
func TestAnIntervalKeepsItsPhaseOverRestarts(t *testing.T) {
	due := at(t, "2026-08-01T01:00")
	runs := 0
	for now := at(t, "2026-08-01T00:20"); now.Before(at(t, "2026-08-01T10:20")); now = now.Add(50 * time.Minute) {
		s := schedule(t, "@every 1h", "", Wall) // a new process
		for step := range 5 {
			p := s.Plan(due, now.Add(time.Duration(step)*10*time.Minute), CatchUp{})
			runs += len(p.Run)
			due = p.Next
		}
	}
	if runs != 10 || !due.Equal(at(t, "2026-08-01T11:00")) {
		t.Errorf("%d runs in ten hours, the next at %v", runs, due)
	}
}

func TestCatchUpValidates(t *testing.T) {
	due := at(t, "2026-08-01T15:00")
	if p := schedule(t, "* * * * *", "", Wall).Plan(due, due.Add(48*time.Hour), CatchUp{Missed: All, Cap: 2000}); len(p.Run) != MaxCap {
		t.Errorf("without validation %d ticks run", len(p.Run))
	}
	for _, c := range []CatchUp{{}, {Missed: All, Cap: MaxCap}, {Missed: Skip, Grace: time.Hour}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []CatchUp{{Missed: 3}, {Cap: -1}, {Cap: MaxCap + 1}, {Grace: -1}, {Grace: MaxEvery + 1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is allowed", c)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for m := Latest; m <= Skip; m++ {
		b.Run(fmt.Sprintf("30 days of minutes, %v", m), func(b *testing.B) {
			s := schedule(b, "* * * * *", "Europe/Berlin", Wall)
			due := at(b, "2026-03-15")
			for b.Loop() {
				s.Plan(due, due.Add(30*24*time.Hour), CatchUp{Missed: m, Grace: time.Hour})
			}
		})
	}
}
