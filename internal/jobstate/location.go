package jobstate

import "github.com/spoolq/spool/broker"

// EachLoc hands out everything that jobs refer to; what is payload, error text
// or result.
func (s *State) EachLoc(fn func(ref broker.Ref, what string, l Loc)) {
	for name, q := range s.queues {
		for id, j := range q.jobs {
			ref := broker.Ref{Queue: name, ID: id}
			fn(ref, "payload", j.body)
			if j.ext != nil && !j.ext.err.Zero() {
				fn(ref, "error text", j.ext.err)
			}
			if j.ext != nil && !j.ext.result.Zero() {
				fn(ref, "result", j.ext.result)
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
		for _, j := range q.jobs {
			move(&j.body)
			if j.ext != nil {
				move(&j.ext.result)
				move(&j.ext.err)
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
		for id, j := range q.jobs {
			if o := from.jobs[id]; o != nil {
				s.adopt(j, o)
			}
		}
	}
}

func (s *State) adopt(j, o *job) {
	take := func(mine *Loc, theirs Loc) {
		if !mine.Zero() && theirs != *mine && theirs.Sum == mine.Sum && theirs.Len == mine.Len {
			s.uses.add(theirs)
			s.uses.drop(*mine)
			*mine = theirs
		}
	}
	take(&j.body, o.body)
	if j.ext != nil && o.ext != nil {
		take(&j.ext.result, o.ext.result)
		take(&j.ext.err, o.ext.err)
	}
}
