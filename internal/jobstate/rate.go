package jobstate

import "github.com/spoolq/spool/broker"

// rateState is how far a rate is used: the theoretical arrival time of the
// generic cell rate algorithm (ITU-T I.371), and the part of a nanosecond below
// it, in 1/Count. The zero state is a full bucket.
type rateState struct{ at, part int64 }

// cells is how long n claims take at the rate: nanoseconds and a part of one.
func cells(l *broker.Limit, n int64) (ns, part int64) {
	each, rest := int64(l.Every)/l.Count, int64(l.Every)%l.Count
	// n × rest is below 2^60: both are at most 1e9.
	return satAdd(satMul(each, n), rest*n/l.Count), rest * n % l.Count
}

// room is how far the arrival time may be ahead of a claim: the burst less one.
func room(l *broker.Limit) (ns, part int64) {
	burst := l.Burst
	if burst == 0 {
		burst = l.Count
	}
	return cells(l, burst-1)
}

// from is the arrival time to count on: never before now, and not before that
// of an empty bucket at the start of the epoch, since claims of the last one may
// be forgotten.
func (r rateState) from(l *broker.Limit, fresh, now int64) rateState {
	if fresh > 0 {
		ns, part := room(l)
		if empty := (rateState{satAdd(fresh, ns), part}); r.before(empty) {
			r = empty
		}
	}
	if r.at < now {
		return rateState{at: now}
	}
	return r
}

func (r rateState) before(o rateState) bool {
	return r.at < o.at || r.at == o.at && r.part < o.part
}

// allowedAt is when the next claim is allowed: now, or later.
func (r rateState) allowedAt(l *broker.Limit, fresh, now int64) int64 {
	f := r.from(l, fresh, now)
	ns, part := room(l)
	at := f.at - ns
	if f.part > part {
		at++
	}
	return max(at, now)
}

// taken is the state after a claim that was allowed.
func (r rateState) taken(l *broker.Limit, fresh, now int64) rateState {
	f := r.from(l, fresh, now)
	ns, part := cells(l, 1)
	f.at, f.part = satAdd(f.at, ns), f.part+part
	if f.part >= l.Count {
		f.at, f.part = f.at+1, f.part-l.Count
	}
	return f
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
