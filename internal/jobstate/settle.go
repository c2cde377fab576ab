package jobstate

import (
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// waitRec is a wait record: a job waits again.
type waitRec struct {
	reason       reason
	flags        waitFlags
	place, runAt int64
	attempts     uint32
	failures     uint32
	kind         broker.SettleKind
	err          []byte // text of a failure, while deciding
	errLoc       Loc
}

type waitFlags uint8

const (
	wScheduled waitFlags = 1 << iota
	wError
	wByWall
)

// finalRec is a final record: a job is done, dead or cancelled.
type finalRec struct {
	state     broker.State
	reason    reason
	flags     finalFlags
	keepUntil int64 // with fKeep
	kind      broker.SettleKind
	failures  uint32
	err       []byte
	result    []byte
	errLoc    Loc
	resLoc    Loc
}

type finalFlags uint8

const (
	zDrop    finalFlags = 1 << iota // not kept at all
	zKeep                           // kept until keepUntil
	zError                          // has an error text
	zResult                         // has a result
	zExpired                        // its lease ended without a settlement
)

// Settle ends one lease. The answer's Err says why it was refused.
func (s *State) Settle(w *Writer, now Now, st *broker.Settlement) broker.Settled {
	var j *job
	if q := s.queues[st.Ref.Queue]; q != nil {
		j = q.job(st.Ref.ID)
	}
	if j == nil {
		return broker.Settled{Err: broker.ErrNotFound}
	}
	if v := s.lifeOf(j); j.state() != broker.Leased || v.token() != st.Token {
		if j.state() != broker.Leased && v.token() == st.Token && v.ended == st.Kind {
			rare.Reached(rare.SettlementRepeated)
			return repeated(j, st)
		}
		rare.Reached(rare.StaleToken)
		return broker.Settled{State: j.state(), Err: broker.ErrLeaseLost}
	}
	if st.Kind == broker.Ack {
		return s.ack(w, now, j, st)
	}
	s.promote(s.queueOf(j), now)
	return broker.Settled{State: s.settle(w, now, j, st)}
}

// settle ends a lease otherwise than by an ack, and returns the job's new
// state, in which it may be dropped.
func (s *State) settle(w *Writer, now Now, j *job, st *broker.Settlement) broker.State {
	v := s.lifeOf(j)
	text, failures := []byte(broker.CutError(st.Error)), v.failures
	if st.Kind == broker.Nack || st.Kind == broker.Bury {
		failures++
	}
	end := finalRec{kind: st.Kind, failures: failures, err: text}
	again := waitRec{kind: st.Kind, failures: failures, err: text, attempts: v.attempts}
	switch {
	case st.Kind == broker.Cancel || j.flags&cancelAsked != 0:
		end.state, end.reason = broker.Cancelled, reasonCancelled
		s.final(w, j, end)
		return end.state
	case st.Kind == broker.Bury:
		end.state, end.reason = broker.Dead, reasonBuried
		s.final(w, j, end)
		return end.state
	case st.Kind == broker.Nack && v.attempts >= s.maxAttempts(j):
		end.state, end.reason = broker.Dead, reasonAttempts
		s.final(w, j, end)
		return end.state
	case st.Kind == broker.Nack:
		again.reason = reasonRetry
		s.again(w, j, s.later(again, now, st.Delay))
	case st.Kind == broker.Snooze:
		again.reason, again.attempts, again.err = reasonSnoozed, v.attempts-1, nil
		s.again(w, j, s.later(again, now, st.Delay))
	case st.Kind == broker.Release:
		again.reason, again.attempts, again.err = reasonReleased, v.attempts-1, nil
		s.again(w, j, s.oldPlace(again, j))
	}
	return j.state()
}

// repeated is the answer to a settlement that took place before. Its
// follow-ups were enqueued then, and may have ended since.
func repeated(j *job, st *broker.Settlement) broker.Settled {
	answer := broker.Settled{State: j.state()}
	for i := range st.FollowUps {
		answer.FollowUps = append(answer.FollowUps, broker.Enqueued{ID: st.FollowUps[i].Job.ID, Existing: true})
	}
	return answer
}

func (s *State) ack(w *Writer, now Now, j *job, st *broker.Settlement) broker.Settled {
	answer := broker.Settled{State: broker.Done}
	s.final(w, j, finalRec{state: broker.Done, reason: reasonAcked, kind: broker.Ack, failures: s.lifeOf(j).failures, result: st.Result})
	if len(st.FollowUps) > 0 {
		answer.FollowUps = make([]broker.Enqueued, len(st.FollowUps))
		for i := range st.FollowUps {
			f := &st.FollowUps[i]
			answer.FollowUps[i] = s.enqueue(w, now, f.Queue, &f.Job)
		}
	}
	return answer
}

// later makes r a wait until delay from now; 0 is ready at once, behind all
// that is there.
func (s *State) later(r waitRec, now Now, delay time.Duration) waitRec {
	if delay <= 0 {
		r.place, r.runAt = max(now.Steady, s.lastPlace+1), now.Steady
		return r
	}
	r.flags |= wScheduled
	r.runAt = satAdd(now.Steady, int64(min(delay, broker.MaxDelay)))
	r.place = r.runAt
	return r
}

// oldPlace makes r a wait where the job stood before.
func (s *State) oldPlace(r waitRec, j *job) waitRec {
	r.place, r.runAt = j.place, s.runAt(j)
	if j.flags&byWall != 0 {
		r.flags |= wByWall
	}
	return r
}

// again records that a job waits again.
func (s *State) again(w *Writer, j *job, r waitRec) {
	if len(r.err) > 0 {
		r.flags |= wError
	}
	w.begin(recWait)
	w.str(s.queueOf(j).name)
	w.id(j.id)
	w.byte(byte(r.reason))
	w.byte(byte(r.kind))
	w.byte(byte(r.flags))
	w.time(r.place)
	w.time(r.runAt)
	w.uint(uint64(r.attempts))
	w.uint(uint64(r.failures))
	if r.flags&wError != 0 {
		r.errLoc = w.blobOf(r.err)
	}
	w.end()
	s.applyWait(j, &r, w.base)
}

func (s *State) readWait(r *reader) error {
	j := s.find(r, r.str(), r.id())
	rec := waitRec{reason: r.reason(), kind: broker.SettleKind(r.byte()), flags: waitFlags(r.byte()), place: r.time(), runAt: r.time(), attempts: uint32(r.uint()), failures: uint32(r.uint())}
	if rec.flags&wError != 0 {
		rec.errLoc = r.blob()
	}
	if r.err == nil {
		s.applyWait(j, &rec, r.base)
	}
	return r.err
}

func (r *reader) reason() reason {
	n := reason(r.byte())
	if n >= reasonEnd {
		r.bad("reason")
		return 0
	}
	return n
}

func (s *State) applyWait(j *job, r *waitRec, at int64) {
	worker := s.endRun(j, r.reason)
	v := s.leave(j)
	j.flags &^= waitsBatch
	j.because(r.reason)
	v.ended, v.changedAt = r.kind, at
	j.place, v.runAt, v.attempts = r.place, r.runAt, r.attempts
	s.failed(j, r.failures)
	j.flags &^= cancelAsked
	if r.reason == reasonRequeued {
		s.retakeKey(j, at)
		s.dropResult(j)
	}
	if r.flags&wError != 0 || r.kind == broker.Nack {
		s.setError(j, r.errLoc)
	}
	if worker != "" {
		s.more(j).worker = worker
	}
	if r.flags&wScheduled == 0 && (r.reason == reasonRetry || r.reason == reasonSnoozed || r.reason == reasonRequeued || r.reason == reasonBatch) {
		s.lastPlace = max(s.lastPlace, r.place)
	}
	s.wait(j, r.flags&wScheduled != 0, r.flags&wByWall != 0)
	s.tell(j, worker, false)
}

// endRun notes that a lease is about to end, and returns its worker.
func (s *State) endRun(j *job, why reason) (worker string) {
	if j.state() != broker.Leased {
		return ""
	}
	switch why {
	case reasonExpired, reasonWorkerDied, reasonCrashed:
		s.taskOf(j).totals.Expired++
	}
	return s.lifeOf(j).lease.worker
}

func (s *State) failed(j *job, failures uint32) {
	v := s.change(j)
	if failures > v.failures {
		s.taskOf(j).totals.Failed++
	}
	v.failures = failures
}

// setError replaces the text of the last failure.
func (s *State) setError(j *job, l Loc) {
	if l.Zero() && s.extOf(j) == nil {
		return
	}
	e := s.more(j)
	s.uses.drop(e.err)
	s.uses.add(l)
	e.err = l
}

func (s *State) dropResult(j *job) {
	if x := s.extOf(j); x != nil {
		s.uses.drop(x.result)
		x.result = Loc{}
	}
	j.flags &^= hasResult
}

// final records that a job is done, dead or cancelled, and how long it is kept.
func (s *State) final(w *Writer, j *job, r finalRec) {
	s.retain(w, j, &r)
	r.failures = max(r.failures, s.lifeOf(j).failures)
	if len(r.err) > 0 && r.flags&zDrop == 0 {
		r.flags |= zError
	}
	if r.result != nil && r.flags&zDrop == 0 {
		r.flags |= zResult
	}
	w.begin(recFinal)
	w.str(s.queueOf(j).name)
	w.id(j.id)
	w.byte(byte(r.state))
	w.byte(byte(r.reason))
	w.byte(byte(r.kind))
	w.byte(byte(r.flags))
	w.uint(uint64(r.failures))
	if r.flags&zKeep != 0 {
		w.time(r.keepUntil)
	}
	if r.flags&zError != 0 {
		r.errLoc = w.blobOf(r.err)
	}
	if r.flags&zResult != 0 {
		r.resLoc = w.blobOf(r.result)
	}
	w.end()
	s.applyFinal(j, &r, w.base)
	s.completeBatches(w)
}

// retain decides how long a job that ends now is kept; see broker.NewJob and
// broker.Retention.
func (s *State) retain(w *Writer, j *job, r *finalRec) {
	var want int64
	x := s.extOf(j)
	switch {
	case x == nil || x.retain == 0:
		want = s.taskOf(j).retention(r.state)
	case r.state != broker.Dead:
		want = x.retain
	}
	switch {
	case want < 0:
		r.flags |= zDrop
	case want == 0 && r.state == broker.Dead:
	case want == 0 && r.state == broker.Done && r.result == nil:
		r.flags |= zDrop
	default:
		if want == 0 {
			want = int64(broker.DefaultRetain)
		}
		r.flags |= zKeep
		r.keepUntil = satAdd(w.base, want)
	}
}

func (s *State) readFinal(r *reader) error {
	j := s.find(r, r.str(), r.id())
	rec := finalRec{state: broker.State(r.byte()), reason: r.reason(), kind: broker.SettleKind(r.byte()), flags: finalFlags(r.byte()), failures: uint32(r.uint())}
	if !rec.state.Final() || rec.state > broker.Cancelled {
		r.bad("state")
	}
	if rec.flags&zKeep != 0 {
		rec.keepUntil = r.time()
	}
	if rec.flags&zError != 0 {
		rec.errLoc = r.blob()
	}
	if rec.flags&zResult != 0 {
		rec.resLoc = r.blob()
	}
	if r.err == nil {
		s.applyFinal(j, &rec, r.base)
	}
	return r.err
}

func (s *State) applyFinal(j *job, r *finalRec, at int64) {
	t := s.laneOf(j).task
	switch r.state {
	case broker.Done:
		t.totals.Acked++
	case broker.Dead:
		t.totals.Died++
	case broker.Cancelled:
		t.totals.Cancelled++
	}
	worker := s.endRun(j, r.reason)
	if r.flags&zExpired != 0 && r.reason != reasonCrashed {
		t.totals.Expired++
	}
	v := s.leave(j)
	j.flags &^= waitsBatch
	j.because(r.reason)
	v.changedAt = at
	if r.kind != 0 { // else its last lease ended before, as it ended
		v.ended = r.kind
	}
	s.failed(j, r.failures)
	j.flags &^= cancelAsked
	s.enter(j, r.state)
	s.freeKey(j)
	s.freeGroup(j)
	s.signal(j)
	s.tell(j, worker, false)
	if r.flags&zDrop != 0 {
		s.remove(j)
		return
	}
	if worker != "" {
		s.more(j).worker = worker
	}
	if r.flags&zError != 0 || r.state == broker.Dead && r.kind != 0 {
		s.setError(j, r.errLoc)
	}
	if r.flags&zResult != 0 {
		e := s.more(j)
		e.result = r.resLoc
		s.uses.add(r.resLoc)
		j.flags |= hasResult
	}
	if r.flags&zKeep != 0 {
		s.keepUntil(j, r.keepUntil)
	}
}

func (s *State) keepUntil(j *job, at int64) {
	s.more(j).keepUntil = at
	s.kept++
	s.keeps.push(s.item(j, at))
	s.keeps.trim(s, s.kept)
}
