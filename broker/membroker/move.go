package membroker

import (
	"context"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

var _ broker.Mover = (*Broker)(nil)

// Moves implements broker.Mover.
func (b *Broker) Moves(ctx context.Context, queue string) ([]broker.Move, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	return b.s.Moves(b.now(), queue), nil
}

// BeginMove implements broker.Mover.
func (b *Broker) BeginMove(ctx context.Context, _ broker.Call, r broker.MoveBegin) (m broker.Move, err error) {
	if err := r.Validate(); err != nil {
		return m, err
	}
	if err := b.begin(ctx); err != nil {
		return m, err
	}
	defer b.mu.Unlock()
	b.commit(func(now jobstate.Now) { m, err = b.s.BeginMove(&b.w, now, &r) })
	return m, err
}

// TakeMoved implements broker.Mover.
func (b *Broker) TakeMoved(ctx context.Context, _ broker.Call, r broker.MoveTake) (batch broker.MoveBatch, err error) {
	if err := b.begin(ctx); err != nil {
		return batch, err
	}
	defer b.mu.Unlock()
	var out []jobstate.OutJob
	b.commit(func(now jobstate.Now) { batch, out, err = b.s.Take(&b.w, now, &r) })
	for i := range out {
		if _, err := out[i].Fill(b.read, func(error) bool { return false }, batch.Now); err != nil {
			return batch, err
		}
		batch.Jobs = append(batch.Jobs, out[i].Moved)
	}
	return batch, err
}

// PutMoved implements broker.Mover.
func (b *Broker) PutMoved(ctx context.Context, _ broker.Call, r broker.MovePut) (a broker.MovePutAnswer, err error) {
	if err := b.begin(ctx); err != nil {
		return a, err
	}
	defer b.mu.Unlock()
	b.commit(func(now jobstate.Now) { a, err = b.s.Put(&b.w, now, &r) })
	return a, err
}

// EndMove implements broker.Mover.
func (b *Broker) EndMove(ctx context.Context, _ broker.Call, r broker.MoveEnd) (err error) {
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer b.mu.Unlock()
	b.commit(func(jobstate.Now) { err = b.s.EndMove(&b.w, &r) })
	return err
}
