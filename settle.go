package spool

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// Ack settles the lease: the job is done. result is kept with the job; nil
// means the one of SetResult, if any. Follow-ups are enqueued in the same
// commit. Like the other settlements it is durable when it returns nil,
// returns ErrLeaseLost when the token is stale, and may be repeated.
func (l *Lease) Ack(ctx context.Context, result []byte) error {
	if err := l.checkResult(result); err != nil {
		return err
	}
	l.mu.Lock()
	if result == nil {
		result = l.result
	}
	s := broker.Settlement{Kind: broker.Ack, Result: result, FollowUps: l.followUps}
	l.mu.Unlock()
	return l.settle(ctx, s)
}

// Nack settles the lease as a failed attempt: the job is due again after delay,
// or dead when its attempts are used up. cause may be nil.
func (l *Lease) Nack(ctx context.Context, delay time.Duration, cause error) error {
	return l.settle(ctx, broker.Settlement{Kind: broker.Nack, Delay: delay, Error: errorText(cause)})
}

// Snooze settles the lease: the job is due again after delay, and the attempt
// does not count.
func (l *Lease) Snooze(ctx context.Context, delay time.Duration) error {
	return l.settle(ctx, broker.Settlement{Kind: broker.Snooze, Delay: delay})
}

// Release settles the lease: the job goes back to its old place, and the
// attempt does not count.
func (l *Lease) Release(ctx context.Context) error {
	return l.settle(ctx, broker.Settlement{Kind: broker.Release})
}

// Bury settles the lease: the job is a dead letter at once. cause may be nil.
func (l *Lease) Bury(ctx context.Context, cause error) error {
	return l.settle(ctx, broker.Settlement{Kind: broker.Bury, Error: errorText(cause)})
}

// Cancel settles the lease: the job is cancelled. cause may be nil.
func (l *Lease) Cancel(ctx context.Context, cause error) error {
	return l.settle(ctx, broker.Settlement{Kind: broker.Cancel, Error: errorText(cause)})
}

// SetResult sets the result that the job's ack will carry; the lease owns b
// from then on. ErrTooLarge is returned when b is over the client's PayloadMax,
// ErrLeaseLost when the job is settled already.
func (l *Lease) SetResult(b []byte) error {
	if err := l.checkResult(b); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != leaseOpen {
		return fmt.Errorf("set result of job %s: %w: it is settled already", l.Job.ID, ErrLeaseLost)
	}
	l.result = b
	return nil
}

func (l *Lease) checkResult(b []byte) error {
	if l.client != nil && len(b) > l.client.payloadMax {
		return fmt.Errorf("%w: result has %d bytes, the limit is %d", ErrTooLarge, len(b), l.client.payloadMax)
	}
	return nil
}

// settle makes the caller's own settlement. While it is on its way and after it
// succeeded, a worker settles nothing.
func (l *Lease) settle(ctx context.Context, s broker.Settlement) error {
	if err := l.attached(); err != nil {
		return fmt.Errorf("%s: %w", s.Kind, err)
	}
	if s.Delay < 0 || s.Delay > broker.MaxDelay {
		return fmt.Errorf("%s job %s: %w: delay %v", s.Kind, l.Job.ID, ErrInvalid, s.Delay)
	}
	l.mu.Lock()
	if l.state == leaseEnded || l.state == leaseSettling {
		l.mu.Unlock()
		rare.Reached(rare.SettlementBusy)
		return fmt.Errorf("%s job %s: %w: another settlement came first", s.Kind, l.Job.ID, ErrLeaseLost)
	}
	before := l.state
	l.state = leaseSettling
	l.mu.Unlock()

	s.Ref, s.Token = l.Job.Ref(), l.Token
	l.sendNotes(ctx)
	err := l.client.settle(ctx, s)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.state = before
		return fmt.Errorf("%s job %s: %w", s.Kind, l.Job.ID, err)
	}
	l.state = leaseSettled
	return nil
}

// settle makes one settlement.
func (c *Client) settle(ctx context.Context, s broker.Settlement) error {
	var answers []broker.Settled
	err := c.repeat(ctx, func(call broker.Call) (err error) {
		answers, err = c.broker.Settle(ctx, call, []broker.Settlement{s})
		return err
	})
	if err != nil {
		return err
	}
	if len(answers) != 1 {
		return fmt.Errorf("%d answers came back for one settlement", len(answers))
	}
	return answers[0].Err
}

// errorText returns the text to keep of err, also when its Error method panics.
func errorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if r := recover(); r != nil {
			text = broker.CutError(fmt.Sprintf("%T, whose Error method panicked: %v", err, r))
		}
	}()
	return broker.CutError(err.Error())
}
