package cron

import (
	"math/bits"
	"time"
)

const day = 86400

// nextWall returns the first wall time from w on, and before limit, that e
// matches. It steps by months, so its cost is that of their number.
func (e Expr) nextWall(w, limit int64) (int64, bool) {
	d := floor(w, day)
	clock := int(w - d*day)
	year, m, dom := time.Unix(w, 0).UTC().Date()
	first := d - int64(dom) + 1 // of the month, in days
	for first*day < limit {
		length := daysIn(year, m)
		if e.sets[month]>>m&1 == 1 {
			days := e.days(first, length) &^ (1<<dom - 1) // from dom on
			for ; days != 0; days &= days - 1 {
				at := bits.TrailingZeros64(days)
				if at > dom {
					clock = 0
				}
				if t, ok := e.nextClock(clock); ok {
					w = (first+int64(at)-1)*day + int64(t)
					return w, w < limit
				}
			}
		}
		first += int64(length)
		if m++; m > time.December {
			year, m = year+1, time.January
		}
		dom, clock = 1, 0
	}
	return 0, false
}

// days is the set of the days that match in the month that starts with the day
// first, counted from the Unix epoch, and is so long.
func (e Expr) days(first int64, length int) uint64 {
	all := upTo(length)
	byDate := e.sets[dayOfMonth] & all
	if e.last {
		byDate |= 1 << length
	}
	weekday := int(first - floor(first-3, 7)*7 - 3) // of the first; day 3, a Sunday, is 0
	week := e.sets[dayOfWeek]<<(7-weekday) | e.sets[dayOfWeek]>>weekday
	week &= 1<<7 - 1 // rotated: bit 0 is the weekday of the first
	byWeekday := (week | week<<7 | week<<14 | week<<21 | week<<28) << 1 & all
	if e.either() {
		return byDate | byWeekday
	}
	return byDate & byWeekday
}

// nextClock is the first matching time of day at or after clock, both in seconds
// since midnight.
func (e Expr) nextClock(clock int) (int, bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	if e.sets[hour]>>h&1 == 1 {
		if e.sets[minute]>>m&1 == 1 {
			if at, ok := from(e.sets[second], s); ok {
				return clock - s + at, true
			}
		}
		if at, ok := from(e.sets[minute], m+1); ok {
			return h*3600 + at*60 + bits.TrailingZeros64(e.sets[second]), true
		}
	}
	at, ok := from(e.sets[hour], h+1)
	return at*3600 + bits.TrailingZeros64(e.sets[minute])*60 + bits.TrailingZeros64(e.sets[second]), ok
}

// from is the smallest value of a set that is at least v.
func from(set uint64, v int) (int, bool) {
	set &^= 1<<v - 1
	return bits.TrailingZeros64(set), set != 0
}

func daysIn(year int, m time.Month) int {
	if m == time.February && (year%4 != 0 || year%100 == 0 && year%400 != 0) {
		return 28
	}
	return longest[m-1]
}
