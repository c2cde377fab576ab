package jobstate

import (
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// Claim is a claim of jobs of one queue.
type Claim struct {
	Queue  string
	Tasks  []string // nil: any
	Max    int
	TTL    time.Duration
	Worker string
	Member string // the handle whose end ends the leases; "" for none
}

// Ticket is a job as the state knows it, with the places of what it does not
// hold itself: the broker reads those and fills them in.
type Ticket struct {
	Job               broker.Job
	Body, Err, Result Loc
}

// claimed is one job of a claim record.
type claimed struct {
	id                      broker.ID
	epoch, claims, attempts uint32
}

// Claim leases up to c.Max ready jobs, best first. The epoch must have been
// opened (see Epoch). It writes nothing when there is nothing to take.
func (s *State) Claim(w *Writer, now Now, c Claim) []Ticket {
	q := s.queues[c.Queue]
	if q == nil || q.paused {
		return nil
	}
	s.promote(q, now)
	jobs := s.pick(w, now, q, c)
	if len(jobs) == 0 {
		return nil
	}
	expires := satAdd(now.Steady, int64(c.TTL))
	w.begin(recClaim)
	w.str(c.Queue)
	w.str(c.Worker)
	w.str(c.Member)
	w.time(expires)
	w.uint(uint64(len(jobs)))
	m := s.memberOf(c.Member)
	tickets := make([]Ticket, len(jobs))
	for i, j := range jobs {
		r := claimed{j.id, s.epoch, j.claims + 1, j.attempts + 1}
		w.id(r.id)
		w.uint(uint64(r.epoch))
		w.uint(uint64(r.claims))
		w.uint(uint64(r.attempts))
		// The lease was begun by pick, so that the next best was found.
		s.finishClaim(j, r, c.Worker, m, expires, w.base)
		tickets[i] = s.ticket(j)
	}
	w.end()
	return tickets
}

// pick takes the best jobs out of their lanes. The lanes of the wanted tasks
// compete by their heads; the best one gives jobs as long as it stays ahead of
// the second best.
func (s *State) pick(w *Writer, now Now, q *queue, c Claim) []*job {
	wanted := q.order
	if c.Tasks != nil {
		wanted = make([]*task, 0, len(c.Tasks))
		for _, name := range c.Tasks {
			if t := q.tasks[name]; t != nil && !slices.Contains(wanted, t) {
				wanted = append(wanted, t)
			}
		}
	}
	var jobs []*job
	for len(jobs) < c.Max {
		best, second := leaders(wanted)
		if best == nil {
			break
		}
		for len(jobs) < c.Max && best.n > 0 && (second == nil || best.before(second)) {
			j := best.head.j
			if j.ext != nil && s.tooLate(j, now) {
				s.final(w, j, finalRec{state: broker.Cancelled, reason: reasonNotStarted})
				continue
			}
			s.beginClaim(j)
			jobs = append(jobs, j)
			if len(best.task.open) == 0 || best.task.open[0] != best {
				break // another lane of the same task is ahead now
			}
		}
	}
	return jobs
}

// leaders returns the two best lanes, of different tasks.
func leaders(tasks []*task) (best, second *lane) {
	for _, t := range tasks {
		if len(t.open) == 0 {
			continue
		}
		switch l := t.open[0]; {
		case best == nil || l.before(best):
			best, second = l, best
		case second == nil || l.before(second):
			second = l
		}
	}
	return best, second
}

func (s *State) tooLate(j *job, now Now) bool {
	return j.ext.startWithin > 0 && j.attempts == 0 && satAdd(j.runAt, j.ext.startWithin) <= clockOf(j, now)
}

// clockOf is the clock that j's due time was given on.
func clockOf(j *job, now Now) int64 {
	if j.flags&byWall != 0 {
		return now.Wall
	}
	return now.Steady
}

// beginClaim takes a waiting job out of where it waits.
func (s *State) beginClaim(j *job) {
	s.leave(j)
	s.enter(j, broker.Leased)
}

func (s *State) finishClaim(j *job, r claimed, worker string, m *member, expires, at int64) {
	j.epoch, j.claims, j.attempts = r.epoch, r.claims, r.attempts
	j.reason, j.changedAt, j.claimedAt = reasonNone, at, at
	j.flags &^= cancelAsked
	j.ended = 0
	j.lease = &lease{worker: worker, member: m}
	if m != nil {
		m.jobs[j] = struct{}{}
	}
	if j.ext != nil {
		j.ext.progress, j.ext.log = broker.Progress{}, nil
		if j.ext.hold == broker.HoldUntilStarted {
			s.freeKey(j)
		}
	}
	s.leased++
	s.expireAt(j, expires)
	j.lane.task.totals.Claimed++
	s.tell(j, worker, false)
}

// expireAt sets the end of j's lease.
func (s *State) expireAt(j *job, at int64) {
	j.ver++
	j.lease.expires = at
	s.leases.push(item{at, j.seq, j, j.ver})
	s.leases.trim(s.leased)
}

func (s *State) readClaim(r *reader) error {
	queue, worker, name := r.str(), string(r.str()), r.str()
	expires := r.time()
	var m *member
	if r.err == nil {
		m = s.memberOf(string(name))
	}
	for range r.count(19) {
		c := claimed{r.id(), uint32(r.uint()), uint32(r.uint()), uint32(r.uint())}
		j := s.find(r, queue, c.id)
		if j == nil {
			return r.err
		}
		if j.state != broker.Scheduled && j.state != broker.Ready {
			r.bad("claim of a job that is " + j.state.String())
			return r.err
		}
		s.beginClaim(j)
		s.finishClaim(j, c, worker, m, expires, r.base)
	}
	return r.err
}
