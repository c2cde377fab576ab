package brokertest

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// again is a repeat of a keyed job, with another id and payload.
func again(n broker.NewJob, how broker.KeyRepeat, payload string) broker.NewJob {
	n.ID, n.KeyRepeat, n.Payload = broker.NewID(), how, []byte(payload)
	return n
}

// wantRepeat enqueues a repeat and wants the answer to name the first job.
func (f *fixture) wantRepeat(what string, n broker.NewJob, first broker.ID, differs bool) broker.Job {
	f.Helper()
	want(f, what, f.enqueue(queue, n)[0], broker.Enqueued{ID: first, Existing: true, Differs: differs})
	f.wantGone(broker.Ref{Queue: queue, ID: n.ID})
	return f.get(broker.Ref{Queue: queue, ID: first})
}

var repeatRules = []rule{
	{"a repeat that replaces changes payload, headers and timeout, and nothing else", func(f *fixture) {
		n := full()
		n.Delay, n.KeyHold, n.KeyFor = 0, broker.HoldUntilFinal, 0
		first := f.addOne(n)
		before := f.get(first)
		f.advance(tick)
		r := again(n, broker.RepeatReplace, "new")
		r.Headers, r.Timeout = map[string]string{"other": "1"}, 7*time.Second
		r.Priority, r.Tenant, r.Group, r.Ordered, r.MaxAttempts, r.StartWithin, r.Retain = 9, "x", "h", false, 1, time.Minute, time.Minute
		got := f.wantRepeat("repeat", r, n.ID, true)
		wanted := before
		wanted.Payload, wanted.Headers, wanted.Timeout, wanted.Reason = r.Payload, r.Headers, r.Timeout, broker.ReasonReplaced
		if diff := diffJobs(got, wanted); diff != "" {
			f.Errorf("got / want: %s", diff)
		}
		want(f, "total enqueued", f.count(queue, n.Task).Totals.Enqueued, 1)
		l := f.one()
		want(f, "payload of the lease", string(l.Job.Payload), "new")
	}},
	{"a repeat that replaces keeps place and due time", func(f *fixture) {
		ready, later := keyed("a", broker.HoldUntilFinal, 0), keyed("b", broker.HoldUntilFinal, 0)
		later.Delay = tick
		refs := f.add(queue, ready, plain(), later)
		at := f.get(refs[2]).RunAt
		f.advance(tick / 2)
		r := again(later, broker.RepeatReplace, "new")
		r.Delay = time.Hour
		j := f.wantRepeat("scheduled", r, later.ID, true)
		want(f, "state", j.State, broker.Scheduled)
		f.wantTime("run at", j.RunAt, at)
		f.wantRepeat("ready", again(ready, broker.RepeatReplace, "new"), ready.ID, true)
		f.advance(tick)
		refs = append(refs, f.addMany(1)...)
		leases := exactly(f, "leases", f.claim(10), 4)
		f.wantOrder("claims", leaseIDs(leases), refs, 0, 1, 2, 3)
		want(f, "payloads", string(leases[0].Job.Payload)+string(leases[2].Job.Payload), "newnew")
	}},
	{"a repeat that is not asked to change anything does not", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		ref := f.addOne(n)
		f.wantRepeat("repeat", again(n, broker.RepeatFirst, "new"), n.ID, true)
		f.wantState(ref, broker.Ready, "")
		want(f, "payload", len(f.one().Job.Payload), 0)
	}},
	{"whether a repeat differs is judged by the payload that is there now", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Payload = []byte("one")
		f.addOne(n)
		for _, r := range []struct {
			payload string
			how     broker.KeyRepeat
			differs bool
		}{
			{"one", broker.RepeatReplace, false}, {"two", broker.RepeatReplace, true}, {"two", broker.RepeatFirst, false},
			{"one", broker.RepeatFirst, true}, {"two", broker.RepeatDebounce, false}, {"one", broker.RepeatDebounce, true},
		} {
			f.wantRepeat("repeat with "+r.payload, again(n, r.how, r.payload), n.ID, r.differs)
		}
		known := n
		known.Payload = []byte("one")
		want(f, "the known id", f.enqueue(queue, known)[0], broker.Enqueued{ID: n.ID, Existing: true})
	}},
	{"a repeat that debounces moves the due time: the job runs once calls have stopped", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Delay = tick
		ref := f.addOne(n)
		for range 4 {
			f.advance(tick / 2)
			f.none()
			j := f.wantRepeat("repeat", again(n, broker.RepeatDebounce, "new"), n.ID, true)
			f.wantTime("run at", j.RunAt, f.now().Add(tick))
			f.wantState(ref, broker.Scheduled, broker.ReasonReplaced)
			f.wantRepeat("the first payload again", again(n, broker.RepeatDebounce, ""), n.ID, true)
		}
		f.advance(tick)
		f.wantState(ref, broker.Ready, broker.ReasonReplaced)
		l := f.one()
		want(f, "attempt", l.Job.Attempt, 1)
		f.end(l, broker.Ack)
		f.none()
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 1)
	}},
	{"a repeat that debounces without a delay goes behind all", func(f *fixture) {
		ready, later := keyed("a", broker.HoldUntilFinal, 0), keyed("b", broker.HoldUntilFinal, 0)
		later.Delay = time.Hour
		refs := f.add(queue, ready, later, plain())
		j := f.wantRepeat("ready", again(ready, broker.RepeatDebounce, "new"), ready.ID, true)
		f.wantTime("run at", j.RunAt, f.now())
		now := again(later, broker.RepeatDebounce, "new")
		now.Delay = 0
		want(f, "state", f.wantRepeat("scheduled", now, later.ID, true).State, broker.Ready)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2, 0, 1, 3)
	}},
	{"a repeat that debounces takes a ready job back until its new time", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		ref := f.addOne(n)
		r := again(n, broker.RepeatDebounce, "new")
		r.Delay = tick
		f.wantRepeat("repeat", r, n.ID, true)
		f.wantState(ref, broker.Scheduled, broker.ReasonReplaced)
		f.none()
		c := f.count(queue, task)
		want(f, "scheduled and ready", [2]int64{c.Scheduled, c.Ready}, [2]int64{1, 0})
		f.advance(tick)
		f.one()
	}},
	{"a repeat can debounce to a time", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Delay = time.Hour
		ref := f.addOne(n)
		r := again(n, broker.RepeatDebounce, "new")
		r.Delay, r.At = 0, f.now().Add(tick)
		j := f.wantRepeat("repeat", r, n.ID, true)
		f.wantTime("run at", j.RunAt, r.At)
		f.advance(tick)
		f.wantState(ref, broker.Ready, broker.ReasonReplaced)
		r = again(n, broker.RepeatDebounce, "newer")
		r.Delay, r.At = 0, f.now().Add(-time.Hour)
		f.wantTime("run at", f.wantRepeat("to a time that is past", r, n.ID, true).RunAt, f.now())
		f.one()
	}},
	{"a running job is not changed by a repeat", func(f *fixture) {
		for _, how := range []broker.KeyRepeat{broker.RepeatReplace, broker.RepeatDebounce} {
			n := keyed("k", broker.HoldUntilFinal, 0)
			l := f.leased(n)
			before := f.get(l.Job.Ref())
			r := again(n, how, "new")
			r.Delay = 0
			if diff := diffJobs(before, f.wantRepeat("repeat", r, n.ID, true)); diff != "" {
				f.Errorf("before / after: %s", diff)
			}
			want(f, "status", f.beat(l, time.Minute).Status, broker.Held)
			f.end(l, broker.Ack)
		}
	}},
	{"a final job whose key is still held is not changed by a repeat", func(f *fixture) {
		for _, how := range []broker.KeyRepeat{broker.RepeatReplace, broker.RepeatDebounce} {
			n := keyed("k", broker.HoldFor, time.Hour)
			l := f.leased(n)
			f.end(l, broker.Bury)
			before := f.get(l.Job.Ref())
			if diff := diffJobs(before, f.wantRepeat("dead", again(n, how, "new"), n.ID, true)); diff != "" {
				f.Errorf("before / after: %s", diff)
			}
			f.command(broker.DeleteJobs)
			want(f, "gone", f.enqueue(queue, again(n, how, "new"))[0], broker.Enqueued{ID: n.ID, Existing: true, Differs: true})
			f.none()
			f.advance(time.Hour)
			f.end(f.claimID(f.wantFree("after its time", n).ID), broker.Ack)
			f.advance(time.Hour)
		}
	}},
	{"a job that waits for its retry is changed, and keeps its attempts", func(f *fixture) {
		for _, how := range []broker.KeyRepeat{broker.RepeatReplace, broker.RepeatDebounce} {
			n := keyed("k", broker.HoldUntilFinal, 0)
			l := f.leased(n)
			f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick, Error: "boom"})
			r := again(n, how, "new")
			r.Delay = tick
			j := f.wantRepeat("repeat", r, n.ID, true)
			want(f, "state", j.State, broker.Scheduled)
			want(f, "attempt", j.Attempt, 1)
			want(f, "error", j.Error, "boom")
			f.advance(tick)
			l = f.one()
			want(f, "attempt", l.Job.Attempt, 2)
			want(f, "payload", string(l.Job.Payload), "new")
			f.end(l, broker.Ack)
		}
	}},
	{"a repeat of a known id changes nothing, whatever it asks for", func(f *fixture) {
		for _, how := range []broker.KeyRepeat{broker.RepeatReplace, broker.RepeatDebounce} {
			n := keyed("k", broker.HoldUntilFinal, 0)
			ref := f.addOne(n)
			before := f.get(ref)
			r := again(n, how, "new")
			r.ID, r.Delay = n.ID, time.Hour
			want(f, "answer", f.enqueue(queue, r)[0], broker.Enqueued{ID: n.ID, Existing: true, Differs: true})
			if diff := diffJobs(before, f.get(ref)); diff != "" {
				f.Errorf("before / after: %s", diff)
			}
			f.end(f.one(), broker.Ack)
		}
	}},
	{"a key that stands twice in one call is repeated in it", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		answers := f.enqueue(queue, n, again(n, broker.RepeatReplace, "two"), again(n, broker.RepeatFirst, "three"), again(n, broker.RepeatReplace, "four"))
		for i, a := range answers {
			want(f, "answer", a, broker.Enqueued{ID: n.ID, Existing: i > 0, Differs: i > 0})
		}
		l := f.one()
		want(f, "payload", string(l.Job.Payload), "four")
		f.end(l, broker.Ack)
		f.none()
	}},
	{"a repeat leaves the hold of the key as it was", func(f *fixture) {
		n := keyed("k", broker.HoldFor, tick)
		n.Delay = 2 * time.Hour
		f.addOne(n)
		f.advance(tick / 2)
		r := again(n, broker.RepeatDebounce, "new")
		r.KeyHold, r.KeyFor = broker.HoldUntilFinal, 0
		if f.h.Advance != nil {
			f.wantRepeat("repeat", r, n.ID, true)
		}
		f.advance(tick)
		f.wantFree("after the first hold", n)
	}},
	{"a job that has the id of one that held the key is not changed", func(f *fixture) {
		n := keyed("k", broker.HoldFor, time.Hour)
		f.end(f.leased(n), broker.Ack)
		stranger := with(func(s *broker.NewJob) { s.ID, s.Payload = n.ID, []byte("mine") })
		ref := f.addOne(stranger)
		f.enqueue(queue, again(n, broker.RepeatReplace, "new"), again(n, broker.RepeatDebounce, "new"))
		f.wantState(ref, broker.Ready, "")
		want(f, "payload", string(f.get(ref).Payload), "mine")
	}},
	{"a replaced payload counts with its own size", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		f.addOne(n)
		small := f.count(queue, task).Bytes
		f.enqueue(queue, again(n, broker.RepeatReplace, string(sized(10_000).Payload)))
		want(f, "bytes of the large one", f.count(queue, task).Bytes >= small+10_000, true)
		f.enqueue(queue, again(n, broker.RepeatReplace, ""))
		want(f, "bytes of the small one again", f.count(queue, task).Bytes, small)
		f.end(f.one(), broker.Ack)
		want(f, "bytes at last", f.count(queue, task).Bytes, 0)
	}},
	{"the time to start in counts from the new due time", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.StartWithin = time.Minute
		ref := f.addOne(n)
		f.pass(50 * time.Second)
		f.wantRepeat("replace", again(n, broker.RepeatReplace, "new"), n.ID, true)
		f.wantRepeat("debounce", again(n, broker.RepeatDebounce, "newer"), n.ID, true)
		f.pass(50 * time.Second)
		f.wantState(ref, broker.Ready, broker.ReasonReplaced)
		f.wantRepeat("replace", again(n, broker.RepeatReplace, "new"), n.ID, true)
		f.pass(10 * time.Second)
		f.wantState(ref, broker.Cancelled, broker.ReasonNotStarted)
	}},
	{"a repeat of one tenant's key is the same key for another", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Tenant = "x"
		f.addOne(n)
		r := again(n, broker.RepeatReplace, "new")
		r.Tenant = "y"
		want(f, "tenant", f.wantRepeat("repeat", r, n.ID, true).Tenant, "x")
	}},
	{"a claim that waits gets a job that was debounced to now", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Delay = 10 * time.Hour
		f.addOne(n)
		claim := f.claiming(f.ctx, f.open())
		r := again(n, broker.RepeatDebounce, "new")
		r.Delay = 0
		f.enqueue(queue, r)
		claim.done()
		f.must("claim", claim.err)
		exactly(f, "leases", claim.leases, 1)
	}},
	{"what was replaced outlives the last client", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		n := keyed("k", broker.HoldUntilFinal, 0)
		ref := f.addOne(n)
		r := again(n, broker.RepeatDebounce, "new")
		r.Delay, r.Headers = time.Hour, map[string]string{"h": "1"}
		f.enqueue(queue, r)
		before := f.get(ref)
		f.must("close", f.b.Close())
		f.b = f.open()
		if diff := diffJobs(before, f.get(ref)); diff != "" {
			f.Errorf("before / after: %s", diff)
		}
		f.wantRepeat("repeat", again(n, broker.RepeatFirst, "new"), n.ID, false)
	}},
}
