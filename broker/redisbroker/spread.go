package redisbroker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
)

// Spread says over how many parts a queue is spread.
type Spread struct {
	Queue string `json:"queue"`
	Parts int    `json:"parts"`
}

// spreadMark is what stands where a queue would be that is spread.
type spreadMark struct {
	n  int    // of parts; 0: it is not spread
	no uint64 // which spreading it is: each that follows has a larger one
}

// What lua/spread.lua does, and why not.
const (
	readMark = 1 + iota
	setSpread
	openPart
	closePart
	closeFirst
	renewMark
)

var whyNotSpread = [...]string{
	"", "it has jobs: it has to be empty, without dead letters and finished jobs that are kept",
	"follow-ups of its jobs to other queues are not delivered yet: try again",
	"keys of its jobs are still held", "it has limits, which need one place", "it has a capacity, which needs one place",
	"it moves, or has moved, to or from another broker", "its settings were changed meanwhile: try again",
	"somebody else changed that, or used it, meanwhile",
}

// spreading makes a step of lua/spread.lua.
func (b *Broker) spreading(ctx context.Context, what byte, place string, m spreadMark, revision uint64) (why int, is spreadMark, err error) {
	p := newPacker(broker.ID{}).u8(what).u8(byte(m.n)).u48(m.no).u48(revision)
	u, err := b.call(ctx, b.s.spread, place, p)
	if err != nil {
		return 0, is, err
	}
	why = min(int(u.u8()), len(whyNotSpread)-1)
	return why, spreadMark{int(u.u8()), u.uint(6)}, u.err
}

// mark reads over how many parts a queue is spread.
func (b *Broker) mark(ctx context.Context, queue string) (spreadMark, error) {
	_, is, err := b.spreading(ctx, readMark, queue, spreadMark{}, 0)
	return is, err
}

// SetSpread spreads a queue over parts (2 to MaxSpread), each of which is in a slot
// of its own: of a cluster whose nodes share the slots evenly each node gets as many.
// The queue need not exist yet; it has no jobs, not even finished ones. What that
// changes for its jobs is said in the package's documentation. It is kept in the
// store, and every client finds it without being told.
//
// Errors: ErrInvalid; ErrConflict when the queue is spread over another number, or
// has what cannot be spread: jobs, limits, capacities, schedules whose jobs have a
// key or are ordered. Again with the same number it is no error, and finishes what
// was begun.
func (b *Broker) SetSpread(ctx context.Context, queue string, parts int) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if parts < leastParts || parts > MaxSpread {
		return fmt.Errorf("%w: %d parts, allowed are %d to %d", broker.ErrInvalid, parts, leastParts, MaxSpread)
	}
	if err := b.alive(ctx); err != nil {
		return err
	}
	if err := b.ensure(ctx, queue); err != nil && !moved(err) {
		return err
	}
	is, err := b.mark(ctx, queue)
	if err == nil && is.n == 0 {
		is, err = b.beginSpread(ctx, queue, parts)
	}
	if err != nil {
		return err
	}
	b.spread.note(queue, is.n)
	if is.n != parts {
		return fmt.Errorf("%w: queue %s is spread over %d parts already: spool spread clear comes first", broker.ErrConflict, queue, is.n)
	}
	for _, part := range partNames(queue, parts) {
		b.forget(part)
		if err := b.ensure(ctx, part); err != nil {
			return err
		}
	}
	return b.copySettings(ctx, queue)
}

// beginSpread spreads a queue that is not. Its parts are registered first, so that
// nobody overlooks them.
func (b *Broker) beginSpread(ctx context.Context, queue string, parts int) (is spreadMark, err error) {
	s, err := b.readSettings(ctx, queue)
	if err != nil {
		return is, err
	}
	if s == nil {
		return is, errNoQueue
	}
	for t := range s.inForce() {
		if err := spreadSetting(queue, t); err != nil {
			return is, fmt.Errorf("%w: %w", broker.ErrConflict, err)
		}
	}
	names := partNames(queue, parts)
	for _, part := range names {
		if _, err := b.ask(ctx, addQueue, part, nil, 0); err != nil {
			return is, err
		}
	}
	why, is, err := b.spreading(ctx, setSpread, queue, spreadMark{n: parts}, s.seen)
	if err != nil {
		return is, err
	}
	if why > 0 && is.n == 0 {
		return is, errors.Join(fmt.Errorf("%w: queue %s cannot be spread: %s", broker.ErrConflict, queue, whyNotSpread[why]), b.dropParts(ctx, names))
	}
	return is, nil
}

// ClearSpread makes a queue one that is not spread. It has no jobs, not even
// finished ones. One that is not spread is no error.
//
// Errors: ErrConflict when it has jobs, or is used meanwhile: it stays spread then.
func (b *Broker) ClearSpread(ctx context.Context, queue string) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if err := b.alive(ctx); err != nil {
		return err
	}
	is, err := b.mark(ctx, queue)
	if err != nil || is.n == 0 {
		b.spread.note(queue, 0)
		return err
	}
	names := partNames(queue, is.n)
	for i := len(names) - 1; i >= 0; i-- {
		what := byte(closePart)
		if i == 0 {
			what = closeFirst
		}
		why, _, err := b.spreading(ctx, what, names[i], is, 0)
		if err == nil && why > 0 {
			err = fmt.Errorf("%w: queue %s stays spread: %s", broker.ErrConflict, queue, whyNotSpread[why])
		}
		if err != nil {
			return errors.Join(err, b.reopen(ctx, queue, is, names))
		}
		b.forget(names[i])
	}
	b.spread.note(queue, 0)
	return b.dropParts(ctx, names)
}

// reopen takes parts into use again that were closed.
func (b *Broker) reopen(ctx context.Context, queue string, was spreadMark, names []string) error {
	if _, is, err := b.spreading(ctx, renewMark, queue, was, 0); err != nil || is.n != was.n {
		return err
	}
	for _, part := range names {
		b.forget(part)
		if err := b.ensure(ctx, part); err != nil && !moved(err) {
			return err
		}
	}
	return nil
}

// dropParts takes parts off the registry.
func (b *Broker) dropParts(ctx context.Context, names []string) (err error) {
	for _, part := range names {
		_, e := b.ask(ctx, dropPart, part, nil, 0)
		err = errors.Join(err, e)
	}
	b.outdate()
	return err
}

// Spreads lists the queues that are spread, sorted; queue "" means all.
func (b *Broker) Spreads(ctx context.Context, queue string) (all []Spread, err error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	queues, err := b.only(ctx, queue)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if broker.ValidName(q) != nil {
			continue
		}
		is, err := b.mark(ctx, q)
		if err != nil {
			return nil, err
		}
		if b.spread.note(q, is.n); is.n > 0 {
			all = append(all, Spread{q, is.n})
		}
	}
	return all, nil
}

// open opens a part, if its queue is spread over so many: it is called before the
// part is used.
func (b *Broker) open(ctx context.Context, part string) error {
	queue, n, _ := partOf(part)
	for range mostMoves {
		is, err := b.mark(ctx, queue)
		if err != nil {
			return err
		}
		if is.n != n {
			return b.elsewhere(queue, is.n)
		}
		why, _, err := b.spreading(ctx, openPart, part, is, 0)
		if err != nil || why == 0 {
			return err
		}
		// Somebody closes the queue, or died while he did: who uses it goes first.
		if _, _, err := b.spreading(ctx, renewMark, queue, is, 0); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: queue %s is closed again and again", broker.ErrConflict, queue)
}

// forget makes a queue be looked for again before it is used.
func (b *Broker) forget(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, queue)
}

// spreadSetting refuses what a queue that is spread cannot keep.
func spreadSetting(queue string, t *broker.Setting) error {
	what := ""
	switch {
	case t.Kind == broker.LimitSetting:
		what = fmt.Sprintf("limit %.64q needs one place", t.Name)
	case t.Kind == broker.CapacitySetting:
		what = "a capacity needs one place"
	case t.Schedule != nil && (t.Schedule.Job.Key != "" || t.Schedule.Job.Ordered):
		what = fmt.Sprintf("the job of schedule %.64q has a key or is ordered, and schedules tick in one part", t.Name)
	default:
		return nil
	}
	return fmt.Errorf("%w: queue %s cannot be spread and have this: %s", broker.ErrInvalid, queue, what)
}

// copySettings gives all parts of a queue the settings of part 0, but for its
// schedules: those tick there. Each part is read before part 0 is, and written only
// if it is still as it was: so of two who copy the later settings stay.
func (b *Broker) copySettings(ctx context.Context, queue string) error {
	parts := b.spread.now()[queue]
	for i := 1; i < len(parts); i++ {
		for try := 0; ; try++ {
			err := b.copyTo(ctx, parts[0], parts[i])
			if err == nil || errors.Is(err, errNoQueue) {
				break
			}
			if !errors.Is(err, broker.ErrConflict) || try == 20 {
				return err
			}
		}
	}
	return nil
}

func (b *Broker) copyTo(ctx context.Context, first, part string) error {
	has, err := b.readSettings(ctx, part)
	if err != nil {
		return err
	}
	want, err := b.readSettings(ctx, first)
	if err != nil {
		return err
	}
	if has == nil || want == nil {
		return errNoQueue
	}
	next := settings{Revision: want.Revision, Layers: slices.DeleteFunc(slices.Clone(want.Layers), func(l layers) bool {
		return l.inForce().Kind == broker.ScheduleSetting
	})}
	if is, err := json.Marshal(&settings{Revision: has.Revision, Layers: has.Layers}); err != nil {
		return err
	} else if to, err := json.Marshal(&next); err != nil || bytes.Equal(is, to) {
		return err
	}
	p, err := next.pack(newPacker(broker.NewID()), has, &broker.Change{}, nil)
	if err != nil {
		return err
	}
	_, err = b.call(ctx, b.s.configure, part, p)
	return err
}
