package jobstate

import (
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// maxLog bounds the lines kept with a job.
const (
	maxLogLines = 100
	maxLogBytes = 8 << 10
)

// Extend pushes the expiry of the leases that are still the caller's to now +
// ttl. Answers are in the order of x.
func (s *State) Extend(w *Writer, now Now, ttl time.Duration, x []broker.Extension) []broker.Beat {
	beats := make([]broker.Beat, len(x))
	expires := satAdd(now.Steady, int64(ttl))
	var q *queue
	var ids []broker.ID
	flush := func() {
		if len(ids) == 0 {
			return
		}
		w.begin(recExtend)
		w.str(q.name)
		w.time(expires)
		w.ids(ids)
		w.end()
		ids = ids[:0]
	}
	for i := range x {
		e := &x[i]
		j := s.held(e.Ref, e.Token)
		if j == nil {
			rare.Reached(rare.LeaseLost)
			beats[i] = broker.Beat{Status: broker.Lost}
			continue
		}
		if s.queueOf(j) != q {
			flush()
			q = s.queueOf(j)
		}
		ids = append(ids, j.id)
		s.expireAt(j, expires)
		beats[i] = broker.Beat{Status: broker.Held, ExpiresAt: nanos(expires)}
		if j.flags&cancelAsked != 0 {
			beats[i].Status = broker.CancelAsked
		}
	}
	flush()
	for i := range x {
		if beats[i].Status != broker.Lost && (x[i].Progress != nil || len(x[i].Log) > 0) {
			s.note(w, s.held(x[i].Ref, x[i].Token), x[i].Progress, x[i].Log)
		}
	}
	return beats
}

// Hold makes a lease end with a lock of its own instead of with the handle that
// took it, and only then: while the lock is held its deadline is put off. It
// returns false when the lease is lost.
func (s *State) Hold(w *Writer, ref broker.Ref, token broker.Token, lock string) bool {
	j := s.held(ref, token)
	if j == nil {
		return false
	}
	w.begin(recHold)
	w.str(ref.Queue)
	w.id(ref.ID)
	w.str(lock)
	w.end()
	s.applyHold(j, lock)
	return true
}

func (s *State) readHold(r *reader) error {
	j, lock := s.find(r, r.str(), r.id()), string(r.str())
	if j != nil && j.state() != broker.Leased {
		r.bad("hold of a job that is " + j.state().String())
	}
	if r.err == nil {
		s.applyHold(j, lock)
	}
	return r.err
}

func (s *State) applyHold(j *job, lock string) {
	s.letGo(j)
	s.hold(j, s.memberOf(lock))
	s.change(j).lease.locked = true
}

// held returns the leased job, if token is its current one.
func (s *State) held(ref broker.Ref, token broker.Token) *job {
	q := s.queues[ref.Queue]
	if q == nil {
		return nil
	}
	if j := q.job(ref.ID); j != nil && j.state() == broker.Leased && s.lifeOf(j).token() == token {
		return j
	}
	return nil
}

func (s *State) readExtend(r *reader) error {
	queue, expires := r.str(), r.time()
	for range r.count(16) {
		j := s.find(r, queue, r.id())
		if j == nil {
			return r.err
		}
		if j.state() != broker.Leased {
			r.bad("extension of a job that is " + j.state().String())
			return r.err
		}
		s.expireAt(j, expires)
	}
	return r.err
}

// note records what a running handler says of itself.
func (s *State) note(w *Writer, j *job, p *broker.Progress, lines []string) {
	now := broker.Progress{}
	if x := s.extOf(j); x != nil {
		now = x.progress
	}
	if p != nil {
		now = broker.Progress{Percent: min(max(p.Percent, 0), 100), Note: cut(p.Note, broker.MaxNoteBytes)}
	}
	w.begin(recNote)
	w.str(s.queueOf(j).name)
	w.id(j.id)
	w.byte(byte(now.Percent))
	w.text(now.Note)
	lines = lastLines(lines)
	w.uint(uint64(len(lines)))
	kept := make([]string, len(lines))
	for i, line := range lines {
		kept[i] = cut(line, maxLogBytes/8)
		w.text(kept[i])
	}
	w.end()
	s.applyNote(j, now, kept)
}

// lastLines are those of which something is kept.
func lastLines(lines []string) []string {
	lines = lines[max(0, len(lines)-maxLogLines):]
	for i, size := len(lines)-1, 0; i >= 0; i-- {
		if size += min(len(lines[i]), maxLogBytes/8); size > maxLogBytes {
			return lines[i+1:]
		}
	}
	return lines
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

func (s *State) readNote(r *reader) error {
	j := s.find(r, r.str(), r.id())
	p := broker.Progress{Percent: int(r.byte()), Note: string(r.text())}
	lines := make([]string, r.count(1))
	for i := range lines {
		lines[i] = string(r.text())
	}
	if r.err == nil {
		s.applyNote(j, p, lines)
	}
	return r.err
}

// applyNote keeps the last lines.
func (s *State) applyNote(j *job, p broker.Progress, lines []string) {
	e := s.more(j)
	log := append(e.log[:len(e.log):len(e.log)], lines...)
	s.reword(e, p, lastLines(log))
}
