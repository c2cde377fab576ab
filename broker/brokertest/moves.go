package brokertest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/migrate"
)

// MoveCase is one rule of how a queue moves from one broker to another.
type MoveCase struct {
	Name string // a sentence
	Run  func(t testing.TB, from, to Harness)
}

// MoveCases returns the rules of broker.Mover. Each wants two fresh stores, of
// one broker or of two, whose clocks go together.
func MoveCases() (all []MoveCase) {
	for _, r := range moveRules {
		all = append(all, MoveCase{r.name, func(t testing.TB, from, to Harness) {
			p := &pair{fixture: begin(t, from), to: begin(t, to)}
			r.check(p)
			p.finish()
			p.to.finish()
		}})
	}
	return all
}

// RunMoves runs every case of MoveCases, each as a subtest, in parallel: many wait for
// the time of a run that was killed. from and to are called concurrently.
func RunMoves(t *testing.T, from, to func(t *testing.T) Harness) {
	for _, c := range MoveCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, from(t), to(t))
		})
	}
}

// RunMovesInBubbles is RunMoves with every case in a testing/synctest bubble:
// see RunInBubbles.
func RunMovesInBubbles(t *testing.T, from, to func(t *testing.T) Harness) {
	for _, c := range MoveCases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, bubble(from(t)), bubble(to(t))) })
		})
	}
}

type moveRule struct {
	name  string
	check func(p *pair)
}

// pair is a case about two stores: the fixture's own is the one that a queue
// leaves.
type pair struct {
	*fixture
	to *fixture
}

// mover is the part of a broker that the ledger does not watch.
func mover(b broker.Broker) migrate.Broker {
	if w, ok := b.(*watched); ok {
		b = w.Broker
	}
	return b.(migrate.Broker)
}

// sides are the stores with names.
func (p *pair) sides() (from, to migrate.Side) {
	return migrate.Side{Broker: mover(p.b), Name: "here"}, migrate.Side{Broker: mover(p.to.b), Name: "there"}
}

// driver drives moves in batches of up to size jobs.
func (p *pair) driver(size int) *migrate.Mover {
	from, to := p.sides()
	return &migrate.Mover{From: from, To: to, Max: size}
}

// move moves the usual queue, whole.
func (p *pair) move() migrate.Progress {
	p.Helper()
	done, err := p.driver(3).Queue(p.ctx, queue)
	p.must("move", err)
	return done
}

// moveBack moves it the other way.
func (p *pair) moveBack() {
	p.Helper()
	m := p.driver(3)
	m.From, m.To = m.To, m.From
	_, err := m.Queue(p.ctx, queue)
	p.must("move back", err)
}

// record reads the record of the usual queue's move.
func (f *fixture) record() broker.Move {
	f.Helper()
	all, err := mover(f.b).Moves(f.ctx, queue)
	f.must("moves", err)
	if len(all) == 0 {
		return broker.Move{}
	}
	return exactly(f, "records", all, 1)[0]
}

// wantRecord wants a move in a state, 0 for none.
func (f *fixture) wantRecord(what string, s broker.MoveState) {
	f.Helper()
	want(f, what, f.record().State, s)
}

// began begins a move of the usual queue by hand, and returns its name.
func (p *pair) began() broker.ID {
	p.Helper()
	id := broker.NewID()
	here, err := mover(p.b).BeginMove(p.ctx, broker.NewCall(), broker.MoveBegin{ID: id, Queue: queue, State: broker.Leaving, Peer: "there", Runner: id, TTL: tick})
	p.must("begin here", err)
	_, err = mover(p.to.b).BeginMove(p.ctx, broker.NewCall(), broker.MoveBegin{ID: id, Queue: queue, State: broker.Arriving, Peer: "here", Now: here.Now, First: here.First, Seq: here.Seq})
	p.must("begin there", err)
	return id
}

// batch moves one batch by hand.
func (p *pair) batch(id broker.ID, number uint64, size int) broker.MoveBatch {
	p.Helper()
	b, err := mover(p.b).TakeMoved(p.ctx, broker.NewCall(), broker.MoveTake{ID: id, Queue: queue, Runner: id, Batch: number, Max: size})
	p.must("take", err)
	if b.Number == number {
		_, err = mover(p.to.b).PutMoved(p.ctx, broker.NewCall(), broker.MovePut{ID: id, Queue: queue, Batch: b})
		p.must("put", err)
	}
	return b
}

// errKilled ends the process that drives a move.
var errKilled = errors.New("killed")

// mortal is a broker whose caller is killed at a call of a move: before the
// call is made, or before its answer is there.
type mortal struct {
	migrate.Broker
	calls *int // until it is killed
	made  bool // the call is made all the same
}

// dies counts a call, and makes the last one if that is asked for.
func (m mortal) dies(make func()) bool {
	if *m.calls--; *m.calls > 0 {
		return false
	}
	if *m.calls == 0 && m.made {
		make()
	}
	return true
}

func (m mortal) BeginMove(ctx context.Context, c broker.Call, r broker.MoveBegin) (broker.Move, error) {
	if m.dies(func() { m.Broker.BeginMove(ctx, c, r) }) {
		return broker.Move{}, errKilled
	}
	return m.Broker.BeginMove(ctx, c, r)
}

func (m mortal) TakeMoved(ctx context.Context, c broker.Call, r broker.MoveTake) (broker.MoveBatch, error) {
	if m.dies(func() { m.Broker.TakeMoved(ctx, c, r) }) {
		return broker.MoveBatch{}, errKilled
	}
	return m.Broker.TakeMoved(ctx, c, r)
}

func (m mortal) PutMoved(ctx context.Context, c broker.Call, r broker.MovePut) (broker.MovePutAnswer, error) {
	if m.dies(func() { m.Broker.PutMoved(ctx, c, r) }) {
		return broker.MovePutAnswer{}, errKilled
	}
	return m.Broker.PutMoved(ctx, c, r)
}

func (m mortal) EndMove(ctx context.Context, c broker.Call, r broker.MoveEnd) error {
	if m.dies(func() { m.Broker.EndMove(ctx, c, r) }) {
		return errKilled
	}
	return m.Broker.EndMove(ctx, c, r)
}

// doomed is a driver that is killed at its n-th call.
func (p *pair) doomed(n int, made bool) *migrate.Mover {
	from, to := p.sides()
	from.Broker, to.Broker = mortal{from.Broker, &n, made}, mortal{to.Broker, &n, made}
	return &migrate.Mover{From: from, To: to, Max: 3, TTL: tick}
}

// survivor drives a move to its end that others were killed at.
func (p *pair) survivor(back bool) {
	p.Helper()
	m := p.driver(3)
	if back {
		_, err := m.Back(p.ctx, queue)
		p.must("take back", err)
		return
	}
	_, err := m.Queue(p.ctx, queue)
	p.must("go on", err)
}
