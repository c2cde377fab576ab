package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spoolq/spool/broker"
)

// WhenFull says what an enqueue does when a queue, or a tenant's part of it, is
// at its capacity. A capacity that drops the oldest never comes to that.
type WhenFull uint8

// The ways to meet a full queue.
const (
	// Reject returns a *FullError, whose RetryAfter says when to try again.
	Reject WhenFull = iota
	// Block tries again until there is room or the context ends; the error is
	// then the context's, and wraps the *FullError. Jobs that are more than the
	// capacity itself never fit in one call: that is refused at once, with a
	// RetryAfter of 0. EnqueueMany puts fewer of them into a call.
	Block
)

// Bounds of a wait for room.
const (
	roomMin = 10 * time.Millisecond
	roomMax = 10 * time.Second
)

// commit is the innermost EnqueueFunc: it waits for room when it is to.
func (c *Client) commit(ctx context.Context, queue string, jobs []broker.NewJob) ([]Enqueued, error) {
	for {
		answers, err := c.offer(ctx, queue, jobs)
		full := fullError(err)
		if full == nil || full.RetryAfter == 0 || c.whenFull == Reject {
			return answers, err
		}
		wait := min(max(full.RetryAfter, roomMin), roomMax)
		if !sleep(ctx, wait-rand.N(wait/4)) {
			return nil, fmt.Errorf("wait for room: %w (%w)", ctx.Err(), err)
		}
	}
}

// offer makes one enqueue, and does not wait.
func (c *Client) offer(ctx context.Context, queue string, jobs []broker.NewJob) (answers []Enqueued, err error) {
	if err := c.recheck(jobs); err != nil {
		return nil, err
	}
	err = c.repeat(ctx, func(call broker.Call) (err error) {
		answers, err = c.broker.Enqueue(ctx, call, queue, jobs)
		return err
	})
	return answers, err
}

func fullError(err error) *FullError {
	var full *FullError
	errors.As(err, &full)
	return full
}
