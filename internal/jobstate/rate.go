package jobstate

import (
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/limit"
)

// rateOf is a limit's rate as package limit computes with it.
func rateOf(l *broker.Limit) limit.Rate {
	return limit.Rate{Count: int(l.Count), Per: l.Every, Burst: int(l.Burst)}
}

// bucket is what the meter's rate has to go on with: one that was empty at the
// time at which claims may have been forgotten, by the rate as it is now, or
// emptier by those since.
func (m *meter) bucket() limit.State {
	if fresh := m.rule.queue.startsEmpty(); fresh > 0 {
		empty := m.rule.rate.Empty(fresh)
		if m.rate.Last < fresh || satAdd(empty.Last, empty.Debt) > satAdd(m.rate.Last, m.rate.Debt) {
			return empty
		}
	}
	return m.rate
}

// startsEmpty is when the rates of a queue began empty; 0 means never.
func (q *queue) startsEmpty() int64 {
	if q.move != nil {
		return max(q.state.fresh, q.move.fresh)
	}
	return q.state.fresh
}

// allowedAt is when the rate allows the next claim: now, or later.
func (m *meter) allowedAt(now int64) int64 {
	_, wait, ok := m.rule.rate.Allow(m.bucket(), now, 1)
	if ok {
		return now
	}
	return satAdd(now, int64(wait))
}

// take counts a claim that is allowed.
func (m *meter) take(now int64) {
	m.rate, _, _ = m.rule.rate.Allow(m.bucket(), now, 1)
}

// used reports whether the rate is not back to a full bucket at a time.
func (m *meter) used(at int64) bool {
	full := satAdd(m.rate.Last, m.rate.Debt)
	return full > at || full == at && m.rate.Part > 0
}

// The broker's clock never steps back, so that a state's Last and High are the
// same: records and checkpoints keep one of them.

func (w *Writer) rate(st limit.State) {
	w.time(st.Last)
	w.uint(uint64(st.Debt))
	w.uint(uint64(st.Part))
}

func (r *reader) rate() limit.State {
	at, debt, part := r.time(), int64(r.uint()), uint32(r.uint())
	return limit.State{Debt: max(debt, 0), Last: at, High: at, Part: part}
}

func (e *encoder) rate(st limit.State) {
	e.i64(st.Last)
	e.i64(st.Debt)
	e.u32(st.Part)
}

func (d *decoder) rate() limit.State {
	at, debt, part := d.i64(), d.i64(), d.u32()
	return limit.State{Debt: max(debt, 0), Last: at, High: at, Part: part}
}

// satSub subtracts without overflow.
func satSub(a, b int64) int64 {
	c := a - b
	switch {
	case b > 0 && c > a:
		return -1 << 63
	case b < 0 && c < a:
		return 1<<63 - 1
	}
	return c
}

// satMul multiplies without overflow.
func satMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	c := a * b
	if c/b != a || a == -1 && b == -1<<63 {
		if (a > 0) == (b > 0) {
			return 1<<63 - 1
		}
		return -1 << 63
	}
	return c
}
