package brokertest

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// keyed is a job with a key.
func keyed(key string, hold broker.KeyHold, holdFor time.Duration) broker.NewJob {
	return with(func(n *broker.NewJob) { n.Key, n.KeyHold, n.KeyFor = key, hold, holdFor })
}

// wantHeld wants that a repeat of the key is answered with the job that holds it.
func (f *fixture) wantHeld(what string, n broker.NewJob, holder broker.ID) {
	f.Helper()
	n.ID = broker.NewID()
	want(f, what, f.enqueue(queue, n)[0], broker.Enqueued{ID: holder, Existing: true})
	f.wantGone(broker.Ref{Queue: queue, ID: n.ID})
}

// wantFree wants that a repeat of the key is a new job, and returns it.
func (f *fixture) wantFree(what string, n broker.NewJob) broker.Ref {
	f.Helper()
	n.ID = broker.NewID()
	want(f, what, f.enqueue(queue, n)[0], broker.Enqueued{ID: n.ID})
	return broker.Ref{Queue: queue, ID: n.ID}
}

// endings are the ways in which a job leaves its waiting and running states.
var endings = []struct {
	name string
	end  func(f *fixture, r broker.Ref)
}{
	{"acked", func(f *fixture, r broker.Ref) { f.end(f.one(), broker.Ack) }},
	{"acked with a result", func(f *fixture, r broker.Ref) {
		f.settle(f.one(), broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
	}},
	{"buried", func(f *fixture, r broker.Ref) { f.end(f.one(), broker.Bury) }},
	{"out of attempts", func(f *fixture, r broker.Ref) { f.end(f.one(), broker.Nack) }},
	{"crashed", func(f *fixture, r broker.Ref) {
		f.take(f.b, broker.ClaimRequest{TTL: tick / 8})
		f.pass(tick / 8)
	}},
	{"cancelled while it waits", func(f *fixture, r broker.Ref) { f.command(broker.CancelJobs, r.ID) }},
	{"cancelled while it runs", func(f *fixture, r broker.Ref) {
		l := f.one()
		f.command(broker.CancelJobs, r.ID)
		f.end(l, broker.Cancel)
	}},
	{"deleted", func(f *fixture, r broker.Ref) { f.command(broker.DeleteJobs, r.ID) }},
}

var keyRules = []rule{
	{"a held key answers with the job that holds it", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Payload = []byte("one")
		f.addOne(n)
		f.wantHeld("repeat", n, n.ID)
		other := n
		other.ID, other.Payload = broker.NewID(), []byte("two")
		want(f, "repeat with another payload", f.enqueue(queue, other)[0], broker.Enqueued{ID: n.ID, Existing: true, Differs: true})
		want(f, "payload", string(f.get(broker.Ref{Queue: queue, ID: n.ID}).Payload), "one")
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 1)
	}},
	{"an empty key is no key", func(f *fixture) { f.add(queue, plain(), plain()) }},
	{"a key that stands twice in one batch is taken once", func(f *fixture) {
		a, b := keyed("k", broker.HoldUntilFinal, 0), keyed("k", broker.HoldUntilFinal, 0)
		answers := f.enqueue(queue, a, b, plain())
		want(f, "first", answers[0], broker.Enqueued{ID: a.ID})
		want(f, "second", answers[1], broker.Enqueued{ID: a.ID, Existing: true})
		want(f, "ready", f.count(queue, task).Ready, 2)
	}},
	{"a key belongs to its queue and task", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		f.addOne(n)
		other := n
		other.ID, other.Task = broker.NewID(), "other"
		f.addOne(other)
		n.ID = broker.NewID()
		f.add("another", n)
	}},
	{"keys and names do not run together", func(f *fixture) {
		for _, n := range []struct{ queue, task, key string }{{"a", "b.c", "d"}, {"a.b", "c", "d"}, {"a", "b", "c.d"}, {"a", "b", "c:d"}, {"a", "b", "c\x00d"}} {
			f.add(n.queue, broker.NewJob{Task: n.task, Key: n.key})
		}
	}},
	{"a key held until the job is final is held in every other state", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.Delay = tick
		f.addOne(n)
		f.wantHeld("scheduled", n, n.ID)
		f.advance(tick)
		f.wantHeld("ready", n, n.ID)
		l := f.one()
		f.wantHeld("leased", n, n.ID)
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.wantHeld("waiting for its retry", n, n.ID)
		f.advance(tick)
		f.end(f.one(), broker.Release)
		f.wantHeld("released", n, n.ID)
		f.take(f.b, broker.ClaimRequest{TTL: tick / 8})
		f.pass(tick / 8)
		f.wantHeld("expired", n, n.ID)
		f.end(f.one(), broker.Ack)
		f.wantFree("done", n)
	}},
	{"a key held until the job is final is free however it ends", func(f *fixture) {
		for _, e := range endings {
			n := keyed("k-"+e.name, broker.HoldUntilFinal, 0)
			n.MaxAttempts = 1
			e.end(f, f.addOne(n))
			ref := f.wantFree(e.name, n)
			f.command(broker.DeleteJobs, ref.ID)
		}
	}},
	{"a key held until the job is started is free from its first claim on", func(f *fixture) {
		n := keyed("k", broker.HoldUntilStarted, 0)
		urgent := n
		urgent.Priority = 1
		f.addOne(urgent)
		f.wantHeld("ready", n, urgent.ID)
		l := f.one()
		second := f.wantFree("leased", n)
		f.end(l, broker.Release)
		f.wantHeld("the first is released, the second holds", n, second.ID)
		f.end(f.one(), broker.Ack)
		f.wantGone(broker.Ref{Queue: queue, ID: urgent.ID})
		f.wantHeld("the first is done, the second holds", n, second.ID)
	}},
	{"a key held until the job is started is free when it never starts", func(f *fixture) {
		for _, kind := range []broker.CommandKind{broker.CancelJobs, broker.DeleteJobs} {
			n := keyed("k", broker.HoldUntilStarted, 0)
			f.addOne(n)
			f.command(kind, n.ID)
			f.command(broker.DeleteJobs, f.wantFree("ended by a command", n).ID)
		}
	}},
	{"a key held for a time is held whatever becomes of its job", func(f *fixture) {
		for _, e := range endings {
			n := keyed("k-"+e.name, broker.HoldFor, time.Hour)
			n.MaxAttempts = 1
			e.end(f, f.addOne(n))
			f.wantHeld(e.name, n, n.ID)
			n.ID, n.Payload = broker.NewID(), []byte("another")
			want(f, e.name+" with another payload", f.enqueue(queue, n)[0].Differs, true)
		}
	}},
	{"a key held for a time is free after it", func(f *fixture) {
		waiting, done := keyed("a", broker.HoldFor, tick), keyed("b", broker.HoldFor, tick)
		f.addOne(done)
		f.end(f.one(), broker.Ack)
		f.addOne(waiting)
		f.advance(tick / 2)
		if f.h.Advance != nil {
			f.wantHeld("its job waits", waiting, waiting.ID)
			f.wantHeld("its job is done", done, done.ID)
		}
		f.advance(tick)
		f.wantFree("its job waits", waiting)
		f.wantFree("its job is done", done)
		f.maintain()
		f.wantState(broker.Ref{Queue: queue, ID: waiting.ID}, broker.Ready, "")
	}},
	{"a key held for a time is counted from the enqueue", func(f *fixture) {
		n := keyed("k", broker.HoldFor, tick)
		n.Delay = time.Hour
		f.addOne(n)
		f.advance(tick)
		f.wantFree("not due yet", n)
	}},
	{"only the job that holds a key frees it", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		n.MaxAttempts = 1
		first := f.addOne(n)
		f.end(f.one(), broker.Nack)
		later := n
		later.Delay = 10 * time.Hour
		second := f.wantFree("the first is dead", later)
		f.command(broker.DeleteJobs, first.ID)
		f.wantHeld("the first is deleted", n, second.ID)
	}},
	{"a job that comes back takes its key again", func(f *fixture) {
		for _, hold := range []broker.KeyHold{broker.HoldUntilFinal, broker.HoldUntilStarted} {
			n := keyed("k", hold, 0)
			f.addOne(n)
			f.end(f.one(), broker.Bury)
			f.command(broker.RequeueJobs)
			f.wantHeld("requeued", n, n.ID)
			f.end(f.one(), broker.Ack)
			f.command(broker.DeleteJobs, f.wantFree("done", n).ID)
		}
	}},
	{"a job that comes back takes its key again when the hold of another is over", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		f.addOne(n)
		f.end(f.one(), broker.Bury)
		f.wantFree("the first is dead", keyed("k", broker.HoldFor, tick))
		f.advance(tick)
		f.command(broker.RequeueJobs)
		f.wantHeld("requeued", n, n.ID)
	}},
	{"a job that comes back runs without its key when another has it", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		first := f.addOne(n)
		f.end(f.one(), broker.Bury)
		second := f.wantFree("dead", n)
		want(f, "requeued", f.command(broker.RequeueJobs), 1)
		f.wantHeld("both wait", n, second.ID)
		f.end(f.claimID(first.ID), broker.Ack)
		f.wantHeld("the first is done", n, second.ID)
	}},
	{"a known id is recognised before a held key", func(f *fixture) {
		a, b := keyed("a", broker.HoldUntilFinal, 0), keyed("b", broker.HoldUntilFinal, 0)
		f.add(queue, a, b)
		mixed := a
		mixed.Key = "b"
		want(f, "answer", f.enqueue(queue, mixed)[0], broker.Enqueued{ID: a.ID, Existing: true})
	}},
	{"the hold of the first job counts, not that of the repeat", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		f.addOne(n)
		repeat := keyed("k", broker.HoldFor, time.Hour)
		f.wantHeld("repeat", repeat, n.ID)
		f.end(f.one(), broker.Ack)
		f.wantFree("done", n)
	}},
	{"a due job whose key another job has taken holds up nobody", func(f *fixture) {
		n := keyed("k", broker.HoldUntilStarted, 0)
		f.addOne(n)
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.wantFree("started", n)
		for range 20 {
			f.addOne(with(func(n *broker.NewJob) { n.Delay = tick / 2 }))
		}
		f.advance(tick)
		want(f, "leases", len(f.claim(100)), 22)
	}},
}
