package jobstate

import (
	"slices"

	"github.com/spoolq/spool/broker"
)

// takeRec is a take record: what leaves, by name.
type takeRec struct {
	batch    uint64
	ids      []broker.ID
	keys     []keyName
	signals  int // the first so many
	settings []settingName
	settled  bool // starts and pause leave, too
}

func (t *takeRec) empty() bool {
	return len(t.ids)+len(t.keys)+t.signals+len(t.settings) == 0 && !t.settled
}

// Take takes a batch of a queue that leaves. The jobs of the answer stand in
// out: the caller fills them in. An error means that nothing was written.
func (s *State) Take(w *Writer, now Now, r *broker.MoveTake) (b broker.MoveBatch, out []OutJob, err error) {
	q, is := s.under(r.Queue)
	if err := is.Takes(now.Steady, r); err != nil {
		return b, nil, err
	}
	m := q.move
	s.promote(q, now)
	if r.Batch == m.batch+1 {
		s.takeNext(w, now, q, r.Max)
	}
	if until := satAdd(now.Steady, int64(MoveLasts(r.TTL))); m.runner != r.Runner || until-m.until > int64(MoveLasts(r.TTL))/3 {
		rec := m.moveRec
		rec.runner, rec.until = r.Runner, until
		s.setMove(w, q.name, rec, true)
	}
	b, out = s.describeOut(now, q)
	b.Done = r.Batch != b.Number && b.Left == 0
	return b, out, nil
}

// takeNext takes what is next, jobs first; with nothing to take it only notes
// that the last batch has arrived.
func (s *State) takeNext(w *Writer, now Now, q *queue, most int) {
	if most <= 0 || most > broker.MaxMoveJobs {
		most = broker.MaxMoveJobs
	}
	m := q.move
	t := takeRec{batch: m.batch + 1, ids: s.takeable(q, most), signals: min(len(m.signals), most)}
	if t.empty() && q.jobs.len() == 0 {
		if t.keys = q.takeableKeys(now, most); len(t.keys) == 0 && !m.settled {
			t.settings = q.settingNames()
			t.settled = len(t.settings) <= most
			t.settings = t.settings[:min(len(t.settings), most)]
		}
	}
	switch {
	case !t.empty():
		s.writeTake(w, q, &t)
	case !m.out.empty():
		s.setMove(w, q.name, m.moveRec, false)
	}
}

// takeable chooses jobs that nobody runs, list by list.
func (s *State) takeable(q *queue, most int) (ids []broker.ID) {
	size := int64(0)
	for _, state := range [...]broker.State{broker.Scheduled, broker.Ready, broker.Done, broker.Dead, broker.Cancelled} {
		for j := s.firstOf(&q.lists[state]); j != nil && len(ids) < most; j = s.nextOf(j) {
			size += int64(j.body.Len)
			if x := s.extOf(j); x != nil {
				size += int64(x.err.Len) + int64(x.result.Len)
			}
			if len(ids) > 0 && size > broker.MaxMoveBytes {
				return ids
			}
			ids = append(ids, j.id)
		}
	}
	return ids
}

// takeableKeys are keys that are held for a time by jobs that are gone. All that
// are there have left.
func (q *queue) takeableKeys(now Now, most int) (names []keyName) {
	for name, h := range q.keys {
		if len(names) == most {
			break
		}
		if h.until > now.Steady && q.move.told[name] != h.id {
			names = append(names, name)
		}
	}
	return names
}

func (s *State) writeTake(w *Writer, q *queue, t *takeRec) {
	w.begin(recTake)
	w.str(q.name)
	w.uint(t.batch)
	w.ids(t.ids)
	w.uint(uint64(len(t.keys)))
	for _, k := range t.keys {
		w.str(k.task)
		w.text(k.key)
	}
	w.uint(uint64(t.signals))
	w.uint(uint64(len(t.settings)))
	for _, n := range t.settings {
		w.str(string(n.kind))
		w.text(n.name)
	}
	w.byte(b2u(t.settled))
	w.end()
	s.applyTake(q, t, w.base)
}

func (s *State) readTake(r *reader) error {
	name := string(r.str())
	t := takeRec{batch: r.uint()}
	for range r.count(16) {
		t.ids = append(t.ids, r.id())
	}
	for range r.count(2) {
		t.keys = append(t.keys, keyName{string(r.str()), string(r.text())})
	}
	t.signals = int(min(r.uint(), 1<<30))
	for range r.count(2) {
		t.settings = append(t.settings, settingName{broker.SettingKind(r.str()), string(r.text())})
	}
	t.settled = r.byte() != 0
	q := s.queues[name]
	if r.err == nil && (q == nil || q.move == nil || t.signals > len(q.move.signals)) {
		r.bad("batch of a move that is not there")
	}
	seen := make(map[broker.ID]bool, len(t.ids))
	for _, id := range t.ids {
		if j := s.find(r, []byte(name), id); j != nil && (j.state() == broker.Leased || seen[id]) {
			r.bad("a job is taken that is leased, or twice")
		}
		seen[id] = true
	}
	if r.err == nil {
		s.applyTake(q, &t, r.base)
	}
	return r.err
}

// applyTake puts what leaves into the outbox, whose last batch has arrived.
func (s *State) applyTake(q *queue, t *takeRec, at int64) {
	m := q.move
	s.dropOut(m)
	m.batch, m.jobs = t.batch, m.jobs+int64(len(t.ids))
	for _, id := range t.ids {
		m.out.jobs = append(m.out.jobs, s.detach(q.job(id), at))
	}
	for _, name := range t.keys {
		if h := q.keys[name]; h != nil {
			m.out.keys = append(m.out.keys, outKey{name, *h})
			m.toldOf(name, h)
		}
	}
	m.out.signals = slices.Clone(m.signals[:t.signals])
	m.signals = slices.Delete(m.signals, 0, t.signals)
	for _, name := range t.settings {
		if set := q.settings[name]; set != nil {
			m.out.settings = append(m.out.settings, outSetting{name, *set})
			s.unset(q, name, at)
		}
	}
	if t.settled {
		m.settled = true
		m.out.starts, m.out.paused = q.starts, q.paused
		q.starts, q.paused = map[string]start{}, false
	}
}

// unset takes a setting out, both its layers.
func (s *State) unset(q *queue, name settingName, at int64) {
	delete(q.settings, name)
	if name.kind == broker.CapacitySetting {
		s.capacities--
	}
	s.govern(q, name.kind)
	s.tellSetting(q.name, name, at)
}

// detach takes a job out of its queue, and keeps it. A key that it holds stays
// with the queue, in its name: a repeat is answered as before until the move
// ends.
func (s *State) detach(j *job, at int64) outgoing {
	l := s.laneOf(j)
	q, state := l.task.queue, j.state()
	o := outgoing{job: j, group: s.holds(j)}
	keep := int64(0)
	if x := s.extOf(j); x != nil {
		keep = x.keepUntil
		name := keyName{l.task.name, x.key}
		if h := q.holder(name, at); x.key != "" && h != nil && h.id == j.id {
			o.keyHeld, o.keyUntil = true, h.until
			q.move.toldOf(name, h)
		}
	}
	life := s.leave(j)
	if keep != 0 {
		life.ext.keepUntil = keep
	}
	q.lists[state].remove(s, j)
	l.task.n[state]--
	if counts(state) {
		q.carry(l, j, false)
	}
	if state == broker.Ready {
		q.idle(l, j, false)
		if j.flags&scheduled != 0 {
			j.become(broker.Scheduled) // whether it is due is for the other side to find out
		}
	}
	s.freeGroup(j)
	q.jobs.remove(&s.jobs, j)
	j.order = 0
	return o
}

// toldOf notes that the other side knows of a key that is held for a time.
func (m *move) toldOf(name keyName, h *heldKey) {
	if h.until == 0 {
		return
	}
	if m.told == nil {
		m.told = map[keyName]broker.ID{}
	}
	m.told[name] = h.id
}

// dropOut forgets what has arrived at the other side.
func (s *State) dropOut(m *move) {
	for _, o := range m.out.jobs {
		j := o.job
		s.uses.drop(j.body)
		if x := s.extOf(j); x != nil {
			s.uses.drop(x.err)
			s.uses.drop(x.result)
		}
		s.unref(s.laneOf(j))
		s.forget(j)
	}
	m.out = outbox{}
}

// missed notes that a member is final whose completion job is at the other
// side, or on its way.
func (q *queue) missed(batch broker.ID, ordinal uint32) {
	switch m := q.move; {
	case m == nil:
	case m.state == broker.Leaving:
		m.signals = append(m.signals, signalOf{batch, ordinal})
	case m.state == broker.Arriving:
		m.expect(signalOf{batch, ordinal})
	}
}
