package redisbroker

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/spoolq/spool/broker"
)

// cursorBytes is a schedule's cursor as it is kept: nanoseconds since 1970.
func cursorBytes(at time.Time) (b [8]byte) {
	if !at.IsZero() {
		binary.BigEndian.PutUint64(b[:], uint64(at.UnixNano()))
	}
	return b
}

// Tick implements broker.Broker.
func (b *Broker) Tick(ctx context.Context, c broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	if err := t.Validate(); err != nil {
		return false, now, err
	}
	if err := checkJobs(t.Queue, t.Jobs); err != nil {
		return false, now, err
	}
	if err := b.alive(ctx); err != nil {
		return false, now, err
	}
	for try := 0; ; try++ {
		if parts := b.spread.now()[t.Queue]; parts != nil {
			won, now, err = b.tickFirst(ctx, c, parts, t)
		} else {
			won, now, err = b.tick(ctx, c, t.Queue, &t)
		}
		if !moved(err) || try == mostMoves {
			return won, now, err
		}
	}
}

// tick is Tick for one queue, or part.
func (b *Broker) tick(ctx context.Context, c broker.Call, place string, t *broker.Tick) (won bool, now time.Time, err error) {
	due, next := cursorBytes(t.Due), cursorBytes(t.Next)
	if t.Next.IsZero() {
		next = cursorBytes(broker.MaxTime)
	}
	us := int64(0)
	if !t.Due.IsZero() {
		us = micros(time.Duration(t.Due.UnixNano()))
	}
	p := append(newPacker(c.ID).str(t.Schedule), due[:]...).u64(us)
	p = append(p, next[:]...).u32(len(t.Jobs))
	for i := range t.Jobs {
		p = p.job(&t.Jobs[i])
	}
	u, err := b.change(ctx, b.s.tick, place, p)
	if err != nil {
		return false, now, err
	}
	won = u.u8() == 1
	return won, u.time(), u.err
}
