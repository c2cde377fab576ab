package brokertest

import (
	"fmt"
	"math"
	"time"

	"github.com/spoolq/spool/broker"
)

var orderRules = []rule{
	{"jobs are claimed in the order of their enqueues", func(f *fixture) {
		var refs []broker.Ref
		other := f.open()
		for i := range 12 {
			n := plain()
			b := f.b
			if i%3 == 0 {
				b = other
			}
			_, err := b.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{n})
			f.must("enqueue", err)
			refs = append(refs, broker.Ref{Queue: queue, ID: n.ID})
		}
		refs = append(refs, f.addMany(3)...)
		f.wantOrder("one at a time", append(leaseIDs(f.claim(1)), leaseIDs(f.claim(1))...), refs, 0, 1)
		f.wantOrder("the rest", leaseIDs(f.claim(100)), refs, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
	}},
	{"ids say nothing about the order", func(f *fixture) {
		first, second := broker.NewID(), broker.NewID()
		refs := f.add(queue, broker.NewJob{ID: second, Task: task}, broker.NewJob{ID: first, Task: task})
		f.wantOrder("claims", leaseIDs(f.claim(2)), refs, 0, 1)
	}},
	{"higher priority goes first, equal priority in order", func(f *fixture) {
		refs := f.add(queue, priorities(0, 5, -1, 5, math.MaxInt32, math.MinInt32, 0)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 4, 1, 3, 0, 6, 2, 5)
	}},
	{"a job that comes later with a higher priority overtakes", func(f *fixture) {
		refs := f.addMany(3)
		f.claim(1)
		refs = append(refs, f.add(queue, priorities(1)...)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 3, 1, 2)
	}},
	{"tasks share the order of their queue", func(f *fixture) {
		refs := f.add(queue, tasks("a", "b", "a", "c", "b")...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 0, 1, 2, 3, 4)
	}},
	{"tasks, priorities and due times together", func(f *fixture) {
		jobs := append(tasks("a", "b", "c"), priorities(1, 1)...)
		jobs[3].Delay, jobs[1].Priority = tick, 1
		refs := f.add(queue, jobs...)
		f.advance(tick)
		refs = append(refs, f.add(queue, priorities(1)...)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1, 4, 3, 5, 0, 2)
	}},
	{"a failed job goes behind those that were ready before its due time", func(f *fixture) {
		refs := f.addMany(2)
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.advance(tick / 2)
		refs = append(refs, f.addMany(1)...)
		f.advance(tick)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1, 2, 0, 3)
	}},
	{"a nack or snooze without delay goes to the end", func(f *fixture) {
		for _, kind := range []broker.SettleKind{broker.Nack, broker.Snooze} {
			refs := f.addMany(3)
			f.end(f.one(), kind)
			leases := f.claim(100)
			f.wantOrder(kind.String(), leaseIDs(leases), refs, 1, 2, 0)
			for _, l := range leases {
				f.end(l, broker.Ack)
			}
		}
	}},
	{"a released job is back at its old place", func(f *fixture) {
		refs := f.addMany(4)
		leases := f.all(3)
		f.advance(tick)
		f.end(leases[2], broker.Release)
		f.end(leases[0], broker.Release)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 0, 2, 3)
	}},
	{"an expired job is back at its old place", func(f *fixture) {
		refs := f.addMany(3)
		f.take(f.b, broker.ClaimRequest{Max: 2, TTL: tick})
		f.pass(tick)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 0, 1, 2, 3)
	}},
	{"a requeued job goes to the end", func(f *fixture) {
		refs := f.addMany(1)
		f.end(f.one(), broker.Bury)
		refs = append(refs, f.addMany(2)...)
		f.advance(tick)
		want(f, "requeued", f.command(broker.RequeueJobs), 1)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1, 2, 0, 3)
	}},
	{"a claim takes from the first queue until it has no more, then from the next", func(f *fixture) {
		refs := f.add("b", plain(), plain())
		refs = append(refs, f.add("a", plain(), with(func(n *broker.NewJob) { n.Priority = 9 }))...)
		got := f.take(f.b, broker.ClaimRequest{Queues: []string{"b", "nothing", "a"}, Max: 3})
		f.wantOrder("claims", leaseIDs(got.Leases), refs, 0, 1, 3)
	}},
	{"a claim that names no queue takes them in the order of their names", func(f *fixture) {
		refs := f.add("c", plain())
		refs = append(refs, f.add("a", plain())...)
		refs = append(refs, f.add("b", plain())...)
		f.wantOrder("claims", leaseIDs(f.take(f.b, broker.ClaimRequest{}).Leases), refs, 1, 2, 0)
	}},
	{"the order outlives many rounds", func(f *fixture) {
		refs := f.addMany(300)
		var got []broker.ID
		for range 30 {
			leases := f.claim(17)
			for i, l := range leases {
				if i%4 == 3 {
					f.end(l, broker.Release)
					continue
				}
				f.end(l, broker.Ack)
			}
		}
		left := f.claim(1000)
		for i := 1; i < len(left); i++ {
			if place(refs, left[i-1].Job.ID) > place(refs, left[i].Job.ID) {
				f.Errorf("job %d is claimed after job %d", place(refs, left[i].Job.ID), place(refs, left[i-1].Job.ID))
			}
		}
		got = append(got, leaseIDs(left)...)
		if acked := f.count(queue, task).Totals.Acked; int(acked)+len(got) != len(refs) {
			f.Errorf("%d acked and %d left of %d", acked, len(got), len(refs))
		}
	}},
}

var dueRules = []rule{
	{"a delayed job is scheduled, and not claimed before it is due", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.Delay = tick }))
		j := f.wantState(ref, broker.Scheduled, "")
		f.wantTime("run at", j.RunAt, f.now().Add(tick))
		f.none()
		if f.h.Advance != nil {
			f.advance(tick - time.Millisecond)
			f.none()
			f.advance(time.Millisecond)
		} else {
			f.advance(tick)
		}
		f.wantState(ref, broker.Ready, "")
		want(f, "leases", len(f.claim(1)), 1)
	}},
	{"a job with a time runs at that time", func(f *fixture) {
		at := f.now().Add(tick)
		ref := f.addOne(with(func(n *broker.NewJob) { n.At = at }))
		f.wantTime("run at", f.wantState(ref, broker.Scheduled, "").RunAt, at)
		f.none()
		f.advance(tick)
		f.wantState(ref, broker.Ready, "")
		want(f, "leases", len(f.claim(1)), 1)
	}},
	{"a time that is past means now, and overtakes nobody", func(f *fixture) {
		refs := f.addMany(1)
		f.advance(tick)
		refs = append(refs, f.addOne(with(func(n *broker.NewJob) { n.At = f.now().Add(-24 * time.Hour) })))
		f.wantTime("run at", f.wantState(refs[1], broker.Ready, "").RunAt, f.now())
		f.wantOrder("claims", leaseIDs(f.claim(2)), refs, 0, 1)
	}},
	{"due jobs are claimed in the order of their due times", func(f *fixture) {
		var jobs []broker.NewJob
		for _, d := range []time.Duration{3, 1, 2, 1} {
			jobs = append(jobs, with(func(n *broker.NewJob) { n.Delay = d * tick / 4 }))
		}
		refs := f.add(queue, jobs...)
		f.advance(tick)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1, 3, 2, 0)
	}},
	{"a due job stands before what was enqueued after its due time", func(f *fixture) {
		refs := f.add(queue, with(func(n *broker.NewJob) { n.Delay = tick / 2 }))
		refs = append(refs, f.addMany(1)...)
		f.advance(tick)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1, 0, 2)
	}},
	{"an urgent job that is not due stands before nobody", func(f *fixture) {
		refs := f.add(queue, with(func(n *broker.NewJob) { n.Priority, n.Delay = math.MaxInt32, time.Hour }), plain())
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1)
	}},
	{"an urgent job goes first from the moment it is due", func(f *fixture) {
		refs := f.add(queue, append(priorities(2, 2, 2), with(func(n *broker.NewJob) { n.Priority, n.Delay = 9, tick }))...)
		first := leaseIDs(f.claim(1))
		f.advance(tick)
		f.wantOrder("claims", append(first, leaseIDs(f.claim(100))...), refs, 0, 3, 1, 2)
	}},
	{"a delay longer than a lease is never leased before it is due", func(f *fixture) {
		f.addOne(with(func(n *broker.NewJob) { n.Delay = 6 * tick }))
		starts := 0
		for range 16 {
			for _, l := range f.take(f.b, broker.ClaimRequest{TTL: tick}).Leases {
				starts++
				f.end(l, broker.Ack)
			}
			f.pass(tick / 2)
		}
		want(f, "starts", starts, 1)
		want(f, "total claimed", f.count(queue, task).Totals.Claimed, 1)
	}},
	{"the longest delays are kept exactly", func(f *fixture) {
		for _, d := range []time.Duration{(1<<31 - 1) * time.Millisecond, (1 << 31) * time.Millisecond, (1 << 32) * time.Millisecond, broker.MaxDelay} {
			ref := f.addOne(with(func(n *broker.NewJob) { n.Delay = d }))
			f.wantTime(fmt.Sprintf("run at after %v", d), f.get(ref).RunAt, f.now().Add(d))
		}
		f.advance(tick)
		f.none()
		if f.h.Frozen {
			f.advance((1<<31)*time.Millisecond - tick)
			want(f, "leases after 2^31 ms", len(f.claim(100)), 2)
		}
	}},
	{"jobs that fall due together leave no other behind", func(f *fixture) {
		jobs := make([]broker.NewJob, 503)
		for i := range jobs {
			jobs[i] = with(func(n *broker.NewJob) { n.Delay = tick / 2 })
		}
		refs := f.add(queue, jobs...)
		later := f.addOne(with(func(n *broker.NewJob) { n.Delay = time.Hour }))
		f.add("other", plain())
		f.advance(tick)
		got := leaseIDs(f.claim(1000))
		want(f, "leases", len(got), len(refs))
		for i := range got {
			if got[i] != refs[i].ID {
				f.Errorf("claim %d took job %d", i, place(refs, got[i]))
				break
			}
		}
		f.wantState(later, broker.Scheduled, "")
	}},
	{"a claim says how long until the next job is due", func(f *fixture) {
		want(f, "next due of an empty store", f.take(f.b, broker.ClaimRequest{}).NextDue, 0)
		for _, d := range []time.Duration{5 * time.Hour, time.Hour, 3 * time.Hour} {
			f.addOne(with(func(n *broker.NewJob) { n.Delay = d }))
		}
		f.add("other", with(func(n *broker.NewJob) { n.Delay = time.Minute }))
		next := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}}).NextDue
		f.wantTime("next due", f.now().Add(next), f.now().Add(time.Hour))
		next = f.take(f.b, broker.ClaimRequest{}).NextDue
		f.wantTime("next due of every queue", f.now().Add(next), f.now().Add(time.Minute))
	}},
}

// priorities makes a job of each priority.
func priorities(ps ...int32) (jobs []broker.NewJob) {
	for _, p := range ps {
		jobs = append(jobs, with(func(n *broker.NewJob) { n.Priority = p }))
	}
	return jobs
}

// tasks makes a job of each task.
func tasks(names ...string) (jobs []broker.NewJob) {
	for _, name := range names {
		jobs = append(jobs, with(func(n *broker.NewJob) { n.Task = name }))
	}
	return jobs
}

// place is a job's number among refs, -1 for none.
func place(refs []broker.Ref, id broker.ID) int {
	for i, r := range refs {
		if r.ID == id {
			return i
		}
	}
	return -1
}
