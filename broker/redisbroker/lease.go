package redisbroker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

func byName(a, b broker.Worker) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
}

// hold remembers leases that end with this client.
func (b *Broker) hold(leases []broker.Lease, ttl time.Duration) {
	until := time.Now().Add(ttl)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range leases {
		b.held[leases[i].Job.Ref()] = heldLease{leases[i].Token, until}
	}
	if len(b.held) <= 2*b.swept+1000 {
		return
	}
	for ref, l := range b.held { // what somebody else has settled, or nobody
		if time.Since(l.until) > time.Minute {
			delete(b.held, ref)
		}
	}
	b.swept = len(b.held)
}

// giveBack ends the leases that this client holds.
func (b *Broker) giveBack(ctx context.Context) {
	b.mu.Lock()
	refs := slices.SortedFunc(maps.Keys(b.held), func(x, y broker.Ref) int { return cmp.Compare(b.held[x].token, b.held[y].token) })
	by := map[string][]byte{}
	for _, ref := range refs { // in the order of their claims
		by[ref.Queue] = packer(by[ref.Queue]).id(ref.ID).u64(int64(b.held[ref].token))
	}
	clear(b.held)
	b.mu.Unlock()
	const each = 24
	for queue, list := range by {
		for len(list) > 0 {
			part := list[:min(len(list), maxBatch*each)]
			list = list[len(part):]
			p := newPacker(broker.ID{}).u32(len(part) / each)
			if _, err := b.call(ctx, b.s.held, queue, append(p, part...)); err != nil {
				break // else their deadlines end them
			}
		}
	}
}

// Extend implements broker.Broker.
func (b *Broker) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	if r.TTL == 0 {
		r.TTL = broker.DefaultLeaseTTL
	}
	var err error
	switch {
	case r.Worker.ID != "" && r.Leaving:
		err = b.leave(ctx, r.Worker.ID, nil)
	case r.Worker.ID != "":
		err = b.register(ctx, r.Worker, r.TTL)
	}
	if err != nil {
		return nil, err
	}
	leases := r.Leases
	for try := 0; ; try++ {
		r.Leases = b.spread.now().extensions(leases)
		beats, err := b.beats(ctx, &r)
		if !moved(err) || try == mostMoves {
			return beats, err
		}
	}
}

// beats extends leases where they are.
func (b *Broker) beats(ctx context.Context, r *broker.ExtendRequest) ([]broker.Beat, error) {
	beats := make([]broker.Beat, len(r.Leases))
	by := map[string][]int{}
	for i := range r.Leases {
		beats[i].Status = broker.Lost
		by[r.Leases[i].Ref.Queue] = append(by[r.Leases[i].Ref.Queue], i)
	}
	for queue, list := range by {
		for len(list) > 0 {
			part := list[:min(len(list), 2*maxBatch)]
			list = list[len(part):]
			if err := b.beat(ctx, queue, r, part, beats); err != nil {
				return nil, err
			}
		}
	}
	return beats, nil
}

// beat extends leases of one queue.
func (b *Broker) beat(ctx context.Context, queue string, r *broker.ExtendRequest, part []int, beats []broker.Beat) error {
	if !validPlace(queue) {
		return nil // there is no such queue
	}
	var id broker.ID
	if slices.ContainsFunc(part, func(i int) bool { return len(r.Leases[i].Log) > 0 }) {
		id = broker.NewID() // the transport may repeat it, and its lines are added once
	}
	p := newPacker(id).u64(micros(r.TTL)).u32(len(part))
	for _, i := range part {
		x := &r.Leases[i]
		p = p.id(x.Ref.ID).u64(int64(x.Token)).flag(x.Progress != nil || len(x.Log) > 0)
		if x.Progress != nil {
			note := x.Progress.Note[:min(len(x.Progress.Note), broker.MaxNoteBytes)]
			p = p.u8(byte(min(max(x.Progress.Percent, 0), 100))).str(note)
		} else {
			p = p.u8(255).str("")
		}
		lines := x.Log[max(0, len(x.Log)-100):]
		p = p.u32(len(lines))
		for _, line := range lines {
			p = p.text([]byte(line[:min(len(line), 1024)]))
		}
	}
	u, err := b.call(ctx, b.s.extend, queue, p)
	if errors.Is(err, errNoQueue) {
		return nil
	} else if err != nil {
		return err
	}
	until := time.Now().Add(r.TTL)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range part {
		status, at := u.u8(), u.time()
		beats[i] = broker.Beat{Status: [...]broker.BeatStatus{broker.Lost, broker.Held, broker.CancelAsked}[min(status, 2)], ExpiresAt: at}
		x := &r.Leases[i]
		if l, ok := b.held[x.Ref]; ok && l.token == x.Token {
			l.until = until
			b.held[x.Ref] = l
		}
	}
	return u.err
}

// Settle implements broker.Broker.
func (b *Broker) Settle(ctx context.Context, c broker.Call, list []broker.Settlement) ([]broker.Settled, error) {
	if err := checkSettle(list); err != nil {
		return nil, err
	}
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		placed, err := b.spread.now().settlements(list)
		if err != nil {
			return nil, err
		}
		answers, err := b.settleAll(ctx, c, placed)
		if !moved(err) || try == mostMoves {
			return answers, err
		}
	}
}

// settleAll settles leases where they are.
func (b *Broker) settleAll(ctx context.Context, c broker.Call, list []broker.Settlement) ([]broker.Settled, error) {
	answers := make([]broker.Settled, len(list))
	all, ordered := parts(list)
	boxes := make([][]entry, len(all))
	for i, part := range all {
		box, err := b.settle(ctx, c, list, part, answers)
		if err != nil {
			return nil, err
		}
		if boxes[i] = box; ordered {
			b.deliverAll(ctx, part.queue, box)
		}
	}
	for i, part := range all {
		if !ordered {
			b.deliverAll(ctx, part.queue, boxes[i])
		}
	}
	return answers, nil
}

// part is settlements of one queue, by their places in the call.
type part struct {
	queue string
	of    []int
}

// parts cuts a call into those of one queue each, as few as keep what the order
// decides: ordered says that a follow-up goes to a queue of which there is a
// settlement behind it.
func parts(list []broker.Settlement) (all []part, ordered bool) {
	fed := map[string]bool{} // queues that get follow-ups from others
	for i := range list {
		ordered = ordered || fed[list[i].Ref.Queue]
		for k := range list[i].FollowUps {
			if q := list[i].FollowUps[k].Queue; q != list[i].Ref.Queue {
				fed[q] = true
			}
		}
	}
	at := map[string]int{}
	for i := range list {
		q := list[i].Ref.Queue
		k, known := at[q]
		if !known || ordered && k != len(all)-1 {
			k = len(all)
			all = append(all, part{queue: q})
			at[q] = k
		}
		all[k].of = append(all[k].of, i)
	}
	return all, ordered
}

func checkSettle(list []broker.Settlement) error {
	n := len(list)
	for i := range list {
		n += len(list[i].FollowUps)
		if list[i].Delay > broker.MaxDelay {
			return errDelay
		}
	}
	if err := jobstate.CheckSettle(list); err != nil {
		return err
	}
	if n > maxBatch {
		return errMany
	}
	return nil
}
