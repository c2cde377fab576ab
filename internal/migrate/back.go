package migrate

import (
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// Back takes back a move of a queue that has not ended: whatever the queue has
// at To, and what was enqueued there meanwhile, goes to From, and the queue
// works there as if it had never left. It can be killed and called again.
//
// Errors: ErrNotFound when there is no such move; ErrConflict when it has ended
// (it can be moved back), or another run of it goes on.
func (m *Mover) Back(ctx context.Context, queue string) (Progress, error) {
	r := run{Mover: m, p: Progress{Queue: queue}, from: m.From, to: m.To}
	over, err := r.turnAround(ctx)
	if err == nil && !over {
		r.from, r.to = m.To, m.From
		r.turn, r.batch = broker.ID{}, 0
		if err = r.begin(ctx); err == nil {
			err = r.drain(ctx)
		}
		if err == nil {
			err = r.end(ctx, true)
		}
	}
	if err != nil {
		err = fmt.Errorf("take queue %s back: %w", queue, err)
	}
	return r.p, err
}

// turnAround makes From the side that the queue arrives at. It is over when
// nothing had left.
func (r *run) turnAround(ctx context.Context) (over bool, err error) {
	from, to, err := r.records(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case from.State == broker.Arriving && to.ID == from.ID, from.State == broker.Arriving && to.ID == from.Turned:
		return false, nil // it was turned before
	case from.State == broker.Arrived && !from.Turned.IsZero() && (to.ID == from.ID || to.State == 0):
		return true, r.forgetBoth(ctx, from, to)
	case from.State == broker.Left || from.State == broker.Arrived && to.ID == from.ID:
		return false, fmt.Errorf("%w: that move has ended: a new one can go back", broker.ErrConflict)
	case from.State != broker.Leaving:
		return false, fmt.Errorf("%w: no move of it to %s is under way", broker.ErrNotFound, r.to.Name)
	case to.ID != from.ID && from.Batch > 0:
		return false, fmt.Errorf("%w: it moves to %s, and %s knows nothing of that", broker.ErrConflict, from.Peer, r.to.Name)
	}
	r.id = from.ID
	here, err := r.leave(ctx, true)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.from.Name, err)
	}
	if here.Batch == 0 {
		return true, r.forgetBoth(ctx, here, to)
	}
	if err := r.resume(ctx, here, to); err != nil {
		return false, err
	}
	return false, r.turnFrom(ctx, to)
}

// forgetBoth drops the records of a move that has come back, or never left.
func (r *run) forgetBoth(ctx context.Context, from, to broker.Move) error {
	r.id = from.ID
	if to.ID == r.id {
		if err := r.forget(ctx, r.to, to.Batch); err != nil {
			return err
		}
	}
	return r.forget(ctx, r.from, from.Batch)
}

// turnFrom lets the queue arrive where it left.
func (r *run) turnFrom(ctx context.Context, to broker.Move) error {
	to, err := r.onClock(ctx, r.to, to)
	if err != nil {
		return err
	}
	b := broker.MoveBegin{
		ID: broker.NewID(), Queue: r.p.Queue, State: broker.Arriving, Peer: r.to.Name,
		Turn: r.id, TurnBatch: r.batch, Now: to.Now, First: to.First, Seq: to.Seq,
	}
	_, err = repeat(ctx, func(c broker.Call) (broker.Move, error) { return r.from.Broker.BeginMove(ctx, c, b) })
	if err != nil {
		return fmt.Errorf("%s: %w", r.from.Name, err)
	}
	return nil
}
