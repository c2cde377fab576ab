package jobstate

import (
	"math/bits"
	"slices"

	"github.com/spoolq/spool/broker"
)

// applyArrive adds a job that comes by a move, and puts it where its state has
// it.
func (s *State) applyArrive(t *task, r *arriveRec, at int64) *job {
	q, j := t.queue, s.takeJob()
	s.seq = max(s.seq, r.seq)
	if r.state == broker.Ready && r.flags&scheduled == 0 {
		s.lastPlace = max(s.lastPlace, r.place) // what comes later stands behind it
	}
	j.id, j.body, j.place, j.enqueuedAt, j.flags = r.id, r.body, r.place, r.enqueuedAt, r.flags&^scheduled
	s.setLater(j, r.flags&scheduled != 0)
	j.setSeq(r.seq)
	j.life = noLifeBit | r.max
	j.become(r.state)
	j.because(r.reason)
	l := t.laneOf(r.lane)
	j.lane = l.self
	if r.runAt != r.place || r.changedAt != r.enqueuedAt || r.parts&^(aLane|aGroup) != 0 || r.state.Final() {
		s.livesOn(j, r)
	}
	if r.parts&aHeld != 0 {
		q.holdKey(keyName{t.name, r.key}, &heldKey{id: j.id, digest: r.digest, until: r.keyUntil}, at)
	}
	if g := groupOf(l); r.parts&aGroup != 0 && (q.groups[g] == nil || q.groups[g].holder == nil) {
		q.groupFor(g).holder = j
	}
	q.jobs.add(&s.jobs, j)
	s.settleIn(j)
	t.totals.Enqueued++
	s.countEnd(j)
	s.gather(j)
	s.tell(j, "", false)
	return j
}

// livesOn gives an arriving job what it has lived through.
func (s *State) livesOn(j *job, r *arriveRec) {
	v := s.change(j)
	v.runAt, v.changedAt, v.claimedAt = r.runAt, r.changedAt, r.claimedAt
	v.epoch, v.claims = uint32(r.token>>32), uint32(r.token)
	v.attempts, v.failures, v.ended = r.attempts, r.failures, r.ended
	// A token that this store gives is larger than any before: those of the
	// other side are of an epoch that is over.
	if r.token != 0 {
		s.epoch = max(s.epoch, v.epoch+1)
	}
	x := &extra{
		key: r.key, hold: r.hold, keyFor: r.keyFor, digest: r.digest, batch: r.batch, ordinal: r.ordinal,
		size: r.size, seen: slices.Clone(r.seen), left: r.size, retain: r.retain, startWithin: r.startWithin,
		keepUntil: r.keepUntil, result: r.result, err: r.err, worker: r.worker, progress: r.progress, log: r.log,
	}
	for _, word := range r.seen {
		x.left -= min(x.left, uint32(bits.OnesCount64(word)))
	}
	if !x.empty() {
		s.extend(j, x)
	}
}

// countEnd adds to the totals what a job has behind it that is final: no sum of
// them may be less than what is there.
func (s *State) countEnd(j *job) {
	t := &s.taskOf(j).totals
	switch j.state() {
	case broker.Done:
		t.Acked++
		s.countClaim(j)
	case broker.Dead:
		t.Died++
	case broker.Cancelled:
		t.Cancelled++
	default:
		return
	}
	s.signal(j)
}

// gather gives a completion job that arrives the signals that came before it.
func (s *State) gather(j *job) {
	m := s.queueOf(j).move
	if j.flags&waitsBatch == 0 {
		return
	}
	if s.extOf(j).left == 0 {
		s.complete = append(s.complete, j)
	}
	for _, n := range m.early[j.id] {
		s.count(j, n)
	}
	delete(m.early, j.id)
}

// putSignal records that a member of a batch is final.
func (s *State) putSignal(w *Writer, q *queue, g signalOf) {
	w.begin(recSignal)
	w.str(q.name)
	w.id(g.batch)
	w.uint(uint64(g.ordinal))
	w.end()
	s.applySignal(q, g)
}

func (s *State) readSignal(r *reader) error {
	q := s.queues[string(r.str())]
	g := signalOf{r.id(), uint32(r.uint())}
	if r.err == nil && q == nil {
		r.bad("signal of no queue")
	}
	if r.err == nil {
		s.applySignal(q, g)
	}
	return r.err
}

func (s *State) applySignal(q *queue, g signalOf) {
	c := q.job(g.batch)
	if c == nil {
		q.missed(g.batch, g.ordinal)
		return
	}
	if x := s.extOf(c); x != nil && g.ordinal < x.size {
		s.count(c, g.ordinal)
	}
}

// putKey lets a key be held whose job is gone, unless another holds it.
func (s *State) putKey(w *Writer, now Now, q *queue, k *broker.MovedKey) {
	name := keyName{k.Task, k.Key}
	h := heldKey{id: k.ID, digest: k.Digest, until: satAdd(k.Until.UnixNano(), q.move.delta)}
	if q.holder(name, now.Steady) != nil || h.over(now.Steady) {
		return
	}
	w.begin(recKey)
	w.str(q.name)
	w.str(name.task)
	w.text(name.key)
	w.id(h.id)
	w.raw(h.digest[:])
	w.uint(uint64(h.until))
	w.end()
	q.holdKey(name, &h, w.base)
}

func (s *State) readKey(r *reader) error {
	q := s.queues[string(r.str())]
	name := keyName{string(r.str()), string(r.text())}
	h := heldKey{id: r.id()}
	copy(h.digest[:], r.take(16))
	h.until = int64(r.uint())
	if r.err == nil && q == nil {
		r.bad("key of no queue")
	}
	if r.err == nil {
		q.holdKey(name, &h, r.base)
	}
	return r.err
}

func (s *State) readPut(r *reader) error {
	q := s.queues[string(r.str())]
	number, n := r.uint(), int(min(r.uint(), broker.MaxBatchJobs))
	if r.err == nil && (q == nil || q.move == nil) {
		r.bad("batch of a move that is not there")
	}
	if r.err == nil {
		s.applyPut(q, number, n)
	}
	return r.err
}

func (s *State) applyPut(q *queue, number uint64, n int) {
	q.move.batch = number
	q.move.jobs += int64(n)
}
