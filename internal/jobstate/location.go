package jobstate

import "github.com/spoolq/spool/broker"

// EachLoc hands out everything that jobs refer to; what is payload, error text
// or result.
func (s *State) EachLoc(fn func(ref broker.Ref, what string, l Loc)) {
	for name, q := range s.queues {
		for j := range q.jobs.all(&s.jobs) {
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
		for j := range q.jobs.all(&s.jobs) {
			move(&j.body)
			if x := s.extOf(j); x != nil {
				move(&x.result)
				move(&x.err)
			}
		}
	}
}

// Adopt takes over where bytes lie from an earlier state of the same store in
// which some were moved.
func (s *State) Adopt(moved *State) {
	for name, q := range s.queues {
		from := moved.queues[name]
		if from == nil {
			continue
		}
		for j := range q.jobs.all(&s.jobs) {
			if o := from.job(j.id); o != nil {
				s.adopt(j, moved, o)
			}
		}
	}
}

func (s *State) adopt(j *job, moved *State, o *job) {
	take := func(mine *Loc, theirs Loc) {
		if !mine.Zero() && theirs != *mine && theirs.Sum == mine.Sum && theirs.Len == mine.Len {
			s.uses.add(theirs)
			s.uses.drop(*mine)
			*mine = theirs
		}
	}
	take(&j.body, o.body)
	if x, theirs := s.extOf(j), moved.extOf(o); x != nil && theirs != nil {
		take(&x.result, theirs.result)
		take(&x.err, theirs.err)
	}
}
