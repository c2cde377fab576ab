package jobstate

import (
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// Upkeep does what is due by now, at most max jobs of it: expires leases,
// cancels jobs that were not started in time, drops final jobs whose retention
// is over. more says that there is more to do now. held says whether the lock
// that a lease names is still held, which puts its end off; nil means that it
// is not.
func (s *State) Upkeep(w *Writer, now Now, max int, held func(lock string) bool) (more bool) {
	s.promoteAll(now)
	n := 0
	for ; n < max; n++ {
		it := s.leases.top(s)
		if it == nil || it.at > now.Steady {
			break
		}
		j := s.jobs.at(it.ref)
		if l := s.lifeOf(j).lease; l.locked && held != nil && held(l.member.name) {
			rare.Reached(rare.LeasePutOff)
			s.putOff(w, j, satAdd(now.Steady, lockedAgain))
			continue
		}
		rare.Reached(rare.LeaseExpired)
		s.expire(w, j, reasonExpired)
	}
	n += s.cancelUnstarted(w, now, max-n)
	n += s.dropKept(w, now, max-n)
	return n >= max
}

// lockedAgain is when a lease whose lock is held is looked at again.
const lockedAgain = int64(10 * time.Second)

func (s *State) putOff(w *Writer, j *job, until int64) {
	w.begin(recExtend)
	w.str(s.queueOf(j).name)
	w.time(until)
	w.ids([]broker.ID{j.id})
	w.end()
	s.expireAt(j, until)
}

// Due returns when Upkeep has something to do next, on the steady clock; 0
// means that nothing is known.
func (s *State) Due(now Now) (at int64) {
	s.promoteAll(now)
	for _, h := range []*heap{&s.leases, &s.starts[0], &s.keeps} {
		if it := h.top(s); it != nil && (at == 0 || it.at < at) {
			at = it.at
		}
	}
	if it := s.starts[1].top(s); it != nil {
		if steady := satAdd(now.Steady, it.at-now.Wall); at == 0 || steady < at {
			at = steady
		}
	}
	return at
}

// expire ends a lease without a settlement: the job is ready again at its old
// place, or dead when its attempts are used up, or cancelled when that was
// asked for.
func (s *State) expire(w *Writer, j *job, why reason) {
	v := s.lifeOf(j)
	switch {
	case j.flags&cancelAsked != 0:
		s.final(w, j, finalRec{state: broker.Cancelled, reason: reasonCancelled, flags: zExpired})
	case v.attempts >= s.maxAttempts(j):
		rare.Reached(rare.JobCrashedTooOften)
		s.final(w, j, finalRec{state: broker.Dead, reason: reasonCrashed, flags: zExpired})
	default:
		s.again(w, j, s.oldPlace(waitRec{reason: why, attempts: v.attempts, failures: v.failures}, j))
	}
}

func (s *State) cancelUnstarted(w *Writer, now Now, max int) (n int) {
	for i, by := range [...]int64{now.Steady, now.Wall} {
		for ; n < max; n++ {
			it := s.starts[i].top(s)
			if it == nil || it.at > by {
				break
			}
			s.final(w, s.jobs.at(it.ref), finalRec{state: broker.Cancelled, reason: reasonNotStarted})
		}
	}
	return n
}

func (s *State) dropKept(w *Writer, now Now, max int) (n int) {
	var last *queue
	var ids []broker.ID
	flush := func() {
		if len(ids) > 0 {
			s.drop(w, last, dropKept, ids)
			ids = ids[:0]
		}
	}
	for ; n < max; n++ {
		it := s.keeps.top(s)
		if it == nil || it.at > now.Steady {
			break
		}
		j := s.jobs.at(it.ref)
		if q := s.queueOf(j); q != last {
			flush()
			last = q
		}
		ids = append(ids, j.id)
		s.keeps.pop()
	}
	flush()
	return n
}

// dropWhy says why jobs were dropped (part of the format).
type dropWhy uint8

const (
	dropKept    dropWhy = 1 + iota // their retention is over
	dropDeleted                    // by a command
)

func (s *State) drop(w *Writer, q *queue, why dropWhy, ids []broker.ID) {
	w.begin(recDrop)
	w.str(q.name)
	w.byte(byte(why))
	w.ids(ids)
	w.end()
	for _, id := range ids {
		s.applyDrop(q.job(id), why)
	}
	s.completeBatches(w)
}

func (s *State) readDrop(r *reader) error {
	queue, why := r.str(), dropWhy(r.byte())
	for range r.count(16) {
		j := s.find(r, queue, r.id())
		if j == nil {
			return r.err
		}
		s.applyDrop(j, why)
	}
	return r.err
}

func (s *State) applyDrop(j *job, why dropWhy) {
	if why == dropDeleted {
		s.taskOf(j).totals.Deleted++
	}
	s.signal(j)
	s.remove(j)
}
