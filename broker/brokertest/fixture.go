package brokertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// fixture is a case under way: a store, its first client, and short words for
// what cases do. An unexpected error ends the case.
type fixture struct {
	testing.TB
	h   Harness
	ctx context.Context
	log *ledger
	b   broker.Broker // the first client
}

// tick is a span that a case can afford to sleep through.
const tick = 200 * time.Millisecond

// longest is what a case sleeps through when it cannot shift the clock.
const longest = 2 * time.Second

func begin(t testing.TB, h Harness) *fixture {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	f := &fixture{TB: t, h: h, ctx: ctx}
	f.log = newLedger(f)
	f.b = f.open()
	return f
}

// finish checks the invariants.
func (f *fixture) finish() {
	f.Helper()
	b := f.open()
	checkInvariants(f, b)
	if f.h.Check != nil {
		f.h.Check(f.TB)
	}
}

// open opens another client, which is closed at the end of the case.
func (f *fixture) open() broker.Broker {
	f.Helper()
	b := f.log.watch(f.h.Open())
	f.Cleanup(func() {
		if err := b.Close(); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	return b
}

// now is the time on the broker's clock.
func (f *fixture) now() time.Time {
	if f.h.Clock == nil {
		return time.Now()
	}
	return f.h.Clock.Wall()
}

// advance lets d pass, or leaves out the case.
func (f *fixture) advance(d time.Duration) {
	f.Helper()
	switch {
	case f.h.Advance != nil:
		f.h.Advance(d)
	case d > longest:
		f.Skipf("the clock cannot be shifted, and %v is too long to wait for", d)
	default:
		time.Sleep(d)
	}
}

// idle lets the other goroutines come to rest, where something can tell.
func (f *fixture) idle() {
	if f.h.Idle != nil {
		f.h.Idle()
	}
}

// needsTime leaves out the case when the clock stands still while a call waits.
func (f *fixture) needsTime() {
	f.Helper()
	if f.h.Frozen {
		f.Skipf("the clock stands still while a call waits")
	}
}

// near reports whether a time of the broker is the wanted one: to the
// millisecond when the clock is the test's, else roughly.
func (f *fixture) near(got, want time.Time) bool {
	slack := time.Millisecond
	if f.h.Advance == nil {
		slack = longest
	}
	return got.Sub(want).Abs() <= slack
}

// wantTime fails the case unless got is near want.
func (f *fixture) wantTime(what string, got, want time.Time) {
	f.Helper()
	if !f.near(got, want) {
		f.Errorf("%s is %v, want %v (off by %v)", what, got, want, got.Sub(want))
	}
}

// needsShift leaves out the case when the clock cannot be shifted.
func (f *fixture) needsShift() {
	f.Helper()
	if f.h.Advance == nil {
		f.Skipf("the clock cannot be shifted")
	}
}

// must ends the case when a call fails.
func (f *fixture) must(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// wantErr fails the case unless err is the wanted one.
func (f *fixture) wantErr(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// want fails the case, with what was checked, unless got equals want.
func want[V comparable](f *fixture, what string, got, want V) {
	f.Helper()
	if got != want {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// exactly ends the case unless there are n items, and returns them.
func exactly[V any](f *fixture, what string, items []V, n int) []V {
	f.Helper()
	if len(items) != n {
		f.Fatalf("%s: got %d, want %d", what, len(items), n)
	}
	return items
}

// async runs do in a goroutine; the returned function waits for it.
func async(do func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	return func() { <-done }
}
