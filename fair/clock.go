package fair

import "math"

// Time is virtual time: service ÷ weight, in units of 1/Unit. The time of a key
// is the start of its next service; the key with the least goes next. Which of
// two equal ones does, the caller decides, always by the same rule.
type Time uint64

// Unit is the time that a cost of 1 takes at weight 1. All weights up to 16 and
// many above divide it; a cost over one that does not is rounded, which shifts a
// share by less than 0.1 % up to weight 1,000 and 0.7 % at MaxWeight.
const Unit = 720_720

// Clock is the virtual time of a set of keys: the largest start of a service so
// far. The zero Clock is at the beginning. It is a plain value that a store can
// keep. Its use, as in start-time fair queueing:
//
//   - A key that becomes able to be served (it was idle, or held back by a limit
//     or a pause) sets its time to Rejoin(its time). A key never seen has time 0.
//   - To serve: the key with the least time; its time becomes Charge(its time,
//     cost, weight). The weight is the one at that moment.
//   - The time of an idle key has to be kept until it has Passed: one that goes
//     idle and comes back would gain otherwise.
//   - When no key is busy, all times can be forgotten, once Now is raised to the
//     largest of them.
//
// While two keys are busy, their service ÷ weight differs by no more than the
// largest cost ÷ the weight of the one + the same of the other.
type Clock struct {
	Now Time
}

// Rejoin returns the time from which a key goes on that could not be served: its
// own, but not before now. So it neither catches up on what it missed nor loses
// its place by it.
func (c Clock) Rejoin(t Time) Time { return max(t, c.Now) }

// Passed reports whether the time of an idle key says nothing any more: it would
// rejoin at now, as a key never seen does.
func (c Clock) Passed(t Time) bool { return t <= c.Now }

// Charge serves a key whose time is t: it moves the clock on to t and returns the
// key's next time, cost ÷ weight later. Costs and weights below 1 count as 1, a
// cost above MaxCost as MaxCost. At the end of time it stays there, which
// [Clock.Rebase] prevents.
func (c *Clock) Charge(t Time, cost int64, weight int) Time {
	c.Now = max(c.Now, t)
	w := uint64(max(weight, 1))
	d := (uint64(min(max(cost, 1), MaxCost))*Unit + w/2) / w // to the nearest
	if next := t + Time(max(d, 1)); next > t {
		return next
	}
	return math.MaxUint64
}

// Rebase starts the clock again at 0 when it is past half of its range, and
// returns what to take off the times of all keys: 0 if it is not yet time. Keys
// whose time has passed go to 0. With a cost of 1 and one key of weight 1, the
// half is 12,800,000,000,000 services.
func (c *Clock) Rebase() (shift Time) {
	if c.Now <= math.MaxUint64/2 {
		return 0
	}
	shift, c.Now = c.Now, 0
	return shift
}
