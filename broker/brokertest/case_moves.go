package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// everySort fills the usual queue with jobs of every sort, and returns their
// names. None is leased.
func (p *pair) everySort() []broker.Ref {
	p.Helper()
	full := func(n *broker.NewJob) {
		n.Payload, n.Headers = []byte("\x00\xffpayload"), map[string]string{"spool.depth": "3", "x": "y"}
		n.Priority, n.Tenant, n.Group = -2, "acme\xff", "g"
		n.MaxAttempts, n.Timeout, n.StartWithin, n.Retain = 3, time.Minute, time.Hour, 2*time.Hour
	}
	refs := p.add(queue, plain(), with(full), with(func(n *broker.NewJob) { full(n); n.Delay = time.Hour }),
		with(func(n *broker.NewJob) { n.At = p.now().Add(time.Minute) }), keyed("k1", broker.HoldUntilFinal, 0), ofGroup("g2"))
	for i, end := range []broker.Settlement{
		{Kind: broker.Nack, Error: "no\xff", Delay: time.Minute}, {Kind: broker.Snooze, Delay: time.Minute}, {Kind: broker.Release},
		{Kind: broker.Bury, Error: "boom"}, {Kind: broker.Ack, Result: []byte("\x00res")}, {Kind: broker.Cancel},
	} {
		task := fmt.Sprint("end", i)
		ref := p.addOne(with(func(n *broker.NewJob) { n.Task, n.Retain = task, time.Hour }))
		l := p.takeOne(p.b, broker.ClaimRequest{Tasks: []string{task}})
		p.beatNote(l)
		p.settle(l, end)
		refs = append(refs, ref)
		p.advance(time.Millisecond)
	}
	p.command(broker.CancelJobs, p.addOne(plain()).ID)
	return append(refs, p.add(queue, batch(3)...)...)
}

// beatNote says something of a running job.
func (f *fixture) beatNote(l broker.Lease) {
	f.Helper()
	_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Leases: []broker.Extension{{Ref: l.Job.Ref(), Token: l.Token, Progress: &broker.Progress{Percent: 7, Note: "seven"}, Log: []string{"line", "l2\xff"}}}})
	f.must("extend", err)
}

// wantMoved wants the usual queue's jobs there as they were here, and none here.
func (p *pair) wantMoved(before dump) {
	p.Helper()
	now := p.to.dump(queue)
	if len(now.jobs) != len(before.jobs) {
		p.Errorf("%d jobs arrived, %d were there", len(now.jobs), len(before.jobs))
	}
	for _, was := range before.jobs {
		i := slices.IndexFunc(now.jobs, func(j broker.Job) bool { return j.ID == was.ID })
		if i < 0 {
			p.Errorf("job %s, %v, did not arrive", was.ID, was.State)
		} else if diff := diffJobs(was, p.onClock(was, now.jobs[i])); diff != "" {
			p.Errorf("%v before / now: %s", was.Ref(), diff)
		}
	}
	want(p.fixture, "jobs left", len(p.dump(queue).jobs), 0)
}

// onClock is a job that has arrived with those of its times taken from before
// that are near: on the machine's clocks the difference of two is not exactly known.
func (p *pair) onClock(was, now broker.Job) broker.Job {
	if p.h.Advance != nil {
		return now
	}
	for _, t := range [...]struct {
		now *time.Time
		was time.Time
	}{{&now.EnqueuedAt, was.EnqueuedAt}, {&now.RunAt, was.RunAt}, {&now.ClaimedAt, was.ClaimedAt}, {&now.FinishedAt, was.FinishedAt}} {
		if t.now.IsZero() == t.was.IsZero() && t.now.Sub(t.was).Abs() < tick {
			*t.now = t.was
		}
	}
	return now
}

var moveRules = slices.Concat(moveJobRules, moveFlowRules, moveDriveRules)

var moveJobRules = []moveRule{
	{"every job arrives as it was, whatever its state", func(p *pair) {
		refs := p.everySort()
		before := p.dump(queue)
		done := p.move()
		want(p.fixture, "moved", done.Moved, int64(len(refs)+1))
		p.wantMoved(before)
		p.wantRecord("here", broker.Left)
		p.to.wantRecord("there", broker.Arrived)
		want(p.fixture, "jobs of the record", p.to.record().Jobs, int64(len(refs)+1))
	}},
	{"and back again", func(p *pair) {
		p.everySort()
		before := p.dump(queue)
		p.move()
		p.moveBack()
		p.wantRecord("here", broker.Arrived)
		p.to.wantRecord("there", broker.Left)
		for i, j := range p.dump(queue).jobs {
			if k := slices.IndexFunc(before.jobs, func(was broker.Job) bool { return was.ID == j.ID }); k < 0 || diffJobs(before.jobs[k], p.onClock(before.jobs[k], j)) != "" {
				p.Errorf("job %d is not as it was", i)
			}
		}
		want(p.fixture, "jobs", len(p.dump(queue).jobs), len(before.jobs))
		p.move()
		p.wantMoved(before)
	}},
	{"jobs keep their places, those that run meanwhile too", func(p *pair) {
		refs := p.add(queue, plain(), plain(), plain(), plain(), plain())
		p.advance(time.Millisecond)
		held := p.all(2) // 0 and 1, of the same call as the others
		refs = append(refs, p.addMany(2)...)
		id := p.began()
		p.batch(id, 1, 2)
		p.to.addMany(0)
		late := p.addMany(1)
		p.end(held[1], broker.Release)
		p.batch(id, 2, 10)
		p.end(held[0], broker.Release)
		p.batch(id, 3, 10)
		refs = append(refs, late...)
		p.survive(id)
		p.to.wantOrder("claims", leaseIDs(p.to.claim(20)), refs, 0, 1, 2, 3, 4, 5, 6, 7)
	}},
	{"places are by time, also among jobs that are there already", func(p *pair) {
		refs := p.add(queue, with(func(n *broker.NewJob) { n.Delay = 2 * tick }), plain())
		p.advance(tick)
		refs = append(refs, p.to.addMany(1)...)
		p.advance(2 * tick)
		refs = append(refs, p.to.addMany(1)...)
		p.move()
		p.to.wantOrder("claims", leaseIDs(p.to.claim(5)), refs, 1, 2, 0, 3)
	}},
	{"a token there is larger than any here, and the old one is refused", func(p *pair) {
		ref := p.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 4 }))
		var last broker.Lease
		for range 3 {
			last = p.one()
			p.end(last, broker.Nack)
		}
		for n := range 2 { // there, and back where the token came from
			a, b := p.fixture, p.to
			if n == 1 {
				a, b = b, a
				p.moveBack()
			} else {
				p.move()
			}
			l := b.one()
			if l.Token <= last.Token || l.Job.Attempt != 4 {
				p.Errorf("token %d, attempt %d after %d", l.Token, l.Job.Attempt, last.Token)
			}
			want(p.fixture, "the old token", errors.Is(b.try(last, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrLeaseLost), true)
			want(p.fixture, "a settlement of what has left", errors.Is(a.try(last, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrNotFound), true)
			last = l
			b.end(l, broker.Release)
		}
		p.end(p.one(), broker.Nack)
		p.wantState(ref, broker.Dead, broker.ReasonAttempts)
	}},
	{"a token of a later epoch than any there is exceeded, too", func(p *pair) {
		l := p.leased(plain())
		p.end(l, broker.Release)
		id := p.began()
		b, err := mover(p.b).TakeMoved(p.ctx, broker.NewCall(), broker.MoveTake{ID: id, Queue: queue, Runner: id, Batch: 1})
		p.must("take", err)
		b.Jobs[0].Token = 9<<32 | 77
		_, err = mover(p.to.b).PutMoved(p.ctx, broker.NewCall(), broker.MovePut{ID: id, Queue: queue, Batch: b})
		p.must("put", err)
		p.survive(id)
		if l := p.to.one(); l.Token <= 9<<32|77 {
			p.Errorf("token %d after %d", l.Token, uint64(9<<32|77))
		}
	}},
	{"a settlement that is repeated there has its answer", func(p *pair) {
		l := p.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
		p.end(l, broker.Ack)
		p.move()
		want(p.fixture, "state", p.to.end(l, broker.Ack).State, broker.Done)
	}},
	{"what runs ends where it runs, and follows", func(p *pair) {
		refs := p.addMany(4)
		leases := p.all(4)
		id := p.began()
		b := p.batch(id, 1, 0)
		want(p.fixture, "left, leased, done", fmt.Sprint(b.Left, b.Leased, b.Done), "4 4 false")
		p.beats(time.Minute, leases...)
		p.end(leases[0], broker.Ack)
		p.end(leases[1], broker.Nack)
		p.settle(leases[2], broker.Settlement{Kind: broker.Ack, Result: []byte("r"), FollowUps: []broker.FollowUp{{Queue: queue, Job: plain()}}})
		p.batch(id, 1, 0)
		p.advance(2 * time.Minute)
		p.maintain() // the lease of the fourth ends
		p.survive(id)
		p.to.wantState(refs[1], broker.Ready, broker.ReasonRetry)
		p.to.wantState(refs[2], broker.Done, broker.ReasonAcked)
		p.to.wantState(refs[3], broker.Ready, broker.ReasonExpired)
		want(p.fixture, "the follow-up and two more are ready", len(p.to.in(broker.Ready)), 3)
	}},
	{"what is enqueued here meanwhile follows, and later too", func(p *pair) {
		p.addMany(2)
		id := p.began()
		p.batch(id, 1, 0)
		p.addMany(3)
		p.survive(id)
		want(p.fixture, "ready there", len(p.to.in(broker.Ready)), 5)
		straggler := p.addMany(1)
		p.none()
		done := p.move()
		want(p.fixture, "moved", done.Moved, 1)
		p.to.wantState(straggler[0], broker.Ready, "")
	}},
	{"due times and retention go on", func(p *pair) {
		later := p.addOne(with(func(n *broker.NewJob) { n.Delay = time.Hour }))
		at := p.addOne(with(func(n *broker.NewJob) { n.At = p.now().Add(time.Hour) }))
		p.settle(p.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour })), broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
		late := p.addOne(with(func(n *broker.NewJob) { n.StartWithin = 50 * time.Minute; n.Task = "late" }))
		p.advance(10 * time.Minute)
		p.move()
		want(p.fixture, "kept", len(p.to.in(broker.Done)), 1)
		p.to.pass(39 * time.Minute)
		p.to.wantState(late, broker.Ready, "")
		p.to.pass(time.Minute)
		p.to.wantState(late, broker.Cancelled, broker.ReasonNotStarted)
		p.to.wantState(later, broker.Scheduled, "")
		p.to.pass(10 * time.Minute)
		p.to.wantState(later, broker.Ready, "")
		p.to.wantState(at, broker.Ready, "")
		want(p.fixture, "kept", len(p.to.in(broker.Done)), 0)
	}},
	{"a batch that is put again adds nothing, also when its jobs are gone", func(p *pair) {
		p.addMany(2)
		id := p.began()
		b := p.batch(id, 1, 0)
		put := func() {
			p.Helper()
			_, err := mover(p.to.b).PutMoved(p.ctx, broker.NewCall(), broker.MovePut{ID: id, Queue: queue, Batch: b})
			p.must("put", err)
		}
		put()
		want(p.fixture, "jobs there", p.to.depth(), 2)
		p.to.command(broker.DeleteJobs)
		put()
		want(p.fixture, "jobs there", p.to.depth(), 0)
		p.survive(id)
		put()
		want(p.fixture, "jobs there", p.to.depth(), 0)
	}},
	{"a batch that was taken is taken again as it was", func(p *pair) {
		p.addMany(3)
		id := p.began()
		take := broker.MoveTake{ID: id, Queue: queue, Runner: id, Batch: 1, Max: 2}
		a, err := mover(p.b).TakeMoved(p.ctx, broker.NewCall(), take)
		p.must("take", err)
		p.addMany(1)
		b, err := mover(p.b).TakeMoved(p.ctx, broker.NewCall(), take)
		p.must("take again", err)
		for i := range exactly(p.fixture, "jobs", b.Jobs, len(a.Jobs)) {
			want(p.fixture, "difference", diffJobs(a.Jobs[i].Job, b.Jobs[i].Job), "")
		}
		take.Batch = 3
		_, err = mover(p.b).TakeMoved(p.ctx, broker.NewCall(), take)
		p.wantErr("take one that is not next", err, broker.ErrConflict)
		_, err = mover(p.to.b).PutMoved(p.ctx, broker.NewCall(), broker.MovePut{ID: id, Queue: queue, Batch: broker.MoveBatch{Number: 2, Now: b.Now}})
		p.wantErr("put one that is not next", err, broker.ErrConflict)
		p.batch(id, 1, 2)
		p.survive(id)
		want(p.fixture, "jobs there", p.to.depth(), 4)
	}},
}

// survive drives a move that was begun by hand to its end.
func (p *pair) survive(id broker.ID) {
	p.Helper()
	m := p.driver(3)
	_, err := m.Queue(p.ctx, queue)
	p.must("move", err)
	want(p.fixture, "the move", p.to.record().ID, id)
}
