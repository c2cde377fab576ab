package filebroker

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

// Configure is Broker.Configure.
func (b *handle) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	if err := change.Validate(); err != nil {
		return err
	}
	names := len(change.Clear) + len(change.Undeclare) + len(change.Pause) + len(change.Resume)
	o := &op{size: change.Size() + recordBytes*(4+names) + b.answerBytes(0), class: journal.Settle}
	asked := b.sys.Monotonic()
	o.decide = func(now jobstate.Now) {
		change.Age += b.sys.Monotonic() - asked
		o.err = b.s.ConfigureOnce(&b.w, now, b.callID(c), queue, &change)
	}
	return b.do(ctx, o)
}

// Settings is Broker.Settings.
func (b *handle) Settings(ctx context.Context, queue string) (all []broker.QueueSetting, err error) {
	err = b.look(ctx, func(jobstate.Now) { all = b.s.Settings(queue) })
	return all, err
}

// Tick is Broker.Tick.
func (b *handle) Tick(ctx context.Context, c broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	size := 2*recordBytes + b.answerBytes(0)
	for i := range t.Jobs {
		size += t.Jobs[i].Size() + recordBytes
	}
	o := &op{size: size, class: journal.Settle}
	o.decide = func(at jobstate.Now) {
		now = time.Unix(0, at.Wall).UTC()
		won, o.err = b.s.TickOnce(&b.w, at, b.callID(c), &t)
	}
	if err := b.do(ctx, o); err != nil {
		return false, now, err
	}
	return won, now, nil
}
