//go:build linux

package proctest

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

// claimBy lets a client claim the only job and returns its answer.
func claimBy(t *testing.T, c *process, ttl time.Duration) event {
	t.Helper()
	got := c.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: ttl})
	if got.Text != "" || len(got.IDs) != 1 {
		t.Fatalf("claim: %d jobs, error %q", len(got.IDs), got.Text)
	}
	return got
}

// useAll uses a lease in every way and returns what each came to.
func useAll(t *testing.T, c *process, e event) map[string]event {
	t.Helper()
	answers := map[string]event{}
	for how := range settlements {
		answers[how] = c.ask(order{Do: how, Queue: spool.DefaultQueue, ID: e.id(), Token: e.Token})
	}
	return answers
}

// opened starts a client that has the store open.
func opened(t *testing.T, p plan) *process {
	t.Helper()
	p.Role = asClient
	c := start(t, p)
	if a := c.ask(order{Do: "open"}); a.Text != "" {
		t.Fatalf("open: %s", a.Text)
	}
	return c
}

// briefTTL is of leases that are to expire.
const briefTTL = 150 * time.Millisecond

func TestAStaleTokenIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		retain time.Duration
		want   string // the sentinel error
		but    string // the way that is answered, not refused
		// stale makes the token stale that first has claimed.
		stale func(t *testing.T, first, second *process, e event)
		state spool.State // afterwards
		token int         // how often the job was claimed, in the end
	}{
		{"after expiry", time.Hour, "lease lost", "", func(t *testing.T, _, second *process, e event) {
			ready := func() bool {
				jobs := jobs(t, dirOf(second), e.id())
				return jobs[0].State == spool.Ready
			}
			eventually(t, "the lease expires", ready)
		}, spool.Ready, 1},
		{"after an expiry that nobody has noticed", time.Hour, "lease lost", "", func(t *testing.T, _, _ *process, e event) {
			eventually(t, "the lease is over", func() bool { return now() > e.At+briefTTL })
		}, spool.Ready, 1},
		{"after redelivery", time.Hour, "lease lost", "", func(t *testing.T, _, second *process, e event) {
			var again event
			eventually(t, "the job is claimed again", func() bool {
				again = second.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: time.Minute})
				return len(again.IDs) == 1
			})
			if again.Token <= e.Token {
				t.Errorf("token %v came after %v", again.Token, e.Token)
			}
		}, spool.Leased, 2},
		{"after redelivery and done", time.Hour, "lease lost", "", func(t *testing.T, _, second *process, e event) {
			var again event
			eventually(t, "the job is claimed again", func() bool {
				again = second.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: time.Minute})
				return len(again.IDs) == 1
			})
			if a := second.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: e.id(), Token: again.Token}); a.Text != "" {
				t.Errorf("ack: %s", a.Text)
			}
		}, spool.Done, 2},
		{"after done, but for the same ack", time.Hour, "lease lost", "ack", func(t *testing.T, first, _ *process, e event) {
			if a := first.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: e.id(), Token: e.Token}); a.Text != "" {
				t.Errorf("ack: %s", a.Text)
			}
		}, spool.Done, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t)
			id := enqueue(t, dir, 1, note, spool.Retain(c.retain))[0]
			first, second := opened(t, plan{Store: dir, Name: "first"}), opened(t, plan{Store: dir, Name: "second"})
			e := claimBy(t, first, briefTTL)
			c.stale(t, first, second, e)
			for _, p := range []*process{first, second} { // a token is good or stale for everyone
				for how, a := range useAll(t, p, e) {
					switch {
					case how == c.but && a.Text != "":
						t.Errorf("%s by %s, repeated: %s", how, p.name, a.Text)
					case how != c.but && !slices.Contains(a.Is, c.want):
						t.Errorf("%s by %s: error %q, wanted is %q", how, p.name, a.Text, c.want)
					}
				}
			}
			j := jobs(t, dir, id)[0]
			if j.State != c.state || uint32(j.Token)-uint32(e.Token) != uint32(c.token-1) {
				t.Errorf("the job is %v with token %v, first was %v", j.State, j.Token, e.Token)
			}
		})
	}
}

func TestTheTokenOfAKilledProcessIsRefusedFromAnyOther(t *testing.T) {
	dir := newStore(t)
	id := enqueue(t, dir, 1, note)[0]
	first, second := opened(t, plan{Store: dir, Name: "first"}), opened(t, plan{Store: dir, Name: "second"})
	e := claimBy(t, first, 30*time.Second)
	first.kill()
	eventually(t, "the job is ready again", func() bool { return jobs(t, dir, id)[0].State == spool.Ready })
	for how, a := range useAll(t, second, e) {
		if !slices.Contains(a.Is, "lease lost") {
			t.Errorf("%s: error %q, wanted is a lost lease", how, a.Text)
		}
	}
	again := claimBy(t, second, 30*time.Second)
	if again.Token <= e.Token || again.Attempt != 2 {
		t.Errorf("token %v, attempt %d came after token %v", again.Token, again.Attempt, e.Token)
	}
	if a := second.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: id, Token: again.Token}); a.Text != "" {
		t.Errorf("ack: %s", a.Text)
	}
}

func TestAWorkerStoppedForLongerThanItsLeasesLosesThem(t *testing.T) {
	const ttl = 600 * time.Millisecond
	dir := newStore(t)
	p := plan{Store: dir, Role: asWorker, Concurrency: 4, TTL: ttl, Name: "stopped"}
	holder := start(t, p)
	ids := slices.Concat(enqueue(t, dir, 1, hold), enqueue(t, dir, 1, late), enqueue(t, dir, 2, gate))
	first := holder.await("start", len(ids))
	p.Name = "other"
	other := ready(t, p)
	before, _ := other.told("start")

	holder.stop()
	stopped := now()
	second := other.await("start", len(before)+len(ids))[len(before):]
	for _, e := range second {
		t.Logf("%s runs elsewhere %v after the stop, the TTL is %v", e.Name, (e.At - stopped).Round(time.Millisecond), ttl)
		if took := e.At - stopped; took > ttl+2*time.Second {
			t.Errorf("%s ran %v after the stop", e.Name, took)
		}
	}
	other.order(order{Do: "open"})
	other.await("ack", 1+2)

	holder.order(order{Do: "open"}) // one handler returns as soon as it can
	holder.signal(syscall.SIGCONT)
	for _, e := range holder.await("cause", 1) {
		if !slices.Contains(e.Is, "lease lost") {
			t.Errorf("the cause of the context is %q", e.Text)
		}
	}
	if e := holder.await("late ack", 1)[0]; !slices.Contains(e.Is, "lease lost") {
		t.Errorf("the ack by the handler: error %q", e.Text)
	}
	for _, e := range holder.await("finish", len(ids)) {
		if e.Name != late.Name() && !slices.Contains(e.Is, "lease lost") {
			t.Errorf("%s finished with error %q", e.Name, e.Text)
		}
	}
	if acked, _ := holder.told("ack"); len(acked) != 0 {
		t.Errorf("the worker that was stopped acked %+v", acked)
	}
	for _, e := range second {
		for _, f := range first {
			if e.id() == f.id() && (e.Token <= f.Token || e.Attempt != 2) {
				t.Errorf("%s ran with token %v and attempt %d after token %v", e.Name, e.Token, e.Attempt, f.Token)
			}
		}
	}
	holder.finish()
}

func dirOf(p *process) string { return p.plan.Store }
