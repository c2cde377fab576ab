package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// Flags of a claim; see lua/claim.lua.
const (
	claimIdle = 1 << iota // wait as idle when it comes back short
	claimMark             // remember that nothing was there
	claimPast             // a mark that nothing was there is over
)

const (
	// pollEvery is how often a claim looks that waits to be woken: wake-ups are
	// hints, and may be lost.
	pollEvery = 5 * time.Second
	// idleLast is how long a claim is known as idle.
	idleLast = 2 * pollEvery
)

// Claim implements broker.Broker. It takes at most 256 jobs; More says that there
// are others.
func (b *Broker) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	if r.Wait < 0 {
		return broker.Claimed{}, fmt.Errorf("%w: a claim that waits %v", broker.ErrInvalid, r.Wait)
	}
	if err := jobstate.CheckClaim(&r); err != nil {
		return broker.Claimed{}, err
	}
	deadline := time.Now().Add(r.Wait)
	look := claimLook{b: b, call: c, r: &r}
	got, err := look.once(ctx)
	if err == nil && len(got.Leases) == 0 && r.Wait > 0 {
		got, err = look.wait(ctx, deadline)
	}
	for i := range got.Leases {
		got.Leases[i].Job.Queue = queueOf(got.Leases[i].Job.Queue)
	}
	return got, err
}

// claimLook is a claim under way.
type claimLook struct {
	b      *Broker
	call   broker.Call
	r      *broker.ClaimRequest
	looks  int
	moves  int     // how often a queue was found to be in other parts
	waiter *waiter // nil before it waits
}

// wait looks again and again, until there is a job or the time is over.
func (l *claimLook) wait(ctx context.Context, deadline time.Time) (broker.Claimed, error) {
	b := l.b
	l.waiter = b.hub.enter()
	defer b.hub.leave(l.waiter)
	if l.r.Queues == nil { // who hears of new queues reads their list after that
		if err := b.hub.listen(ctx, l.waiter, nil, true); err != nil {
			return broker.Claimed{}, err
		}
	}
	for {
		queues, _, err := l.queues(ctx)
		if err != nil {
			return broker.Claimed{}, err
		}
		places := l.places(queues)
		if err := b.hub.listen(ctx, l.waiter, places, l.r.Queues == nil); err != nil {
			return broker.Claimed{}, err
		}
		l.waiter.hush()
		got := broker.Claimed{Asked: time.Now()}
		err = l.from(ctx, queues, &got)
		l.looks++
		left := time.Until(deadline)
		if err != nil || len(got.Leases) > 0 || left <= 0 {
			if err == nil && (len(got.Leases) == 0 || len(places) > 1) {
				b.hub.withdraw(l.waiter, places)
			}
			return got, err
		}
		if got.More {
			continue // it met only jobs that a limit holds back, and did not get through them
		}
		next := min(left, pollEvery/2+rand.N(pollEvery/2))
		if got.NextDue > 0 {
			next = min(next, got.NextDue)
		}
		if err := l.waiter.wait(ctx, b, next); err != nil {
			b.hub.withdraw(l.waiter, places)
			return broker.Claimed{}, err
		}
	}
}

// queues returns where to look, and whether there may be more: then it is the
// list of a short time ago.
func (l *claimLook) queues(ctx context.Context) (queues []string, old bool, err error) {
	if l.r.Queues != nil {
		return l.r.Queues, false, nil
	}
	if queues := l.b.recent(); queues != nil {
		return queues, true, nil
	}
	queues, err = l.b.queues(ctx)
	return queues, false, err
}

// once looks once, without waiting: where it may not know all queues, in those
// that it did not know, too, unless it has what it wants.
func (l *claimLook) once(ctx context.Context) (broker.Claimed, error) {
	got := broker.Claimed{Asked: time.Now()}
	if err := l.b.alive(ctx); err != nil {
		return got, err
	}
	queues, old, err := l.queues(ctx)
	if err != nil {
		return got, err
	}
	defer func() { l.looks++ }()
	if err := l.from(ctx, queues, &got); err != nil || !old || got.More {
		return got, err
	}
	if len(got.Leases) > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, l.b.hurry(l.r.TTL))
		defer stop()
	}
	all, err := l.b.queues(ctx)
	if err == nil {
		all = slices.DeleteFunc(slices.Clone(all), func(q string) bool { return slices.Contains(queues, q) })
		err = l.from(ctx, all, &got)
	}
	if err != nil && len(got.Leases) > 0 {
		got.More = true
		return got, nil // what was taken is answered
	}
	return got, err
}

// hurryFor is how long a claim with leases of a TTL waits for what another queue
// has. What that gives to it later is nobody's, until its TTL ends.
func hurryFor(ttl time.Duration) time.Duration {
	if ttl == 0 {
		ttl = broker.DefaultLeaseTTL
	}
	return min(ttl/4, time.Second)
}

// from claims from queues in their order, and adds what it takes to got.
func (l *claimLook) from(ctx context.Context, queues []string, got *broker.Claimed) error {
	before := len(got.Leases)
	places := l.places(queues)
	for k := 0; k < len(places); k++ {
		q := places[k]
		if !validPlace(q) {
			continue // there is no such queue
		}
		most, room := min(l.r.Max, maxBatch)-len(got.Leases), broker.MaxCallBytes-bytesOf(got.Leases)
		if most == 0 || room <= 0 {
			got.More = true
			break
		}
		one, err := l.queue(ctx, q, most, room, l.r.Queues == nil || len(places) > 1)
		if errors.Is(err, errNoQueue) {
			continue
		} else if moved(err) {
			if l.moves++; l.moves > mostMoves {
				return err
			}
			for _, p := range l.places([]string{queueOf(q)}) {
				if !slices.Contains(places, p) {
					places = append(places, p)
				}
			}
			continue
		} else if err != nil && len(got.Leases) > 0 {
			got.More = true
			break // what was taken is answered
		} else if err != nil {
			return err
		}
		if len(got.Leases) == 0 && len(one.Leases) > 0 {
			// They run out while the server of the next queue is away.
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, l.b.hurry(l.r.TTL))
			defer stop()
		}
		got.Leases = append(got.Leases, one.Leases...)
		got.More = got.More || one.More
		if one.NextDue > 0 && (got.NextDue == 0 || one.NextDue < got.NextDue) {
			got.NextDue = one.NextDue
		}
	}
	if !l.r.Remote {
		l.b.hold(got.Leases[before:], l.r.TTL)
	}
	return nil
}

// bytesOf is how large the payloads of leases are.
func bytesOf(leases []broker.Lease) (n int) {
	for i := range leases {
		n += len(leases[i].Job.Payload)
	}
	return n
}

// queue claims from one queue.
func (l *claimLook) queue(ctx context.Context, queue string, most, room int, several bool) (got broker.Claimed, err error) {
	var flags byte
	var waiter broker.ID
	if l.waiter != nil {
		flags, waiter = claimIdle, l.waiter.id
	}
	if l.looks > 0 {
		flags |= claimPast
	} else if several {
		flags |= claimMark
	}
	p := newPacker(l.call.ID).u8(flags).u32(most).u32(room).u64(micros(l.r.TTL)).u64(idleLast.Microseconds()).id(waiter).str(l.r.Worker)
	if l.r.Tasks == nil {
		p = p.u16(65535)
	} else {
		p = p.u16(len(l.r.Tasks))
		for _, task := range l.r.Tasks {
			p = p.str(task[:min(len(task), broker.MaxNameBytes)])
		}
	}
	run := l.b.call
	if l.waiter != nil {
		run = l.b.change // it has to know that somebody waits for its first job
	}
	u, err := run(ctx, l.b.s.claim, queue, p)
	if err != nil {
		return got, err
	}
	got.More = u.u8() == 1
	got.NextDue = time.Duration(u.uint(8)) * time.Microsecond
	for range u.count() {
		j := u.job(queue)
		got.Leases = append(got.Leases, broker.Lease{Job: j, Token: j.Token, ExpiresAt: j.LeaseExpiresAt})
	}
	return got, u.err
}
