package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
)

// TestScheduleNext: no store, one line in plain words, a note where the clock
// is moved, and an array with --json.
func TestScheduleNext(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{
			"a gap under wall",
			[]string{"30 2 * * *", "--zone=Europe/Paris", "--after=2026-03-28T00:00:00Z", "--count=2"},
			"at 02:30, every day, Europe/Paris time, DST policy wall\n" +
				"UTC                   THERE                          NOTE\n" +
				"2026-03-28T01:30:00Z  Sat 2026-03-28 02:30:00 +0100  \n" +
				"2026-03-30T00:30:00Z  Mon 2026-03-30 02:30:00 +0200  02:30 on 2026-03-29 does not exist: skipped\n",
		},
		{
			"the same under vixie, as JSON",
			[]string{"30 2 * * *", "--zone=Europe/Paris", "--dst=vixie", "--after=2026-03-28T02:00:00Z", "--count=2", "--json"},
			`[{"at":"2026-03-29T01:00:00Z","note":"02:30 on 2026-03-29 does not exist: fires at 03:00 instead"},{"at":"2026-03-30T00:30:00Z"}]` + "\n",
		},
		{
			"a time that comes twice",
			[]string{"30 1 * * *", "--zone=America/New_York", "--after=2026-11-01T00:00:00Z", "--count=1", "--json"},
			`[{"at":"2026-11-01T05:30:00Z","note":"01:30 on 2026-11-01 comes twice: fires the first time only"}]` + "\n",
		},
		{
			"an interval of a part of a second",
			[]string{"@every 500ms", "--after=2026-01-01T00:00:00Z", "-n", "2"},
			"every 500ms, counted from 1970-01-01 00:00 UTC\n" +
				"UTC                       THERE                          NOTE\n" +
				"2026-01-01T00:00:00.500Z  Thu 2026-01-01 00:00:00 +0000  \n" +
				"2026-01-01T00:00:01Z      Thu 2026-01-01 00:00:01 +0000  \n",
		},
		{"nothing is left", []string{"0 0 1 1 *", "--after=9999-06-01T00:00:00Z", "--json"}, "[]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTool(t)
			if got := s.ok(append([]string{"schedule", "next"}, c.args...)...); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			absent(t, s.dir)
		})
	}
	t.Run("five of them, from now on, when nothing is said", func(t *testing.T) {
		ticks := object[[]cron.Tick](t, newTool(t).ok("schedule", "next", "* * * * *", "--json"))
		if d := time.Until(ticks[0].At); len(ticks) != 5 || d > time.Minute || d < -time.Minute {
			t.Errorf("got %v", ticks)
		}
	})
}

func TestASchedulesLife(t *testing.T) {
	s := newTool(t)
	list := func(args ...string) settingView {
		t.Helper()
		return object[settingView](t, s.ok(append([]string{"schedule", "list", "--json"}, args...)...))
	}
	out := s.ok("schedule", "add", "nightly", "0 3 * * *", `{"full":true}`, "--task=report", "--queue=q", "--zone=Europe/Paris", "--dst=vixie",
		"--missed=skip", "--grace=5m", "--cap=7", "--priority=-2", "--key=k", "--key-until-started", "--tenant=acme", "--group=g", "--ordered",
		"--header=a=b", "--max-attempts=3", "--timeout=1m", "--start-within=1h", "--retain=1d")
	for _, want := range []string{"queue q, schedule nightly", "at 03:00, every day, Europe/Paris time, DST policy vixie; next 20"} {
		if !strings.Contains(out, want) {
			t.Errorf("add writes %q, without %q", out, want)
		}
	}
	v := list()
	j := v.Schedule.Job
	if v.Queue != "q" || v.Name != "nightly" || v.Owner != "" || v.Schedule.Spec != "0 3 * * *" || v.Schedule.Zone != "Europe/Paris" ||
		v.Schedule.DST != "vixie" || v.Schedule.Missed != "skip" || v.Schedule.Grace != "5m0s" || v.Schedule.Cap != 7 || v.Schedule.Due != nil {
		t.Errorf("the schedule is %+v", v.Schedule)
	}
	if j.Task != "report" || *j.PayloadText != `{"full":true}` || j.Priority != -2 || j.Key != "k" || j.Tenant != "acme" || j.Group != "g" || !j.Ordered ||
		j.Headers["a"] != "b" || j.MaxAttempts != 3 || j.Timeout != "1m0s" || j.StartWithin != "1h0m0s" || j.Retain != "24h0m0s" {
		t.Errorf("its job is %+v", j)
	}

	if v := object[settingView](t, s.ok("schedule", "pause", "nightly", "-q", "q", "--json")); !v.Schedule.Paused {
		t.Errorf("after pause: %+v", v.Schedule)
	}
	if out := s.ok("schedule", "list"); !strings.Contains(out, "paused") || !strings.Contains(out, "Europe/Paris (vixie)") {
		t.Errorf("list writes %s", out)
	}
	s.ok("schedule", "add", "nightly", "0 4 * * *", "--task=report", "-q", "q")
	if v := list(); !v.Schedule.Paused || v.Schedule.Spec != "0 4 * * *" {
		t.Errorf("a paused schedule that is changed: %+v", v.Schedule)
	}
	id := strings.TrimSpace(s.ok("schedule", "run", "nightly", "-q", "q"))
	if j := s.show(id); j["task"] != "report" || j["queue"] != "q" || j["state"] != "ready" {
		t.Errorf("its job is %v", j)
	}
	s.ok("schedule", "resume", "nightly", "-q", "q")
	if v := list("--queue=q"); v.Schedule.Paused {
		t.Errorf("after resume: %+v", v.Schedule)
	}
	if out := s.ok("schedule", "remove", "nightly", "-q", "q"); !strings.Contains(out, "no schedule nightly any more") {
		t.Errorf("remove writes %q", out)
	}
	for _, verb := range []string{"pause", "resume", "remove", "run"} {
		s.fails(exitNotFound, "queue q has no schedule nightly", "schedule", verb, "nightly", "-q", "q")
	}
	if r := s.run("schedule", "list"); r.code != exitOK || r.out != "" || !strings.Contains(r.errout, "no schedule is set") {
		t.Errorf("an empty list: %+v", r)
	}
}

// TestADeclaredScheduleIsPausedByHand: a pause stands beside what a program
// declares and what an operator sets, until resume.
func TestADeclaredScheduleIsPausedByHand(t *testing.T) {
	s := newTool(t)
	s.enqueue("report")
	due := time.Date(2030, 1, 1, 3, 0, 0, 0, time.UTC)
	s.program(func(f broker.Broker) {
		set := broker.Setting{Kind: broker.ScheduleSetting, Name: "nightly",
			Schedule: &broker.Schedule{Spec: "0 3 * * *", Job: broker.NewJob{Task: "report", Payload: []byte("p"), Headers: map[string]string{"a": "b"}}}}
		s.declare(f, set)
		won, _, err := f.Tick(t.Context(), broker.NewCall(), broker.Tick{Queue: "default", Schedule: "nightly", Next: due})
		if err != nil || !won {
			t.Fatalf("won %v, %v", won, err)
		}
	})
	if out := s.ok("schedule", "list"); !strings.Contains(out, "billing") || !strings.Contains(out, "2030-01-01 03:00:00 +00:00 (in ") {
		t.Errorf("list writes %s", out)
	}
	s.fails(exitUsage, "declared by the code of billing", "schedule", "remove", "nightly")
	out := s.ok("schedule", "pause", "nightly")
	if !strings.Contains(out, "declared by billing") || !strings.Contains(out, "(paused)") {
		t.Errorf("pause writes %q", out)
	}
	s.fails(exitUsage, "declared by the code of billing", "schedule", "remove", "nightly")
	s.ok("schedule", "add", "nightly", "0 5 * * *", "--task=report")
	s.ok("schedule", "remove", "nightly")
	if v := object[settingView](t, s.ok("schedule", "list", "--json")); v.Owner != "billing" || !v.Schedule.Paused {
		t.Errorf("after an operator's schedule came and went: %+v %+v", v, v.Schedule)
	}
	s.program(func(f broker.Broker) {
		set := broker.Setting{Kind: broker.ScheduleSetting, Name: "nightly", Schedule: &broker.Schedule{Spec: "0 3 * * *", Job: broker.NewJob{Task: "report"}}}
		s.declare(f, set)
		if won, _, err := f.Tick(t.Context(), broker.NewCall(), broker.Tick{Queue: "default", Schedule: "nightly", Next: due}); won || err != nil {
			t.Errorf("a paused schedule: won %v, %v", won, err)
		}
	})
	v := object[settingView](t, s.ok("schedule", "resume", "nightly", "--json"))
	if v.Owner != "billing" || v.Schedule.Paused || v.Declared != nil || v.Schedule.Due != nil {
		t.Errorf("after resume: %+v %+v", v, v.Schedule)
	}
	s.ok("schedule", "add", "nightly", "0 5 * * *", "--task=report")
	v = object[settingView](t, s.ok("schedule", "list", "--json"))
	if v.Schedule.Spec != "0 5 * * *" || v.Declared == nil || v.Declared.Schedule.Spec != "0 3 * * *" || v.Declared.Owner != "billing" {
		t.Errorf("an operator's beside a declared one: %+v", v)
	}
	s.ok("schedule", "remove", "nightly")
	if v := object[settingView](t, s.ok("schedule", "list", "--json")); v.Owner != "billing" || v.Schedule.Spec != "0 3 * * *" {
		t.Errorf("after remove: %+v", v)
	}
}

// TestARunningWorkerTakesUpAScheduleAtOnce: of another process, and sees its
// pause, too. Without notice it would look after 25 s or more.
func TestARunningWorkerTakesUpAScheduleAtOnce(t *testing.T) {
	s := newTool(t)
	s.enqueue("beat")
	s.start(s.process("work", "--exec=true", "--quiet"))
	acked := func() int64 {
		counts := object[statsView](t, s.ok("stats", "--json")).Counts
		return counts[0].Totals.Acked
	}
	await(t, "the worker", func() bool { return acked() == 1 })
	start := time.Now()
	s.ok("schedule", "add", "beat", "@every 100ms", "--task=beat")
	await(t, "a run of the job of a schedule", func() bool { return acked() > 1 })
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the schedule was taken up after %v", took)
	}
	s.ok("schedule", "pause", "beat")
}

// TestAWorkerServesSchedules: what was added by hand is enqueued and run.
func TestAWorkerServesSchedules(t *testing.T) {
	s := newTool(t)
	s.ok("schedule", "add", "beat", "@every 100ms", "from the schedule", "--task=beat")
	s.start(s.process("work", "--exec=true", "--quiet"))
	await(t, "two runs of the job of a schedule", func() bool {
		counts := object[statsView](t, s.ok("stats", "--json")).Counts
		return len(counts) == 1 && counts[0].Task == "beat" && counts[0].Totals.Acked >= 2
	})
	if v := object[settingView](t, s.ok("schedule", "list", "--json")); v.Schedule.Due == nil {
		t.Errorf("the schedule is %+v", v.Schedule)
	}
}
