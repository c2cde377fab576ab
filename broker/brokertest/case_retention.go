package brokertest

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// retentions says how long what ends as what is kept: 0 not at all, -1 for ever.
var retentions = []struct {
	retain time.Duration
	kind   broker.SettleKind
	result []byte
	kept   time.Duration
}{
	{0, broker.Ack, nil, 0},
	{0, broker.Ack, []byte("r"), broker.DefaultRetain},
	{0, broker.Ack, []byte{}, broker.DefaultRetain},
	{0, broker.Cancel, nil, broker.DefaultRetain},
	{0, broker.Bury, nil, -1},
	{tick, broker.Ack, nil, tick},
	{tick, broker.Ack, []byte("r"), tick},
	{tick, broker.Cancel, nil, tick},
	{tick, broker.Bury, nil, -1},
	{3 * time.Hour, broker.Ack, nil, 3 * time.Hour},
	{-1, broker.Ack, nil, 0},
	{-1, broker.Ack, []byte("r"), 0},
	{-1, broker.Cancel, nil, 0},
	{-1, broker.Bury, nil, -1},
}

var retentionRules = []rule{
	{"finished jobs are kept as long as their retention says", func(f *fixture) {
		f.needsShift()
		var refs []broker.Ref
		for _, r := range retentions {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = r.retain }))
			f.settle(l, broker.Settlement{Kind: r.kind, Result: r.result})
			refs = append(refs, l.Job.Ref())
		}
		passed := time.Duration(0)
		for _, step := range []time.Duration{0, tick, broker.DefaultRetain, 3 * time.Hour, 100 * time.Hour} {
			f.pass(step)
			passed += step
			for i, r := range retentions {
				kept := f.get(refs[i]).State != 0
				if still := r.kept < 0 || r.kept > passed; kept != still {
					f.Errorf("%v with retention %v and %d bytes of result, after %v: kept %v, want %v", r.kind, r.retain, len(r.result), passed, kept, still)
				}
			}
		}
	}},
	{"a finished job is there until the last moment", func(f *fixture) {
		l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Minute }))
		f.end(l, broker.Ack)
		f.pass(time.Minute - time.Second)
		f.wantState(l.Job.Ref(), broker.Done, broker.ReasonAcked)
		f.pass(time.Second)
		f.wantGone(l.Job.Ref())
	}},
	{"a job that is dropped keeps its place in the totals", func(f *fixture) {
		for range 3 {
			f.end(f.leased(plain()), broker.Ack)
		}
		c := f.count(queue, task)
		want(f, "done", c.Done, 0)
		want(f, "total acked", c.Totals.Acked, 3)
		want(f, "total enqueued", c.Totals.Enqueued, 3)
		want(f, "total deleted", c.Totals.Deleted, 0)
	}},
	{"an id that was dropped can be used again", func(f *fixture) {
		n := plain()
		l := f.leased(n)
		f.end(l, broker.Ack)
		f.addOne(n)
		again := f.one()
		want(f, "attempt", again.Job.Attempt, 1)
		f.end(again, broker.Ack)
	}},
	{"a cancelled job of no retention is gone at once", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.Retain = -1 }))
		want(f, "cancelled", f.command(broker.CancelJobs), 1)
		f.wantGone(ref)
		c := f.count(queue, task)
		want(f, "cancelled now", c.Cancelled, 0)
		want(f, "total cancelled", c.Totals.Cancelled, 1)
	}},
	{"retention counts from the end, not from the enqueue", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.Retain = time.Minute }))
		f.pass(2 * time.Minute)
		f.end(f.one(), broker.Ack)
		f.pass(30 * time.Second)
		f.wantState(ref, broker.Done, broker.ReasonAcked)
	}},
	{"a requeued job is not dropped by the retention of its first end", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.Retain = time.Minute }))
		f.command(broker.CancelJobs)
		f.command(broker.RequeueJobs)
		f.pass(2 * time.Minute)
		f.wantState(ref, broker.Ready, broker.ReasonRequeued)
	}},
	{"a job that is not started in time is cancelled and says so", func(f *fixture) {
		late := with(func(n *broker.NewJob) { n.StartWithin = tick })
		started := with(func(n *broker.NewJob) { n.StartWithin = tick })
		started.Priority = 1
		scheduled := with(func(n *broker.NewJob) { n.StartWithin, n.Delay = tick, time.Hour })
		refs := f.add(queue, late, started, scheduled)
		l := f.one()
		f.advance(tick)
		f.none()
		f.maintain()
		f.wantState(refs[0], broker.Cancelled, broker.ReasonNotStarted)
		want(f, "total cancelled", f.count(queue, task).Totals.Cancelled, 1)
		f.wantState(refs[2], broker.Scheduled, "")
		f.end(l, broker.Nack)
		f.pass(2 * tick)
		f.wantState(refs[1], broker.Ready, broker.ReasonRetry)
	}},
	{"the time to start in counts from the due time", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.StartWithin, n.Delay = time.Minute, time.Hour }))
		f.pass(time.Hour + 59*time.Second)
		f.wantState(ref, broker.Ready, "")
		f.pass(time.Second) // to the moment
		f.wantState(ref, broker.Cancelled, broker.ReasonNotStarted)
	}},
	{"a job that was ready at once is late from the moment on", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.StartWithin = time.Minute }))
		f.pass(59 * time.Second)
		f.wantState(ref, broker.Ready, "")
		f.pass(time.Second)
		f.wantState(ref, broker.Cancelled, broker.ReasonNotStarted)
	}},
	{"a job that fell due and was late between two upkeeps is cancelled by the next", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.StartWithin, n.Delay = tick/4, tick/4 }))
		f.pass(tick)
		f.wantState(ref, broker.Cancelled, broker.ReasonNotStarted)
	}},
}

var followUpRules = []rule{
	{"a follow-up exists once the ack has taken place", func(f *fixture) {
		l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
		a, b := plain(), with(func(n *broker.NewJob) { n.Delay, n.Task = time.Hour, "later" })
		s := f.settle(l, broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: a}, {Queue: "other", Job: b}}})
		exactly(f, "answers", s.FollowUps, 2)
		want(f, "first", s.FollowUps[0], broker.Enqueued{ID: a.ID})
		want(f, "second", s.FollowUps[1], broker.Enqueued{ID: b.ID})
		f.wantState(broker.Ref{Queue: queue, ID: a.ID}, broker.Ready, "")
		f.wantState(broker.Ref{Queue: "other", ID: b.ID}, broker.Scheduled, "")
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 2)
		f.end(f.one(), broker.Ack)
	}},
	{"an ack that is refused adds none", func(f *fixture) {
		old := f.leased(plain())
		f.end(old, broker.Release)
		a := plain()
		s := f.try(old, broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: a}}})
		f.wantErr("ack", s.Err, broker.ErrLeaseLost)
		want(f, "answers", len(s.FollowUps), 0)
		f.wantGone(broker.Ref{Queue: queue, ID: a.ID})
	}},
	{"a repeated ack does not add it again", func(f *fixture) {
		l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
		a := plain()
		s := broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: a}}}
		f.settle(l, s)
		f.end(f.one(), broker.Ack) // the follow-up is dropped: its id alone would not stop a second one
		again := f.settle(l, s)
		exactly(f, "answers", again.FollowUps, 1)
		want(f, "id", again.FollowUps[0].ID, a.ID)
		f.none()
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 2)
	}},
	{"a follow-up without an id gets one", func(f *fixture) {
		l := f.leased(plain())
		s := f.settle(l, broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: broker.NewJob{Task: task}}}})
		want(f, "id", f.one().Job.ID, exactly(f, "answers", s.FollowUps, 1)[0].ID)
	}},
	{"a follow-up with a known id or a held key is answered as existing", func(f *fixture) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		l := f.leased(plain())
		f.addOne(n)
		other := keyed("k", broker.HoldUntilFinal, 0)
		other.Payload = []byte("another")
		s := f.settle(l, broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: n}, {Queue: queue, Job: other}}})
		exactly(f, "answers", s.FollowUps, 2)
		want(f, "known id", s.FollowUps[0], broker.Enqueued{ID: n.ID, Existing: true})
		want(f, "held key", s.FollowUps[1], broker.Enqueued{ID: n.ID, Existing: true, Differs: true})
	}},
	{"a job can follow itself under its own key", func(f *fixture) {
		l := f.leased(keyed("k", broker.HoldUntilFinal, 0))
		next := keyed("k", broker.HoldUntilFinal, 0)
		s := f.settle(l, broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: next}}})
		want(f, "answer", exactly(f, "answers", s.FollowUps, 1)[0], broker.Enqueued{ID: next.ID})
		f.wantHeld("the follow-up waits", next, next.ID)
	}},
	{"follow-ups of one call keep their order", func(f *fixture) {
		f.addMany(2)
		var call []broker.Settlement
		var refs []broker.Ref
		for _, l := range f.claim(2) {
			s := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
			for range 3 {
				n := plain()
				refs = append(refs, broker.Ref{Queue: queue, ID: n.ID})
				s.FollowUps = append(s.FollowUps, broker.FollowUp{Queue: queue, Job: n})
			}
			call = append(call, s)
		}
		_, err := f.b.Settle(f.ctx, broker.NewCall(), call)
		f.must("settle", err)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 0, 1, 2, 3, 4, 5)
	}},
}
