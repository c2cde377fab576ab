package jobstate

import "github.com/spoolq/spool/broker"

// Cancel cancels the waiting jobs among ids, and asks for the end of the
// leased ones. It returns how many it changed.
func (s *State) Cancel(w *Writer, queue string, ids []broker.ID, why string) (n int) {
	q := s.queues[queue]
	if q == nil {
		return 0
	}
	for _, id := range ids {
		j := q.job(id)
		switch {
		case j == nil:
		case j.state() == broker.Scheduled || j.state() == broker.Ready:
			s.final(w, j, finalRec{state: broker.Cancelled, reason: reasonCancelled, err: []byte(why)})
			n++
		case j.state() == broker.Leased && j.flags&cancelAsked == 0:
			s.ask(w, j, why)
			n++
		}
	}
	return n
}

// ask records that a leased job is to be cancelled. The text stays with the
// job unless its worker has another.
func (s *State) ask(w *Writer, j *job, why string) {
	w.begin(recAsk)
	w.str(s.queueOf(j).name)
	w.id(j.id)
	var text Loc
	w.byte(b2u(why != ""))
	if why != "" {
		text = w.blobOf([]byte(why))
	}
	w.end()
	s.applyAsk(j, text)
}

func (s *State) readAsk(r *reader) error {
	j := s.find(r, r.str(), r.id())
	var text Loc
	if r.byte() != 0 {
		text = r.blob()
	}
	if r.err == nil {
		s.applyAsk(j, text)
	}
	return r.err
}

func (s *State) applyAsk(j *job, text Loc) {
	j.flags |= cancelAsked
	if !text.Zero() {
		s.setError(j, text)
	}
	j.because(reasonCancelAsked)
	worker := ""
	if j.state() == broker.Leased {
		worker = s.lifeOf(j).lease.worker
	}
	s.tell(j, worker, true)
}

// Requeue makes the dead and cancelled jobs among ids ready again, with fresh
// attempts, behind what waits. It returns how many.
func (s *State) Requeue(w *Writer, now Now, queue string, ids []broker.ID) (n int) {
	q := s.queues[queue]
	if q == nil {
		return 0
	}
	s.promote(q, now)
	for _, id := range ids {
		j := q.job(id)
		if j == nil || j.state() != broker.Dead && j.state() != broker.Cancelled {
			continue
		}
		s.again(w, j, s.later(waitRec{reason: reasonRequeued, failures: s.lifeOf(j).failures}, now, 0))
		n++
	}
	return n
}

// Delete forgets the jobs among ids that are not leased. It returns how many.
func (s *State) Delete(w *Writer, queue string, ids []broker.ID) int {
	q := s.queues[queue]
	if q == nil {
		return 0
	}
	var gone []broker.ID
	seen := map[broker.ID]bool{}
	for _, id := range ids {
		if j := q.job(id); j != nil && j.state() != broker.Leased && !seen[id] {
			seen[id] = true
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		s.drop(w, q, dropDeleted, gone)
	}
	return len(gone)
}

// Damaged makes a leased job dead whose payload is lost, or no longer matches
// its checksum.
func (s *State) Damaged(w *Writer, ref broker.Ref, token broker.Token) {
	if j := s.held(ref, token); j != nil {
		s.final(w, j, finalRec{state: broker.Dead, reason: reasonDamaged})
	}
}

// Pause stops, or with on false restarts, claims from a queue, which need not
// exist yet. It returns whether that changed anything.
func (s *State) Pause(w *Writer, queue string, on bool) bool {
	if q := s.queues[queue]; q == nil && !on || q != nil && q.paused == on {
		return false
	}
	w.begin(recPause)
	w.str(queue)
	if on {
		w.byte(1)
	} else {
		w.byte(0)
	}
	w.end()
	s.applyPause(queue, on)
	return true
}

func (s *State) readPause(r *reader) error {
	queue, on := string(r.str()), r.byte() != 0
	if r.err == nil {
		s.applyPause(queue, on)
	}
	return r.err
}

func (s *State) applyPause(name string, on bool) {
	q := s.queues[name]
	if q == nil {
		q = s.makeQueue(name)
	}
	q.paused = on
	if s.changed != nil {
		s.changed(Change{Queue: name})
	}
}
