package limit

import (
	"math"
	"math/bits"
	"time"
)

// Never is the wait for what no waiting can bring: more than the burst at once.
const Never time.Duration = math.MaxInt64

// State is what one bucket has to remember: plain numbers, so that a store can
// write them field by field. The zero State is a full bucket. A State belongs to
// one Rate; under another one it says the same to within 1 ns, but at worst that
// the bucket is empty, so that a rate can be changed at any time.
type State struct {
	// Debt is the time until the bucket is full again, in whole nanoseconds, as
	// of the instant Last.
	Debt int64
	// Last is the instant of the last change, and High the latest ever seen.
	// They differ only after a step back, until the clock has caught up.
	Last, High int64
	// Part is what Debt has beyond whole nanoseconds, in units of 1/Count ns.
	Part uint32
}

// span is an exact length of time: ns nanoseconds and part/count of one.
type span struct {
	ns   int64
	part uint32 // below count
}

// Allow takes n units at the instant now, in nanoseconds on any clock whose
// readings are 0 or more, if the bucket has them; all or none. The rate must be
// valid ([Rate.Validate]). It reads nothing but its arguments and changes
// nothing: safe for concurrent use, and the same at every replay.
//
// If ok, next is the state to keep and wait is 0. If not, wait is how long until
// the same call would be ok, if nobody else takes anything and the clock neither
// steps nor is about to come back to where it stepped from; [Never] when n is
// above the burst. next is then st itself, unless the clock stepped back, in
// which case it has to be kept too, or the time until the clock has caught up
// would not count. n of 0 takes nothing; a negative one panics.
func (r Rate) Allow(st State, now int64, n int) (next State, wait time.Duration, ok bool) {
	count, burst := uint32(r.Count), r.burst()
	if n < 0 {
		panic("limit: negative number of units")
	}
	if n > burst {
		return st, Never, false
	}
	cost, room := r.cost(n), r.cost(burst-n)
	next = st
	back := now < st.Last
	next.fit(count, room.plus(cost, count))
	next.pass(now)
	if ns, ok := next.take(count, cost, room, 0); !ok {
		if back {
			return next, time.Duration(ns), false
		}
		return st, time.Duration(ns), false
	}
	return next, 0, true
}

// Empty returns the state of a bucket that is empty at the instant now: for a
// store that cannot know what was taken just before.
func (r Rate) Empty(now int64) State {
	full := r.cost(r.burst())
	return State{Debt: full.ns, Part: full.part, Last: now, High: now}
}

// cost is the time that n units take at the rate, for n up to the burst.
func (r Rate) cost(n int) span {
	hi, lo := bits.Mul64(uint64(n), uint64(r.Per))
	ns, part := bits.Div64(hi, lo, uint64(r.Count))
	return span{int64(ns), uint32(part)}
}

func (s span) plus(t span, count uint32) span {
	s.ns += t.ns
	s.part += t.part // below 2 × MaxCount
	if s.part >= count {
		s.part -= count
		s.ns++
	}
	return s
}

// ceil is s in whole nanoseconds, rounded up.
func (s span) ceil() int64 {
	if s.part > 0 {
		return s.ns + 1
	}
	return s.ns
}

// pass pays off the time since the last change, and returns it: none if the
// clock stepped back; what lies beyond High if it has caught up; what the clock
// shows while it is on its way.
func (st *State) pass(now int64) (passed int64) {
	switch {
	case now >= st.High:
		passed, st.High = now-st.High, now
	case now > st.Last:
		passed = now - st.Last
	}
	st.Last = now
	if st.Debt -= passed; st.Debt < 0 {
		st.Debt, st.Part = 0, 0
	}
	return passed
}

// fit makes a state that another rate wrote one of a rate with this count, whose
// bucket was at worst empty. It comes before pass, or a debt that is too large
// would stay.
func (st *State) fit(count uint32, empty span) {
	if st.Part >= count {
		st.Debt, st.Part = st.Debt+1, 0
	}
	if st.Debt > empty.ns || st.Debt == empty.ns && st.Part > empty.part {
		st.Debt, st.Part = empty.ns, empty.part
	}
}

// take adds cost to the debt, if that was at most room, or will be within most
// nanoseconds. It returns how long until then.
func (st *State) take(count uint32, cost, room span, most int64) (wait int64, ok bool) {
	if st.Debt > room.ns || st.Debt == room.ns && st.Part > room.part {
		wait = st.Debt - room.ns
		if st.Part > room.part {
			wait++
		}
		if wait > most {
			return wait, false
		}
	}
	debt := span{st.Debt, st.Part}.plus(cost, count)
	st.Debt, st.Part = debt.ns, debt.part
	return wait, true
}

// untake takes cost off the debt again. A debt below 0 lasts until the next pass.
func (st *State) untake(count uint32, cost span) {
	st.Debt -= cost.ns
	if st.Part < cost.part {
		st.Part += count
		st.Debt--
	}
	st.Part -= cost.part
}
