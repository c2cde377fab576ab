package brokertest

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// batch makes a completion job and n members, in this order.
func batch(n int) []broker.NewJob {
	last := with(func(n *broker.NewJob) { n.Task = "complete" })
	last.BatchSize = uint32(n)
	jobs := []broker.NewJob{last}
	for i := range n {
		jobs = append(jobs, with(func(n *broker.NewJob) { n.Batch, n.BatchOrdinal = last.ID, uint32(i) }))
	}
	return jobs
}

// wantWaits wants a completion job to wait for its members.
func (f *fixture) wantWaits(r broker.Ref) {
	f.Helper()
	j := f.wantState(r, broker.Scheduled, broker.ReasonBatch)
	if !j.RunAt.IsZero() {
		f.Errorf("run at %v, want none", j.RunAt)
	}
}

// memberEnds are the first final states that a member can have.
var memberEnds = []struct {
	name string
	end  func(f *fixture, r broker.Ref)
}{
	{"done", func(f *fixture, r broker.Ref) { f.end(f.claimID(r.ID), broker.Ack) }},
	{"done and kept", func(f *fixture, r broker.Ref) {
		f.settle(f.claimID(r.ID), broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
	}},
	{"dead", func(f *fixture, r broker.Ref) { f.end(f.claimID(r.ID), broker.Bury) }},
	{"crashed for the last time", func(f *fixture, r broker.Ref) {
		f.beat(f.claimID(r.ID), tick/8)
		f.pass(tick / 8)
	}},
	{"cancelled by its handler", func(f *fixture, r broker.Ref) { f.end(f.claimID(r.ID), broker.Cancel) }},
	{"cancelled by a command", func(f *fixture, r broker.Ref) { f.command(broker.CancelJobs, r.ID) }},
	{"deleted", func(f *fixture, r broker.Ref) { f.command(broker.DeleteJobs, r.ID) }},
}

// badBatches are calls that hold no whole batch.
func badBatches() map[string][]broker.NewJob {
	change := func(n int, change func(jobs []broker.NewJob) []broker.NewJob) []broker.NewJob {
		return change(batch(n))
	}
	return map[string][]broker.NewJob{
		"a member too few":  change(3, func(b []broker.NewJob) []broker.NewJob { return b[:3] }),
		"no member":         change(1, func(b []broker.NewJob) []broker.NewJob { return b[:1] }),
		"a member too many": change(3, func(b []broker.NewJob) []broker.NewJob { b[0].BatchSize = 2; return b }),
		"a number twice":    change(3, func(b []broker.NewJob) []broker.NewJob { b[3].BatchOrdinal = 1; return b }),
		"a number from 1":   change(1, func(b []broker.NewJob) []broker.NewJob { b[1].BatchOrdinal = 1; return b }),
		"a huge number":     change(1, func(b []broker.NewJob) []broker.NewJob { b[1].BatchOrdinal = 1<<32 - 1; return b }),
		"a huge size":       change(1, func(b []broker.NewJob) []broker.NewJob { b[0].BatchSize = 1<<32 - 1; return b }),
		"members of none":   change(2, func(b []broker.NewJob) []broker.NewJob { return b[1:] }),
		"a completion job that is none": change(2, func(b []broker.NewJob) []broker.NewJob {
			b[0].BatchSize = 0
			return b
		}),
		"a batch inside itself": change(1, func(b []broker.NewJob) []broker.NewJob {
			b[0].Batch = b[0].ID
			return b[:1]
		}),
		"two batches inside each other": change(1, func(a []broker.NewJob) []broker.NewJob {
			b := batch(1)
			a[0].Batch, b[0].Batch = b[0].ID, a[0].ID
			return []broker.NewJob{a[0], b[0]}
		}),
		"a member with a key":         change(2, func(b []broker.NewJob) []broker.NewJob { b[2].Key = "k"; return b }),
		"a completion job with a key": change(2, func(b []broker.NewJob) []broker.NewJob { b[0].Key = "k"; return b }),
		"a good batch and a bad one":  append(batch(2), batch(2)[:2]...),
	}
}

var batchRules = []rule{
	{"a completion job waits for its members, and is then ready as of now", func(f *fixture) {
		refs := f.add(queue, batch(3)...)
		f.wantWaits(refs[0])
		leases := f.all(3)
		f.wantOrder("claims", leaseIDs(leases), refs, 1, 2, 3)
		j := f.get(refs[2])
		want(f, "batch and number", fmt.Sprint(j.Batch, j.BatchOrdinal), fmt.Sprint(refs[0].ID, 1))
		for _, l := range leases {
			f.wantWaits(refs[0])
			f.pass(tick)
			f.none()
			f.end(l, broker.Ack)
		}
		done := f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		f.wantTime("run at", done.RunAt, f.now())
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 0, 4)
	}},
	{"a completion job has the place of the moment, not of its enqueue", func(f *fixture) {
		refs := f.add(queue, batch(1)...)
		l := f.one()
		refs = append(refs, f.addMany(1)...)
		f.end(l, broker.Ack)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2, 0, 3)
	}},
	{"whatever a member's first final state is, it counts", func(f *fixture) {
		for _, e := range memberEnds {
			jobs := batch(2)
			jobs[1].MaxAttempts = 1
			refs := f.add(queue, jobs...)
			f.end(f.claimID(refs[2].ID), broker.Ack)
			f.wantWaits(refs[0])
			e.end(f, refs[1])
			f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
			l := f.one()
			f.wantOrder("claim after "+e.name, []broker.ID{l.Job.ID}, refs, 0)
			want(f, "attempt", l.Job.Attempt, 1)
			f.end(l, broker.Ack)
			f.command(broker.DeleteJobs)
		}
	}},
	{"a member that was not started in time counts", func(f *fixture) {
		jobs := batch(1)
		jobs[1].StartWithin = tick
		refs := f.add(queue, jobs...)
		f.pass(tick)
		f.wantState(refs[1], broker.Cancelled, broker.ReasonNotStarted)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"a member that is dropped counts", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 3, DropOldest: true}))
		refs := f.add(queue, batch(2)...)
		f.addOne(with(func(n *broker.NewJob) { n.Priority = 1 }))
		f.wantState(refs[1], broker.Cancelled, broker.ReasonDropped)
		f.wantWaits(refs[0])
		f.addOne(with(func(n *broker.NewJob) { n.Priority = 1 }))
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"what is no end of a member does not count", func(f *fixture) {
		refs := f.add(queue, batch(1)...)
		for _, k := range keeping {
			k.end(f, f.one())
			f.wantWaits(refs[0])
			f.pass(tick)
		}
		f.end(f.one(), broker.Ack)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"a member that is requeued changes nothing", func(f *fixture) {
		refs := f.add(queue, batch(2)...)
		for range 3 {
			f.end(f.claimID(refs[1].ID), broker.Bury)
			f.wantWaits(refs[0])
			f.command(broker.RequeueJobs, refs[1].ID)
			f.wantWaits(refs[0])
		}
		f.end(f.claimID(refs[2].ID), broker.Ack)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		l := f.claimID(refs[0].ID)
		f.end(l, broker.Ack)
		f.end(f.claimID(refs[1].ID), broker.Ack)
		f.wantGone(refs[0])
		f.none()
	}},
	{"a member that ended and is then deleted counts once", func(f *fixture) {
		refs := f.add(queue, batch(2)...)
		f.end(f.claimID(refs[1].ID), broker.Bury)
		f.command(broker.DeleteJobs, refs[1].ID)
		f.wantWaits(refs[0])
		f.command(broker.DeleteJobs, refs[2].ID)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"a batch that is not whole is refused, and nothing of the call is added", func(f *fixture) {
		for what, jobs := range badBatches() {
			_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, append([]broker.NewJob{plain()}, jobs...))
			f.wantErr(what, err, broker.ErrInvalid)
			want(f, what+": depth", f.depth(), 0)
		}
	}},
	{"a job of a batch cannot have a key, be it held or free, by a tick as by an enqueue", func(f *fixture) {
		due := f.scheduled()
		holder := f.addOne(keyed("held", broker.HoldUntilFinal, 0))
		for _, key := range []string{"held", "free"} {
			for i := range 2 {
				jobs := batch(1)
				jobs[i].Key = key
				_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
				f.wantErr("enqueue", err, broker.ErrInvalid)
				_, _, err = f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: "s", Due: due, Next: due.Add(time.Minute), Jobs: jobs})
				f.wantErr("tick", err, broker.ErrInvalid)
			}
		}
		f.wantCursor("then", due)
		want(f, "depth", f.depth(), 1)
		f.wantState(holder, broker.Ready, "")
		f.wantHeld("as before", keyed("held", broker.HoldUntilFinal, 0), holder.ID)
	}},
	{"a new batch with a member that is there already is refused, and nothing of the call is added", func(f *fixture) {
		there, twice, both, after, before := batch(2), batch(2), batch(1), batch(1), batch(1)
		there[2].ID = f.addMany(1)[0].ID
		twice[2].ID = twice[1].ID
		both[1].ID = both[0].ID
		also := func(n broker.NewJob) broker.NewJob { return broker.NewJob{ID: n.ID, Task: task} }
		after = append(after, also(after[1]))
		before = append([]broker.NewJob{also(before[1])}, before...)
		for what, jobs := range map[string][]broker.NewJob{
			"in the store": there, "twice in the call": twice, "as the completion job": both,
			"as another job after it": after, "as another job before it": before,
		} {
			_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, append([]broker.NewJob{plain()}, jobs...))
			f.wantErr(what, err, broker.ErrInvalid)
			want(f, what+": depth", f.depth(), 1)
		}
	}},
	{"the order of a batch in its call does not matter, nor what else is in it", func(f *fixture) {
		a, b := batch(2), batch(1)
		jobs := []broker.NewJob{a[2], plain(), b[1], a[0], b[0], a[1]}
		refs := f.add(queue, jobs...)
		f.wantWaits(refs[3])
		f.wantWaits(refs[4])
		leases := f.all(4)
		f.wantOrder("claims", leaseIDs(leases), refs, 0, 1, 2, 5)
		f.end(leases[2], broker.Ack)
		f.wantState(refs[4], broker.Ready, broker.ReasonBatch)
		f.end(leases[0], broker.Ack)
		f.wantWaits(refs[3])
		f.end(leases[3], broker.Ack)
		f.wantState(refs[3], broker.Ready, broker.ReasonBatch)
	}},
	{"a batch can be a member of another", func(f *fixture) {
		inner, outer := batch(1), batch(2)
		inner[0].Batch, inner[0].BatchOrdinal = outer[0].ID, 1
		refs := f.add(queue, outer[0], outer[1], inner[0], inner[1])
		for _, i := range []int{1, 3, 2} {
			f.wantWaits(refs[0])
			f.end(f.claimID(refs[i].ID), broker.Ack)
		}
		l := f.one()
		f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, 0)
	}},
	{"a call that is repeated adds no batch again, and completes none", func(f *fixture) {
		jobs := batch(2)
		refs := f.add(queue, jobs...)
		l := f.one()
		for _, a := range f.enqueue(queue, jobs...) {
			want(f, "existing", a.Existing, true)
		}
		f.wantWaits(refs[0])
		f.end(l, broker.Nack)
		f.wantWaits(refs[0])
		for range 2 {
			f.end(f.one(), broker.Ack)
		}
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		want(f, "depth", f.depth(), 1)
	}},
	{"a completion job that waits can be cancelled or deleted, and its members go on", func(f *fixture) {
		for _, kind := range []broker.CommandKind{broker.CancelJobs, broker.DeleteJobs} {
			refs := f.add(queue, batch(2)...)
			want(f, "changed", f.command(kind, refs[0].ID), 1)
			for _, l := range f.all(2) {
				f.end(l, broker.Ack)
			}
			f.none()
			if kind == broker.DeleteJobs {
				f.wantGone(refs[0])
				continue
			}
			f.wantState(refs[0], broker.Cancelled, broker.ReasonCancelled)
			f.command(broker.RequeueJobs)
			f.wantState(refs[0], broker.Ready, broker.ReasonRequeued)
			f.end(f.one(), broker.Ack)
		}
	}},
	{"a completion job that waits is not due at any time", func(f *fixture) {
		refs := f.add(queue, batch(1)...)
		f.one()
		f.add("other", with(func(n *broker.NewJob) { n.Delay = time.Hour }))
		got := f.take(f.b, broker.ClaimRequest{})
		f.wantTime("next due", f.now().Add(got.NextDue), f.now().Add(time.Hour))
		want(f, "next due of its queue", f.take(f.b, broker.ClaimRequest{Queues: []string{queue}}).NextDue, 0)
		f.wantOrder("scheduled", jobIDs(f.in(broker.Scheduled)), refs, 0)
	}},
	{"a completion job keeps its priority and tenant, and runs as any job", func(f *fixture) {
		jobs := batch(1)
		jobs[0].Priority, jobs[0].Tenant, jobs[0].MaxAttempts = 5, "x", 2
		refs := f.add(queue, jobs...)
		f.addMany(1)
		f.end(f.one(), broker.Ack)
		l := f.one()
		f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, 0)
		f.end(l, broker.Nack)
		l = f.one()
		want(f, "attempt", l.Job.Attempt, 2)
		f.end(l, broker.Nack)
		f.wantState(refs[0], broker.Dead, broker.ReasonAttempts)
	}},
	{"a batch counts in depth and totals", func(f *fixture) {
		f.add(queue, batch(3)...)
		want(f, "depth", f.depth(), 4)
		want(f, "scheduled", f.count(queue, "complete").Scheduled, 1)
		f.set(capacity("", broker.Capacity{Jobs: 6}))
		f.wantFull("a batch of three jobs", "", batch(2)...)
		f.add(queue, batch(1)...)
	}},
	{"a large batch is completed by several clients at once", func(f *fixture) {
		const members = 200
		refs := f.add(queue, batch(members)...)
		f.each(4, func(_ int, b broker.Broker) {
			for {
				got, err := b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Tasks: []string{task}, Max: 7, Worker: "w"})
				if err != nil {
					f.Errorf("claim: %v", err)
				}
				if len(got.Leases) == 0 {
					return
				}
				var call []broker.Settlement
				for i, l := range got.Leases {
					call = append(call, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: []broker.SettleKind{broker.Ack, broker.Bury, broker.Cancel}[i%3]})
				}
				if _, err := b.Settle(f.ctx, broker.NewCall(), call); err != nil {
					f.Errorf("settle: %v", err)
				}
			}
		})
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		l := f.one()
		f.wantOrder("claim", []broker.ID{l.Job.ID}, refs, 0)
		want(f, "claimed", f.count(queue, "complete").Totals.Claimed, 1)
	}},
	{"a claim that waits gets the completion job", func(f *fixture) {
		refs := f.add(queue, batch(1)...)
		l := f.one()
		claim := f.claiming(f.ctx, f.open())
		f.end(l, broker.Ack)
		claim.done()
		f.must("claim", claim.err)
		f.wantOrder("claim", leaseIDs(claim.leases), refs, 0)
	}},
	{"members that end in one call, with follow-ups, complete their batch", func(f *fixture) {
		refs := f.add(queue, batch(2)...)
		next := plain()
		var call []broker.Settlement
		for _, l := range f.all(2) {
			call = append(call, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
		}
		call[1].FollowUps = []broker.FollowUp{{Queue: queue, Job: next}}
		_, err := f.b.Settle(f.ctx, broker.NewCall(), call)
		f.must("settle", err)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		want(f, "leases", len(f.claim(10)), 2)
	}},
	{"a follow-up is no part of a batch: the settlement is refused, and nothing of it is done", func(f *fixture) {
		refs := f.add(queue, batch(1)...)
		l := f.one()
		for what, change := range map[string]func(n *broker.NewJob){
			"a member":                    func(n *broker.NewJob) { n.Batch = refs[0].ID },
			"a member without room":       func(n *broker.NewJob) { n.Batch, n.BatchOrdinal = refs[0].ID, 1000 },
			"a member of none":            func(n *broker.NewJob) { n.Batch = broker.NewID() },
			"a completion job":            func(n *broker.NewJob) { n.BatchSize = 1 },
			"a completion job, too large": func(n *broker.NewJob) { n.BatchSize = 1<<32 - 1 },
		} {
			_, err := f.b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{{
				Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: with(change)}},
			}})
			f.wantErr(what, err, broker.ErrInvalid)
			want(f, what+": depth", f.depth(), 2)
		}
		f.end(l, broker.Ack)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"members of a batch whose completion job was there already count for no more than it waits for", func(f *fixture) {
		small := batch(1)
		refs := f.add(queue, small...)
		large := batch(100)
		large[0].ID = small[0].ID
		for i := range large[1:] {
			large[i+1].Batch = small[0].ID
		}
		f.enqueue(queue, large...)
		f.command(broker.CancelJobs, large[100].ID)
		f.wantWaits(refs[0])
		f.command(broker.CancelJobs, small[1].ID)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"a batch outlives the last client", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		refs := f.add(queue, batch(3)...)
		for n := range 3 {
			f.wantWaits(refs[0])
			kind := []broker.SettleKind{broker.Ack, broker.Bury, broker.Ack}[n]
			f.end(f.one(), kind)
			f.must("close", f.b.Close())
			f.b = f.open()
		}
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
}
