package limit

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrFull is returned by Wait when as many wait as the bucket's capacity allows.
var ErrFull = errors.New("limit: bucket is full")

// waiter is a goroutine in Wait.
type waiter struct {
	first chan struct{} // receives once, when nobody is before it any more
}

// Wait takes a unit as soon as one may go, in the order in which the callers
// came, and returns nil then. It returns the context's error when ctx ends
// before; its place goes to those behind it, who then all move up. An error that
// wraps [context.DeadlineExceeded] is returned at once when ctx has a deadline
// and the unit may only go after it; [ErrFull] when a leaky bucket is full.
//
// A timer is set for the first in line alone; the others sleep until they are.
func (l *Limiter) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	most := int64(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		most = max(0, int64(deadline.Sub(l.clock.Now())))
	}
	l.mu.Lock()
	s, wait, ok := l.reserveLocked(most)
	switch {
	case !ok && wait > l.most:
		l.mu.Unlock()
		return fmt.Errorf("%w: the next unit is %v ahead", ErrFull, time.Duration(wait))
	case !ok:
		l.mu.Unlock()
		return fmt.Errorf("limit: the next unit is %v ahead: %w", time.Duration(wait), context.DeadlineExceeded)
	case wait == 0:
		l.mu.Unlock()
		return nil
	}
	w := &waiter{first: make(chan struct{}, 1)}
	place := l.waiters.PushBack(w)
	l.slots = append(l.slots, s)
	if l.waiters.Len() == 1 {
		w.first <- struct{}{}
	}
	l.mu.Unlock()
	return l.stand(ctx, place)
}

// stand waits in line, then for the first slot.
func (l *Limiter) stand(ctx context.Context, place *list.Element) error {
	select {
	case <-place.Value.(*waiter).first:
	case <-ctx.Done():
		return l.leave(ctx, place)
	}
	for {
		left := l.goFirst(place)
		if left <= 0 {
			return nil
		}
		fired, stop := l.clock.Timer(left)
		select {
		case <-fired:
		case <-ctx.Done():
			stop()
			return l.leave(ctx, place)
		}
	}
}

// goFirst lets the first in line go if its slot has come, or returns how long it
// has to wait for it.
func (l *Limiter) goFirst(place *list.Element) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readLocked()
	if left := l.slots[0].at - l.now; left > 0 {
		return time.Duration(left)
	}
	l.slots = l.slots[1:]
	l.removeLocked(place)
	return 0
}

// leave takes a waiter out of the line. Those behind it move up by one slot, and
// the last slot is given back.
func (l *Limiter) leave(ctx context.Context, place *list.Element) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.slots) - 1
	l.giveBackLocked(l.slots[last])
	l.slots = l.slots[:last]
	l.removeLocked(place)
	return ctx.Err()
}

// removeLocked takes a waiter out and tells the next one if it is first now.
func (l *Limiter) removeLocked(place *list.Element) {
	next := place.Next()
	wasFirst := place.Prev() == nil
	l.waiters.Remove(place)
	if wasFirst && next != nil {
		next.Value.(*waiter).first <- struct{}{}
	}
}
