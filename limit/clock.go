package limit

import "time"

// Clock is the time of a Limiter. It may step; the package comment says what
// that does. The methods must be safe for concurrent use, must not use the
// Limiter, and Now is called with the Limiter locked.
type Clock interface {
	// Now returns the time.
	Now() time.Time
	// Timer starts a timer: fired receives once d has passed. stop frees it
	// before that, and may be called after it as well.
	Timer(d time.Duration) (fired <-chan time.Time, stop func())
}

// system is package time, which does not step: durations come from its monotonic
// reading.
type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
