package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

func TestAFullQueue(t *testing.T) {
	fill := func(t *testing.T, capacity ...string) *tool {
		s := newTool(t)
		s.ok(append([]string{"capacity", "set"}, capacity...)...)
		s.enqueue("mail", "one")
		s.enqueue("mail", "two")
		return s
	}
	t.Run("refuses, says what is full and when to try again, and adds nothing", func(t *testing.T) {
		s := fill(t, "--jobs=2")
		s.fails(exitQueueFull, "queue default has 2 jobs", "enqueue", "mail", "three")
		s.fails(exitQueueFull, "try again after 1s", "enqueue", "mail", "three")
		if n := strings.Count(s.ok("list", "--json"), "\n"); n != 2 {
			t.Errorf("%d jobs are there, want 2", n)
		}
	})
	t.Run("names the tenant that is full", func(t *testing.T) {
		s := newTool(t)
		s.ok("capacity", "set", "--jobs=1", "--per-tenant")
		s.enqueue("mail", "--tenant=a")
		s.fails(exitQueueFull, `tenant "a"`, "enqueue", "mail", "--tenant=a")
		s.enqueue("mail", "--tenant=b")
	})
	t.Run("drops the oldest, when it is told to", func(t *testing.T) {
		s := fill(t, "--jobs=2", "--drop-oldest")
		s.enqueue("mail", "three")
		out := s.ok("list", "--state=cancelled", "--json")
		if !strings.Contains(out, `"payload_text":"one"`) || strings.Count(out, "\n") != 1 {
			t.Errorf("cancelled are %s", out)
		}
	})
	t.Run("lets --block wait for room", func(t *testing.T) {
		s := fill(t, "--jobs=2")
		errout, errw := io.Pipe()
		var out bytes.Buffer
		a := system()
		a.stdout, a.errw = &out, errw
		ended := make(chan int, 1)
		go func() {
			ended <- run([]string{"--dir", s.dir, "enqueue", "mail", "three", "--block"}, a)
			errw.Close()
		}()
		lines := bufio.NewScanner(errout)
		if !lines.Scan() || !strings.Contains(lines.Text(), "waiting for room: queue default has 2 jobs") {
			t.Fatalf("it says %q", lines.Text())
		}
		s.ok("work", "--drain", "--exec=true", "--quiet")
		for lines.Scan() { // nobody handles the task, it says
		}
		if code := <-ended; code != exitOK {
			t.Fatalf("exit code %d", code)
		}
		if j := s.show(strings.TrimSpace(out.String())); j["payload_text"] != "three" {
			t.Errorf("the job is %v", j)
		}
	})
	t.Run("takes as many lines as there is room for", func(t *testing.T) {
		s := newTool(t)
		s.ok("capacity", "set", "--jobs=5")
		r := s.with(strings.NewReader("1\n2\n3\n4\n5\n6\n7\n"), "enqueue", "mail", "--lines")
		if r.code != exitQueueFull || strings.Count(r.out, "\n") != 5 || !strings.Contains(r.errout, "5 jobs enqueued, up to line 5") || !strings.Contains(r.errout, "line 6") {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("shows in stats", func(t *testing.T) {
		s := fill(t, "--jobs=4", "--bytes=1KiB")
		s.ok("capacity", "set", "--jobs=3", "--per-tenant")
		s.enqueue("mail", "three")
		id := strings.Fields(s.ok("claim", "--task=mail"))
		if len(id) == 0 {
			t.Fatal("nothing was claimed")
		}
		s.ok("cancel", "--all")
		s.enqueue("mail", "--queue=other")
		fields := map[string]string{}
		for line := range strings.Lines(s.ok("stats")) {
			if f := strings.Fields(line); len(f) > 1 {
				fields[f[0]] = strings.Join(f, " ") // the last table wins
			}
		}
		if got, want := fields["default"], "default 1 3 8 B 4 jobs, 1.0 KiB; each tenant 3 jobs"; got != want {
			t.Errorf("stats writes %q, want %q", got, want)
		}
		if got, want := fields["other"], "other 1 1 5 B -"; got != want {
			t.Errorf("stats writes %q, want %q", got, want)
		}
		v := object[statsView](t, s.ok("stats", "--json"))
		if says := "durability: " + v.Durability + "\n"; !strings.Contains(v.Durability, "power cut") || !strings.Contains(s.ok("stats"), says) {
			t.Errorf("stats says of what survives %q", v.Durability)
		}
		if n := v.Counts[0]; n.Depth != 1 || n.HighWater != 3 {
			t.Errorf("stats counts %+v", n)
		}
		if len(v.Capacities) != 2 || v.Capacities[0].Capacity.Jobs != 4 || v.Capacities[1].Name != broker.TenantCapacity {
			t.Errorf("the capacities are %+v", v.Capacities)
		}
	})
}

func TestARepeatOfAKeyReplacesOrDebounces(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("index", "old", "--key=k")
	r := s.run("enqueue", "index", "new", "--key=k", "--replace")
	if r.code != exitOK || strings.TrimSpace(r.out) != id || !strings.Contains(r.errout, "takes what is new") {
		t.Errorf("got %+v", r)
	}
	if j := s.show(id); j["payload_text"] != "new" || j["state"] != "ready" {
		t.Errorf("after a replace the job is %v", j)
	}
	s.enqueue("index", "newer", "--key=k", "--debounce", "--delay=1h")
	if j := s.show(id); j["payload_text"] != "newer" || j["state"] != "scheduled" {
		t.Errorf("after a debounce the job is %v", j)
	}
	if n := strings.Count(s.ok("list", "--json"), "\n"); n != 1 {
		t.Errorf("%d jobs are there, want 1", n)
	}
}

func TestOrderedJobsRunOneAtATime(t *testing.T) {
	s := newTool(t)
	first, second := s.enqueue("m", "--group=g", "--ordered"), s.enqueue("m", "--group=g", "--ordered")
	other := s.enqueue("m", "--group=g")
	l := object[shown](t, s.ok("claim", "--json"))
	if j := s.show(first); j["ordered"] != true || l["id"] != first {
		t.Fatalf("claimed %v, the job is %v", l["id"], j)
	}
	if out := s.ok("show", first); !strings.Contains(out, "ordered") {
		t.Errorf("show writes %s", out)
	}
	if l := object[shown](t, s.ok("claim", "--json")); l["id"] != other {
		t.Errorf("claimed %v, want the one that is not ordered", l["id"])
	}
	s.fails(exitNotFound, "", "claim")
	s.ok("ack", first, "--token", l["token"].(string))
	if l := object[shown](t, s.ok("claim", "--json")); l["id"] != second {
		t.Errorf("claimed %v, want %v", l["id"], second)
	}
}

// TestExplain brings each reason about.
func TestExplain(t *testing.T) {
	s := newTool(t)
	explain := func(id, reason, says string) shown {
		t.Helper()
		v := object[shown](t, s.ok("explain", id, "--json"))
		if v["reason"] != reason || v["id"] != id {
			t.Errorf("got %v, want the reason %s", v, reason)
		}
		out := s.ok("explain", id)
		if !strings.HasPrefix(out, reason+": ") || !strings.Contains(out, says) {
			t.Errorf("%s: explain writes %q, without %q", reason, out, says)
		}
		return v
	}
	a := s.enqueue("slow", "--queue=q")
	explain(a, "no_worker", "spool work --queue q --task slow")

	b := s.open()
	defer b.Close()
	if _, err := b.Extend(t.Context(), broker.ExtendRequest{Worker: broker.Worker{ID: "w1", Name: "w", Host: "h", PID: 7, Concurrency: 1}}); err != nil {
		t.Fatal(err)
	}
	explain(a, "none", "nothing holds it back")
	second := s.enqueue("slow", "--queue=q")
	if v := explain(second, "behind", "go first"); v["behind"] != 1.0 {
		t.Errorf("got %v", v)
	}
	s.ok("pause", "q")
	explain(a, "paused", "spool resume q")
	s.ok("resume", "q")

	lease := object[shown](t, s.ok("claim", "--json", "--ttl=1h", "--queue=q"))
	if v := explain(a, "leased", "until"); v["worker"] != "cli" || v["until"] == nil {
		t.Errorf("got %v", v)
	}
	s.ok("cancel", a)
	explain(a, "leased", "its worker is asked to stop it")
	s.ok("limit", "set", "one", "--task=slow", "--running=1", "--queue=q")
	if v := explain(second, "limit", "held by "+a); v["limit"] != "one" || v["holders"] == nil {
		t.Errorf("got %v", v)
	}
	s.ok("limit", "set", "one", "--task=slow", "--rate=1/h", "--queue=q")
	s.ok("ack", a, "--token", lease["token"].(string))
	s.enqueue("slow", "--queue=q")
	s.ok("claim", "--json", "--queue=q")
	third := object[shown](t, s.ok("list", "--state=ready", "--json", "--queue=q"))["id"].(string)
	if v := explain(third, "rate", "spool limit set one --queue q"); v["limit"] != "one" || !strings.HasPrefix(v["after"].(string), "59m") {
		t.Errorf("got %v", v)
	}
	later := s.enqueue("slow", "--delay=2h")
	if v := explain(later, "scheduled", "it is due in "); v["until"] == nil {
		t.Errorf("got %v", v)
	}
	s.ok("cancel", later, "--reason=no longer wanted")
	explain(later, "final", "error: no longer wanted\n")
	explain(later, "final", "an enqueue anew, since it is final (spool show "+later+" --payload")
	named := s.enqueue("named", "--queue=r")
	if _, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"r"}, Worker: "w1", Max: 1, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	explain(named, "leased", "by w on host h, process 7\n")
	batch, err := spool.New(b, spool.Config{}).EnqueueBatch(t.Context(), spool.Raw("sum", nil), spool.Raw("slow", nil), spool.Raw("slow", nil))
	if err != nil {
		t.Fatal(err)
	}
	explain(batch.ID.String(), "batch", "the batch's other jobs")
	if out := s.ok("show", batch.Members[1].String()); !strings.Contains(out, "member 1 of "+batch.ID.String()) {
		t.Errorf("show writes %s", out)
	}
	s.fails(exitNotFound, "not found", "explain", "01890a5d-ac96-774b-bcce-b302099a8057")
	if x := s.show(second)["explanation"].(map[string]any); x["reason"] == nil {
		t.Errorf("show has %v", x)
	}
}
