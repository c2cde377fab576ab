package limit

import (
	"container/list"
	"fmt"
	"math"
	"sync"
	"time"
)

// Limiter is one bucket to use alone, by any number of goroutines of one process.
// What it knows ends with it. It is made by [NewTokenBucket] or
// [NewLeakyBucket], and must not be copied.
type Limiter struct {
	rate      Rate
	clock     Clock
	steady    bool // the clock is package time
	made      time.Time
	count     uint32
	one, room span  // the cost of one unit, and the debt at which one may still go
	most      int64 // the longest wait for a reserved unit, in ns

	mu sync.Mutex
	st State // its instants are nanoseconds since made
	// now is the time that has passed since the limiter was made: the clock's,
	// but it never steps back. Slots are instants of it.
	now     int64
	slots   []slot    // of those in waiters, in order: the first waiter gets the first slot
	waiters list.List // of *waiter, in the order in which they came
}

// slot is a reserved unit: the instant when it may go, and the mark that its
// reservation left.
type slot struct {
	at   int64
	mark mark
}

// mark is the instant when nothing would be owed. It tells whether anything was
// reserved since.
type mark struct {
	at   int64
	part uint32
}

// NewTokenBucket returns a limiter that lets up to burst units go at once, and
// earns them back at the rate. burst 0 means the rate's own. Reservations and
// waits may reach ahead up to ten years. A nil clock is package time. An error is
// returned when the rate or the burst is not valid; it says what is allowed.
func NewTokenBucket(rate Rate, burst int, clock Clock) (*Limiter, error) {
	if burst != 0 {
		rate.Burst = burst
	}
	return newLimiter(rate, clock, int64(MaxPer))
}

// NewLeakyBucket returns a limiter that lets units go one by one, evenly spaced
// (Per ÷ Count apart), whatever the rate's burst. Up to capacity of them wait
// their turn; beyond that the bucket is full, and Wait and Reserve say so at
// once. With a capacity of 0 nobody waits. A nil clock is package time. An error
// is returned when the rate or the capacity is not valid; it says what is
// allowed.
func NewLeakyBucket(rate Rate, capacity int, clock Clock) (*Limiter, error) {
	if capacity < 0 || capacity > MaxCount {
		return nil, fmt.Errorf("leaky bucket: capacity is %d, allowed are 0 to %d", capacity, MaxCount)
	}
	rate.Burst = 1
	l, err := newLimiter(rate, clock, 0)
	if err != nil || capacity == 0 {
		return l, err
	}
	wait := Rate{Count: rate.Count, Per: rate.Per, Burst: capacity}
	if err := wait.Validate(); err != nil {
		return nil, fmt.Errorf("leaky bucket: capacity %d at %v reaches more than 3650 days ahead", capacity, rate)
	}
	l.most = wait.cost(capacity).ceil()
	return l, nil
}

func newLimiter(rate Rate, clock Clock, most int64) (*Limiter, error) {
	if err := rate.Validate(); err != nil {
		return nil, fmt.Errorf("limiter: %w", err)
	}
	l := &Limiter{rate: rate, clock: clock, most: most, count: uint32(rate.Count)}
	if clock == nil {
		l.clock, l.steady = system{}, true
	}
	l.one, l.room = rate.cost(1), rate.cost(rate.burst()-1)
	l.made = l.clock.Now()
	return l, nil
}

// Rate returns the limiter's rate, with its burst.
func (l *Limiter) Rate() Rate { return l.rate }

// Allow reports whether a unit may go now, and if so takes it. It does not wait,
// and allocates nothing.
func (l *Limiter) Allow() bool {
	l.mu.Lock()
	l.readLocked()
	_, ok := l.st.take(l.count, l.one, l.room, 0)
	l.mu.Unlock()
	return ok
}

// AllowN is Allow for n units, all or none. More than the burst never go at once;
// n of 0 takes nothing and is allowed; a negative one panics.
func (l *Limiter) AllowN(n int) bool {
	if n < 0 {
		panic("limit: negative number of units")
	}
	if n > l.rate.burst() {
		return false
	}
	cost, room := l.rate.cost(n), l.rate.cost(l.rate.burst()-n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readLocked()
	_, ok := l.st.take(l.count, cost, room, 0)
	return ok || n == 0
}

// readLocked reads the clock and lets the time since the last reading pass. It
// reads under the lock: two readings in the wrong order would be a step back.
func (l *Limiter) readLocked() {
	var since time.Duration
	if l.steady {
		since = time.Since(l.made)
	} else {
		since = l.clock.Now().Sub(l.made)
	}
	l.now += l.st.pass(int64(since))
}

// reserveLocked takes a unit that may go within at most most nanoseconds, and
// returns how long until then.
func (l *Limiter) reserveLocked(most int64) (s slot, wait int64, ok bool) {
	l.readLocked()
	wait, ok = l.st.take(l.count, l.one, l.room, min(l.most, most))
	return slot{l.now + wait, l.markLocked()}, wait, ok
}

func (l *Limiter) markLocked() mark { return mark{l.now + l.st.Debt, l.st.Part} }

// giveBackLocked undoes a reservation if nothing was reserved since. Otherwise
// the slot is lost: what came after it has been promised its instant.
func (l *Limiter) giveBackLocked(s slot) {
	if s.mark == l.markLocked() {
		l.st.untake(l.count, l.one)
	}
}

// Reservation is a unit taken ahead of its time. Its methods are safe for
// concurrent use.
type Reservation struct {
	l    *Limiter
	slot slot
	ok   bool
	done bool // cancelled; guarded by l.mu
}

// Reserve takes the next unit that is free, now or later, and returns when it may
// go. Who does not use it should cancel it. If too many wait already, the
// reservation is not OK and takes nothing.
func (l *Limiter) Reserve() *Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, _, ok := l.reserveLocked(math.MaxInt64)
	return &Reservation{l: l, slot: s, ok: ok}
}

// OK reports whether there is a unit at all: false if the bucket was full of
// those that wait.
func (r *Reservation) OK() bool { return r.ok }

// Delay returns how long to wait from now until the unit may go: 0 when it may,
// [Never] when the reservation is not OK.
func (r *Reservation) Delay() time.Duration {
	if !r.ok {
		return Never
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.readLocked()
	return time.Duration(max(0, r.slot.at-r.l.now))
}

// Cancel gives the unit back, unless its time has come, in which case it counts
// as used. If somebody reserved a unit after this one, it is lost: they have been
// told when to go. To cancel again does nothing.
func (r *Reservation) Cancel() {
	if !r.ok {
		return
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.readLocked()
	if !r.done && r.slot.at > r.l.now {
		r.l.giveBackLocked(r.slot)
	}
	r.done = true
}
