package jobstate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// move is how far the move of a queue to or from another store is: the records
// of both sides are of this one type. See broker.Mover.
type move struct {
	moveRec
	out     outbox
	signals []signalOf             // leaving: of members whose completion job has left
	told    map[keyName]broker.ID  // leaving: keys held for a time that the other side knows of, and by whom
	early   map[broker.ID][]uint32 // arriving: of members whose completion job is not here yet
	fresh   int64                  // when the queue first worked here: its rates start empty then
}

// moveRec is a move record: all of a move but what is on its way.
type moveRec struct {
	id, turned broker.ID
	state      broker.MoveState // 0: the record is dropped
	peer       string
	batch      uint64 // the last that was taken, or put
	jobs       int64  // that left, or came
	settled    bool   // the settings have left; the queue has worked here
	runner     broker.ID
	until      int64 // the runner is waited for
	// Arriving: this store's clock less the other's, and where the numbers of the
	// other's enqueues are: those from first on behind base, so many as room says.
	delta             int64
	base, first, room uint64
}

// seqRoom is how many enqueues during and after a move keep their order among
// the jobs of one place. Each move uses so many numbers up, and those between
// the oldest job and the youngest.
const seqRoom = 1 << 20

// maxSeq is what moves leave of the numbers, which have 48 bits, to enqueues.
const maxSeq = 1 << 47

// seqOf is the number of a job that arrives; not ok when its own has no place.
func (m *moveRec) seqOf(n uint64) (seq uint64, ok bool) {
	return m.base + 1 + n - m.first, n >= m.first && n-m.first < m.room
}

// rests reports whether no job of the queue is given out.
func (q *queue) rests() bool { return q.paused || q.moving() }

// moving reports whether the queue rests for a move.
func (q *queue) moving() bool { return q.move != nil && q.move.state.Rests() }

// said says how a queue moves, for people; "" when it does not.
func (m *move) said() string {
	if m == nil {
		return ""
	}
	r := m.record()
	return r.Said()
}

// record is what decides about m.
func (m *move) record() MoveRecord {
	if m == nil {
		return MoveRecord{}
	}
	return MoveRecord{ID: m.id, State: m.state, Peer: m.peer, Batch: m.batch, OnWay: !m.out.empty(), Runner: m.runner, Until: m.until}
}

// Moves returns the records of a queue's move, or of all queues' for "".
func (s *State) Moves(now Now, queue string) (all []broker.Move) {
	for _, name := range s.Queues() {
		if q := s.queues[name]; q.move != nil && (queue == "" || queue == name) {
			all = append(all, s.describeMove(now, q))
		}
	}
	return all
}

func (s *State) describeMove(now Now, q *queue) broker.Move {
	m := q.move
	return broker.Move{
		ID: m.id, Queue: q.name, State: m.state, Peer: m.peer, Batch: m.batch, OnWay: !m.out.empty(), Jobs: m.jobs, Turned: m.turned,
		Now: time.Unix(0, now.Steady), First: q.firstSeq(), Seq: s.seq,
	}
}

// firstSeq is the smallest number of an enqueue that a job of the queue has, or
// the next one when it has none.
func (q *queue) firstSeq() uint64 {
	first := q.state.seq + 1
	for j := range q.kept() {
		first = min(first, j.seq())
	}
	return first
}

// BeginMove begins a move of a queue, or goes on with it. An error means that
// nothing was written.
func (s *State) BeginMove(w *Writer, now Now, b *broker.MoveBegin) (broker.Move, error) {
	q := s.queues[b.Queue]
	rec := moveRec{id: b.ID, state: b.State, peer: b.Peer, batch: b.Batch, turned: b.Turn}
	if q != nil && q.move != nil {
		is := q.move.record()
		if err := is.Begins(now.Steady, b); err != nil {
			return broker.Move{}, err
		}
		if is.ID == b.ID {
			rec = q.move.moveRec
			rec.state = b.State
		}
	}
	switch {
	case b.State == broker.Leaving:
		rec.runner, rec.until = b.Runner, satAdd(now.Steady, int64(MoveLasts(b.TTL)))
	case q == nil || q.move == nil || q.move.id != b.ID:
		rec.delta = now.Steady - b.Now.UnixNano()
		rec.base, rec.first, rec.room = s.seq, b.First, max(b.Seq, b.First)-b.First+seqRoom
		if rec.room > maxSeq-min(s.seq, maxSeq) {
			rec.first, rec.room = b.Seq, seqRoom // those before are placed as they come
		}
	}
	s.setMove(w, b.Queue, rec, rec.state == broker.Leaving)
	return s.describeMove(now, s.queues[b.Queue]), nil
}

// under returns the record of a queue's move, nil for none, and the queue.
func (s *State) under(queue string) (q *queue, r MoveRecord) {
	if q = s.queues[queue]; q != nil {
		r = q.move.record()
	}
	return q, r
}

// EndMove ends a move at this side. An error means that nothing was written.
func (s *State) EndMove(w *Writer, e *broker.MoveEnd) error {
	q, is := s.under(e.Queue)
	to, err := is.Ends(e)
	if err != nil || to == is.State {
		return err
	}
	rec := q.move.moveRec
	switch rec.state = to; to {
	case 0:
		rec = moveRec{}
	case broker.Arrived:
		rec.settled = true
	}
	s.setMove(w, e.Queue, rec, false)
	return nil
}

// setMove records what the move of a queue is now. on says that what is on its
// way still is; else it has arrived.
func (s *State) setMove(w *Writer, queue string, m moveRec, on bool) {
	w.begin(recMove)
	w.str(queue)
	w.byte(byte(m.state))
	w.byte(b2u(on))
	w.id(m.id)
	w.id(m.turned)
	w.text(m.peer)
	w.uint(m.batch)
	w.uint(uint64(m.jobs))
	w.byte(b2u(m.settled))
	w.id(m.runner)
	w.time(m.until)
	w.int(m.delta)
	w.uint(m.base)
	w.uint(m.first)
	w.uint(m.room)
	w.end()
	s.applyMove(queue, m, on, w.base)
}

func (s *State) readMove(r *reader) error {
	queue := string(r.str())
	m := moveRec{state: broker.MoveState(r.byte())}
	on := r.byte() != 0
	m.id, m.turned, m.peer = r.id(), r.id(), string(r.text())
	m.batch, m.jobs, m.settled = r.uint(), int64(r.uint()), r.byte() != 0
	m.runner, m.until = r.id(), r.time()
	m.delta, m.base, m.first, m.room = r.int(), r.uint(), r.uint(), r.uint()
	if m.state > broker.Arrived {
		r.bad("state of a move")
	}
	if r.err == nil {
		s.applyMove(queue, m, on, r.base)
	}
	return r.err
}

func (s *State) applyMove(queue string, rec moveRec, on bool, at int64) {
	q := s.queues[queue]
	if q == nil {
		q = s.makeQueue(queue)
	}
	if q.move == nil {
		q.move = &move{}
	}
	m := q.move
	if rec.state == broker.Arrived && !m.settled {
		m.fresh = at
	}
	m.moveRec = rec
	if !on {
		s.dropOut(m)
	}
	m.turnSignals()
	if !rec.state.Rests() || rec.state == broker.Left {
		q.endKeys(rec.state == broker.Left)
	}
	if rec.state != broker.Leaving {
		m.told = nil
	}
	s.seq = max(s.seq, rec.base+rec.room)
	if rec.state == 0 {
		q.move = nil
	}
	if !q.moving() {
		s.worksAgain(q, at)
	}
}

// turnSignals keeps what is known of ends of members where it is of use, when a
// move is turned around, and forgets it when one ends.
func (m *move) turnSignals() {
	switch m.state {
	case broker.Leaving:
		for _, id := range slices.SortedFunc(maps.Keys(m.early), func(a, b broker.ID) int { return bytes.Compare(a[:], b[:]) }) {
			for _, n := range m.early[id] {
				m.signals = append(m.signals, signalOf{id, n})
			}
		}
		m.early = nil
		return
	case broker.Arriving:
		for _, g := range m.signals {
			m.expect(g)
		}
	default:
		m.early = nil
	}
	m.signals = nil
}

// expect keeps a signal until its completion job is here.
func (m *move) expect(g signalOf) {
	if m.early == nil {
		m.early = map[broker.ID][]uint32{}
	}
	m.early[g.batch] = append(m.early[g.batch], g.ordinal)
}

// worksAgain tells of what a queue gives out that rested.
func (s *State) worksAgain(q *queue, at int64) {
	for _, r := range q.rules {
		for _, m := range r.meters {
			q.free(&m.gate) // whoever waits finds out that it starts empty
		}
	}
	s.hint(q, nil)
	for name := range q.settings {
		if name.kind == broker.ScheduleSetting {
			s.tellSetting(q.name, name, at)
		}
	}
	if s.changed != nil {
		s.changed(Change{Queue: q.name})
	}
}

// endKeys forgets the keys of jobs that have left: who holds them is for the
// other side to say. left says that those held for a time have left, too.
func (q *queue) endKeys(left bool) {
	for name, h := range q.keys {
		if q.gone(h) || left && q.move.told[name] == h.id {
			q.dropKey(name)
		}
	}
}

// gone reports whether a key's job has left by a move: no other job goes
// without freeing a key that is not held for a time.
func (q *queue) gone(h *heldKey) bool { return h.until == 0 && q.job(h.id) == nil }

// refuses turns a call away that would change a job which has left by a move:
// it can be repeated there, or here when the move has ended.
func (q *queue) refuses(jobs []broker.NewJob) error {
	if !q.moving() {
		return nil
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Key == "" || j.KeyRepeat == broker.RepeatFirst {
			continue
		}
		if h := q.keys[keyName{j.Task, j.Key}]; h != nil && q.gone(h) {
			return &broker.FullError{
				Queue: q.name, RetryAfter: retryAfter,
				Text: fmt.Sprintf("job %s, which holds the key of job %d, is not here any more: queue %s %s", h.id, i+1, q.name, q.move.said()),
			}
		}
	}
	return nil
}
