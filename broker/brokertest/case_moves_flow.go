package brokertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// moveFlowRules are about what binds jobs to each other, and to settings.
var moveFlowRules = []moveRule{
	{"a queue that moves rests at both sides, and says so", func(p *pair) {
		refs := p.addMany(3)
		id := p.began()
		p.batch(id, 1, 1)
		p.none()
		p.to.none()
		for _, side := range []struct {
			f    *fixture
			ref  broker.Ref
			says string
		}{{p.fixture, refs[2], "moves to there"}, {p.to, refs[0], "arrives from here"}} {
			e := side.f.wantWhy(side.ref, broker.WhyMoving)
			want(p.fixture, "text", e.Text, "its queue "+side.says)
			c := side.f.count(queue, task)
			want(p.fixture, "count", fmt.Sprint(c.Moving, " ", c.Paused), side.says+" false")
		}
		p.survive(id)
		want(p.fixture, "there", p.to.count(queue, task).Moving, "")
		want(p.fixture, "here", p.count(queue, task).Moving, "has moved to there")
		p.addMany(1)
		p.none()
		p.to.all(3)
	}},
	{"an operator's pause moves along", func(p *pair) {
		p.addMany(1)
		p.command(broker.PauseQueue)
		id := p.began()
		want(p.fixture, "paused", p.count(queue, task).Paused, true)
		p.survive(id)
		want(p.fixture, "paused here", p.count(queue, task).Paused, false)
		want(p.fixture, "paused there", p.to.count(queue, task).Paused, true)
		p.to.none()
		p.to.command(broker.ResumeQueue)
		p.to.one()
	}},
	{"a key is held there as it was here", func(p *pair) {
		final, started := keyed("final", broker.HoldUntilFinal, 0), keyed("started", broker.HoldUntilStarted, 0)
		timed, gone := keyed("timed", broker.HoldFor, time.Hour), keyed("gone", broker.HoldFor, time.Hour)
		p.addOne(gone)
		p.end(p.one(), broker.Ack)
		p.add(queue, final, started, timed)
		p.advance(time.Minute)
		id := p.began()
		p.batch(id, 1, 0)
		for _, n := range []broker.NewJob{final, started, timed, gone} {
			p.wantHeld("here meanwhile", n, n.ID)
		}
		p.survive(id)
		for _, n := range []broker.NewJob{final, started, timed, gone} {
			p.to.wantHeld("there", n, n.ID)
		}
		other := final
		other.ID, other.Payload = broker.NewID(), []byte("other")
		want(p.fixture, "differs", p.to.enqueue(queue, other)[0], broker.Enqueued{ID: final.ID, Existing: true, Differs: true})
		for _, l := range p.to.all(3) {
			p.to.end(l, broker.Ack)
		}
		p.to.wantFree("final", final)
		p.to.wantFree("started", started)
		p.to.wantHeld("timed", timed, timed.ID)
		p.to.pass(59 * time.Minute)
		p.to.wantFree("timed", timed)
		p.to.wantFree("gone", gone)
	}},
	{"a repeat that would change a job which has left is refused", func(p *pair) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		p.addOne(n)
		id := p.began()
		n.ID, n.KeyRepeat = broker.NewID(), broker.RepeatReplace
		want(p.fixture, "before it leaves", p.enqueue(queue, n)[0].Existing, true)
		p.batch(id, 1, 0)
		_, err := p.b.Enqueue(p.ctx, broker.NewCall(), queue, []broker.NewJob{n})
		p.wantErr("replace", err, broker.ErrFull)
		var full *broker.FullError
		if !errors.As(err, &full) || full.RetryAfter <= 0 {
			p.Errorf("%v does not say when to try again", err)
		}
		p.survive(id)
		want(p.fixture, "there", p.to.enqueue(queue, n)[0].Existing, true)
	}},
	{"a repeat that was enqueued here after its key had left ends as one", func(p *pair) {
		n := keyed("k", broker.HoldUntilFinal, 0)
		first := p.addOne(n)
		p.move()
		again := p.wantFree("here", n)
		done := p.move()
		want(p.fixture, "duplicates", done.Duplicates, 1)
		j := p.to.wantState(again, broker.Cancelled, broker.ReasonDuplicate)
		want(p.fixture, "error", j.Error, "job "+first.ID.String()+" holds its key")
		p.to.wantOrder("claims", leaseIDs(p.to.claim(5)), []broker.Ref{first}, 0)
	}},
	{"a batch is whole wherever its members end", func(p *pair) {
		refs := p.add(queue, batch(5)...)
		leases := p.all(2) // members 0 and 1
		p.end(leases[0], broker.Ack)
		id := p.began()
		p.batch(id, 1, 1) // the completion job leaves first
		p.wantGone(refs[0])
		p.end(leases[1], broker.Ack) // here, when it has left
		p.command(broker.DeleteJobs, refs[3].ID)
		p.batch(id, 2, 1)
		p.batch(id, 3, 1)
		p.survive(id)
		p.to.wantWaits(refs[0])
		e := p.to.wantWhy(refs[0], broker.WhyBatch)
		want(p.fixture, "says", e.Text, "2 of the 5 jobs of its batch are not final yet")
		for _, l := range p.to.all(2) {
			p.to.end(l, broker.Ack)
		}
		p.to.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"a member that ends there before its completion job comes counts", func(p *pair) {
		jobs := batch(2)
		jobs[0], jobs[2] = jobs[2], jobs[0] // members first, as they leave
		jobs[0].Delay, jobs[1].Delay = time.Hour, time.Hour
		refs := p.add(queue, jobs...)
		id := p.began()
		var arrived []broker.Ref
		for n := uint64(1); len(arrived) < 2; n++ {
			for _, j := range p.batch(id, n, 1).Jobs {
				if j.BatchSize == 0 {
					arrived = append(arrived, j.Ref())
				}
			}
			if len(arrived) == 1 {
				p.to.command(broker.CancelJobs, arrived[0].ID)
			}
		}
		p.survive(id)
		p.to.wantWaits(refs[2])
		p.to.command(broker.CancelJobs, arrived[1].ID)
		p.to.wantState(refs[2], broker.Ready, broker.ReasonBatch)
	}},
	{"a batch whose last member ended while its completion job was on its way is complete", func(p *pair) {
		refs := p.add(queue, batch(1)...)
		l := p.one()
		id := p.began()
		take := broker.MoveTake{ID: id, Queue: queue, Runner: id, Batch: 1}
		b, err := mover(p.b).TakeMoved(p.ctx, broker.NewCall(), take)
		p.must("take", err)
		p.end(l, broker.Ack)
		_, err = mover(p.to.b).PutMoved(p.ctx, broker.NewCall(), broker.MovePut{ID: id, Queue: queue, Batch: b})
		p.must("put", err)
		p.survive(id)
		p.to.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		p.to.one()
	}},
	{"a batch whose members end on both sides is complete when its move is taken back", func(p *pair) {
		refs := p.add(queue, batch(3)...)
		l := p.one() // member 0
		id := p.began()
		p.batch(id, 1, 1) // the completion job
		p.batch(id, 2, 1) // member 1
		p.end(l, broker.Ack)
		p.to.command(broker.DeleteJobs, refs[2].ID)
		p.survivor(true)
		e := p.wantWhy(refs[0], broker.WhyBatch)
		want(p.fixture, "says", e.Text, "1 of the 3 jobs of its batch are not final yet")
		p.end(p.one(), broker.Ack)
		p.wantState(refs[0], broker.Ready, broker.ReasonBatch)
	}},
	{"a member that ended there before its completion job came counts when the move is taken back", func(p *pair) {
		jobs := batch(2)
		jobs[1].Delay, jobs[2].Delay = time.Hour, time.Hour
		jobs = []broker.NewJob{jobs[1], jobs[0], jobs[2]}
		refs := p.add(queue, jobs...)
		id := p.began()
		p.batch(id, 1, 1) // member 0
		p.to.command(broker.CancelJobs, refs[0].ID)
		p.survivor(true)
		p.wantWaits(refs[1])
		p.command(broker.CancelJobs, refs[2].ID)
		p.wantState(refs[1], broker.Ready, broker.ReasonBatch)
	}},
	{"an ordered group goes on with the job that holds it", func(p *pair) {
		ordered := func(n *broker.NewJob) { n.Group, n.Ordered = "g", true }
		refs := p.add(queue, with(ordered), with(ordered), with(ordered))
		p.settle(p.one(), broker.Settlement{Kind: broker.Nack, Delay: time.Hour})
		p.move()
		p.to.none()
		p.to.register(p.to.b, broker.Worker{ID: "w", Queues: []string{queue}, Tasks: []string{task}})
		e := p.to.wantWhy(refs[1], broker.WhyLimit)
		p.to.wantHolders(e, refs[0])
		p.to.pass(time.Hour)
		for i := range refs {
			l := p.to.one()
			want(p.fixture, "job", l.Job.ID, refs[i].ID)
			p.to.none()
			p.to.end(l, broker.Ack)
		}
	}},
	{"a schedule ticks on one side, from where it was", func(p *pair) {
		due := p.scheduled()
		p.pause("s")
		p.resume("s")
		next := due.Add(time.Minute)
		id := p.began()
		want(p.fixture, "a tick here", p.tickTo("s", due, next, plain()), false)
		p.survive(id)
		want(p.fixture, "settings here", len(p.settings(queue)), 0)
		p.to.wantCursor("there", due)
		want(p.fixture, "a tick here", p.tickTo("s", due, next, plain()), false)
		want(p.fixture, "a tick there", p.to.tickTo("s", due, next, plain()), true)
		want(p.fixture, "jobs there", p.to.depth(), 1)
	}},
	{"an operator's stop of a schedule moves along", func(p *pair) {
		due := p.scheduled()
		p.pause("s")
		p.move()
		want(p.fixture, "paused", p.to.inForce(broker.ScheduleSetting, "s").Schedule.Paused, true)
		want(p.fixture, "a tick", p.to.tickTo("s", due, due.Add(time.Minute)), false)
	}},
	{"settings arrive in both layers, with owners and revisions", func(p *pair) {
		p.declare("app", everyKind()...)
		op := weight("acme", 9)
		p.set(op, rated("extra", broker.PerQueue, 1, time.Hour, 1, "z"))
		before := settingsText(p.settings(queue))
		p.move()
		if now := settingsText(p.to.settings(queue)); now != before {
			p.Errorf("settings are\n%s\nwere\n%s", now, before)
		}
		p.to.clear(op)
		want(p.fixture, "declared", p.to.inForce(broker.WeightSetting, "acme").Weight, 7)
		p.to.declare("app")
		want(p.fixture, "settings once the owner declares none", len(p.to.settings(queue)), 1)
	}},
	{"what is set there already stays", func(p *pair) {
		due := p.scheduled()
		p.declare("app", weight("a", 2), weight("b", 3))
		p.set(weight("a", 4))
		p.to.declare("app", weight("a", 5), schedule("s", "* * * * *"))
		p.to.set(weight("b", 6))
		p.move()
		a := p.to.inForce(broker.WeightSetting, "a")
		want(p.fixture, "a", fmt.Sprint(a.Weight, a.Declared.Weight), "4 5")
		b := p.to.inForce(broker.WeightSetting, "b")
		want(p.fixture, "b", fmt.Sprint(b.Weight, b.Declared.Weight), "6 3")
		p.to.wantCursor("the cursor comes along", due)
	}},
	{"an older start does not declare there either", func(p *pair) {
		first, second := broker.NewID(), broker.NewID()
		p.must("declare", p.change(broker.Change{Declare: true, Owner: "app", Start: second, Set: []broker.Setting{weight("a", 2)}}))
		p.advance(time.Second)
		p.move()
		c := broker.Change{Declare: true, Owner: "app", Start: first, Age: time.Hour, Set: []broker.Setting{weight("a", 1)}}
		p.wantErr("declare", p.to.change(c), broker.ErrConflict)
	}},
	{"limits hold over the move", func(p *pair) {
		p.set(rated("r", broker.PerQueue, 2, time.Hour, 2), running("n", broker.PerQueue, 1, "n"))
		p.addMany(6)
		p.add(queue, with(func(n *broker.NewJob) { n.Task = "n" }), with(func(n *broker.NewJob) { n.Task = "n" }))
		for _, l := range p.all(3) {
			p.end(l, broker.Ack)
		}
		p.move()
		exactly(p.fixture, "leases there", p.to.hold(10), 1) // of n; the rate starts empty: nobody knows there what it let through
		p.to.pass(30 * time.Minute)
		exactly(p.fixture, "leases half an hour later", p.to.hold(10), 1)
	}},
	{"a capacity is not asked by what arrives", func(p *pair) {
		p.addMany(3)
		p.to.set(capacity("", broker.Capacity{Jobs: 1}))
		p.move()
		want(p.fixture, "jobs there", p.to.depth(), 3)
		p.to.wantFull("one more", "", plain())
	}},
}
