package redisbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/spoolq/spool/broker"
)

var (
	errDelay = fmt.Errorf("%w: a settlement's delay is longer than %v", broker.ErrInvalid, broker.MaxDelay)
	errMany  = fmt.Errorf("%w: more than %d settlements and follow-ups in one call", broker.ErrTooLarge, maxBatch)
)

// settle ends leases of one queue. It returns what has to be delivered to others.
func (b *Broker) settle(ctx context.Context, c broker.Call, list []broker.Settlement, from part, answers []broker.Settled) ([]entry, error) {
	queue, part := from.queue, from.of
	id := c.ID
	if !id.IsZero() {
		id[0] ^= byte(part[0]) // it may come to a queue several times
	}
	if !validPlace(queue) {
		return nil, notThere(part, answers)
	}
	p := newPacker(id).u32(len(part))
	for _, i := range part {
		p = p.settlement(queue, &list[i])
	}
	u, err := b.call(ctx, b.s.settle, queue, p)
	if errors.Is(err, errNoQueue) {
		return nil, notThere(part, answers)
	} else if err != nil {
		return nil, err
	}
	var box []entry
	all := len(u.b) == 0 // were acks that took place
	for _, i := range part {
		if all {
			answers[i].State = broker.Done
		} else {
			answers[i], box = u.settled(&list[i], box)
		}
	}
	if u.err != nil {
		return nil, u.err
	}
	b.mu.Lock()
	for _, i := range part {
		if l := b.held[list[i].Ref]; l.token == list[i].Token {
			delete(b.held, list[i].Ref)
		}
	}
	b.mu.Unlock()
	return box, nil
}

// notThere answers for jobs of a queue that does not exist.
func notThere(part []int, answers []broker.Settled) error {
	for _, i := range part {
		answers[i].Err = broker.ErrNotFound
	}
	return nil
}

func (p packer) settlement(queue string, s *broker.Settlement) packer {
	p = p.id(s.Ref.ID).u64(int64(s.Token)).u8(byte(s.Kind)).u64(micros(s.Delay)).flag(s.Result != nil).text(s.Result)
	p = p.text([]byte(broker.CutError(s.Error))).u32(len(s.FollowUps))
	for k := range s.FollowUps {
		f := &s.FollowUps[k]
		p = p.id(broker.NewID())
		if f.Queue == queue {
			p = p.str("").job(&f.Job)
		} else {
			p = p.str(f.Queue).job(&f.Job)
		}
	}
	return p
}

// entry is one of the outbox: a follow-up to another queue.
type entry struct {
	no     []byte // 6 bytes
	call   broker.ID
	queue  string
	packed []byte // the job
	answer *broker.Enqueued
}

func (u *unpacker) settled(s *broker.Settlement, box []entry) (broker.Settled, []entry) {
	code := u.u8()
	a := broker.Settled{State: broker.State(u.u8())}
	switch code {
	case 1:
		a.Err = broker.ErrNotFound
	case 2:
		a.Err = broker.ErrLeaseLost
	}
	n := u.count()
	if n > 0 {
		a.FollowUps = make([]broker.Enqueued, n)
	}
	for k := range n {
		how, id, call, no := u.u8(), u.id(), u.id(), u.take(6)
		a.FollowUps[k] = broker.Enqueued{ID: id, Existing: how == 1 || how == 2, Differs: how == 2}
		if how == 3 && k < len(s.FollowUps) {
			f := &s.FollowUps[k]
			job := f.Job
			job.ID = id
			box = append(box, entry{no, call, f.Queue, packer(nil).job(&job), &a.FollowUps[k]})
		}
	}
	return a, box
}

// deliverAll delivers entries of a queue's outbox. What cannot be delivered now
// stays there for Maintain, and is no error: the settlement took place.
func (b *Broker) deliverAll(ctx context.Context, queue string, box []entry) {
	done := make([]entry, 0, len(box))
	for _, e := range box {
		if err := b.deliver(ctx, &e); err == nil {
			done = append(done, e)
		}
	}
	if len(done) == 0 {
		return
	}
	p := newPacker(broker.ID{}).u32(len(done))
	for _, e := range done {
		p = append(p, e.no...)
	}
	if _, err := b.call(ctx, b.s.outbox, queue, p); err != nil {
		return
	}
	for _, e := range done {
		_, _ = b.call(ctx, b.s.deliver, e.queue, newPacker(e.call).u8(1))
	}
}

// deliver enqueues an entry, if nobody has done it.
func (b *Broker) deliver(ctx context.Context, e *entry) error {
	u, err := b.change(ctx, b.s.deliver, e.queue, append(newPacker(e.call).u8(0), e.packed...))
	for try := 0; moved(err) && try < mostMoves; try++ {
		b.spread.now().redirect(e)
		u, err = b.change(ctx, b.s.deliver, e.queue, append(newPacker(e.call).u8(0), e.packed...))
	}
	if err != nil {
		return err
	}
	if a := u.enqueued(); e.answer != nil {
		*e.answer = a
	}
	return u.err
}
