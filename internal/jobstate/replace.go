package jobstate

import "github.com/spoolq/spool/broker"

// replaceRec is a replace record: a waiting job gets another body, and perhaps
// another due time.
type replaceRec struct {
	flags        replaceFlags
	place, runAt int64
	digest       [16]byte
	body         Loc
}

type replaceFlags uint8

const (
	pMoved     replaceFlags = 1 << iota // has a place and a run-at
	pScheduled                          // which is in the future
	pByWall
)

// replace lets a repeat of a key change the job that holds it, as far as that
// still waits.
func (s *State) replace(w *Writer, now Now, j *job, nj *broker.NewJob, digest [16]byte) {
	if j.state() != broker.Scheduled && j.state() != broker.Ready {
		return
	}
	r := replaceRec{digest: digest}
	if nj.KeyRepeat == broker.RepeatDebounce && j.flags&waitsBatch == 0 {
		r.flags |= pMoved
		switch {
		case nj.Delay > 0:
			r.flags |= pScheduled
			r.runAt = satAdd(now.Steady, int64(nj.Delay))
		case !nj.At.IsZero() && nj.At.UnixNano() > now.Wall:
			r.flags |= pScheduled | pByWall
			r.runAt = nj.At.UnixNano()
		default:
			r.runAt = now.Steady
		}
		r.place = r.runAt
		if r.flags&pScheduled == 0 {
			r.place = max(now.Steady, s.lastPlace+1)
		}
	}
	w.begin(recReplace)
	w.str(s.queueOf(j).name)
	w.id(j.id)
	w.byte(byte(r.flags))
	if r.flags&pMoved != 0 {
		w.time(r.place)
		w.time(r.runAt)
	}
	w.raw(r.digest[:])
	r.body = w.blob(func(b []byte) []byte { return appendBody(b, nj) })
	w.end()
	s.applyReplace(j, &r, w.base)
}

func (s *State) readReplace(r *reader) error {
	j := s.find(r, r.str(), r.id())
	rec := replaceRec{flags: replaceFlags(r.byte())}
	if rec.flags&pMoved != 0 {
		rec.place, rec.runAt = r.time(), r.time()
	}
	copy(rec.digest[:], r.take(16))
	rec.body = r.blob()
	if j != nil && j.state() != broker.Scheduled && j.state() != broker.Ready {
		r.bad("replacement of a job that is " + j.state().String())
	}
	if r.err == nil {
		s.applyReplace(j, &rec, r.base)
	}
	return r.err
}

func (s *State) applyReplace(j *job, r *replaceRec, at int64) {
	l := s.laneOf(j)
	q := l.task.queue
	weigh := func(on bool) {
		q.carry(l, j, on)
		if j.state() == broker.Ready {
			q.idle(l, j, on)
		}
	}
	weigh(false)
	s.uses.drop(j.body)
	j.body = r.body
	s.uses.add(j.body)
	weigh(true)
	j.because(reasonReplaced)
	x := s.more(j)
	x.digest = r.digest
	if h := q.keys[keyName{s.taskOf(j).name, x.key}]; h != nil && h.id == j.id {
		h.digest = r.digest
	}
	if r.flags&pMoved == 0 {
		s.tell(j, "", false)
		return
	}
	v := s.leave(j)
	j.place, v.runAt, v.changedAt = r.place, r.runAt, at
	if r.flags&pScheduled == 0 {
		s.lastPlace = max(s.lastPlace, r.place)
	}
	s.wait(j, r.flags&pScheduled != 0, r.flags&pByWall != 0)
	s.tell(j, "", false)
}
