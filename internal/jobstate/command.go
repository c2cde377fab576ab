package jobstate

import "github.com/spoolq/spool/broker"

// Cancel cancels the waiting jobs among ids, and asks for the end of the
// leased ones. It returns how many it changed.
func (s *State) Cancel(w *Writer, queue string, ids []broker.ID, why string) (n int) {
	q := s.queues[queue]
	if q == nil {
		return 0
	}
	var ask []broker.ID
	for _, id := range ids {
		j := q.jobs[id]
		switch {
		case j == nil:
		case j.state == broker.Scheduled || j.state == broker.Ready:
			s.final(w, j, finalRec{state: broker.Cancelled, reason: reasonCancelled, err: []byte(broker.CutError(why))})
			n++
		case j.state == broker.Leased && j.flags&cancelAsked == 0:
			s.applyAsk(j, w.base)
			ask = append(ask, id)
		}
	}
	if len(ask) > 0 {
		w.begin(recAsk)
		w.str(queue)
		w.ids(ask)
		w.end()
	}
	return n + len(ask)
}

func (s *State) readAsk(r *reader) error {
	queue := r.str()
	for range r.count(16) {
		j := s.find(r, queue, r.id())
		if j == nil {
			return r.err
		}
		s.applyAsk(j, r.base)
	}
	return r.err
}

func (s *State) applyAsk(j *job, at int64) {
	j.flags |= cancelAsked
	j.reason = reasonCancelAsked
	worker := ""
	if j.lease != nil {
		worker = j.lease.worker
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
	for _, id := range ids {
		j := q.jobs[id]
		if j == nil || j.state != broker.Dead && j.state != broker.Cancelled {
			continue
		}
		r := s.later(now, 0)
		r.reason, r.failures = reasonRequeued, j.failures
		s.again(w, j, r)
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
		if j := q.jobs[id]; j != nil && j.state != broker.Leased && !seen[id] {
			seen[id] = true
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		s.drop(w, q, dropDeleted, gone)
	}
	return len(gone)
}

// Damaged makes a leased job dead whose payload no longer matches its
// checksum.
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
