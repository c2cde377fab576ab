package jobstate

import "github.com/spoolq/spool/broker"

// EachLoc hands out everything that jobs refer to, those on their way to another
// store too; what is payload, error text
// or result.
func (s *State) EachLoc(fn func(ref broker.Ref, what string, l Loc)) {
	for name, q := range s.queues {
		for j := range q.kept() {
			ref := broker.Ref{Queue: name, ID: j.id}
			fn(ref, "payload", j.body)
			x := s.extOf(j)
			if x != nil && !x.err.Zero() {
				fn(ref, "error text", x.err)
			}
			if x != nil && !x.result.Zero() {
				fn(ref, "result", x.result)
			}
		}
	}
}

// Relocate gives every location to fn and keeps what it returns: compaction
// moves bytes, not jobs.
func (s *State) Relocate(fn func(Loc) Loc) {
	move := func(l *Loc) {
		if l.Zero() {
			return
		}
		if to := fn(*l); to != *l {
			s.uses.add(to)
			s.uses.drop(*l)
			*l = to
		}
	}
	for _, q := range s.queues {
		for j := range q.kept() {
			move(&j.body)
			if x := s.extOf(j); x != nil {
				move(&x.result)
				move(&x.err)
			}
		}
	}
}
