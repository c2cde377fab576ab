package membroker

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// Configure implements broker.Broker.
func (b *Broker) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) (err error) {
	asked := time.Now()
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer b.mu.Unlock()
	change.Age += time.Since(asked)
	b.commit(func(now jobstate.Now) { err = b.s.ConfigureOnce(&b.w, now, b.callID(c), queue, &change) })
	return err
}

// Settings implements broker.Inspector.
func (b *Broker) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	return b.s.Settings(queue), nil
}

// Tick implements broker.Broker.
func (b *Broker) Tick(ctx context.Context, c broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	if err := b.begin(ctx); err != nil {
		return false, now, err
	}
	defer b.mu.Unlock()
	b.commit(func(at jobstate.Now) {
		now = time.Unix(0, at.Wall).UTC()
		won, err = b.s.TickOnce(&b.w, at, b.callID(c), &t)
	})
	return won, now, err
}
