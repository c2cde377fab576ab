package jobstate

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// arriveRec is an arrive record: a job that comes by a move, as it was at the
// other side, with its times on this store's clock.
type arriveRec struct {
	id                             broker.ID
	parts                          arriveParts
	state                          broker.State
	reason                         reason
	flags                          jobFlags
	seq                            uint64
	place, enqueuedAt              int64
	runAt, changedAt, claimedAt    int64
	lane                           laneKey
	max, attempts, failures        uint32
	token                          broker.Token
	ended                          broker.SettleKind
	key                            string
	hold                           broker.KeyHold
	keyFor, keyUntil               int64
	digest                         [16]byte
	batch                          broker.ID
	ordinal, size                  uint32
	seen                           []uint64
	retain, startWithin, keepUntil int64
	worker                         string
	progress                       broker.Progress
	log                            []string
	body, err, result              Loc
}

// arriveParts says what of a record is there (part of the format).
type arriveParts uint16

const (
	aLane   arriveParts = 1 << iota // priority, tenant, group, ordered
	aRan                            // claimedAt, token, attempts, failures, ended
	aKey                            // key, hold, for, digest
	aHeld                           // it holds its key, until
	aBatch                          // batch, ordinal
	aWhole                          // size, seen
	aRetain                         // retain, startWithin
	aKeep                           // keepUntil
	aWorker                         // worker, progress, log
	aError
	aResult
	aGroup // it holds its ordered group
)

// Put adds a batch of another store. An error means that nothing was written.
func (s *State) Put(w *Writer, now Now, p *broker.MovePut) (a broker.MovePutAnswer, err error) {
	q, is := s.under(p.Queue)
	if arrived, err := is.Puts(p); err != nil || arrived {
		return a, err
	}
	if err := CheckPut(p); err != nil {
		return a, err
	}
	b := &p.Batch
	added := 0
	for i := range b.Jobs {
		switch s.arrive(w, now, q, &b.Jobs[i]) {
		case isKnown:
			a.Known++
			continue
		case isDuplicate:
			a.Duplicates++
		}
		added++
	}
	for _, g := range b.Signals {
		s.putSignal(w, q, signalOf{g.Batch, g.Ordinal})
	}
	for i := range b.Keys {
		s.putKey(w, now, q, &b.Keys[i])
	}
	s.adoptAll(w, q, b)
	w.begin(recPut)
	w.str(q.name)
	w.uint(b.Number)
	w.uint(uint64(added))
	w.end()
	s.applyPut(q, b.Number, added)
	s.completeBatches(w)
	return a, nil
}

// maxArrive is what fits into one record, and one frame, with all else that a
// job can have.
const maxArrive = 15 << 20

// CheckPut refuses what would damage the store.
func CheckPut(p *broker.MovePut) error {
	for i := range p.Batch.Jobs {
		j := &p.Batch.Jobs[i]
		err := broker.ValidName(j.Task)
		switch {
		case err != nil:
		case j.ID.IsZero() || j.State < broker.Scheduled || j.State > broker.Cancelled || j.State == broker.Leased:
			err = fmt.Errorf("job %s is %v: no such job moves", j.ID, j.State)
		case j.Token >= 1<<53-1<<32 || j.MaxAttempts < 1 || j.MaxAttempts > broker.MaxAttempts || j.Attempt < 0 || j.Failures < 0:
			err = fmt.Errorf("job %s has token %d and %d of %d attempts", j.ID, j.Token, j.Attempt, j.MaxAttempts)
		case j.Waits && (j.BatchSize == 0 || j.State.Final()) || !j.KeepUntil.IsZero() && !j.State.Final():
			err = fmt.Errorf("job %s is %v and cannot be what it is said to be", j.ID, j.State)
		case max(len(j.Tenant), len(j.Group), len(j.Key)) > broker.MaxTagBytes:
			err = fmt.Errorf("job %s has a tenant, group or key of more than %d bytes", j.ID, broker.MaxTagBytes)
		case j.BatchSize > broker.MaxBatchJobs || len(j.Seen) != int(j.BatchSize+63)/64:
			err = fmt.Errorf("job %s is for a batch of %d", j.ID, j.BatchSize)
		case len(j.Payload)+len(j.Result)+len(j.Error) > maxArrive:
			return fmt.Errorf("%w: job %s has %d bytes of payload, result and error text; one that arrives may have %d", broker.ErrTooLarge, j.ID, len(j.Payload)+len(j.Result)+len(j.Error), maxArrive)
		case reasonOf(j.Reason) == reasonEnd:
			err = fmt.Errorf("job %s is %v because of %.64q", j.ID, j.State, j.Reason)
		}
		if err != nil {
			return fmt.Errorf("%w: job %d of a batch: %w", broker.ErrInvalid, i+1, err)
		}
	}
	for i := range p.Batch.Settings {
		t := &p.Batch.Settings[i]
		for _, set := range [...]*broker.Setting{t.Declared, t.Operator} {
			if set == nil {
				continue
			}
			if err := checkSetting(set); err != nil {
				return err
			}
			if set.Kind != t.Kind || set.Name != t.Name {
				return fmt.Errorf("%w: setting %q has another name than its record", broker.ErrInvalid, t.Name)
			}
		}
	}
	return nil
}

// reasonOf is the number of a reason, reasonEnd for an unknown one.
func reasonOf(text string) reason {
	for n, is := range reasons {
		if is == text {
			return reason(n)
		}
	}
	return reasonEnd
}

type arrival uint8

const (
	isNew arrival = iota
	isKnown
	isDuplicate
)

// arrive adds a job, unless its id is known. One that never ran and whose key
// another job holds is a repeat, and ends as one.
func (s *State) arrive(w *Writer, now Now, q *queue, moved *broker.MovedJob) arrival {
	if q.job(moved.ID) != nil {
		return isKnown
	}
	r := s.arrivalOf(q.move, moved)
	var holder *heldKey
	if r.key != "" && moved.KeyHeld && (!moved.State.Final() || moved.KeyHold == broker.HoldFor) {
		if holder = q.holder(keyName{moved.Task, r.key}, now.Steady); holder == nil || holder.id == moved.ID {
			r.parts |= aHeld
			holder = nil
		}
	}
	s.writeArrive(w, q, &r, moved)
	t := q.tasks[moved.Task]
	if t == nil {
		t = q.makeTask(moved.Task)
	}
	j := s.applyArrive(t, &r, w.base)
	waits := moved.State == broker.Scheduled || moved.State == broker.Ready
	if holder == nil || !waits || moved.Token != 0 {
		return isNew
	}
	s.final(w, j, finalRec{state: broker.Cancelled, reason: reasonDuplicate, err: []byte("job " + holder.id.String() + " holds its key")})
	return isDuplicate
}

// arrivalOf puts a job's times on this store's clock and its number among its
// own.
func (s *State) arrivalOf(m *move, j *broker.MovedJob) arriveRec {
	at := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return satAdd(t.UnixNano(), m.delta)
	}
	r := arriveRec{
		id: j.ID, state: j.State, reason: reasonOf(j.Reason), place: at(j.Place), runAt: at(j.RunAt),
		enqueuedAt: at(j.EnqueuedAt), changedAt: at(j.ChangedAt), claimedAt: at(j.ClaimedAt), keepUntil: at(j.KeepUntil), keyUntil: at(j.KeyUntil),
		lane: laneKey{j.Priority, j.Tenant, j.Group, j.Ordered}, max: uint32(j.MaxAttempts), attempts: uint32(j.Attempt), failures: uint32(j.Failures),
		token: j.Token, ended: j.Ended, key: j.Key, hold: j.KeyHold, keyFor: int64(j.KeyFor), digest: j.KeyDigest,
		batch: j.Batch, ordinal: j.BatchOrdinal, size: j.BatchSize, seen: j.Seen, retain: int64(j.Retain), startWithin: int64(j.StartWithin),
		worker: j.Worker, progress: j.Progress, log: j.Log,
	}
	if j.ByWall {
		r.place, r.runAt = j.Place.UnixNano(), j.RunAt.UnixNano()
	}
	var ok bool
	if r.seq, ok = m.seqOf(j.Seq); !ok {
		r.seq = s.seq + 1
	}
	for _, f := range [...]struct {
		on   bool
		flag jobFlags
	}{{j.ByWall, byWall}, {j.Ordered, ordered}, {j.HasResult, hasResult}, {j.Waits, waitsBatch}, {j.Signalled, signalled}, {j.Later, scheduled}} {
		if f.on {
			r.flags |= f.flag
		}
	}
	for _, p := range [...]struct {
		on   bool
		part arriveParts
	}{
		{r.lane != laneKey{}, aLane}, {r.token != 0 || r.attempts != 0 || r.failures != 0, aRan}, {r.key != "", aKey},
		{!r.batch.IsZero(), aBatch}, {r.size != 0, aWhole}, {r.retain != 0 || r.startWithin != 0, aRetain}, {r.keepUntil != 0, aKeep},
		{r.worker != "" || r.progress != broker.Progress{} || len(r.log) > 0, aWorker},
		{j.Error != "", aError}, {j.HasResult, aResult}, {j.HoldsGroup && !j.State.Final(), aGroup},
	} {
		if p.on {
			r.parts |= p.part
		}
	}
	return r
}

func (s *State) writeArrive(w *Writer, q *queue, r *arriveRec, j *broker.MovedJob) {
	w.begin(recArrive)
	w.str(q.name)
	w.str(j.Task)
	w.id(r.id)
	w.uint(uint64(r.parts))
	w.byte(byte(r.state))
	w.byte(byte(r.reason))
	w.byte(byte(r.flags))
	w.uint(r.seq)
	w.uint(uint64(r.max))
	for _, t := range [...]int64{r.place, r.enqueuedAt, r.runAt, r.changedAt} {
		w.time(t)
	}
	r.writeParts(w)
	if r.parts&aError != 0 {
		r.err = w.blobOf([]byte(j.Error))
	}
	if r.parts&aResult != 0 {
		r.result = w.blobOf(j.Result)
	}
	n := broker.NewJob{Payload: j.Payload, Headers: j.Headers, Timeout: j.Timeout}
	r.body = w.blob(func(b []byte) []byte { return appendBody(b, &n) })
	w.end()
}

func (a *arriveRec) writeParts(w *Writer) {
	has := func(p arriveParts) bool { return a.parts&p != 0 }
	if has(aLane) {
		w.int(int64(a.lane.priority))
		w.str(a.lane.tenant)
		w.str(a.lane.group)
	}
	if has(aRan) {
		w.time(a.claimedAt)
		for _, n := range [...]uint64{uint64(a.token), uint64(a.attempts), uint64(a.failures), uint64(a.ended)} {
			w.uint(n)
		}
	}
	if has(aKey) {
		w.text(a.key)
		w.byte(byte(a.hold))
		w.uint(uint64(a.keyFor))
		w.raw(a.digest[:])
	}
	if has(aHeld) {
		w.uint(uint64(a.keyUntil))
	}
	if has(aBatch) {
		w.id(a.batch)
		w.uint(uint64(a.ordinal))
	}
	if has(aWhole) {
		w.uint(uint64(a.size))
		for _, word := range a.seen {
			w.uint(word)
		}
	}
	if has(aRetain) {
		w.int(a.retain)
		w.uint(uint64(a.startWithin))
	}
	if has(aKeep) {
		w.time(a.keepUntil)
	}
	if has(aWorker) {
		w.str(a.worker)
		w.byte(byte(a.progress.Percent))
		w.text(a.progress.Note)
		w.uint(uint64(len(a.log)))
		for _, line := range a.log {
			w.text(line)
		}
	}
}

func (s *State) readArrive(r *reader) error {
	queue, task, a := r.arriveRec()
	q := s.queues[string(queue)]
	switch {
	case r.err != nil:
	case q == nil || q.move == nil || a.state < broker.Scheduled || a.state > broker.Cancelled || a.state == broker.Leased || q.job(a.id) != nil:
		r.bad("a job that cannot arrive")
	case a.flags&waitsBatch != 0 && (a.size == 0 || a.state.Final()) || a.keepUntil != 0 && !a.state.Final():
		r.bad("a job that cannot be what it is said to be")
	}
	if r.err != nil {
		return r.err
	}
	t := q.tasks[string(task)]
	if t == nil {
		t = q.makeTask(string(task))
	}
	s.applyArrive(t, &a, r.base)
	return nil
}

// arriveRec reads the fields of an arrive record.
func (r *reader) arriveRec() (queue, task []byte, a arriveRec) {
	queue, task = r.str(), r.str()
	a = arriveRec{id: r.id(), parts: arriveParts(r.uint()), state: broker.State(r.byte()), reason: r.reason(), flags: jobFlags(r.byte())}
	a.seq, a.max = r.uint(), uint32(min(r.uint(), broker.MaxAttempts))
	for _, t := range [...]*int64{&a.place, &a.enqueuedAt, &a.runAt, &a.changedAt} {
		*t = r.time()
	}
	a.readParts(r)
	if a.parts&aError != 0 {
		a.err = r.blob()
	}
	if a.parts&aResult != 0 {
		a.result = r.blob()
	}
	a.body = r.blob()
	return queue, task, a
}

func (a *arriveRec) readParts(r *reader) {
	has := func(p arriveParts) bool { return a.parts&p != 0 }
	if has(aLane) {
		a.lane = laneKey{int32(r.int()), string(r.str()), string(r.str()), a.flags&ordered != 0}
	}
	if has(aRan) {
		a.claimedAt = r.time()
		a.token, a.attempts, a.failures = broker.Token(r.uint()), uint32(r.uint()), uint32(r.uint())
		a.ended = broker.SettleKind(r.uint())
	}
	if has(aKey) {
		a.key, a.hold, a.keyFor = string(r.text()), broker.KeyHold(r.byte()), int64(r.uint())
		copy(a.digest[:], r.take(16))
	}
	if has(aHeld) {
		a.keyUntil = int64(r.uint())
	}
	if has(aBatch) {
		a.batch, a.ordinal = r.id(), uint32(r.uint())
	}
	if has(aWhole) {
		a.size = uint32(min(r.uint(), broker.MaxBatchJobs))
		for n := (a.size + 63) / 64; n > 0 && r.err == nil; n-- {
			a.seen = append(a.seen, r.uint())
		}
	}
	if has(aRetain) {
		a.retain, a.startWithin = r.int(), int64(r.uint())
	}
	if has(aKeep) {
		a.keepUntil = r.time()
	}
	if has(aWorker) {
		a.worker = string(r.str())
		a.progress = broker.Progress{Percent: int(r.byte()), Note: string(r.text())}
		for n := r.count(1); n > 0; n-- {
			a.log = append(a.log, string(r.text()))
		}
	}
}
