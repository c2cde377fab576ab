package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spoolq/spool/broker"
)

// program opens the store and lets fn change its settings as a program does.
func (s *tool) program(fn func(broker.Broker)) {
	s.t.Helper()
	b := s.open()
	fn(b)
	if err := b.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// declare declares settings of queue default as the program billing.
func (s *tool) declare(f broker.Broker, set ...broker.Setting) {
	s.t.Helper()
	if err := f.Configure(s.t.Context(), broker.NewCall(), "default", broker.Change{Declare: true, Owner: "billing", Set: set}); err != nil {
		s.t.Fatal(err)
	}
}

func absent(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}

// TestSettings sets one of each kind, and reads it back as text and as JSON.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		set        []string
		says       string
		list       string // the row of the list, its columns joined by one blank
		json       string
		clear      []string
	}{
		{
			"limit", "a rate for each tenant", []string{"mail", "--task=m", "--task=n", "--rate=0.5/s", "--burst=4", "--per=tenant"},
			"queue default, limit mail: 1/2s burst 4 for each tenant of m, n (set by an operator, revision 1)",
			"default mail 1/2s burst 4 for each tenant of m, n operator 1 -",
			`{"queue":"default","kind":"limit","name":"mail","revision":1,"limit":{"tasks":["m","n"],"per":"tenant","rate":"1/2s burst 4"}}`,
			[]string{"mail"},
		},
		{
			"limit", "a rate with its burst", []string{"mail", "-t", "m", "--rate=10/s burst 20"},
			"limit mail: 10/s burst 20 of m", "default mail 10/s burst 20 of m operator 1 -",
			`{"queue":"default","kind":"limit","name":"mail","revision":1,"limit":{"tasks":["m"],"rate":"10/s burst 20"}}`,
			[]string{"mail"},
		},
		{
			"limit", "running jobs of a group", []string{"one", "-t", "m", "--running=1", "--per=group", "-q", "q"},
			"queue q, limit one: 1 running for each group of m", "q one 1 running for each group of m operator 1 -",
			`{"queue":"q","kind":"limit","name":"one","revision":1,"limit":{"tasks":["m"],"per":"group","running":1}}`,
			[]string{"one", "-q", "q"},
		},
		{
			"weight", "a tenant's", []string{"acme", "3"},
			`queue default, weight of tenant "acme": 3`, "default acme 3 operator 1 -",
			`{"queue":"default","kind":"weight","name":"acme","revision":1,"weight":3}`, []string{"acme"},
		},
		{
			"weight", "of jobs without a tenant", []string{"", "2"},
			`weight of tenant "": 2`, `default "" 2 operator 1 -`,
			`{"queue":"default","kind":"weight","name":"","revision":1,"weight":2}`, []string{""},
		},
		{
			"capacity", "the queue's", []string{"--jobs=1000", "--bytes=64MiB", "--drop-oldest"},
			"queue default, capacity of the queue: 1,000 jobs, 64.0 MiB, dropping the oldest",
			"default the queue 1,000 jobs, 64.0 MiB, dropping the oldest operator 1 -",
			`{"queue":"default","kind":"capacity","name":"","revision":1,"capacity":{"jobs":1000,"bytes":67108864,"drop_oldest":true}}`, nil,
		},
		{
			"capacity", "each tenant's", []string{"--jobs=1", "--per-tenant"},
			"capacity of each tenant: 1 job", "default each tenant 1 job operator 1 -",
			`{"queue":"default","kind":"capacity","name":"tenant","revision":1,"capacity":{"jobs":1}}`, []string{"--per-tenant"},
		},
		{
			"retention", "a task's", []string{"--task=m", "--done=90m", "--dead=30d", "--cancelled=none"},
			"retention of task m: done 1h30m, dead 30d, cancelled none", "default m done 1h30m, dead 30d, cancelled none operator 1 -",
			`{"queue":"default","kind":"retention","name":"m","revision":1,"retention":{"done":"1h30m0s","dead":"720h0m0s","cancelled":"none"}}`,
			[]string{"--task=m"},
		},
		{
			"retention", "every task's", []string{"--done=1h"},
			"retention of every task: done 1h, dead default, cancelled default", "default every task done 1h, dead default, cancelled default operator 1 -",
			`{"queue":"default","kind":"retention","name":"","revision":1,"retention":{"done":"1h0m0s","dead":"default","cancelled":"default"}}`, nil,
		},
		{
			"ageing", "a step", []string{"10m"},
			"ageing of the queue: one priority for each 10m of waiting", "default the queue one priority for each 10m of waiting operator 1 -",
			`{"queue":"default","kind":"ageing","name":"","revision":1,"ageing":"10m0s"}`, nil,
		},
	} {
		t.Run(c.kind+": "+c.name, func(t *testing.T) {
			s := newTool(t)
			if out := s.ok(append([]string{c.kind, "set"}, c.set...)...); !strings.Contains(out, c.says) {
				t.Errorf("set writes %q, want %q", out, c.says)
			}
			lines := strings.Split(s.ok(c.kind, "list"), "\n")
			if got := strings.Join(strings.Fields(lines[1]), " "); len(lines) != 3 || got != c.list {
				t.Errorf("list writes %q, want %q", lines, c.list)
			}
			if out := s.ok(c.kind, "list", "--json"); out != c.json+"\n" {
				t.Errorf("list writes %s, want %s", out, c.json)
			}
			clear := append([]string{c.kind, "clear"}, c.clear...)
			if out := s.ok(clear...); !strings.Contains(out, "any more") {
				t.Errorf("clear writes %q", out)
			}
			s.fails(exitNotFound, "has no "+c.kind, clear...)
			if r := s.run(c.kind, "list"); r.out != "" || !strings.Contains(r.errout, "no "+c.kind+" is set") {
				t.Errorf("an empty list: %+v", r)
			}
		})
	}
}

// TestAnOperatorWinsOverWhatIsDeclared: until it is cleared, and both are shown.
func TestAnOperatorWinsOverWhatIsDeclared(t *testing.T) {
	s := newTool(t)
	s.enqueue("m")
	s.program(func(f broker.Broker) {
		s.declare(f,
			broker.Setting{Kind: broker.LimitSetting, Name: "mail", Limit: &broker.Limit{Tasks: []string{"m"}, Running: 2}},
			broker.Setting{Kind: broker.RetentionSetting, Retention: &broker.Retention{Dead: 24 * 3600e9}})
	})
	if out := s.ok("limit", "list"); !strings.Contains(out, "billing") || strings.Contains(out, "operator") {
		t.Errorf("list writes %s", out)
	}
	s.fails(exitUsage, "declared by the code of billing", "limit", "clear", "mail")
	out := s.ok("limit", "set", "mail", "--task=m", "--running=9")
	if !strings.Contains(out, "over what billing declares") {
		t.Errorf("set writes %s", out)
	}
	if out := s.ok("limit", "list"); !strings.Contains(out, "9 running of m  operator") || !strings.Contains(out, "2 running of m by billing") {
		t.Errorf("list writes %s", out)
	}
	v := object[settingView](t, s.ok("limit", "list", "--json"))
	if v.Limit.Running != 9 || v.Declared.Limit.Running != 2 || v.Declared.Owner != "billing" {
		t.Errorf("list writes %+v", v)
	}
	if out := s.ok("limit", "clear", "mail"); !strings.Contains(out, "2 running of m (declared by billing") {
		t.Errorf("clear writes %s", out)
	}
	s.ok("retention", "set", "--done=1h")
	if r := object[settingView](t, s.ok("retention", "list", "--json")).Retention; r.Dead != "24h0m0s" || r.Done != "1h0m0s" {
		t.Errorf("what was declared and not given is gone: %+v", r)
	}
}

// TestWhatAProgramLeftCanBeRemoved: by naming it, and its next start declares it
// again.
func TestWhatAProgramLeftCanBeRemoved(t *testing.T) {
	s := newTool(t)
	left := []broker.Setting{
		{Kind: broker.LimitSetting, Name: "mail", Limit: &broker.Limit{Tasks: []string{"m"}, Running: 2}},
		{Kind: broker.ScheduleSetting, Name: "nightly", Schedule: &broker.Schedule{Spec: "0 3 * * *", Job: broker.NewJob{Task: "report"}}},
		{Kind: broker.WeightSetting, Name: "acme", Weight: 3},
	}
	s.enqueue("m")
	s.program(func(f broker.Broker) { s.declare(f, left...) })
	s.fails(exitUsage, "when that program is gone, --owner=billing removes the declaration", "limit", "clear", "mail")
	s.fails(exitUsage, "when that program is gone, --owner=billing", "schedule", "remove", "nightly")
	s.fails(exitUsage, "is declared by billing, not by other", "limit", "clear", "mail", "--owner=other")
	s.ok("limit", "set", "mail", "--task=m", "--running=9")
	r := s.run("limit", "clear", "mail", "--owner=billing")
	if r.code != exitOK || !strings.Contains(r.out, "9 running of m (set by an operator, revision") || strings.Contains(r.out, "billing") ||
		!strings.Contains(r.errout, "a start of billing declares it again") {
		t.Errorf("what is below an operator's: %+v", r)
	}
	s.fails(exitUsage, "is declared by no program", "limit", "clear", "mail", "--owner=billing")
	if out := s.ok("limit", "clear", "mail"); !strings.Contains(out, "no limit mail any more") {
		t.Errorf("clear writes %q", out)
	}
	if out := s.ok("schedule", "remove", "nightly", "--owner=billing"); !strings.Contains(out, "no schedule nightly any more") {
		t.Errorf("remove writes %q", out)
	}
	s.ok("weight", "clear", "acme", "--owner=billing")
	s.program(func(f broker.Broker) { s.declare(f, left...) })
	if out := s.ok("limit", "list"); !strings.Contains(out, "2 running of m") {
		t.Errorf("declared again: %q", out)
	}
}

func TestARevisionGuardsAChange(t *testing.T) {
	s := newTool(t)
	first := object[settingView](t, s.ok("weight", "set", "acme", "2", "--json"))
	s.ok("weight", "set", "acme", "3")
	r := s.run("weight", "set", "acme", "4", "--revision=1")
	if first.Revision != 1 || r.code != exitFailed || !strings.Contains(r.errout, "revision 2, not 1") || !strings.Contains(r.errout, "decide again") {
		t.Errorf("of revision %d: %+v", first.Revision, r)
	}
	s.ok("weight", "set", "acme", "4", "--revision=2")
	if v := object[settingView](t, s.ok("weight", "list", "--json")); v.Weight != 4 {
		t.Errorf("the weight is %d", v.Weight)
	}
}
