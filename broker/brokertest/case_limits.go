package brokertest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
)

// freeing are the ways in which a running job gives back what it holds of a
// limit, other than to be claimed again.
var freeing = []struct {
	name string
	free func(f *fixture, l broker.Lease)
}{
	{"an ack", func(f *fixture, l broker.Lease) { f.end(l, broker.Ack) }},
	{"a failure", func(f *fixture, l broker.Lease) {
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: 24 * time.Hour})
	}},
	{"the last failure", func(f *fixture, l broker.Lease) { f.end(l, broker.Bury) }},
	{"a snooze", func(f *fixture, l broker.Lease) {
		f.settle(l, broker.Settlement{Kind: broker.Snooze, Delay: 24 * time.Hour})
	}},
	{"a cancel", func(f *fixture, l broker.Lease) {
		f.command(broker.CancelJobs, l.Job.ID)
		f.end(l, broker.Cancel)
	}},
}

var limitRules = []rule{
	{"no more jobs of a task run than its limit", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 2))
		refs := f.addMany(5)
		leases := exactly(f, "leases", f.claim(10), 2)
		f.wantOrder("claims", leaseIDs(leases), refs, 0, 1)
		f.none()
		f.end(leases[0], broker.Ack)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2)
		f.none()
	}},
	{"a limit holds for all claims and clients together", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 3))
		f.addMany(9)
		other := f.open()
		want(f, "leases", len(f.claim(2))+len(f.take(other, broker.ClaimRequest{}).Leases)+len(f.claim(1)), 3)
	}},
	{"a limit by tenant counts each tenant by itself", func(f *fixture) {
		f.set(running("slots", broker.PerTenant, 1))
		refs := f.add(queue, of("x"), of("x"), of("y"), of(""), of(""), of("y"))
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 2, 3)
		f.none()
	}},
	{"a limit by group counts each group by itself, and a job without one for its tenant", func(f *fixture) {
		f.set(running("slots", broker.PerGroup, 1))
		both := func(tenant, group string) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Tenant, n.Group = tenant, group })
		}
		refs := f.add(queue, both("", "g"), both("", "h"), both("", "g"), both("t", ""), both("t", ""), both("t", "g"))
		got := map[broker.ID]bool{}
		for _, id := range leaseIDs(f.claim(10)) {
			got[id] = true
		}
		for i, r := range refs {
			want(f, fmt.Sprint("job ", i, " is claimed"), got[r.ID], i == 0 || i == 1 || i == 3)
		}
	}},
	{"a limit of several tasks counts them together", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 2, "a", "b"))
		refs := f.add(queue, tasks("a", "b", "a", "b", "c")...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 1, 4)
	}},
	{"what is over a limit holds up nothing else", func(f *fixture) {
		f.set(running("slots", broker.PerTenant, 1, "a"))
		mk := func(task, tenant string, priority int32) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Task, n.Tenant, n.Priority = task, tenant, priority })
		}
		refs := f.add(queue, mk("a", "x", 9), mk("a", "x", 9), mk("a", "x", 5), mk("b", "x", 0), mk("a", "y", -1))
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 3, 4)
	}},
	{"every end of a run frees its slot", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		for _, e := range freeing {
			f.addMany(2)
			l := f.one()
			f.none()
			e.free(f, l)
			f.end(f.one(), broker.Ack)
			f.command(broker.DeleteJobs)
		}
	}},
	{"a job that is given back frees its slot and takes it again", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		refs := f.addMany(2)
		for range 3 {
			l := f.one()
			want(f, "job", l.Job.ID, refs[0].ID)
			f.none()
			f.end(l, broker.Release)
		}
	}},
	{"a lease that ends without a settlement frees its slot", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		refs := f.addMany(2)
		for attempt := range 3 {
			l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
			want(f, "job", l.Job.ID, refs[0].ID)
			want(f, "attempt", l.Job.Attempt, attempt+1)
			f.none()
			f.pass(tick)
		}
	}},
	{"a client that goes frees the slots that it held", func(f *fixture) {
		if !f.b.Caps().HandleLeases {
			f.Skipf("leases of this broker outlive their client")
		}
		f.set(running("slots", broker.PerQueue, 1))
		f.addMany(2)
		other := f.open()
		f.takeOne(other, broker.ClaimRequest{TTL: time.Hour})
		f.none()
		f.must("close", other.Close())
		f.maintain()
		f.one()
	}},
	{"a limit is as good for a lease as for its extension", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		f.addMany(2)
		l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
		f.beat(l, time.Hour)
		f.pass(2 * tick)
		f.none()
		f.end(l, broker.Ack)
		f.one()
	}},
	{"a limit counts what was running before it came", func(f *fixture) {
		f.addMany(6)
		leases := f.all(3)
		f.set(running("slots", broker.PerQueue, 3))
		f.none()
		f.set(running("slots", broker.PerQueue, 4))
		f.one()
		f.none()
		f.set(running("slots", broker.PerQueue, 2))
		f.end(leases[0], broker.Ack)
		f.end(leases[1], broker.Ack)
		f.none()
		f.end(leases[2], broker.Ack)
		f.one()
		f.none()
	}},
	{"a limit that changes its tasks or its scope counts again", func(f *fixture) {
		refs := f.add(queue, of("x"), of("y"), of("x"), of("z"))
		f.set(running("slots", broker.PerQueue, 2, "another"))
		f.all(2)
		f.set(running("slots", broker.PerQueue, 2))
		f.none()
		f.set(running("slots", broker.PerTenant, 1))
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 3)
	}},
	{"a limit that no longer binds a task lets go all that waited for it", func(f *fixture) {
		for what, change := range map[string]func(){
			"other tasks": func() { f.set(running("slots", broker.PerQueue, 1, "u")) },
			"cleared":     func() { f.clear(running("slots", "", 1)) },
			"a rate":      func() { f.set(rated("slots", broker.PerQueue, 100, time.Second, 100)) },
			"by tenant":   func() { f.set(running("slots", broker.PerTenant, 1, task, "u")) },
			"more":        func() { f.set(running("slots", broker.PerQueue, 9, task, "u")) },
		} {
			f.addOne(with(func(n *broker.NewJob) { n.Task, n.Tenant, n.Priority = "u", "w", 1 }))
			l := f.one()
			f.set(running("slots", broker.PerQueue, 1, task, "u"))
			f.add(queue, of("x"), of("y"), of("z"))
			f.none()
			f.end(l, broker.Release) // one of those that wait may go, and finds the slot taken again
			f.one()
			change()
			want(f, "tenants after "+what, fmt.Sprint(tenants(f.claim(10))), "[x y z]")
			for _, j := range f.in(broker.Leased) {
				f.end(leaseOf(j), broker.Ack)
			}
			f.command(broker.DeleteJobs)
		}
	}},
	{"a limit that is cleared binds nothing", func(f *fixture) {
		limit := running("slots", broker.PerQueue, 1)
		f.set(limit)
		f.addMany(3)
		f.one()
		f.clear(limit)
		f.all(2)
	}},
	{"all limits of a task have to allow a claim", func(f *fixture) {
		f.set(running("all", broker.PerQueue, 3), running("each", broker.PerTenant, 1), running("both", broker.PerQueue, 2, task, "u"))
		f.addOne(with(func(n *broker.NewJob) { n.Task, n.Priority = "u", 1 }))
		refs := f.add(queue, of("x"), of("x"), of("y"), of("z"))
		leases := exactly(f, "leases", f.claim(10), 2)
		f.wantOrder("claims", leaseIDs(leases[1:]), refs, 0)
		f.end(leases[0], broker.Ack)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2)
		f.set(running("both", broker.PerQueue, 9, task, "u"))
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 3)
		f.none()
	}},
	{"a job over a limit keeps its place and burns no attempt", func(f *fixture) {
		f.set(running("slots", broker.PerTenant, 1))
		refs := f.add(queue, of("x"), of("x"))
		before := f.get(refs[1])
		first := f.one()
		for range 5 {
			f.none()
			f.pass(tick / 4)
		}
		if diff := diffJobs(before, f.get(refs[1])); diff != "" {
			f.Errorf("the job that waits has changed: %s", diff)
		}
		refs = append(refs, f.add(queue, of("x"))...)
		f.end(first, broker.Ack)
		l := f.one()
		f.wantOrder("claims", []broker.ID{l.Job.ID}, refs, 1)
		want(f, "attempt", l.Job.Attempt, 1)
	}},
	{"jobs behind more limited ones than a claim looks at are found", func(f *fixture) {
		f.set(running("slots", broker.PerGroup, 1))
		var jobs []broker.NewJob
		for i := range 300 {
			jobs = append(jobs, ofGroup(fmt.Sprint("g", i)), ofGroup(fmt.Sprint("g", i)))
		}
		f.add(queue, jobs...)
		got := 0
		for range 20 {
			got += len(f.claim(100))
		}
		want(f, "leases", got, 300)
		last := f.addOne(with(func(n *broker.NewJob) { n.Task, n.Priority = "free", -1 }))
		var ids []broker.ID
		for more := true; more && len(ids) == 0; {
			c := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: 1})
			ids, more = leaseIDs(c.Leases), c.More
		}
		f.wantOrder("claims", ids, []broker.Ref{last}, 0)
	}},
	{"a waiting claim looks past all the limited jobs before it sleeps", func(f *fixture) {
		f.set(running("slots", broker.PerGroup, 1))
		const groups = 450
		var jobs []broker.NewJob
		for i := range 2 * groups {
			jobs = append(jobs, ofGroup(fmt.Sprint("g", i%groups)))
			jobs[i].Priority = int32(1 - i/groups)
		}
		f.add(queue, jobs...)
		got := 0
		for range 20 {
			got += len(f.claim(100))
		}
		want(f, "leases", got, groups)
		last := f.addOne(with(func(n *broker.NewJob) { n.Task, n.Priority = "free", -1 }))
		c := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: 1, Wait: 2 * time.Second})
		f.wantOrder("claims", leaseIDs(c.Leases), []broker.Ref{last}, 0)
	}},
	{"a long line behind a limit is worked off in order", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		refs := f.addMany(300)
		for i := range refs {
			l := f.one()
			if l.Job.ID != refs[i].ID {
				f.Fatalf("claim %d took job %d", i, place(refs, l.Job.ID))
			}
			f.end(l, broker.Ack)
		}
	}},
	{"several clients never run more than the limits", func(f *fixture) {
		f.set(running("all", broker.PerQueue, 3), running("each", broker.PerGroup, 1))
		var jobs []broker.NewJob
		for i := range 120 {
			jobs = append(jobs, ofGroup(fmt.Sprint("g", i%5)))
		}
		f.add(queue, jobs...)
		w := &atOnce{f: f, all: 3, each: 1, now: map[string]int{}}
		f.each(4, func(_ int, b broker.Broker) {
			for w.done.Load() < int32(len(jobs)) {
				got, err := b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 2, Worker: "w", Wait: tick})
				if err != nil {
					f.Errorf("claim: %v", err)
					return
				}
				for _, l := range got.Leases {
					w.run(b, l)
				}
			}
		})
		want(f, "acked", f.count(queue, task).Totals.Acked, int64(len(jobs)))
	}},
	{"a claim that waits gets the slot that another gives back", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		for _, e := range freeing {
			f.addMany(2)
			l := f.one()
			claim := f.claiming(f.ctx, f.open())
			e.free(f, l)
			claim.done()
			f.must(e.name, claim.err)
			for _, l := range exactly(f, "leases after "+e.name, claim.leases, 1) {
				f.end(l, broker.Ack)
			}
			f.command(broker.DeleteJobs)
		}
	}},
	{"a claim that waits gets what a changed limit allows", func(f *fixture) {
		limit := running("slots", broker.PerQueue, 1)
		f.addMany(3)
		f.one()
		for _, change := range []func(){func() { f.set(running("slots", broker.PerQueue, 2)) }, func() { f.clear(limit) }} {
			f.set(limit)
			claim := f.claiming(f.ctx, f.open())
			change()
			claim.done()
			f.must("claim", claim.err)
			exactly(f, "leases", claim.leases, 1)
		}
	}},
	{"what is running is counted after the last client has gone", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.set(running("slots", broker.PerTenant, 1))
		f.add(queue, of("x"), of("x"), of("y"))
		l := f.takeOne(f.b, broker.ClaimRequest{Max: 1, Remote: true, TTL: time.Hour})
		f.must("close", f.b.Close())
		f.b = f.open()
		want(f, "tenants", fmt.Sprint(tenants(f.claim(10))), "[y]")
		f.end(l, broker.Ack)
		want(f, "tenants", fmt.Sprint(tenants(f.claim(10))), "[x]")
	}},
}

// atOnce counts what runs at one time.
type atOnce struct {
	f         *fixture
	all, each int
	mu        sync.Mutex
	total     int
	now       map[string]int
	done      atomic.Int32
}

func (w *atOnce) add(group string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total += n
	w.now[group] += n
	if w.total > w.all || w.now[group] > w.each {
		w.f.Errorf("%d jobs run, %d of group %s", w.total, w.now[group], group)
	}
}

// run runs a leased job: it settles it and counts it as long as it runs.
func (w *atOnce) run(b broker.Broker, l broker.Lease) {
	w.add(l.Job.Group, 1)
	runtime.Gosched() // let others run meanwhile
	kind := broker.Ack
	if l.Job.Attempt < 2 && l.Job.ID[15]%4 == 0 {
		kind = broker.Nack
	}
	w.add(l.Job.Group, -1)
	if _, err := b.Settle(w.f.ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: kind}}); err != nil {
		w.f.Errorf("%v: %v", kind, err)
	}
	if kind == broker.Ack {
		w.done.Add(1)
	}
}
