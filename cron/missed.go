package cron

import (
	"fmt"
	"slices"
	"time"
)

// Missed is what happens to ticks that passed while nobody ran the schedule. The
// zero value is Latest.
type Missed uint8

// The three policies.
const (
	Latest Missed = iota // run the latest missed tick, once
	All                  // run every missed tick, the latest ones up to a cap
	Skip                 // run those that are late by no more than a grace, up to the same cap
)

var missedNames = [...]string{"latest", "all", "skip"}

// String returns the policy's name, as JSON and the CLI write it.
func (m Missed) String() string { return name(missedNames[:], m) }

// ParseMissed reads what String writes; "" is Latest.
func ParseMissed(text string) (Missed, error) {
	return named[Missed]("policy for missed ticks", missedNames[:], text)
}

// MarshalText implements encoding.TextMarshaler.
func (m Missed) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Missed) UnmarshalText(b []byte) (err error) { *m, err = ParseMissed(string(b)); return err }

// The bounds of CatchUp and what its zero values mean.
const (
	DefaultCap   = 100
	MaxCap       = 1000
	DefaultGrace = time.Minute
)

// CatchUp says what to do about missed ticks. The zero value runs the latest one.
type CatchUp struct {
	Missed Missed
	Cap    int           // of All and Skip: the most ticks to run; 0 means DefaultCap
	Grace  time.Duration // of Skip: how late a tick may run; 0 means DefaultGrace
}

// Validate returns an error that names what is out of range.
func (c CatchUp) Validate() error {
	switch {
	case int(c.Missed) >= len(missedNames):
		return fmt.Errorf("cron: policy %d for missed ticks is unknown; allowed are %v", c.Missed, missedNames)
	case c.Cap < 0 || c.Cap > MaxCap:
		return fmt.Errorf("cron: the cap of %d missed ticks is out of range; allowed are 1 to %d (0 means %d)", c.Cap, MaxCap, DefaultCap)
	case c.Grace < 0 || c.Grace > MaxEvery:
		return fmt.Errorf("cron: the grace of %s for missed ticks is out of range; allowed are 0 (which means %s) to %s", short(c.Grace), short(DefaultGrace), short(MaxEvery))
	}
	return nil
}

// Plan is what a schedule has to do now.
type Plan struct {
	Run     []time.Time // the ticks to run, earliest first, in UTC; empty when the cursor is ahead
	Next    time.Time   // where the cursor goes, in UTC; zero when there is no further tick
	Skipped bool        // missed ticks are passed over
}

// Plan decides what to do when the cursor stands at due, the first tick that was
// not dealt with, and it is now. With the cursor ahead nothing runs and it stays:
// a clock that steps back repeats no tick. Otherwise the missed ticks are due,
// which counts as one even if the zone's rules have changed since it was stored,
// and the ticks after it up to now; c chooses among them. Next is after now.
//
// A new schedule has missed nothing: its cursor starts at Next of the time now.
// When not all of Run can be done in one step, the cursor may go to any of its
// elements: the plan from there, by the same clock, runs the rest.
//
// The cost does not depend on how long the downtime was: it is that of some fifty
// calls of Next for each tick that is run.
func (s Schedule) Plan(due, now time.Time, c CatchUp) Plan {
	from, to := milli(due), milli(now)
	if from > to {
		return Plan{Next: instant(from)}
	}
	var p Plan
	if next, ok := s.next(to); ok {
		p.Next = instant(next)
	}
	missed := s.newest(from, to, c)
	p.Skipped = len(missed) == 0 || missed[len(missed)-1] != from
	for _, ms := range slices.Backward(missed) {
		p.Run = append(p.Run, instant(ms))
	}
	return p
}

// newest lists the missed ticks that c wants run, the latest first.
func (s Schedule) newest(due, now int64, c CatchUp) (missed []int64) {
	want, oldest := c.Cap, due
	if want == 0 {
		want = DefaultCap
	}
	switch c.Missed {
	case Latest:
		want = 1
	case Skip:
		grace := c.Grace
		if grace == 0 {
			grace = DefaultGrace
		}
		oldest = max(due, now-grace.Milliseconds())
	}
	for to := now; len(missed) < min(want, MaxCap); {
		tick, ok := last(max(due, oldest-1), to, s.next)
		if !ok {
			if oldest == due {
				missed = append(missed, due)
			}
			break
		}
		missed, to = append(missed, tick), tick-1
	}
	return missed
}

// last is the largest element of (lo, hi] in a set that is given by the function
// from any number to the next element. It bisects.
func last(lo, hi int64, next func(int64) (int64, bool)) (at int64, ok bool) {
	if at, ok = next(lo); !ok || at > hi {
		return 0, false
	}
	for at < hi {
		mid := at + (hi-at)/2
		if n, ok := next(mid); ok && n <= hi {
			at = n
		} else {
			hi = mid
		}
	}
	return at, true
}
