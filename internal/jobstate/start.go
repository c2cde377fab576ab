package jobstate

import (
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// start is the last start of an owner that declared: of two the later one wins,
// however late the older one comes.
type start struct {
	id broker.ID
	at int64 // on the broker's clock
}

// begin records that a start of an owner has declared.
func (s *State) begin(w *Writer, queue, owner string, st start) {
	if q := s.queues[queue]; q != nil && q.starts[owner] == st {
		return
	}
	w.begin(recStart)
	w.str(queue)
	w.str(owner)
	w.id(st.id)
	w.time(st.at)
	w.end()
	s.applyStart(queue, owner, st, w.base)
}

func (s *State) readStart(r *reader) error {
	queue, owner, st := string(r.str()), string(r.str()), start{r.id(), r.time()}
	if r.err == nil {
		s.applyStart(queue, owner, st, r.base)
	}
	return r.err
}

// applyStart forgets those, too, that left nothing and are long past: owners
// come and go without end.
func (s *State) applyStart(queue, owner string, st start, now int64) {
	q := s.queues[queue]
	if q == nil {
		q = s.makeQueue(queue)
	}
	owners := map[string]bool{owner: true}
	for _, t := range q.settings {
		if t.declared != nil {
			owners[t.declared.Owner] = true
		}
	}
	q.starts[owner] = st
	maps.DeleteFunc(q.starts, func(owner string, st start) bool {
		return !owners[owner] && st.at < now-int64(broker.StartKept)
	})
}

func (q *queue) encodeStarts(e *encoder) {
	e.u32(uint32(len(q.starts)))
	for _, owner := range slices.Sorted(maps.Keys(q.starts)) {
		st := q.starts[owner]
		e.str(owner)
		e.raw(st.id[:])
		e.i64(st.at)
	}
}

func (q *queue) decodeStarts(d *decoder) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		owner := d.str()
		q.starts[owner] = start{d.b16(), d.i64()}
	}
}
