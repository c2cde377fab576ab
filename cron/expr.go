package cron

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// The bounds of an interval.
const (
	MinEvery = time.Millisecond
	MaxEvery = 100 * 365 * 24 * time.Hour
)

// Expr is a parsed expression: what fires, in wall time or at an interval. The
// zero Expr never fires. Two that are equal by == fire at the same times.
type Expr struct {
	every time.Duration // not 0: an interval, and all below is zero
	sets  [6]uint64     // bit v: the value v matches; the day of week as 0 to 6
	star  uint8         // bit f: field f starts with *; 0 for second and month, where that changes nothing
	last  bool          // the last day of the month matches
}

// The fields, in the order of the six-field form.
const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
)

// field is what one field of an expression allows.
type field struct {
	name     string
	min, max int      // of the set
	top      int      // of what may be written: 7 is Sunday, too
	names    []string // names[i] is the value min+i
	allowed  string
}

func (f *field) size() int { return f.max - f.min + 1 }

// full is the set of every value.
func (f *field) full() uint64 { return f.steps(1) }

// steps is the set of every n-th value from the smallest.
func (f *field) steps(n int) uint64 { return run(f.min, f.max, n) }

var fields = [6]field{
	{"second", 0, 59, 59, nil, "0 to 59"},
	{"minute", 0, 59, 59, nil, "0 to 59"},
	{"hour", 0, 23, 23, nil, "0 to 23"},
	{"day of month", 1, 31, 31, nil, "1 to 31, and L alone for the last day"},
	{"month", 1, 12, 12, strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"), "1 to 12, and JAN to DEC"},
	{"day of week", 0, 6, 7, strings.Fields("SUN MON TUE WED THU FRI SAT"), "0 to 7 (0 and 7 are Sunday), and SUN to SAT"},
}

// Every returns the expression that fires at each multiple of d counted from the
// Unix epoch. An error is returned unless d is a whole number of milliseconds
// from MinEvery to MaxEvery.
func Every(d time.Duration) (Expr, error) {
	switch {
	case d < MinEvery || d > MaxEvery:
		return Expr{}, fmt.Errorf("cron: interval %s is out of range; allowed are %s to %s", short(d), short(MinEvery), short(MaxEvery))
	case d%time.Millisecond != 0:
		return Expr{}, fmt.Errorf("cron: interval %v is not a whole number of milliseconds", d)
	}
	return Expr{every: d}, nil
}

// Interval returns the interval of an @every expression, and 0 for any other.
func (e Expr) Interval() time.Duration { return e.every }

// Fires reports whether the calendar has a day that e matches: false for the
// zero Expr and for, say, 30 February.
func (e Expr) Fires() bool {
	if e.every > 0 {
		return true
	}
	if e.sets[second] == 0 {
		return false
	}
	if e.either() || e.last {
		return true // each weekday comes in each month, and on each date within 400 years
	}
	for m := range 12 {
		if e.sets[month]>>(m+1)&1 == 1 && e.sets[dayOfMonth]&upTo(longest[m]) != 0 {
			return true
		}
	}
	return false
}

var longest = [12]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// upTo is the set of the days 1 to n.
func upTo(n int) uint64 { return 1<<(n+1) - 2 }

func (e Expr) starts(f int) bool { return e.star>>f&1 == 1 }

// either reports whether a day fires that matches one of the two day fields;
// otherwise it must match both.
func (e Expr) either() bool { return !e.starts(dayOfMonth) && !e.starts(dayOfWeek) }

// fixed reports whether e names times of day rather than a pace: neither its
// minute nor its hour starts with *.
func (e Expr) fixed() bool { return !e.starts(minute) && !e.starts(hour) }

// String returns the canonical text: parsed again it gives an equal Expr. It is
// empty for the zero Expr.
func (e Expr) String() string {
	if e.every > 0 {
		return "@every " + e.every.String()
	}
	if e.sets[second] == 0 {
		return ""
	}
	var words []string
	for f := range fields {
		if f != second || e.sets[second] != 1 {
			words = append(words, e.text(f))
		}
	}
	return strings.Join(words, " ")
}

// text is the canonical text of one field.
func (e Expr) text(f int) string {
	set, spec := e.sets[f], &fields[f]
	var items []string
	if n := e.stride(f); n == 1 {
		return "*"
	} else if n > 1 {
		items, set = append(items, "*/"+strconv.Itoa(n)), set&^spec.steps(n)
	}
	items = append(items, spans(set)...)
	if f == dayOfMonth && e.last {
		items = append(items, "L")
	}
	return strings.Join(items, ",")
}

// stride is the smallest n for which field f can be written with */n in front,
// 0 when it is written without.
func (e Expr) stride(f int) int {
	set, spec := e.sets[f], &fields[f]
	bare := f == second || f == month // where a star in front changes nothing
	if !e.starts(f) && !bare {
		return 0
	}
	for n := 1; n <= spec.size(); n++ {
		if steps := spec.steps(n); steps&^set == 0 && (!bare || steps == set && n <= spec.size()/2) {
			return n
		}
	}
	return 0
}

// spans writes a set as values and ranges.
func spans(set uint64) (items []string) {
	if lo, hi := bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set); bits.OnesCount64(set) >= 4 {
		if n := bits.TrailingZeros64(set&(set-1)) - lo; n > 1 && set == run(lo, hi, n) {
			return []string{fmt.Sprintf("%d-%d/%d", lo, hi, n)}
		}
	}
	for lo, hi := range stretches(set) {
		if hi-lo >= 2 {
			items = append(items, fmt.Sprintf("%d-%d", lo, hi))
			continue
		}
		for v := lo; v <= hi; v++ {
			items = append(items, strconv.Itoa(v))
		}
	}
	return items
}

// run is the set of lo, lo+n, … up to hi.
func run(lo, hi, n int) (set uint64) {
	for v := lo; v <= hi; v += n {
		set |= 1 << v
	}
	return set
}

// stretches yields the first and the last of all values of a set that follow one
// another.
func stretches(set uint64) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for set != 0 {
			lo := bits.TrailingZeros64(set)
			n := bits.TrailingZeros64(^(set >> lo))
			if !yield(lo, lo+n-1) {
				return
			}
			set &^= (1<<n - 1) << lo
		}
	}
}
