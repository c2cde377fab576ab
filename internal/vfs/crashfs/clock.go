package crashfs

import (
	"sync"
	"time"
)

// Clock is the clock of a machine. It stands still until it is moved, unless
// Config.FollowTime lets it go along with package time. Safe for concurrent
// use.
type Clock struct {
	mu     sync.Mutex
	wall   time.Time     // without the time that followed
	mono   time.Duration // likewise
	follow bool
	since  time.Time // what is followed started here
}

// Wall is the wall clock.
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall.Add(c.followed())
}

// Monotonic is the time since the machine booted.
func (c *Clock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono + c.followed()
}

// Step sets the wall clock forward, or back for a negative d, and nothing else.
// It is also what a suspended machine sees when it wakes up.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Advance lets d pass on both clocks. It panics for a negative d. It wakes
// nobody who waits in package time.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("crashfs: time cannot pass backwards; Step sets the wall clock back")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
	c.mono += d
}

func (c *Clock) followed() time.Duration {
	if !c.follow {
		return 0
	}
	return time.Since(c.since)
}

// rebooted is this clock after a power cut: the same wall time, a new
// monotonic one.
func (c *Clock) rebooted() *Clock {
	return newClock(c.Wall(), 0, c.follow)
}

func newClock(wall time.Time, mono time.Duration, follow bool) *Clock {
	return &Clock{wall: wall.Round(0), mono: mono, follow: follow, since: time.Now()}
}
