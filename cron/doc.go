// Package cron turns expressions and intervals into instants. It is pure: no
// goroutines, no clock, no store; every function answers from its arguments and
// from the time zone data. It knows nothing of jobs and is useful alone.
//
//	s, err := cron.New("30 2 * * MON-FRI", "Europe/Paris", cron.Wall)
//	next, ok := s.Next(time.Now()) // strictly after; false when it never fires again
//
// # Expressions
//
// Five fields, or six with seconds in front, separated by blanks:
//
//	field          values             also
//	second         0-59               (optional; 0 when left out)
//	minute         0-59
//	hour           0-23
//	day of month   1-31               L, the last day of the month
//	month          1-12               JAN to DEC
//	day of week    0-7                SUN to SAT; 0 and 7 are Sunday
//
// A field is a list of items with commas between them: * (or ?, the same) for
// every value, a value, a range a-b, each with an optional step: */15, 8-18/2;
// a/n means from a to the largest value in steps of n. Names are read in any
// case. A range does not run backwards; SAT-SUN and 6-7 are the weekend.
//
// Where both day of month and day of week are restricted, a day that matches
// either fires. A day field is restricted unless it starts with *: so
// "0 0 1-31/10 * MON" fires on the 1st, 11th, 21st, 31st and on each Monday, but
// "0 0 */10 * MON" only where the two meet.
//
// Short forms: @yearly (@annually), @monthly, @weekly, @daily (@midnight),
// @hourly, and @every with a duration. Intervals are multiples counted from the
// Unix epoch, so they keep their phase through any restart: @every 1h fires on
// the hour in UTC. They follow elapsed time and need no zone.
//
// A zone is never part of an expression: "TZ=…" and "CRON_TZ=…" are refused.
//
// # Zones and DST
//
// A zone is named as IANA names it; none is UTC, never the zone of the host. The
// zone data is compiled in, for hosts that have none; a newer copy on the host
// is used where there is one.
//
// What happens where the clock is moved is a policy with a name. Under [Wall],
// a wall time that does not exist is skipped and one that repeats fires once, the
// first time, whatever the expression. Under [Vixie], which follows the rule of
// the classic daemon, an expression whose minute and hour both do not start with *
// is a fixed time: what falls in a gap fires once, at the first instant after the
// gap, and what repeats fires once, the first time. Other expressions follow
// elapsed time: "* * * * *" then fires in each minute that passes, twice for a
// wall time that comes twice. Something that must run at an even pace through the
// change of clocks is best an interval, or under Vixie.
//
// # Missed ticks
//
// [Schedule.Plan] decides, from a stored cursor and the time now, which ticks to
// run after downtime and where the cursor goes. A clock stepped backwards finds
// the cursor ahead and runs nothing; one stepped forward is downtime.
package cron
