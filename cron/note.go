package cron

import (
	"fmt"
	"iter"
	"strings"
	"time"
)

// Tick is one instant at which a schedule fires.
type Tick struct {
	At   time.Time `json:"at"`             // in UTC
	Note string    `json:"note,omitempty"` // what DST does to it, or skipped before it; "" mostly
}

// maxNotes is how many skips are told before one tick.
const maxNotes = 3

// Ticks yields the ticks strictly after the given time, earliest first, each with
// a note where the zone's clock is moved.
func (s Schedule) Ticks(after time.Time) iter.Seq[Tick] {
	return func(yield func(Tick) bool) {
		for at := milli(after); ; {
			next, ok := s.next(at)
			if !ok || !yield(Tick{At: instant(next), Note: s.note(at, next)}) {
				return
			}
			at = next
		}
	}
}

// note says what happens in (after, tick], both in milliseconds.
func (s Schedule) note(after, tick int64) string {
	if s.expr.every > 0 {
		return ""
	}
	u := tick / 1000
	notes := s.gapNotes(floor(after, 1000), u)
	if len(notes) > maxNotes {
		notes = append(notes[:maxNotes], "…")
	}
	if n := s.repeatNote(u); n != "" {
		notes = append(notes, n)
	}
	return strings.Join(notes, "; ")
}

// gapNotes tells of the matching wall times that are skipped in (after, u].
func (s Schedule) gapNotes(after, u int64) (notes []string) {
	off, end := period(s.zone(), after)
	for end <= u && len(notes) <= maxNotes {
		at, before := end, off
		off, end = period(s.zone(), at)
		hi := at + off - 1
		first, ok := s.expr.nextWall(at+before, hi+1)
		if !ok {
			continue // no gap, or nothing in it
		}
		final, more := last(first, hi, func(w int64) (int64, bool) { return s.expr.nextWall(w+1, hi+1) })
		what := onDay(first) + " does not exist: "
		if more {
			what = span(first, final) + " do not exist: "
		}
		if s.dst == Vixie && s.expr.fixed() {
			notes = append(notes, what+"fires at "+clockOf(at+off)+" instead")
		} else {
			notes = append(notes, what+"skipped")
		}
	}
	return notes
}

// repeatNote tells whether the wall time of the tick u comes twice.
func (s Schedule) repeatNote(u int64) string {
	off, end := period(s.zone(), u)
	w := u + off
	if _, again := shown(s.zone(), w, u); again {
		return onDay(w) + " comes twice: this is the second time"
	}
	for end < u+apart {
		v := end
		off, end = period(s.zone(), v)
		if at := w - off; v <= at && at < end {
			if s.once() {
				return onDay(w) + " comes twice: fires the first time only"
			}
			return onDay(w) + " comes twice: this is the first time"
		}
	}
	return ""
}

func dateOf(w int64) string { return time.Unix(w, 0).UTC().Format(time.DateOnly) }

// clockOf is the time of day of a wall time.
func clockOf(w int64) string {
	if w%60 != 0 {
		return time.Unix(w, 0).UTC().Format("15:04:05")
	}
	return time.Unix(w, 0).UTC().Format("15:04")
}

func onDay(w int64) string { return clockOf(w) + " on " + dateOf(w) }

func span(a, b int64) string {
	if dateOf(a) == dateOf(b) {
		return fmt.Sprintf("%s to %s on %s", clockOf(a), clockOf(b), dateOf(a))
	}
	return onDay(a) + " to " + onDay(b)
}
