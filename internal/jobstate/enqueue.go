package jobstate

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

type enqueueFlags uint32

const (
	fScheduled enqueueFlags = 1 << iota // has a run-at in the future
	fByWall
	fOrdered
	fPriority
	fTenant
	fGroup
	fKey
	fMaxAttempts
	fRetain
	fStartWithin
	fBatch
	fBatchSize
)

// enqueueRec is an enqueue record. Its strings may share the frame.
type enqueueRec struct {
	id            broker.ID
	flags         enqueueFlags
	place, runAt  int64
	at            int64 // of the enqueue
	priority      int32
	tenant, group string
	key           string
	hold          broker.KeyHold
	keyFor        int64
	digest        [16]byte
	maxAttempts   uint32
	retain        int64
	startWithin   int64
	batch         broker.ID
	ordinal       uint32
	size          uint32
	body          Loc
}

// Enqueue adds jobs to a queue, all or none: an error means that nothing was
// written. The answers are in the order of jobs.
func (s *State) Enqueue(w *Writer, now Now, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	if err := s.checkAll(queue, jobs); err != nil {
		return nil, err
	}
	if q := s.queues[queue]; q != nil {
		if err := q.refuses(jobs); err != nil {
			return nil, err
		}
		s.promote(q, now) // what is due stands before what comes now
	}
	if err := s.makeRoom(w, now, queue, jobs); err != nil {
		return nil, err
	}
	answers := make([]broker.Enqueued, len(jobs))
	for i := range jobs {
		answers[i] = s.enqueue(w, now, queue, &jobs[i])
	}
	return answers, nil
}

// checkAll guards the store against what would damage it, and refuses a call
// that can never be right.
func (s *State) checkAll(queue string, jobs []broker.NewJob) error {
	if s.queues[queue] == nil {
		if err := broker.ValidName(queue); err != nil {
			return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
		}
	}
	if len(jobs) > broker.MaxBatchJobs {
		return fmt.Errorf("%w: %d jobs in one call, the limit is %d", broker.ErrTooLarge, len(jobs), broker.MaxBatchJobs)
	}
	size := 0
	for i := range jobs {
		if err := s.checkNew(queue, &jobs[i]); err != nil {
			if len(jobs) > 1 {
				err = fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
			}
			return err
		}
		size += jobs[i].Size()
	}
	if size > broker.MaxCallBytes {
		return fmt.Errorf("%w: %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, broker.MaxCallBytes)
	}
	return checkBatches(s.queues[queue], jobs)
}

// checkNew guards the store: a known task has passed ValidName before.
func (s *State) checkNew(queue string, j *broker.NewJob) error {
	if q := s.queues[queue]; q != nil && q.tasks[j.Task] != nil && plain(j) {
		return nil
	}
	return j.Validate(0)
}

// plain says that j has nothing that could be out of range.
func plain(j *broker.NewJob) bool {
	return j.Delay == 0 && j.At.IsZero() && j.Tenant == "" && j.Group == "" && j.Key == "" &&
		j.KeyHold == 0 && j.KeyFor == 0 && j.KeyRepeat == 0 && j.BatchSize == 0 && j.Batch.IsZero() &&
		len(j.Headers) <= 2 && j.Size()-len(j.Payload) <= broker.MaxHeaderBytes && len(j.Payload) <= broker.MaxCallBytes &&
		j.MaxAttempts >= 0 && j.MaxAttempts <= broker.MaxAttempts &&
		j.Timeout >= 0 && j.Timeout <= broker.MaxDelay && j.StartWithin == 0 && j.Retain <= broker.MaxDelay
}

func (s *State) enqueue(w *Writer, now Now, queue string, nj *broker.NewJob) broker.Enqueued {
	id := nj.ID
	if id.IsZero() {
		id = broker.NewID()
	}
	q := s.queues[queue]
	if q != nil {
		if j := q.job(id); j != nil {
			sum, n := sumOf(nj)
			return broker.Enqueued{ID: id, Existing: true, Differs: j.body.Sum != sum || j.body.Len != n}
		}
	}
	r := enqueueRec{id: id, at: w.base}
	if nj.Key != "" {
		r.digest = digest(nj.Payload)
		if q != nil {
			if h := q.holder(keyName{nj.Task, nj.Key}, now.Steady); h != nil {
				answer := broker.Enqueued{ID: h.id, Existing: true, Differs: h.digest != r.digest}
				if j := q.job(h.id); j != nil && nj.KeyRepeat != broker.RepeatFirst && s.keyOf(j) == nj.Key && s.taskOf(j).name == nj.Task {
					s.replace(w, now, j, nj, r.digest)
				}
				return answer
			}
		}
	}
	s.fill(&r, now, nj)
	r.body = r.write(w, queue, nj)
	if q == nil {
		q = s.makeQueue(queue)
	}
	t := q.tasks[nj.Task]
	if t == nil {
		t = q.makeTask(nj.Task)
	}
	s.applyEnqueue(t, &r)
	return broker.Enqueued{ID: id}
}

// fill decides when the job runs and copies what it was given.
func (s *State) fill(r *enqueueRec, now Now, nj *broker.NewJob) {
	r.place = s.placeNow(now)
	r.runAt = now.Steady
	switch {
	case nj.Delay > 0:
		r.flags |= fScheduled
		r.runAt = satAdd(now.Steady, int64(nj.Delay))
	case !nj.At.IsZero() && nj.At.UnixNano() > now.Wall:
		r.flags |= fScheduled | fByWall
		r.runAt = nj.At.UnixNano()
	}
	if nj.BatchSize > 0 {
		r.flags &^= fScheduled | fByWall
	}
	if r.flags&fScheduled != 0 {
		r.place = r.runAt
	}
	set := func(on bool, f enqueueFlags) {
		if on {
			r.flags |= f
		}
	}
	r.priority, r.tenant, r.group, r.key = nj.Priority, nj.Tenant, nj.Group, nj.Key
	r.hold, r.keyFor = nj.KeyHold, int64(nj.KeyFor)
	r.maxAttempts = uint32(nj.MaxAttempts)
	r.retain, r.startWithin = int64(nj.Retain), int64(nj.StartWithin)
	r.batch, r.ordinal, r.size = nj.Batch, nj.BatchOrdinal, nj.BatchSize
	set(nj.Ordered, fOrdered)
	set(r.priority != 0, fPriority)
	set(r.tenant != "", fTenant)
	set(r.group != "", fGroup)
	set(r.key != "", fKey)
	set(r.maxAttempts != 0, fMaxAttempts)
	set(r.retain != 0, fRetain)
	set(r.startWithin != 0, fStartWithin)
	set(!r.batch.IsZero(), fBatch)
	set(r.size != 0, fBatchSize)
}

// placeNow is the place of a job that is ready at once: never before that of
// an earlier one, whatever the clocks of other processes say.
func (s *State) placeNow(now Now) int64 { return max(now.Steady, s.lastPlace) }

func (r *enqueueRec) write(w *Writer, queue string, nj *broker.NewJob) Loc {
	w.begin(recEnqueue)
	w.str(queue)
	w.str(nj.Task)
	w.id(r.id)
	w.uint(uint64(r.flags))
	w.time(r.place)
	if r.flags&fScheduled != 0 {
		w.time(r.runAt)
	}
	if r.flags&fPriority != 0 {
		w.int(int64(r.priority))
	}
	if r.flags&fTenant != 0 {
		w.str(r.tenant)
	}
	if r.flags&fGroup != 0 {
		w.str(r.group)
	}
	if r.flags&fKey != 0 {
		w.text(r.key)
		w.byte(byte(r.hold))
		w.uint(uint64(r.keyFor))
		w.raw(r.digest[:])
	}
	if r.flags&fMaxAttempts != 0 {
		w.uint(uint64(r.maxAttempts))
	}
	if r.flags&fRetain != 0 {
		w.int(r.retain)
	}
	if r.flags&fStartWithin != 0 {
		w.uint(uint64(r.startWithin))
	}
	if r.flags&fBatch != 0 {
		w.id(r.batch)
		w.uint(uint64(r.ordinal))
	}
	if r.flags&fBatchSize != 0 {
		w.uint(uint64(r.size))
	}
	body := w.blob(func(b []byte) []byte { return appendBody(b, nj) })
	w.end()
	return body
}

func (s *State) readEnqueue(r *reader) error {
	queue, name, e := r.enqueueRec()
	if r.err != nil {
		return r.err
	}
	q := s.queues[string(queue)]
	if q == nil {
		q = s.makeQueue(string(queue))
	}
	if q.job(e.id) != nil {
		return nil // one that is known is left as it is
	}
	t := q.tasks[string(name)]
	if t == nil {
		t = q.makeTask(string(name))
	}
	s.applyEnqueue(t, &e)
	return nil
}

// enqueueRec reads the fields of an enqueue record.
func (r *reader) enqueueRec() (queue, task []byte, e enqueueRec) {
	queue, task = r.str(), r.str()
	e = enqueueRec{at: r.base, id: r.id(), flags: enqueueFlags(r.uint()), place: r.time()}
	e.runAt = r.base
	if e.flags&fScheduled != 0 {
		e.runAt = r.time()
	}
	if e.flags&fPriority != 0 {
		e.priority = int32(r.int())
	}
	if e.flags&fTenant != 0 {
		e.tenant = string(r.str())
	}
	if e.flags&fGroup != 0 {
		e.group = string(r.str())
	}
	if e.flags&fKey != 0 {
		e.key, e.hold, e.keyFor = string(r.text()), broker.KeyHold(r.byte()), int64(r.uint())
		copy(e.digest[:], r.take(16))
	}
	if e.flags&fMaxAttempts != 0 {
		e.maxAttempts = uint32(min(r.uint(), broker.MaxAttempts))
	}
	if e.flags&fRetain != 0 {
		e.retain = r.int()
	}
	if e.flags&fStartWithin != 0 {
		e.startWithin = int64(r.uint())
	}
	if e.flags&fBatch != 0 {
		e.batch, e.ordinal = r.id(), uint32(r.uint())
	}
	if e.flags&fBatchSize != 0 {
		e.size = uint32(min(r.uint(), broker.MaxBatchJobs))
	}
	e.body = r.blob()
	return queue, task, e
}

// applyEnqueue adds a job, whose id is not known.
func (s *State) applyEnqueue(t *task, r *enqueueRec) {
	if r.flags&fScheduled == 0 {
		// Who enqueues without the state does not know the last place.
		r.place = max(r.place, s.lastPlace)
		s.lastPlace = r.place
	}
	q, j := t.queue, s.takeJob()
	s.seq++
	j.id, j.body, j.place, j.enqueuedAt = r.id, r.body, r.place, r.at
	j.setSeq(s.seq)
	j.life = noLifeBit | broker.DefaultMaxAttempts
	if r.maxAttempts != 0 {
		j.life = noLifeBit | r.maxAttempts
	}
	if r.runAt != r.place {
		s.change(j).runAt = r.runAt
	}
	l := t.laneOf(laneKey{r.priority, r.tenant, r.group, r.flags&fOrdered != 0})
	l.refs++
	j.lane = l.self
	if r.flags&fOrdered != 0 {
		j.flags |= ordered
	}
	if r.flags&(fKey|fRetain|fStartWithin|fBatch|fBatchSize) != 0 {
		s.applyRare(q, t, j, r)
	}
	q.jobs.add(&s.jobs, j)
	s.uses.add(r.body)
	t.totals.Enqueued++
	if r.size > 0 {
		s.waitForBatch(j)
	} else {
		s.wait(j, r.flags&fScheduled != 0, r.flags&fByWall != 0)
	}
	s.tell(j, "", false)
}

func (s *State) applyRare(q *queue, t *task, j *job, r *enqueueRec) {
	s.extend(j, &extra{
		key: r.key, hold: r.hold, keyFor: r.keyFor, digest: r.digest, batch: r.batch, ordinal: r.ordinal,
		retain: r.retain, startWithin: r.startWithin, size: r.size, left: r.size, seen: make([]uint64, (r.size+63)/64),
	})
	if r.key == "" {
		return
	}
	h := &heldKey{id: j.id, digest: r.digest}
	if r.hold == broker.HoldFor {
		h.until = satAdd(r.at, r.keyFor)
	}
	q.holdKey(keyName{t.name, r.key}, h, r.at)
}

// wait puts j among the scheduled or the ready. wall says by which clock it is
// or was due.
func (s *State) wait(j *job, later, wall bool) {
	s.setLater(j, later)
	j.flags &^= byWall
	i := b2u(wall)
	if wall {
		j.flags |= byWall
	}
	if !later {
		s.enter(j, broker.Ready)
		s.stand(j)
		return
	}
	s.enter(j, broker.Scheduled)
	q, at := s.queueOf(j), s.runAt(j)
	s.nextDue[i] = min(s.nextDue[i], at)
	q.due[i].push(s.item(j, at))
	q.due[i].trim(s, q.lists[broker.Scheduled].n)
}

func digest(payload []byte) (d [16]byte) {
	sum := sha256.Sum256(payload)
	copy(d[:], sum[:])
	return d
}

// sumOf is what the body of nj would have for its Loc.
func sumOf(nj *broker.NewJob) (sum, n uint32) {
	b := appendBody(make([]byte, 0, len(nj.Payload)+64), nj)
	return Checksum(b), uint32(len(b))
}

func nanos(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, t).UTC()
}
