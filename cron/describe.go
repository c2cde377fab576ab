package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe says in plain words when e fires, for a person to check that it means
// what it was meant to. It is empty for the zero Expr.
func (e Expr) Describe() string {
	if e.every > 0 {
		return fmt.Sprintf("every %s, counted from 1970-01-01 00:00 UTC", short(e.every))
	}
	if e.sets[second] == 0 {
		return ""
	}
	parts := []string{e.timeOfDay()}
	if date := e.date(); date != "" {
		parts = append(parts, date)
	} else if e.sets[hour] != fields[hour].full() {
		parts = append(parts, "every day")
	}
	if e.sets[month] != fields[month].full() {
		parts = append(parts, "in "+list(e.sets[month], "and", monthName))
	}
	return strings.Join(parts, ", ")
}

// short writes a duration without the zeros at its end: 5m, not 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// listed is how many times of day are written out.
const listed = 8

func (e Expr) timeOfDay() string {
	sec, mins, hours := e.sets[second], e.sets[minute], e.sets[hour]
	whole := sec == 1
	if bits.OnesCount64(sec) == 1 && bits.OnesCount64(mins)*bits.OnesCount64(hours) <= listed {
		return "at " + times(hours, mins, bits.TrailingZeros64(sec))
	}
	rest := minutesOf(mins, hours)
	switch n := pace(second, sec); {
	case whole:
		return rest
	case n > 0 && rest == "every minute":
		return every(n, "second")
	case n > 0:
		return every(n, "second") + ", " + rest
	case rest == "every minute":
		return "at " + plural("second", sec) + " of every minute"
	default:
		return "at " + plural("second", sec) + ", " + rest
	}
}

// minutesOf describes the minutes and hours.
func minutesOf(mins, hours uint64) string {
	all := hours == fields[hour].full()
	switch n := pace(minute, mins); {
	case n > 0 && all:
		return every(n, "minute")
	case n > 0:
		return every(n, "minute") + " " + within(hours)
	case all && mins == 1:
		return "every hour"
	case all:
		return "at " + plural("minute", mins) + " of every hour"
	case bits.OnesCount64(mins)*bits.OnesCount64(hours) <= listed:
		return "at " + times(hours, mins, 0)
	default:
		return "at " + plural("minute", mins) + " of " + plural("hour", hours)
	}
}

// pace is n when a set of field f is every n-th value and comes round evenly,
// else 0.
func pace(f int, set uint64) int {
	spec := &fields[f]
	for n := 1; n <= spec.size()/2; n++ {
		if spec.size()%n == 0 && spec.steps(n) == set {
			return n
		}
	}
	return 0
}

func every(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// within describes whole hours as stretches of the day.
func within(hours uint64) string {
	var parts []string
	for first, end := range stretches(hours) {
		parts = append(parts, fmt.Sprintf("from %02d:00 to %02d:59", first, end))
	}
	return join(parts, "and")
}

func times(hours, mins uint64, sec int) string {
	var parts []string
	for h := range 24 {
		for m := range 60 {
			if hours>>h&1 == 1 && mins>>m&1 == 1 {
				parts = append(parts, clockOf(int64(h*3600+m*60+sec)))
			}
		}
	}
	return join(parts, "and")
}

// date describes the two day fields; "" is every day.
func (e Expr) date() string {
	anyDate, anyWeekday := e.sets[dayOfMonth] == fields[dayOfMonth].full(), e.sets[dayOfWeek] == fields[dayOfWeek].full()
	switch {
	case anyDate && anyWeekday, e.either() && (anyDate || anyWeekday):
		return ""
	case anyWeekday:
		return "on " + e.dates("and")
	case anyDate:
		return "on " + list(e.sets[dayOfWeek], "and", weekdayName)
	case e.either():
		return "on " + e.dates("and") + " or on " + list(e.sets[dayOfWeek], "and", weekdayName)
	default:
		return "on " + list(e.sets[dayOfWeek], "and", weekdayName) + " where it is " + e.dates("or")
	}
}

// dates describes the days of the month, all of them or one of them.
func (e Expr) dates(and string) string {
	unit, set := "day", e.sets[dayOfMonth]
	if and == "and" && bits.OnesCount64(set) > 1 {
		unit = "days"
	}
	days := unit + " " + list(set, and, strconv.Itoa)
	switch {
	case !e.last:
		return days + " of the month"
	case set == 0:
		return "the last day of the month"
	default:
		return days + " " + and + " the last day of the month"
	}
}

func plural(unit string, set uint64) string {
	if bits.OnesCount64(set) > 1 {
		unit += "s"
	}
	return unit + " " + list(set, "and", strconv.Itoa)
}

func monthName(m int) string { return time.Month(m).String() }

func weekdayName(d int) string { return time.Weekday(d).String() }

// list writes a set, with three and more in a row as a range.
func list(set uint64, and string, name func(int) string) string {
	var parts []string
	for lo, hi := range stretches(set) {
		if hi-lo >= 2 {
			parts = append(parts, name(lo)+" to "+name(hi))
			continue
		}
		for v := lo; v <= hi; v++ {
			parts = append(parts, name(v))
		}
	}
	return join(parts, and)
}

func join(parts []string, and string) string {
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " " + and + " " + parts[n-1]
	}
	return strings.Join(parts, "")
}
