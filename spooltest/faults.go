package spooltest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// Call is a kind of call to the store.
type Call string

// The calls that can be made to fail.
const (
	Enqueue   Call = "enqueue"   // follow-ups are part of Settle, those of schedules of Tick
	Claim     Call = "claim"     // those that find nothing are counted, too
	Extend    Call = "extend"    // heartbeats, and the start and end of a worker
	Settle    Call = "settle"    // acks, failures and so on; a worker settles all that has gathered in one call
	Apply     Call = "apply"     // Cancel, Requeue, Delete, Pause, Resume
	Configure Call = "configure" // of settings, by hand or at the start of a worker
	Tick      Call = "tick"      // of schedules; the reading of the clock is one, too
)

// ErrFault is what a call fails with when Fail names no error.
var ErrFault = errors.New("spooltest: the call was made to fail")

// faulty passes calls on to the store, unless they are to fail.
type faulty struct {
	*membroker.Broker
	crashed func() // called once, after the call that is a process's last

	mu   sync.Mutex
	fail map[Call][]*countdown
	die  map[Call]*countdown
}

// countdown is about the n-th call from when it was set.
type countdown struct {
	left int
	err  error
}

// arm adds a failure.
func (f *faulty) arm(call Call, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[call] = append(f.fail[call], &countdown{n, err})
}

// armCrash sets after which call the process dies.
func (f *faulty) armCrash(call Call, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.die[call] = &countdown{left: n}
}

// before returns the error that a call is to fail with.
func (f *faulty) before(call Call) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.fail[call] {
		if c.left--; c.left == 0 && err == nil {
			err = c.err
		}
	}
	return err
}

// after lets the process die when this call, which took place, was to be its
// last: nobody hears its answer.
func (f *faulty) after(call Call, err error) error {
	if err != nil {
		return err
	}
	f.mu.Lock()
	c := f.die[call]
	last := false
	if c != nil {
		c.left--
		last = c.left == 0
	}
	f.mu.Unlock()
	if last {
		f.crashed()
		return broker.ErrClosed
	}
	return nil
}

// through makes a call.
func through[T any](f *faulty, call Call, fn func() (T, error)) (answer T, err error) {
	if err := f.before(call); err != nil {
		return answer, err
	}
	got, err := fn()
	if err := f.after(call, err); err != nil {
		return answer, err
	}
	return got, nil
}

// Enqueue implements broker.Broker.
func (f *faulty) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	return through(f, Enqueue, func() ([]broker.Enqueued, error) { return f.Broker.Enqueue(ctx, c, queue, jobs) })
}

// Claim implements broker.Broker.
func (f *faulty) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	return through(f, Claim, func() (broker.Claimed, error) { return f.Broker.Claim(ctx, c, r) })
}

// Extend implements broker.Broker.
func (f *faulty) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	return through(f, Extend, func() ([]broker.Beat, error) { return f.Broker.Extend(ctx, r) })
}

// Settle implements broker.Broker.
func (f *faulty) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	return through(f, Settle, func() ([]broker.Settled, error) { return f.Broker.Settle(ctx, c, s) })
}

// Apply implements broker.Broker.
func (f *faulty) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	return through(f, Apply, func() (broker.Step, error) { return f.Broker.Apply(ctx, c, cmd) })
}

// Configure implements broker.Broker.
func (f *faulty) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	_, err := through(f, Configure, func() (struct{}, error) { return struct{}{}, f.Broker.Configure(ctx, c, queue, change) })
	return err
}

// Tick implements broker.Broker.
func (f *faulty) Tick(ctx context.Context, c broker.Call, t broker.Tick) (bool, time.Time, error) {
	type answer struct {
		won bool
		now time.Time
	}
	a, err := through(f, Tick, func() (a answer, err error) {
		a.won, a.now, err = f.Broker.Tick(ctx, c, t)
		return a, err
	})
	return a.won, a.now, err
}
