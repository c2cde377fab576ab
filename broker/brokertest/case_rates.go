package brokertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// fresh begins a case about rates, which shifts the clock.
func (f *fixture) fresh(limits ...broker.Setting) {
	f.Helper()
	f.needsShift()
	f.set(limits...)
}

// burst claims all that can be had now, and returns how many.
func (f *fixture) burst() int {
	f.Helper()
	return len(f.hold(1000))
}

var rateRules = []rule{
	{"a burst is claimed at once, then one job per interval", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 10, time.Second, 3))
		f.addMany(20)
		want(f, "at once", f.burst(), 3)
		for range 5 {
			f.advance(99 * time.Millisecond)
			f.none()
			f.advance(time.Millisecond)
			want(f, "after an interval", f.burst(), 1)
		}
		f.advance(250 * time.Millisecond)
		want(f, "after two intervals and a half", f.burst(), 2)
		f.advance(50 * time.Millisecond)
		want(f, "after another half", f.burst(), 1)
	}},
	{"a burst that is not given is the count", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 4, time.Second, 0))
		f.addMany(20)
		want(f, "at once", f.burst(), 4)
		f.advance(time.Second)
		want(f, "after the span", f.burst(), 4)
	}},
	{"a burst of one spaces the claims", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 4, time.Second, 1))
		f.addMany(5)
		for range 4 {
			want(f, "at once", f.burst(), 1)
			f.advance(249 * time.Millisecond)
			f.none()
			f.advance(time.Millisecond)
		}
	}},
	{"idle time saves up no more than the burst", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 10, time.Second, 3))
		f.addMany(20)
		f.advance(time.Hour)
		want(f, "after an hour", f.burst(), 3)
		f.advance(time.Hour)
		want(f, "after another", f.burst(), 3)
		f.none()
	}},
	{"intervals that are no whole nanoseconds do not add up to a fault", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 3, time.Second, 30))
		f.addMany(70)
		want(f, "at once", f.burst(), 30)
		for range 10 {
			f.advance(333 * time.Millisecond)
			f.none()
			f.advance(time.Millisecond)
			want(f, "after a third", f.burst(), 1)
			f.advance(665 * time.Millisecond)
			want(f, "after two thirds", f.burst(), 1)
			f.advance(time.Millisecond - 1)
			f.none()
			f.advance(1) // to the whole second
			want(f, "after a second", f.burst(), 1)
		}
	}},
	{"a rate below one a second is kept", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 1, 90*time.Minute, 0))
		f.addMany(3)
		want(f, "at once", f.burst(), 1)
		f.advance(90*time.Minute - time.Second)
		f.none()
		f.advance(time.Second)
		want(f, "after the span", f.burst(), 1)
	}},
	{"no window exceeds burst and rate, and all that is allowed is used", func(f *fixture) {
		const burst, perSecond = 4, 7
		f.fresh(rated("speed", broker.PerQueue, perSecond, time.Second, burst))
		f.addMany(300)
		var at []time.Duration
		now := time.Duration(0)
		for i := range 200 {
			for range f.burst() {
				at = append(at, now)
			}
			step := time.Duration(i*i%137) * time.Millisecond
			f.advance(step)
			now += step
		}
		for i := range at {
			for k := i; k < len(at); k++ {
				if allowed := burst + perSecond*(at[k]-at[i]).Seconds(); float64(k-i+1) > allowed+1e-9 {
					f.Fatalf("%d claims from %v to %v, allowed are %v", k-i+1, at[i], at[k], allowed)
				}
			}
		}
		if allowed := burst + perSecond*now.Seconds(); float64(len(at)) < allowed-1.5 || len(at) == 300 {
			f.Errorf("%d claims in %v, allowed are %v", len(at), now, allowed)
		}
	}},
	{"a rate by tenant or group has a bucket for each", func(f *fixture) {
		f.fresh(rated("tenants", broker.PerTenant, 1, time.Minute, 2, "a"), rated("groups", broker.PerGroup, 1, time.Minute, 1, "b"))
		mk := func(task, tenant, group string) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Task, n.Tenant, n.Group = task, tenant, group })
		}
		var jobs []broker.NewJob
		for range 4 {
			jobs = append(jobs, mk("a", "x", "g"), mk("a", "y", "g"), mk("b", "x", "g"), mk("b", "x", ""), mk("b", "y", "h"))
		}
		f.add(queue, jobs...)
		count := map[string]int{}
		for _, l := range f.hold(100) {
			count[l.Job.Task+" "+l.Job.Tenant+" "+l.Job.Group]++
		}
		want(f, "claims", fmt.Sprint(count), "map[a x g:2 a y g:2 b x :1 b x g:1 b y h:1]")
	}},
	{"a rate of several tasks counts them together, and no other", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 2, time.Minute, 0, "a", "b"))
		refs := f.add(queue, tasks("a", "b", "b", "c", "a", "c")...)
		f.wantOrder("claims", leaseIDs(f.hold(10)), refs, 0, 1, 3, 5)
	}},
	{"nothing is given back for a job that is given back", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 3, time.Minute, 0))
		refs := f.addMany(2)
		for _, kind := range []broker.SettleKind{broker.Release, broker.Snooze, broker.Nack} {
			f.end(f.holdOne(), kind)
		}
		f.none()
		f.advance(20 * time.Second)
		f.holdOne()
		f.none()
		want(f, "claimed", f.count(queue, task).Totals.Claimed, 4)
		for _, r := range refs {
			if a := f.get(r).Attempt; a > 1 {
				f.Errorf("attempt %d", a)
			}
		}
	}},
	{"a run that ends by its deadline is charged again", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 2, time.Hour, 0))
		f.addMany(1)
		for range 2 {
			f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
			f.pass(tick)
		}
		f.none()
	}},
	{"a claim that one rate refuses is charged to none", func(f *fixture) {
		f.fresh(rated("wide", broker.PerQueue, 4, time.Hour, 0), rated("narrow", broker.PerTenant, 1, time.Hour, 0))
		refs := f.add(queue, of("x"), of("x"), of("x"), of("y"), of("z"), of("v"), of("w"))
		f.wantOrder("claims", leaseIDs(f.hold(10)), refs, 0, 3, 4, 5)
		f.advance(15 * time.Minute)
		f.wantOrder("claims", leaseIDs(f.hold(10)), refs, 6)
	}},
	{"a rate and a limit on running jobs hold together", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 2, time.Minute, 0), running("slots", broker.PerQueue, 1))
		f.addMany(5)
		l := f.holdOne()
		f.none()
		f.end(l, broker.Ack)
		f.end(f.holdOne(), broker.Ack)
		f.none()
		f.advance(30 * time.Second)
		f.holdOne()
		f.none()
	}},
	{"a job over a rate keeps its place and burns no attempt", func(f *fixture) {
		f.fresh(rated("speed", broker.PerTenant, 1, time.Minute, 0))
		refs := f.add(queue, of("x"), of("x"), of("x"))
		f.holdOne()
		before := f.get(refs[1])
		for range 5 {
			f.none()
			f.pass(time.Second)
		}
		if diff := diffJobs(before, f.get(refs[1])); diff != "" {
			f.Errorf("the job that waits has changed: %s", diff)
		}
		f.advance(time.Minute)
		f.wantOrder("claims", leaseIDs(f.hold(10)), refs, 1)
	}},
	{"what is over a rate holds up nothing else", func(f *fixture) {
		f.fresh(rated("speed", broker.PerTenant, 1, time.Hour, 0, "a"))
		mk := func(task, tenant string, priority int32) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Task, n.Tenant, n.Priority = task, tenant, priority })
		}
		refs := f.add(queue, mk("a", "x", 9), mk("a", "x", 9), mk("a", "x", 5), mk("b", "x", 0), mk("a", "y", -1))
		f.wantOrder("claims", leaseIDs(f.hold(10)), refs, 0, 3, 4)
	}},
	{"what a rate allows goes to the tenant whose turn it is when it is taken", func(f *fixture) {
		f.fresh(rated("speed", broker.PerGroup, 1, time.Minute, 0))
		mk := func(task, tenant, group string) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Task, n.Tenant, n.Group = task, tenant, group })
		}
		first := f.add(queue, mk(task, "z", "g"), mk(task, "y", "h"), mk(task, "w", "h"))
		want(f, "tenants", fmt.Sprint(tenants(f.hold(2))), "[z y]")
		refs := f.add(queue, mk(task, "y", "g"), mk("u", "x", "k"), mk(task, "x", "g"))
		want(f, "leases", len(f.take(f.b, broker.ClaimRequest{Tasks: []string{task}}).Leases), 0)
		f.advance(time.Minute)
		// w was not served yet; x has had its turn then, and y waits longer.
		f.wantOrder("claims", leaseIDs(f.hold(3)), append(refs, first[2]), 3, 1, 0)
	}},
	{"a rate that is changed goes on from what was claimed", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 1, time.Minute, 2))
		f.addMany(20)
		want(f, "at once", f.burst(), 2) // as if until 2 minutes from now
		f.set(rated("speed", broker.PerQueue, 1, time.Minute, 3))
		want(f, "with a burst of one more", f.burst(), 1)
		f.set(rated("speed", broker.PerQueue, 1, time.Second, 1)) // at worst an empty bucket
		f.none()
		f.advance(time.Second)
		want(f, "when it has one", f.burst(), 1)
		f.advance(time.Second)
		want(f, "at the new rate", f.burst(), 1)
	}},
	{"an operator's rate goes on from what the declared one allowed", func(f *fixture) {
		f.fresh(weight("x", 1))
		f.declare("p", rated("speed", broker.PerQueue, 1, time.Minute, 0))
		f.addMany(5)
		want(f, "at once", f.burst(), 1)
		f.set(rated("speed", broker.PerQueue, 2, 2*time.Minute, 1))
		f.none()
		f.declare("p", rated("speed", broker.PerQueue, 1, time.Minute, 0))
		f.clear(rated("speed", "", 1, 1, 1))
		f.none()
		f.advance(time.Minute)
		want(f, "after the span", f.burst(), 1)
	}},
	{"a rate holds for all clients together", func(f *fixture) {
		f.fresh(rated("speed", broker.PerQueue, 10, time.Second, 0))
		f.addMany(100)
		for range 3 {
			got := make([]int, 4)
			f.each(4, func(n int, b broker.Broker) {
				for range 20 {
					c, err := b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 1 + n, Worker: "w"})
					if err != nil {
						f.Errorf("claim: %v", err)
					}
					got[n] += len(c.Leases)
				}
			})
			want(f, "claims", got[0]+got[1]+got[2]+got[3], 10)
			f.advance(time.Second)
		}
	}},
	{"a wall clock that steps changes no rate", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		f.fresh(rated("speed", broker.PerQueue, 1, time.Minute, 2))
		f.addMany(20)
		want(f, "at once", f.burst(), 2)
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			f.h.StepWall(step)
			f.none()
			f.advance(time.Minute)
			want(f, "after an interval", f.burst(), 1)
			f.none()
		}
	}},
	{"a claim that waits gets a job when the rate allows it", func(f *fixture) {
		f.needsTime()
		f.fresh(rated("speed", broker.PerQueue, 1, 4*time.Second, 0))
		f.addMany(2)
		f.holdOne()
		start := time.Now()
		claim := f.claiming(f.ctx, f.b)
		claim.done()
		f.must("claim", claim.err)
		want(f, "leases", len(claim.leases), 1)
		if took := time.Since(start); took < 4*time.Second-time.Millisecond || took > 4*time.Second+longest {
			f.Errorf("the claim took %v, want 4s", took)
		}
	}},
	{"a client that comes after the last has gone finds the buckets as they were", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.fresh(rated("speed", broker.PerTenant, 1, time.Minute, 2))
		f.add(queue, of("x"), of("x"), of("x"), of("x"), of("y"), of("y"))
		want(f, "at once", len(f.take(f.b, broker.ClaimRequest{Remote: true, TTL: time.Hour, Max: 3}).Leases), 3)
		f.advance(30 * time.Second)
		f.must("close", f.b.Close())
		f.b = f.open()
		f.maintain()
		want(f, "half an interval later", fmt.Sprint(tenants(f.hold(100))), "[y]")
		f.must("close", f.b.Close())
		f.b = f.open()
		f.advance(time.Minute)
		f.maintain()
		want(f, "after an interval", fmt.Sprint(shares(f.servedAll())), "map[x:1 y:1]")
	}},
	{"a rate that is changed after a restart of the machine has been empty since then, too", func(f *fixture) {
		if f.h.Restart == nil {
			f.Skipf("the machine cannot be restarted")
		}
		f.fresh(rated("speed", broker.PerQueue, 1, time.Second, 0))
		f.addMany(9)
		f.must("close", f.b.Close())
		f.h.Restart()
		f.b = f.open()
		f.none()
		f.advance(time.Second)
		want(f, "after an interval", f.burst(), 1)
		f.advance(10 * time.Second)
		f.set(rated("speed", broker.PerQueue, 1, time.Minute, 2))
		f.none()
		f.advance(49 * time.Second)
		want(f, "after an interval of the changed rate", f.burst(), 1)
		f.none()
	}},
	{"after a restart of the machine every bucket starts empty", func(f *fixture) {
		if f.h.Restart == nil {
			f.Skipf("the machine cannot be restarted")
		}
		f.fresh(rated("speed", broker.PerTenant, 1, time.Minute, 3))
		f.add(queue, of("x"), of("x"), of("x"), of("x"), of("y"), of("y"), of("y"))
		f.must("close", f.b.Close())
		f.h.Restart()
		f.b = f.open()
		f.none()
		for range 2 {
			f.advance(time.Minute - time.Millisecond)
			f.none()
			f.advance(time.Millisecond)
			want(f, "after an interval", fmt.Sprint(shares(f.servedAll())), "map[x:1 y:1]")
		}
	}},
}

// servedAll claims all that can be had and says in one string whose it is.
func (f *fixture) servedAll() string {
	f.Helper()
	return strings.Join(tenants(f.hold(1000)), "")
}
