// Package limit keeps to rates: so many units in so much time, with a bound on
// what may go at once. It is arithmetic over a time that it is given; it knows
// nothing of jobs, and it imports the standard library alone.
//
// [Rate] is the rule, and [ParseRate] reads one as people write it: "10/s",
// "0.5/s", "100/m", "10/30s", "10/s burst 20". [Rate.Allow] is the pure core: a
// [State] and an instant in, the next State out. A store can keep the State, and
// who replays the same calls comes to the same answers.
//
// [NewTokenBucket] and [NewLeakyBucket] make a [Limiter] to use alone, in one
// process, by any number of goroutines: it lets pass ([Limiter.Allow]), makes
// wait ([Limiter.Wait]) or promises an instant ([Limiter.Reserve]).
//
// # The arithmetic
//
// Both buckets are the generic cell rate algorithm (ITU-T I.371, where it polices
// ATM connections). A unit costs the time that the rate takes for one, Per ÷
// Count. The state is a debt, the time until nothing is owed: a unit adds its
// cost, passing time pays off. A unit may go when the debt afterwards is at most
// Burst × the cost of one. So the debt is 0 for a full bucket, and largest for an
// empty one.
//
// The debt is an exact fraction: whole nanoseconds and a count of 1/Count
// nanoseconds. Nothing is rounded and nothing drifts, 3/s included. Hence, for
// any instants whatever: no window of time, of any length, lets pass more than
// Burst + rate × window. And nobody is refused that this would let pass, except
// that a unit goes at a whole nanosecond: with a burst of 1 that costs less than
// a nanosecond a unit.
//
// # Clocks that step
//
// A clock that steps back counts as standing still at that moment, and goes on
// from there: nothing is earned by the step, and nobody is locked out until the
// clock has caught up. When it is set right again, what counts is only what lies
// beyond the latest instant ever seen. A clock that steps forward to where it
// never was cannot be told from time that passes; it earns one full bucket, never
// more.
package limit
