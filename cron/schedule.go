package cron

import (
	"errors"
	"fmt"
	"time"
)

// ErrNever is returned by New for an expression that no day of any year matches.
var ErrNever = errors.New("it never fires")

// Schedule is an expression in a zone, under a DST policy. It is a value, may be
// used concurrently and does not change. The zero Schedule never fires.
type Schedule struct {
	expr Expr
	loc  *time.Location // nil is UTC
	dst  DST
}

// New parses an expression and finds its zone, as Parse and Zone do. The error
// wraps ErrNever when the expression is sound and never fires.
func New(expr, zone string, dst DST) (Schedule, error) {
	e, err := Parse(expr)
	if err != nil {
		return Schedule{}, err
	}
	loc, err := Zone(zone)
	if err != nil {
		return Schedule{}, err
	}
	if int(dst) >= len(dstNames) {
		return Schedule{}, fmt.Errorf("cron: DST policy %d is unknown", dst)
	}
	if !e.Fires() {
		return Schedule{}, fmt.Errorf("cron expression %q: %w: no month that it names has such a day", expr, ErrNever)
	}
	return e.In(loc, dst), nil
}

// In returns the schedule of e in a zone that Zone gave; nil is UTC. It panics on
// time.Local, which is another zone on another host.
func (e Expr) In(loc *time.Location, dst DST) Schedule {
	if loc == time.Local {
		panic("cron: a schedule cannot be in time.Local, which depends on the host")
	}
	return Schedule{expr: e, loc: loc, dst: dst}
}

// Expr returns what s was made from.
func (s Schedule) Expr() Expr { return s.expr }

// Zone returns the name of the zone; it is never empty.
func (s Schedule) Zone() string { return s.zone().String() }

// DST returns the policy.
func (s Schedule) DST() DST { return s.dst }

func (s Schedule) zone() *time.Location {
	if s.loc == nil {
		return time.UTC
	}
	return s.loc
}

// Next returns the first tick strictly after the given time, in UTC. It reports
// false when there is none before the year 10000 or within 400 years, after which
// the calendar repeats. It is pure, takes microseconds, and for what never fires
// at most some milliseconds.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	ms, ok := s.next(milli(after))
	if !ok {
		return time.Time{}, false
	}
	return instant(ms), true
}

// milli is t in milliseconds since the Unix epoch, rounded down, for the years 1
// to 9999; beyond them it is their start or their end.
func milli(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(firstYear, 0)):
		return firstYear * 1000
	case !t.Before(time.Unix(endOfYears, 0)):
		return endOfYears * 1000
	}
	return t.UnixMilli()
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// next is Next in milliseconds since the Unix epoch. Ticks are whole
// milliseconds.
func (s Schedule) next(ms int64) (int64, bool) {
	if every := s.expr.every.Milliseconds(); every > 0 {
		ms = (floor(ms, every) + 1) * every
		return ms, ms < endOfYears*1000
	}
	if !s.expr.Fires() {
		return 0, false
	}
	u, ok := s.nextSecond(floor(ms, 1000) + 1)
	return u * 1000, ok
}

// floor is a/b rounded down; b is above 0.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

const cycle = 146097 * 86400 // 400 years, after which the calendar repeats

// nextSecond is the first tick at or after u, in seconds. It goes from one period
// of constant offset to the next and looks for a matching wall time in each.
func (s Schedule) nextSecond(u int64) (int64, bool) {
	loc := s.zone()
	horizon := min(u+cycle, endOfYears)
	before, _ := period(loc, u-1)
	for u < horizon {
		off, end := period(loc, u)
		if s.dst == Vixie && s.expr.fixed() && s.inGap(u, before, off) {
			return u, true
		}
		limit := min(end, horizon) + off
		for w := u + off; ; {
			var ok bool
			if w, ok = s.expr.nextWall(w, limit); !ok {
				break
			}
			until, again := int64(0), false
			if s.once() {
				until, again = shown(loc, w, w-off)
			}
			if !again {
				return w - off, true
			}
			w = until
		}
		before, u = off, end
	}
	return 0, false
}

// once reports whether a wall time that repeats fires the first time only.
func (s Schedule) once() bool { return s.dst == Wall || s.expr.fixed() }

// inGap reports whether a wall time matches that is skipped at u, where the
// offset goes from before to off.
func (s Schedule) inGap(u, before, off int64) bool {
	for w := u + before; ; {
		var ok bool
		if w, ok = s.expr.nextWall(w, u+off); !ok {
			return false
		}
		until, again := shown(s.zone(), w, u)
		if !again {
			return true
		}
		w = until
	}
}
