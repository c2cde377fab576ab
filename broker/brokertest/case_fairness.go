package brokertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// flood adds n jobs of a tenant.
func (f *fixture) flood(tenant string, n int) []broker.Ref {
	f.Helper()
	var refs []broker.Ref
	for n > 0 {
		jobs := make([]broker.NewJob, min(n, 200))
		for i := range jobs {
			jobs[i] = of(tenant)
		}
		refs = append(refs, f.add(queue, jobs...)...)
		n -= len(jobs)
	}
	return refs
}

// served claims n jobs and says in one string whose they are.
func (f *fixture) served(n int) string {
	f.Helper()
	return strings.Join(tenants(exactly(f, "leases", f.claim(n), n)), "")
}

// count counts the claims of each tenant in what served says.
func shares(served string) map[string]int {
	n := map[string]int{}
	for _, tenant := range served {
		n[string(tenant)]++
	}
	return n
}

var fairRules = []rule{
	{"tenants of equal weight take turns", func(f *fixture) {
		f.flood("x", 4)
		f.flood("y", 2)
		f.flood("z", 3)
		want(f, "served", f.served(9), "xyzxyzxzx")
	}},
	{"a flood of one tenant delays another's job by one turn", func(f *fixture) {
		f.flood("x", 1500)
		want(f, "served", f.served(20), strings.Repeat("x", 20))
		f.flood("y", 1)
		f.flood("z", 1)
		want(f, "served", f.served(5), "yzxxx")
	}},
	{"jobs without a tenant are a tenant's as well", func(f *fixture) {
		f.addMany(4)
		f.flood("x", 4)
		want(f, "tenants", fmt.Sprintf("%q", tenants(f.claim(6))), `["" "x" "" "x" "" "x"]`)
	}},
	{"a tenant's own jobs keep their order", func(f *fixture) {
		refs := append(f.flood("x", 3), f.flood("y", 3)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 0, 3, 1, 4, 2, 5)
	}},
	{"tenants that were served alike go by the place of their first jobs", func(f *fixture) {
		refs := f.add(queue, of("y"), of("x"), of("z"), of("x"), of("z"), of("y"))
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 0, 1, 2, 3, 4, 5)
	}},
	{"tenants are served by their weights", func(f *fixture) {
		f.set(weight("x", 1), weight("y", 2), weight("z", 5))
		for _, tenant := range []string{"x", "y", "z"} {
			f.flood(tenant, 200)
		}
		served := ""
		for range 8 {
			served += f.served(40)
			n := shares(served)
			for tenant, weight := range map[string]int{"x": 1, "y": 2, "z": 5} {
				if fair := len(served) * weight / 8; n[tenant] < fair-1 || n[tenant] > fair+1 {
					f.Errorf("%d of %d claims are of %s, want %d", n[tenant], len(served), tenant, fair)
				}
			}
		}
	}},
	{"shares are exact whatever the weights", func(f *fixture) {
		weights := map[string]int{"a": 3, "b": 7, "c": 1, "d": 1000, "e": broker.MaxWeight}
		for tenant, w := range weights {
			f.set(weight(tenant, w))
			f.flood(tenant, 150)
		}
		served := f.served(150)
		n := shares(served)
		want(f, "claims of the smallest weights", fmt.Sprint(n["a"], n["b"], n["c"]), "1 1 1")
		if n["d"] < 13 || n["d"] > 15 { // 1000 of 11011, and the first turn of each
			f.Errorf("claims %v, want 13 to 15 of d", n)
		}
		f.clear(weight("e", 0))
		n = shares(f.served(60))
		if n["d"] < 57 {
			f.Errorf("claims %v, want nearly all of d", n)
		}
	}},
	{"a tenant that comes late is not paid for the time before", func(f *fixture) {
		f.flood("x", 50)
		f.flood("y", 50)
		f.served(60)
		f.flood("z", 20)
		n := shares(f.served(30))
		for _, tenant := range []string{"x", "y", "z"} {
			if n[tenant] < 9 || n[tenant] > 11 {
				f.Errorf("claims %v, want 10 each", n)
			}
		}
	}},
	{"a tenant that was idle is not paid for it, nor fined for what it had", func(f *fixture) {
		f.flood("x", 10)
		f.served(10)
		f.flood("y", 40)
		f.served(30)
		f.flood("x", 20)
		n := shares(f.served(10))
		if n["x"] < 4 || n["x"] > 6 {
			f.Errorf("claims %v, want 5 each", n)
		}
	}},
	{"a weight changed at run time counts from the next claim on", func(f *fixture) {
		f.flood("x", 100)
		f.flood("y", 100)
		want(f, "equal", fmt.Sprint(shares(f.served(40))), "map[x:20 y:20]")
		f.set(weight("x", 3))
		n := shares(f.served(40))
		if n["x"] < 29 || n["x"] > 31 {
			f.Errorf("claims %v, want three of x for one of y", n)
		}
		f.clear(weight("x", 0))
		n = shares(f.served(20))
		if n["x"] < 9 || n["x"] > 11 {
			f.Errorf("claims %v, want one of x for one of y", n)
		}
	}},
	{"a higher priority goes before any turn", func(f *fixture) {
		f.flood("y", 3)
		jobs := priorities(1, 1, 1)
		for i := range jobs {
			jobs[i].Tenant = "x"
		}
		f.add(queue, jobs...)
		want(f, "served", f.served(6), "xxxyyy")
	}},
	{"each priority has turns of its own", func(f *fixture) {
		mk := func(tenant string, priority int32) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Tenant, n.Priority = tenant, priority })
		}
		f.add(queue, mk("x", 1), mk("x", 1), mk("x", 1))
		f.add(queue, mk("x", 0), mk("x", 0), mk("y", 0), mk("y", 0))
		want(f, "served", f.served(7), "xxxxyxy")
	}},
	{"shares hold for workers that handle different tasks", func(f *fixture) {
		mk := func(tenant, task string) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Tenant, n.Task = tenant, task })
		}
		var jobs []broker.NewJob
		for range 60 {
			jobs = append(jobs, mk("x", "a"), mk("y", "a"), mk("y", "b"), mk("z", "b"))
		}
		f.add(queue, jobs...)
		n := map[string]int{}
		for range 45 {
			for _, task := range []string{"a", "b"} {
				l := f.takeOne(f.b, broker.ClaimRequest{Queues: []string{queue}, Tasks: []string{task}, Max: 1})
				n[l.Job.Tenant]++
			}
		}
		for _, tenant := range []string{"x", "y", "z"} {
			if n[tenant] < 29 || n[tenant] > 31 {
				f.Errorf("claims %v, want 30 each", n)
			}
		}
	}},
	{"a job that is given back has had its turn", func(f *fixture) {
		refs := append(f.flood("x", 2), f.flood("y", 2)...)
		for _, first := range []int{0, 2} {
			l := f.one()
			f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, first)
			f.end(l, broker.Release)
		}
		f.wantOrder("claims", leaseIDs(f.claim(4)), refs, 0, 2, 1, 3)
	}},
	{"a tenant over its limit loses its turns and holds up nobody", func(f *fixture) {
		f.set(running("slots", broker.PerTenant, 1))
		f.flood("x", 3)
		f.flood("y", 1)
		leases := f.claim(10)
		want(f, "tenants", fmt.Sprint(tenants(leases)), "[x y]")
		f.clear(running("slots", "", 1))
		f.flood("z", 10)
		f.served(4)
		f.flood("y", 10)
		n := shares(f.served(9))
		if n["x"] > 3 || n["y"] < 2 || n["z"] < 2 {
			f.Errorf("claims %v, want no more of x than of the others", n)
		}
	}},
	{"turns are kept after the last client has gone", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.set(weight("x", 2))
		f.flood("x", 6)
		f.flood("y", 6)
		for _, l := range f.claim(2) {
			f.end(l, broker.Ack)
		}
		served := "xy" // then x at 1/2 twice, and so on
		for range 2 {
			f.must("close", f.b.Close())
			f.b = f.open()
			f.maintain()
			for _, l := range f.claim(2) {
				served += l.Job.Tenant
				f.end(l, broker.Ack)
			}
		}
		want(f, "served", served, "xyxxyx")
	}},
	{"every client serves the same turns", func(f *fixture) {
		other := f.open()
		f.flood("x", 6)
		f.flood("y", 6)
		served := ""
		for i := range 12 {
			b := f.b
			if i%3 == 0 {
				b = other
			}
			served += f.takeOne(b, broker.ClaimRequest{Max: 1}).Job.Tenant
		}
		want(f, "served", served, "xyxyxyxyxyxy")
	}},
	{"once nothing waits, turns begin anew", func(f *fixture) {
		refs := f.flood("x", 3)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 1, 2)
		refs = f.add(queue, of("x"), of("y"), of("x"))
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 1, 2)
	}},
	{"turns begin anew, too, when all that waits is for no live worker", func(f *fixture) {
		f.add(queue, with(func(n *broker.NewJob) { n.Task, n.Tenant = "u", "z" }))
		take := func() []broker.ID {
			return leaseIDs(f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Tasks: []string{task}, Max: 10, TTL: time.Hour}).Leases)
		}
		refs := f.flood("x", 2)
		f.wantOrder("claims", take(), refs, 0, 1)
		refs = f.add(queue, of("x"), of("y"))
		f.wantOrder("claims", take(), refs, 0, 1)
		f.register(f.b, broker.Worker{ID: "v", Tasks: []string{"u"}})
		refs = f.add(queue, of("x"), of("y"))
		f.wantOrder("claims", take(), refs, 0, 1)
		refs = f.add(queue, of("x"), of("w"))
		f.wantOrder("claims", take(), refs, 1, 0) // z waits for its turn
	}},
	{"what a limit holds back waits, too: turns go on", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		refs := f.add(queue, of("x"), of("x"), of("y"))
		for _, next := range []int{0, 2, 1} {
			l := f.one()
			f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, next)
			f.end(l, broker.Ack)
		}
	}},
	{"a retry waits for its tenant's turn", func(f *fixture) {
		refs := append(f.flood("x", 2), f.flood("y", 2)...)
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.advance(tick)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2, 1, 3, 0)
	}},
}

var ageRules = []rule{
	{"without ageing, a higher priority goes first whatever waits", func(f *fixture) {
		refs := f.addMany(1)
		f.advance(tick)
		refs = append(refs, f.add(queue, priorities(1)...)...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 1, 0)
	}},
	{"with ageing, a priority is worth its steps and no more", func(f *fixture) {
		f.needsShift()
		f.set(ageing(time.Minute))
		var refs []broker.Ref
		for _, c := range []struct {
			priority int32
			after    time.Duration
		}{{0, 0}, {1, 59 * time.Second}, {0, 30 * time.Second}, {2, time.Minute}, {-1, time.Second}} {
			f.advance(c.after)
			refs = append(refs, f.add(queue, priorities(c.priority)...)...)
		}
		// Places: 0s, 59s-60s, 89s, 149s-120s, 150s+60s.
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 1, 0, 3, 2, 4)
	}},
	{"where age is equal, the higher priority goes first, then the tenant's turn", func(f *fixture) {
		f.needsShift()
		f.set(ageing(time.Minute))
		refs := f.add(queue, of("x"), of("x"), of("y"))
		f.advance(time.Minute)
		refs = append(refs, f.add(queue, priorities(1)...)...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 3, 0, 2, 1)
	}},
	{"a job of low priority is not overtaken for ever", func(f *fixture) {
		f.needsShift()
		f.set(ageing(time.Minute))
		low := f.add(queue, priorities(-5)...)
		for n := range 20 {
			f.add(queue, priorities(3)...)
			if l := f.takeOne(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: 1, TTL: time.Hour}); l.Job.ID == low[0].ID {
				want(f, "urgent jobs before it", n, 9)
				return
			}
			f.advance(time.Minute)
		}
		f.Errorf("it was not claimed in 20 minutes")
	}},
	{"age counts from the due time, and is kept by a release", func(f *fixture) {
		f.needsShift()
		f.set(ageing(time.Minute))
		refs := f.addMany(1)
		refs = append(refs, f.addOne(with(func(n *broker.NewJob) { n.Delay = 50 * time.Second })))
		f.end(f.one(), broker.Release)
		f.advance(55 * time.Second)
		refs = append(refs, f.add(queue, priorities(1)...)...) // as if 5s before the first
		l := f.one()
		f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, 2)
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: 55 * time.Second}) // as if at 50s
		f.advance(55 * time.Second)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 2, 1)
	}},
	{"ageing that is switched on or off counts for what waits", func(f *fixture) {
		f.needsShift()
		refs := f.addMany(2)
		f.advance(time.Minute)
		refs = append(refs, f.add(queue, priorities(1, 1)...)...)
		f.set(ageing(time.Second))
		f.wantOrder("on", leaseIDs(f.claim(1)), refs, 0)
		f.clear(ageing(0))
		f.wantOrder("off", leaseIDs(f.claim(1)), refs, 2)
		f.set(ageing(time.Second))
		f.wantOrder("on again", leaseIDs(f.claim(10)), refs, 1, 3)
	}},
	{"the longest steps and the farthest priorities stay in order", func(f *fixture) {
		f.set(ageing(broker.MaxDelay))
		refs := f.add(queue, priorities(0, 1<<31-1, -1<<31, 1, -1)...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 1, 3, 0, 4, 2)
	}},
	{"ageing passes over what is limited", func(f *fixture) {
		f.needsShift()
		f.set(ageing(time.Minute), running("slots", broker.PerTenant, 1))
		refs := f.add(queue, of("x"), of("x"))
		f.advance(10 * time.Minute)
		refs = append(refs, f.add(queue, of("y"))...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 2)
	}},
}
