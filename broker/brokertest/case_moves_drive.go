package brokertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// moveDriveRules are about who drives a move.
var moveDriveRules = []moveRule{
	{"a driver that is killed at any call is followed by one that goes on", func(p *pair) {
		p.kills(func(n int, made bool) {
			_, err := p.doomed(n, made).Queue(p.ctx, queue)
			p.wantKilled(err)
		}, false)
	}},
	{"a move is taken back from any place", func(p *pair) {
		p.kills(func(n int, made bool) {
			_, err := p.doomed(n, made).Queue(p.ctx, queue)
			p.wantKilled(err)
		}, true)
	}},
	{"and who takes it back is killed at any call", func(p *pair) {
		p.kills(func(n int, made bool) {
			_, err := p.doomed(9, true).Queue(p.ctx, queue)
			p.wantKilled(err)
			p.advance(tick)
			_, err = p.doomed(n, made).Back(p.ctx, queue)
			p.wantKilled(err)
		}, true)
	}},
	{"times are as they were when a move is taken back whose last run had to be waited for", func(p *pair) {
		ref := p.addOne(with(func(n *broker.NewJob) { n.Delay = time.Hour }))
		before := p.get(ref).RunAt
		_, err := p.doomed(5, false).Queue(p.ctx, queue) // the job is there
		p.wantKilled(err)
		_, err = p.driver(3).Back(p.ctx, queue)
		p.must("take back", err)
		p.wantTime("when the job is due", p.get(ref).RunAt, before)
	}},
	{"two runs of one move: the second is refused, and waits for one that is gone", func(p *pair) {
		p.addMany(5)
		l := p.one()
		id := p.began()
		_, err := mover(p.b).BeginMove(p.ctx, broker.NewCall(), broker.MoveBegin{ID: id, Queue: queue, State: broker.Leaving, Peer: "there", Runner: broker.NewID()})
		p.wantErr("begin", err, broker.ErrConflict)
		_, err = mover(p.b).TakeMoved(p.ctx, broker.NewCall(), broker.MoveTake{ID: id, Queue: queue, Runner: broker.NewID(), Batch: 1})
		p.wantErr("take", err, broker.ErrConflict)
		p.end(l, broker.Ack)
		start := p.now()
		p.survive(id)
		if waited := p.now().Sub(start); waited < tick/2 {
			p.Errorf("waited %v for a run that may live", waited)
		}
	}},
	{"another move of a queue that moves is refused", func(p *pair) {
		p.addMany(1)
		p.began()
		begin := func(f *fixture, s broker.MoveState) {
			p.Helper()
			b := broker.MoveBegin{ID: broker.NewID(), Queue: queue, State: s, Peer: "elsewhere", Runner: broker.NewID(), Now: p.now()}
			_, err := mover(f.b).BeginMove(p.ctx, broker.NewCall(), b)
			p.wantErr(fmt.Sprintf("begin %v", s), err, broker.ErrConflict)
		}
		for _, f := range []*fixture{p.fixture, p.to} {
			begin(f, broker.Leaving)
			begin(f, broker.Arriving)
		}
		m := p.driver(3)
		m.From, m.To = m.To, m.From
		_, err := m.Queue(p.ctx, queue)
		p.wantErr("the other way", err, broker.ErrConflict)
		p.wantRecord("here", broker.Leaving)
		p.to.wantRecord("there", broker.Arriving)
	}},
	{"a move that is refused there leaves nothing here", func(p *pair) {
		p.addMany(1)
		b := broker.MoveBegin{ID: broker.NewID(), Queue: queue, State: broker.Arriving, Peer: "elsewhere", Now: p.now()}
		_, err := mover(p.to.b).BeginMove(p.ctx, broker.NewCall(), b)
		p.must("another move to there", err)
		_, err = p.driver(3).Queue(p.ctx, queue)
		p.wantErr("move", err, broker.ErrConflict)
		p.wantRecord("here", 0)
		p.one()
	}},
	{"a batch on its way goes nowhere else", func(p *pair) {
		p.addMany(2)
		_, err := p.doomed(4, false).Queue(p.ctx, queue) // taken, not put
		p.wantKilled(err)
		want(p.fixture, "on its way", p.record().OnWay, true)
		other := broker.MoveEnd{ID: p.record().ID, Queue: queue, Batch: 0, Forget: true}
		p.must("a store there that knows nothing", mover(p.to.b).EndMove(p.ctx, broker.NewCall(), other))
		_, err = p.driver(3).Queue(p.ctx, queue)
		p.wantErr("move", err, broker.ErrConflict)
		want(p.fixture, "on its way", p.record().OnWay, true)
	}},
	{"a move without records is not taken back", func(p *pair) {
		_, err := p.driver(3).Back(p.ctx, queue)
		p.wantErr("back", err, broker.ErrNotFound)
		p.addMany(1)
		p.move()
		_, err = p.driver(3).Back(p.ctx, queue)
		p.wantErr("back", err, broker.ErrConflict)
		p.must("forget", mover(p.b).EndMove(p.ctx, broker.NewCall(), broker.MoveEnd{ID: p.record().ID, Queue: queue, Batch: p.record().Batch, Forget: true}))
		p.wantRecord("here", 0)
		p.addMany(1)
		p.one()
	}},
	{"a queue that nobody has moves", func(p *pair) {
		p.move()
		p.wantRecord("here", broker.Left)
		p.to.addMany(1)
		p.to.one()
	}},
}

func (p *pair) wantKilled(err error) {
	p.Helper()
	if err != nil && !errors.Is(err, errKilled) {
		p.Fatalf("killed: %v", err)
	}
}

// kills lets a driver be killed at each of its calls in turn, with another one
// behind it each time, which goes on or takes the move back. Nothing is lost or
// doubled, and everything runs at the end.
func (p *pair) kills(drive func(n int, made bool), back bool) {
	p.Helper()
	all := 0
	for n := 2; n < 32; n++ {
		if p.record().State == broker.Left { // it is the other one's turn
			p.fixture, p.to = p.to, p.fixture
		}
		all += len(p.add(queue, append(batch(2), plain(), keyed(fmt.Sprint("k", n), broker.HoldFor, time.Minute))...))
		p.set(weight("a", n))
		drive(n/2, n%2 == 1)
		p.advance(tick)
		if moves := p.record().State != 0; moves || !back {
			p.survivor(back)
		}
		at, away := p.to, p.fixture
		if back {
			at, away = away, at
		}
		if here, there := len(at.dump(queue).jobs), len(away.dump(queue).jobs); here != all || there != 0 {
			p.Fatalf("killed at call %d (made: %v): %d jobs are at the right side and %d at the other, want %d", n/2, n%2 == 1, here, there, all)
		}
		want(p.fixture, "setting", at.inForce(broker.WeightSetting, "a").Weight, n)
	}
	if p.record().State == broker.Left {
		p.fixture = p.to
	}
	for range 2 { // members, and then their completion jobs
		for _, l := range p.claim(all) {
			p.end(l, broker.Ack)
			all--
		}
	}
	want(p.fixture, "jobs that never ran", all, 0)
}
