package brokertest

import (
	"sync"
	"time"
)

// ManualClock is a clock with two hands that move only when they are told to:
// for harnesses of brokers that can be given a clock. Make one with
// NewManualClock. Safe for concurrent use.
type ManualClock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// NewManualClock returns a clock that stands at wall.
func NewManualClock(wall time.Time) *ManualClock {
	return &ManualClock{wall: wall, mono: time.Hour}
}

// Wall implements Clock.
func (c *ManualClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Monotonic implements Clock.
func (c *ManualClock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// Advance lets d pass on both hands.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// StepWall moves the wall clock alone, also backwards.
func (c *ManualClock) StepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}
