//go:build linux

package proctest

import (
	"errors"
	"os/exec"
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
	kept := spool.Retain(time.Hour) // a job that is gone is not found, rather than lost
	ids := slices.Concat(enqueue(t, dir, 1, hold, kept), enqueue(t, dir, 1, late, kept), enqueue(t, dir, 2, gate, kept))
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

func TestAnIdleWorkerNoticesALeaseThatEnds(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := newStore(t)
	ready(t, plan{Store: dir})
	reader, err := openStore(plan{Store: dir}) // only reads: it ends no lease
	must(t, err)
	defer reader.Close()
	c := opened(t, plan{Store: dir, Name: "claimer"})
	got, err := reader.Enqueue(t.Context(), spool.Raw("of-no-worker", nil))
	must(t, err)
	e := claimBy(t, c, briefTTL)
	c.stop()
	eventually(t, "the job is ready again", func() bool {
		j, err := reader.Get(t.Context(), got[0].ID)
		must(t, err)
		return j.State == spool.Ready
	})
	took := now() - e.At - briefTTL
	t.Logf("noticed %v after the end of the lease", took.Round(time.Millisecond))
	if took > 10*time.Second { // the longest rest between two steps of upkeep
		t.Errorf("it took %v", took)
	}
}

func TestAnAckIsOfOneLeaseAlone(t *testing.T) {
	dir := newStore(t)
	ids := enqueue(t, dir, 2, note)
	first, second := opened(t, plan{Store: dir, Name: "first"}), opened(t, plan{Store: dir, Name: "second"})
	a, b := claimBy(t, first, 30*time.Second), claimBy(t, second, 30*time.Second)
	if a.id() != ids[0] || b.id() != ids[1] {
		t.Fatalf("claimed were %v and %v of %v", a.id(), b.id(), ids)
	}
	if x := second.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: b.id(), Token: b.Token}); x.Text != "" {
		t.Errorf("ack: %s", x.Text)
	}
	first.kill()
	second.finish()
	with(t, dir, func(c *spool.Client) {
		if j, err := c.Get(t.Context(), a.id()); err != nil || j.State != spool.Ready {
			t.Errorf("the job that was not acked is %v, error %v", j.State, err)
		}
		if j, err := c.Get(t.Context(), b.id()); !errors.Is(err, spool.ErrNotFound) {
			t.Errorf("the job that was acked is %v, error %v", j.State, err)
		}
	})
}

func TestHandlersThatBurnTheProcessorDoNotCostTheirLeases(t *testing.T) {
	t.Parallel() // it mostly waits
	const ttl = 1500 * time.Millisecond
	dir := newStore(t)
	busy := start(t, plan{Store: dir, Role: asWorker, Concurrency: 4, TTL: ttl, Name: "busy"}, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	})
	enqueue(t, dir, 4, burn)
	begun := busy.await("start", 4)[3].At
	other := ready(t, plan{Store: dir, Concurrency: 4, TTL: ttl, Name: "other"})
	eventually(t, "two TTLs are over", func() bool { return now()-begun > 2*ttl })
	busy.order(order{Do: "open"})
	busy.await("ack", 4)
	if ran, _ := other.told("start"); len(ran) != 1 {
		t.Errorf("jobs ran elsewhere meanwhile: %+v", ran)
	}
}
