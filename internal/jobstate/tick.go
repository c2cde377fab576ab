package jobstate

import "github.com/spoolq/spool/broker"

// Tick moves a schedule's cursor and enqueues its jobs, if the cursor is where
// the caller saw it and due.
func (s *State) Tick(w *Writer, now Now, t *broker.Tick) (won bool, err error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	var due, next int64
	if !t.Due.IsZero() {
		due = t.Due.UnixNano()
	}
	if next = never; !t.Next.IsZero() {
		next = t.Next.UnixNano()
	}
	if next <= due {
		return false, nil // a cursor never goes back
	}
	sched := s.schedule(t.Queue, t.Schedule)
	if sched == nil || sched.paused || s.queues[t.Queue].moving() || sched.due != due || now.Wall < due {
		return false, nil
	}
	if err := s.checkAll(t.Queue, t.Jobs); err != nil {
		return false, err
	}
	w.begin(recTick)
	w.str(t.Queue)
	w.str(t.Schedule)
	w.uint(uint64(next))
	w.end()
	sched.due = next
	for i := range t.Jobs {
		s.enqueue(w, now, t.Queue, &t.Jobs[i])
	}
	return true, nil
}

func (s *State) readTick(r *reader) error {
	queue, name, next := r.str(), r.str(), int64(r.uint())
	if r.err != nil {
		return r.err
	}
	if t := s.schedule(string(queue), string(name)); t != nil {
		t.due = next
	}
	return nil
}
