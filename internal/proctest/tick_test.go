//go:build linux

package proctest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
)

func TestProofThatEachTickIsEnqueuedOnce(t *testing.T) {
	if !*full {
		t.Parallel() // it mostly waits
	}
	span := size(5*time.Second, 101*time.Second)
	top := t.TempDir()
	dir, ledgers := filepath.Join(top, "jobs"), filepath.Join(top, "ledgers")
	must(t, os.Mkdir(ledgers, 0o700))
	begun := time.Now()
	f := newFleet(t)
	for i := range 5 {
		name := fmt.Sprintf("scheduler-%d", i)
		f.add(plan{Role: asFlow, Store: dir, Name: name, Ledger: filepath.Join(ledgers, name), TTL: 5 * time.Minute, Ticks: true})
	}
	with(t, dir, func(c *spool.Client) {
		eventually(t, "the schedules have begun", func() bool { return len(cursors(t, c)) == len(schedules) })
	})
	known := time.Now()
	downs := 0
	for end := known.Add(span); time.Now().Before(end); downs++ {
		f.killFor(time.Second + rand.N(time.Second))
		f.down(rand.N(300*time.Millisecond) + time.Duration(1-downs%2)*1300*time.Millisecond) // by turns none or some are missed
	}
	over := time.Now()
	with(t, dir, func(c *spool.Client) {
		eventually(t, "the schedules have caught up", func() bool {
			due := cursors(t, c)
			return !slices.ContainsFunc(schedules, func(s spool.Schedule) bool { return !due[s.Name].After(over) })
		})
		eventually(t, "the jobs of all ticks so far have run", func() bool { return unfinished(t, c) == 0 })
	})
	f.finish(asFlow)
	f.check()
	t.Logf("%d kills; %d times all five were down", f.kills, downs)
	with(t, dir, func(c *spool.Client) {
		all, due := recount(t, c), cursors(t, c)
		for _, s := range schedules {
			judgeTicks(t, s, all, begun, known, due[s.Name])
		}
	})
}

// cursors are the next instants of the schedules that have begun.
func cursors(t *testing.T, c *spool.Client) map[string]time.Time {
	t.Helper()
	due := map[string]time.Time{}
	all, err := c.Schedules(t.Context(), "")
	must(t, err)
	for _, s := range all {
		if !s.Schedule.Due.IsZero() {
			due[s.Name] = s.Schedule.Due
		}
	}
	return due
}

// judgeTicks compares the jobs of a schedule with its instants: one for each,
// from the first after the schedule was new, some time between begun and known,
// until its cursor.
func judgeTicks(t *testing.T, s spool.Schedule, all map[spool.ID][]broker.Job, begun, known, due time.Time) {
	t.Helper()
	expr, err := cron.New(s.Spec, s.Zone, s.DST)
	must(t, err)
	next := func(at time.Time) time.Time { at, _ = expr.Next(at); return at.UTC() }
	jobs, runs := ticksOf(t, s.Name, all)
	first := slices.MinFunc(slices.Collect(maps.Keys(jobs)), time.Time.Compare)
	if first.Before(begun) || first.After(next(known)) {
		t.Errorf("%s: the first tick is %v, the schedule was new between %v and %v", s.Name, first, begun, known)
	}
	ticks, made := 0, 0
	for at := first; at.Before(due); at = next(at) {
		ticks, made = ticks+1, made+jobs[at]
		if jobs[at] != 1 {
			t.Errorf("%s: tick %v has %d jobs", s.Name, at, jobs[at])
		}
		delete(jobs, at)
	}
	for at, n := range jobs {
		t.Errorf("%s: %d jobs are of %v, which is no tick from %v to %v", s.Name, n, at, first, due)
	}
	t.Logf("%s (%s): %d ticks, %d jobs, %d runs", s.Name, s.Spec, ticks, made, runs)
	if least := size(3, 100); ticks < least {
		t.Errorf("%s: %d ticks are too few", s.Name, ticks)
	}
}

// ticksOf counts the jobs of each tick of a schedule, and their runs.
func ticksOf(t *testing.T, name string, all map[spool.ID][]broker.Job) (jobs map[time.Time]int, runs int) {
	t.Helper()
	jobs = map[time.Time]int{}
	for id, list := range all {
		j := list[0]
		if j.Headers["spool.schedule"] != name {
			continue
		}
		if len(list) != 1 || j.State != spool.Done && j.State != spool.Ready { // ready: of a tick just before the end
			t.Errorf("%s: job %v is there %d times, and %v", name, id, len(list), j.State)
		}
		at, err := time.Parse(time.RFC3339Nano, j.Headers["spool.tick"])
		must(t, err)
		jobs[at.UTC()]++
		runs += j.Attempt
	}
	if len(jobs) == 0 {
		t.Fatalf("%s: no ticks", name)
	}
	return jobs, runs
}
