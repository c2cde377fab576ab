package brokertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// ordered is a job of an ordered group.
func ordered(group string) broker.NewJob {
	return with(func(n *broker.NewJob) { n.Group, n.Ordered = group, true })
}

// keeping are the ways in which a run ends while its job goes on to hold its
// ordered group. The job is ready again after tick.
var keeping = []struct {
	name string
	end  func(f *fixture, l broker.Lease)
}{
	{"a failure", func(f *fixture, l broker.Lease) { f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick}) }},
	{"a failure without delay", func(f *fixture, l broker.Lease) { f.end(l, broker.Nack) }},
	{"a snooze", func(f *fixture, l broker.Lease) { f.settle(l, broker.Settlement{Kind: broker.Snooze, Delay: tick}) }},
	{"a release", func(f *fixture, l broker.Lease) { f.end(l, broker.Release) }},
	{"an expiry", func(f *fixture, l broker.Lease) {
		f.beat(l, tick/2)
		f.pass(tick / 2)
	}},
}

// leaving are the ways in which a job that was claimed leaves its ordered group.
var leaving = []struct {
	name  string
	leave func(f *fixture, l broker.Lease)
}{
	{"an ack", func(f *fixture, l broker.Lease) { f.end(l, broker.Ack) }},
	{"an ack that is kept", func(f *fixture, l broker.Lease) {
		f.settle(l, broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
	}},
	{"its death", func(f *fixture, l broker.Lease) { f.end(l, broker.Bury) }},
	{"a cancel by its handler", func(f *fixture, l broker.Lease) { f.end(l, broker.Cancel) }},
	{"a cancel while it waits for its retry", func(f *fixture, l broker.Lease) {
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: time.Hour})
		f.command(broker.CancelJobs, l.Job.ID)
	}},
	{"a delete while it waits for its retry", func(f *fixture, l broker.Lease) {
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: time.Hour})
		f.command(broker.DeleteJobs, l.Job.ID)
	}},
	{"a delete while it is ready again", func(f *fixture, l broker.Lease) {
		f.end(l, broker.Release)
		f.command(broker.DeleteJobs, l.Job.ID)
	}},
}

var groupRules = []rule{
	{"the jobs of an ordered group run one at a time, in their order", func(f *fixture) {
		refs := f.add(queue, ordered("g"), ordered("g"), ordered("h"), ordered("g"))
		leases := exactly(f, "leases", f.claim(10), 2)
		f.wantOrder("claims", leaseIDs(leases), refs, 0, 2)
		f.none()
		f.end(leases[1], broker.Ack)
		f.none()
		f.end(leases[0], broker.Ack)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 1)
		f.none()
	}},
	{"a job holds its ordered group until it is final, whatever becomes of its runs", func(f *fixture) {
		for _, k := range keeping {
			refs := f.add(queue, ordered("g"), ordered("g"))
			l := f.one()
			k.end(f, l)
			if f.get(refs[0]).State == broker.Scheduled {
				f.none()
			}
			f.pass(tick)
			again := f.one()
			f.wantOrder("claim after "+k.name, []broker.ID{again.Job.ID}, refs, 0)
			f.none()
			f.end(again, broker.Ack)
			l = f.one()
			f.wantOrder("claim after the ack", []broker.ID{l.Job.ID}, refs, 1)
			f.end(l, broker.Ack)
		}
	}},
	{"an ordered group is free however its job ends", func(f *fixture) {
		for _, k := range leaving {
			refs := f.add(queue, ordered("g"), ordered("g"))
			k.leave(f, f.one())
			l := f.one()
			f.wantOrder("claim after "+k.name, []broker.ID{l.Job.ID}, refs, 1)
			f.end(l, broker.Ack)
		}
	}},
	{"an ordered group is free when its job is out of attempts", func(f *fixture) {
		for _, crash := range []bool{false, true} {
			one := ordered("g")
			one.MaxAttempts = 1
			refs := f.add(queue, one, ordered("g"))
			l := f.takeOne(f.b, broker.ClaimRequest{Max: 1, TTL: tick})
			if crash {
				f.pass(tick)
			} else {
				f.end(l, broker.Nack)
			}
			l = f.one()
			f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, 1)
			f.end(l, broker.Ack)
		}
	}},
	{"a retry has its own place once what waited before it is gone", func(f *fixture) {
		refs := f.add(queue, ordered("g"), ordered("g"), with(func(n *broker.NewJob) { n.Group = "h" }))
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.pass(tick)
		f.wantState(refs[0], broker.Ready, broker.ReasonRetry)
		f.command(broker.CancelJobs, refs[1].ID)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2, 0)
	}},
	{"a job that was never claimed holds nothing", func(f *fixture) {
		later := ordered("g")
		later.Delay, later.Priority = time.Hour, 5
		refs := f.add(queue, later, ordered("g"), ordered("g"))
		f.command(broker.CancelJobs, refs[1].ID)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2)
	}},
	{"an ordered group spans tasks and priorities", func(f *fixture) {
		mk := func(task string, priority int32) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Task, n.Priority, n.Group, n.Ordered = task, priority, "g", true })
		}
		refs := f.add(queue, mk("a", 0), mk("b", 0), mk("a", 5), mk("c", -1))
		var got []broker.ID
		for range refs {
			l := f.one()
			got = append(got, l.Job.ID)
			f.none()
			f.end(l, broker.Ack)
		}
		f.wantOrder("claims", got, refs, 2, 0, 1, 3)
	}},
	{"a holder of a task that nobody here runs blocks its group all the same", func(f *fixture) {
		a, b := ordered("g"), ordered("g")
		a.Task = "a"
		f.add(queue, a, b)
		l := f.takeOne(f.b, broker.ClaimRequest{Tasks: []string{"a"}})
		f.end(l, broker.Nack)
		want(f, "leases", len(f.take(f.b, broker.ClaimRequest{Tasks: []string{task}}).Leases), 0)
		f.takeOne(f.b, broker.ClaimRequest{Tasks: []string{"a"}})
	}},
	{"a group is ordered within its queue alone", func(f *fixture) {
		f.add("a", ordered("g"))
		f.add("b", ordered("g"))
		want(f, "leases", len(f.take(f.b, broker.ClaimRequest{}).Leases), 2)
	}},
	{"jobs that are not ordered run beside their group", func(f *fixture) {
		refs := f.add(queue, ordered("g"), ofGroup("g"), ordered("g"), ofGroup("g"))
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 1, 3)
		f.none()
	}},
	{"without a group, the tenant is the ordered group", func(f *fixture) {
		mk := func(tenant string) broker.NewJob {
			return with(func(n *broker.NewJob) { n.Tenant, n.Ordered = tenant, true })
		}
		refs := f.add(queue, mk("x"), mk("x"), mk("y"), mk(""), mk(""))
		leases := exactly(f, "leases", f.claim(10), 3)
		f.wantOrder("claims", leaseIDs(leases), refs, 0, 2, 3)
		f.none()
	}},
	{"a holder that is ready again goes before the others of its lane, and takes their place", func(f *fixture) {
		refs := f.add(queue, ordered("g"), ordered("g"))
		l := f.one()
		f.advance(tick / 2)
		refs = append(refs, f.add(queue, ofGroup("h"))...)
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick / 2})
		f.advance(tick)
		refs = append(refs, f.add(queue, ofGroup("h"))...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 2, 3)
	}},
	{"a holder with nobody behind it comes back at its own place", func(f *fixture) {
		refs := f.add(queue, ordered("g"))
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Delay: tick})
		refs = append(refs, f.add(queue, ofGroup("h"))...)
		f.advance(tick)
		refs = append(refs, f.add(queue, ofGroup("h"))...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 1, 0, 2)
	}},
	{"a dead job that is requeued waits like the others", func(f *fixture) {
		refs := f.add(queue, ordered("g"), ordered("g"), ordered("g"))
		f.end(f.one(), broker.Bury)
		f.advance(tick)
		f.command(broker.RequeueJobs)
		var got []broker.ID
		for range refs {
			l := f.one()
			got = append(got, l.Job.ID)
			f.end(l, broker.Ack)
		}
		f.wantOrder("claims", got, refs, 1, 2, 0)
	}},
	{"a requeue beside a running job leaves one at a time", func(f *fixture) {
		refs := f.add(queue, ordered("g"), ordered("g"))
		f.end(f.one(), broker.Bury)
		l := f.one()
		f.command(broker.RequeueJobs)
		f.none()
		f.end(l, broker.Ack)
		l = f.one()
		f.wantOrder("claims", []broker.ID{l.Job.ID}, refs, 0)
		f.none()
	}},
	{"a claim that waits gets the next job when its group is free", func(f *fixture) {
		for _, k := range leaving {
			f.add(queue, ordered("g"), ordered("g"))
			l := f.one()
			claim := f.claiming(f.ctx, f.open())
			k.leave(f, l)
			claim.done()
			f.must(k.name, claim.err)
			f.end(exactly(f, "leases after "+k.name, claim.leases, 1)[0], broker.Ack)
		}
	}},
	{"an ordered group is held after the last client has gone", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		refs := f.add(queue, ordered("g"), ordered("g"))
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.must("close", f.b.Close())
		f.b = f.open()
		f.none()
		f.advance(tick)
		l := f.one()
		f.wantOrder("claims", []broker.ID{l.Job.ID}, refs, 0)
		f.none()
		f.end(l, broker.Ack)
		f.one()
	}},
	{"several clients run an ordered group in its order", func(f *fixture) {
		const groups, each = 4, 20
		var jobs []broker.NewJob
		for i := range groups * each {
			n := ordered(fmt.Sprint("g", i%groups))
			n.Headers = map[string]string{"n": fmt.Sprint(i / groups)}
			jobs = append(jobs, n)
		}
		f.add(queue, jobs...)
		var mu sync.Mutex
		next := map[string]int{}
		f.each(4, func(_ int, b broker.Broker) {
			for range 400 {
				got, err := b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 3, Worker: "w"})
				if err != nil {
					f.Errorf("claim: %v", err)
					return
				}
				for _, l := range got.Leases {
					mu.Lock()
					if n := fmt.Sprint(next[l.Job.Group]); l.Job.Headers["n"] != n {
						f.Errorf("job %s of %s is claimed, want %s", l.Job.Headers["n"], l.Job.Group, n)
					}
					kind := broker.Ack
					if l.Job.Attempt == 1 && next[l.Job.Group]%5 == 0 {
						kind = broker.Nack
					} else {
						next[l.Job.Group]++
					}
					mu.Unlock()
					if _, err := b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: kind}}); err != nil {
						f.Errorf("%v: %v", kind, err)
					}
				}
			}
		})
		for range 20 { // what a client that was too late has left over
			for _, l := range f.claim(100) {
				f.end(l, broker.Ack)
			}
		}
	}},
}
