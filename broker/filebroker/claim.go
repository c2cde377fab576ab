package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/notify"
	"github.com/spoolq/spool/internal/rare"
)

// slowPoll is how often a waiting claim looks although nobody woke it, give or
// take a half: a wake-up is only a hint.
const slowPoll = 3 * time.Second

// Claim is Broker.Claim.
func (b *handle) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	if err := jobstate.CheckClaim(&r); err != nil {
		return broker.Claimed{}, err
	}
	deadline := time.Now().Add(r.Wait)
	for {
		wait := time.Until(deadline)
		got, idle, err := b.claimOnce(ctx, b.callID(c), &r, wait > 0)
		if err != nil || len(got.Leases) > 0 {
			return got, err
		}
		if idle == nil {
			if got.More && wait > 0 && ctx.Err() == nil {
				continue // it met only jobs that a limit holds back, and did not get through them
			}
			return got, nil
		}
		b.wait(ctx, idle, min(wait, slowPoll/2+rand.N(slowPoll)))
	}
}

// idleClaim is a claim that found nothing and waits.
type idleClaim struct {
	*notify.Claim
	since time.Duration // when it found nothing, on Monotonic
	due   time.Duration // how long from then until a job is due or a rate allows one; 0: none is known
	lease time.Duration // how long until some lease ends; 0: none is held
}

// wait waits until there may be something to take, for most at most.
func (b *handle) wait(ctx context.Context, c *idleClaim, most time.Duration) {
	if c.lease > 0 {
		most = min(most, c.lease+1) // its job may be for us
	}
	var over <-chan time.Time
	var stop func()
	if c.due > 0 && c.due < most {
		over, stop = b.alarm.at(b, c.since+c.due)
	} else {
		timer := time.NewTimer(most)
		over, stop = timer.C, func() { timer.Stop() }
	}
	c.Wait(ctx, b.closed, over)
	stop()
	b.awake(c)
}

// awake ends the registration of a claim as idle.
func (b *handle) awake(c *idleClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hub.Done(c.Claim)
}

// claimOnce tries once. When there is nothing to take, nothing more to look at
// and the caller will wait, it is registered as idle in the same commit.
func (b *handle) claimOnce(ctx context.Context, id broker.ID, r *broker.ClaimRequest, wait bool) (got broker.Claimed, idle *idleClaim, err error) {
	member := b.member.name
	if r.Remote {
		member = ""
	}
	got.Asked = time.Now()
	var tickets []jobstate.Ticket
	o := &op{size: 64 + 32*r.Max + b.answerBytes(r.Max), class: journal.Settle, claims: true, free: true}
	o.decide = func(now jobstate.Now) {
		var again bool
		tickets, got.More, again, o.err = b.s.ClaimOnce(&b.w, now, id, r, member)
		got.NextDue = b.s.NextDueAny(now, r.Queues)
		if len(tickets) == 0 && !got.More && !again && o.err == nil && wait {
			idle = &idleClaim{Claim: b.hub.Idle(r.Queues, r.Tasks), since: time.Duration(now.Steady - b.s.Epoch().Offset), due: got.NextDue}
			b.setIdle(idleOthers | idleWorkers)
			if at := b.s.Due(now); at > 0 {
				idle.lease = max(time.Duration(at-now.Steady), 1)
			}
		}
	}
	if err := b.do(ctx, o); err != nil {
		if idle != nil {
			b.awake(idle)
		}
		return broker.Claimed{}, nil, err
	}
	got.Leases = make([]broker.Lease, 0, len(tickets))
	err = b.hand(&got, tickets)
	return got, idle, err
}

// hand fills in what the state does not hold. A job whose payload is damaged
// is made dead and not handed out; one that cannot be read now is given back.
func (b *handle) hand(got *broker.Claimed, tickets []jobstate.Ticket) error {
	read := b.reader(tickets)
	var unread []broker.Settlement
	var failed error
	for i := range tickets {
		t := &tickets[i]
		err := t.Fill(read)
		if errors.Is(err, fs.ErrNotExist) {
			rare.Reached(rare.PayloadMoved)
			err = b.refill(t)
		}
		switch {
		case errors.Is(err, errDamaged):
			rare.Reached(rare.PayloadDamaged)
			b.slg.Error("a payload is damaged; its job is dead now", "queue", t.Job.Queue, "id", t.Job.ID, "error", err)
			if err := b.do(noContext, &op{size: recordBytes, class: journal.Settle, decide: func(jobstate.Now) {
				b.s.Damaged(&b.w, t.Job.Ref(), t.Job.Token)
			}}); err != nil {
				return err
			}
			continue
		case errors.Is(err, broker.ErrNotFound):
			continue // its lease ended, and another has acked it since
		case err != nil:
			rare.Reached(rare.PayloadUnread)
			unread, failed = append(unread, broker.Settlement{Ref: t.Job.Ref(), Token: t.Job.Token, Kind: broker.Release}), err
			continue
		}
		got.Leases = append(got.Leases, broker.Lease{Job: t.Job, Token: t.Job.Token, ExpiresAt: t.Job.LeaseExpiresAt})
	}
	if failed == nil {
		return nil
	}
	if _, err := b.Settle(noContext, broker.Call{}, unread); err != nil || len(got.Leases) == 0 {
		return errors.Join(public(failed), err)
	}
	b.slg.Error("jobs were given back because their payloads could not be read", "jobs", len(unread), "error", failed)
	return nil
}

// refill reads a job again whose bytes were moved by a compaction. Its error
// wraps ErrNotFound when they were dropped with the job, errDamaged when no
// compaction did away with their file.
func (b *handle) refill(t *jobstate.Ticket) error {
	for loaded := false; ; loaded = true {
		b.mu.Lock()
		if loaded { // it was moved more than once since this handle looked
			b.broken = b.reload()
		} else {
			b.readForwardLocked()
		}
		generation := b.log.Current().Generation
		fresh := b.loadedIn == generation
		err := b.check()
		again, ok := b.s.Get(b.now(), t.Job.Ref())
		b.mu.Unlock()
		if err == nil && !ok {
			err = broker.ErrNotFound
		}
		if err != nil {
			return err
		}
		t.Body, t.Err, t.Result = again.Body, again.Err, again.Result
		switch err = t.Fill(b.read); {
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case fresh && !b.log.GenerationChanged() && b.log.Current().Generation == generation:
			rare.Reached(rare.PayloadLost)
			return fmt.Errorf("%w: %w", errDamaged, err)
		case loaded:
			return err // compactions go on meanwhile
		}
	}
}

// errDamaged says that stored bytes are lost: nothing that is done again brings
// them back.
var errDamaged = errors.New("stored bytes are not what was written")

// read returns stored bytes, checked.
func (b *handle) read(l jobstate.Loc) ([]byte, error) {
	l = b.where(l)
	if p := b.ahead.read(l); p != nil && jobstate.Checksum(p) == l.Sum {
		return p, nil
	}
	p := make([]byte, l.Len)
	err := b.log.ReadAt(journal.FileID(l.File), p, int64(l.Off))
	if errors.Is(err, journal.ErrCorrupt) {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	if jobstate.Checksum(p) != l.Sum {
		return nil, errDamaged
	}
	return p, nil
}

// maxSpan bounds what is read at once for several jobs.
const maxSpan = 256 << 10

// reader returns a read function that fetches neighbouring payloads of
// tickets in one go: claims take jobs in the order in which they were written.
func (b *handle) reader(tickets []jobstate.Ticket) func(jobstate.Loc) ([]byte, error) {
	if len(tickets) < 2 {
		return b.read
	}
	for i := range tickets {
		tickets[i].Body = b.where(tickets[i].Body)
	}
	var span []byte
	var at jobstate.Loc // what span holds
	next := 0
	return func(l jobstate.Loc) ([]byte, error) {
		for next < len(tickets) && tickets[next].Body != l {
			next++
		}
		inside := l.File == at.File && l.Off >= at.Off && l.Off+l.Len <= at.Off+at.Len
		if !inside {
			at = l
			for k := next + 1; k < len(tickets); k++ {
				n := tickets[k].Body
				if n.File != l.File || n.Off < at.Off+at.Len || n.Off+n.Len-l.Off > maxSpan || n.Off-(at.Off+at.Len) > 4096 {
					break
				}
				at.Len = n.Off + n.Len - l.Off
			}
			span = make([]byte, at.Len)
			if err := b.log.ReadAt(journal.FileID(at.File), span, int64(at.Off)); err != nil {
				at = jobstate.Loc{}
				return b.read(l)
			}
		}
		p := slices.Clip(span[l.Off-at.Off : l.Off-at.Off+l.Len])
		if jobstate.Checksum(p) != l.Sum {
			return nil, errDamaged
		}
		return p, nil
	}
}
