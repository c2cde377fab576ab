package filebroker

import (
	"errors"
	"sync"
	"time"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// alarm wakes claims when something is due for them. A rate without a burst
// loses what a claim is late by, so a timer of package time does not do where
// the system has an alarm clock. One is made when it is first needed, and serves
// the whole handle.
type alarm struct {
	mu    sync.Mutex
	clock vfs.Alarm // nil: not made yet
	off   bool      // there is none, or none any more
	set   time.Duration
	waits map[chan time.Time]time.Duration // none ends before set
}

// at returns a channel that gets a value at a moment of Monotonic, or earlier
// when the clock fails, and what gives it back.
func (a *alarm) at(b *handle, at time.Duration) (c <-chan time.Time, stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.make(b); a.off {
		timer := time.NewTimer(at - b.sys.Monotonic())
		return timer.C, func() { timer.Stop() }
	}
	wait := make(chan time.Time, 1)
	a.waits[wait] = at
	a.setTo(b, at)
	return wait, func() {
		a.mu.Lock()
		delete(a.waits, wait)
		a.mu.Unlock()
	}
}

// make makes the clock, unless that was tried; mu is held.
func (a *alarm) make(b *handle) {
	if a.clock != nil || a.off {
		return
	}
	clock, err := b.sys.Alarm()
	if err != nil {
		a.fail(b, err)
		return
	}
	a.clock, a.waits = clock, map[chan time.Time]time.Duration{}
	b.background(func() { a.run(b) })
}

// run ends waits until the clock is closed.
func (a *alarm) run(b *handle) {
	for {
		err := a.clock.Next()
		a.mu.Lock()
		if err != nil {
			a.fail(b, err)
			a.mu.Unlock()
			return
		}
		a.ring(b)
		a.mu.Unlock()
	}
}

// ring ends the waits whose moment has come, and sets the clock to the next;
// mu is held.
func (a *alarm) ring(b *handle) {
	now, next := b.sys.Monotonic(), time.Duration(0)
	for wait, at := range a.waits {
		switch {
		case at <= now:
			delete(a.waits, wait)
			wait <- time.Time{}
		case next == 0 || at < next:
			next = at
		}
	}
	if a.set = 0; next != 0 {
		a.setTo(b, next)
	}
}

// setTo sets the clock, unless it rings before; mu is held.
func (a *alarm) setTo(b *handle, at time.Duration) {
	if a.set != 0 && a.set <= at {
		return
	}
	a.set = at
	if err := a.clock.Set(at); err != nil {
		a.fail(b, err)
	}
}

// fail ends every wait, and leaves those that come to timers; mu is held.
func (a *alarm) fail(b *handle, err error) {
	if !a.off && !errors.Is(err, errors.ErrUnsupported) {
		b.slg.Warn("no alarm clock: claims may begin a millisecond after a rate allows them", "error", err)
	}
	rare.Reached(rare.AlarmLost)
	a.off = true
	for wait := range a.waits {
		delete(a.waits, wait)
		wait <- time.Time{}
	}
}

// stop closes the clock and ends run.
func (a *alarm) stop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
	if a.clock == nil {
		return nil
	}
	return a.clock.Close()
}
