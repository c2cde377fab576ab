package jobstate

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// ticket describes j.
func (s *State) ticket(j *job) Ticket {
	l, v := s.laneOf(j), s.lifeOf(j)
	t := Ticket{Body: j.body, Job: broker.Job{
		Queue: l.task.queue.name, ID: j.id, Task: l.task.name, State: j.state(), Reason: reasons[j.reason()],
		Priority: l.priority, Tenant: l.tenant, Group: l.group, Ordered: j.flags&ordered != 0,
		Attempt: int(v.attempts), MaxAttempts: int(s.maxAttempts(j)), Failures: int(v.failures),
		EnqueuedAt: nanos(j.enqueuedAt), RunAt: nanos(s.runAt(j)), ClaimedAt: nanos(v.claimedAt),
		HasResult: j.flags&hasResult != 0, CancelRequested: j.flags&cancelAsked != 0,
	}}
	b := &t.Job
	b.Token = v.token()
	if j.state().Final() {
		b.FinishedAt = nanos(v.changedAt)
	}
	if e := v.ext; e != nil {
		t.Err, t.Result = e.err, e.result
		b.Key, b.Retain, b.StartWithin = e.key, time.Duration(e.retain), time.Duration(e.startWithin)
		b.Batch, b.BatchOrdinal = e.batch, e.ordinal
		b.Progress, b.Log, b.Worker = e.progress, slices.Clone(e.log), e.worker
	}
	if j.state() == broker.Leased {
		b.Worker, b.LeaseExpiresAt = v.lease.worker, nanos(v.lease.expires)
	}
	return t
}

// Get describes a job; ok is false when it is not known.
func (s *State) Get(now Now, ref broker.Ref) (t Ticket, ok bool) {
	q := s.queues[ref.Queue]
	if q == nil {
		return Ticket{}, false
	}
	s.promote(q, now)
	j := q.job(ref.ID)
	if j == nil {
		return Ticket{}, false
	}
	return s.ticket(j), true
}

// Find returns the queues that have a job of that id: one, as a rule.
func (s *State) Find(id broker.ID) (refs []broker.Ref) {
	for _, name := range s.Queues() {
		if s.queues[name].job(id) != nil {
			refs = append(refs, broker.Ref{Queue: name, ID: id})
		}
	}
	return refs
}

// Select returns up to n jobs of one queue and state that f chooses, in the
// order in which they entered it, after cursor, which may be another State's
// (see parseCursor). It looks at no more than
// broker.MaxPageExamine jobs. ErrorContains is the caller's to check: the
// texts are not here.
func (s *State) Select(now Now, f broker.Filter, state broker.State, cursor string, n int) (found []Ticket, next string, err error) {
	q := s.queues[f.Queue]
	at, err := s.parseCursor(q, state, cursor)
	if err != nil || q == nil {
		return nil, "", err
	}
	s.promote(q, now)
	if len(f.IDs) > 0 {
		found, next = s.selectIDs(now, q, f, state, at, n)
		return found, next, nil
	}
	l := &q.lists[state]
	j := s.firstOf(l)
	if cursor != "" {
		j = s.after(q, state, at)
	}
	for seen := 0; j != nil; j = s.nextOf(j) {
		if len(found) == n || seen == broker.MaxPageExamine {
			return found, s.cursorAt(s.jobs.at(j.prev)), nil
		}
		seen++
		if s.chosen(j, &f, now) {
			found = append(found, s.ticket(j))
		}
	}
	return found, "", nil
}

// selectIDs is Select for jobs that are named.
func (s *State) selectIDs(now Now, q *queue, f broker.Filter, state broker.State, at place, n int) (found []Ticket, next string) {
	var named []*job
	for _, id := range f.IDs {
		if j := q.job(id); j != nil && j.state() == state && uint64(j.order) > at.order && s.chosen(j, &f, now) {
			named = append(named, j)
		}
	}
	slices.SortFunc(named, func(a, b *job) int { return cmp.Compare(a.order, b.order) })
	named = slices.Compact(named)
	if len(named) > n {
		named = named[:n]
		next = s.cursorAt(named[n-1])
	}
	for _, j := range named {
		found = append(found, s.ticket(j))
	}
	return found, next
}

// A cursor names the last job looked at, when that entered its list, and its
// place there for when it has left since. Places are those of one State.
type place struct {
	id    broker.ID
	since int64
	order uint64
	mark  uint64 // of the State
}

func (s *State) cursorAt(j *job) string {
	return fmt.Sprintf("%x.%s.%s.%s", j.id[:], strconv.FormatInt(s.changedAt(j), 36), strconv.FormatUint(uint64(j.order), 36), strconv.FormatUint(uint64(s.mark), 36))
}

// parseCursor reads a cursor; "" is the start. One of another State, that of
// another process or of this one's last start, becomes one of this State: where
// its job is, or the start when that has left the list, so that jobs are seen
// again rather than left out.
func (s *State) parseCursor(q *queue, state broker.State, cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	parts := strings.Split(cursor, ".")
	if len(parts) != 4 {
		return p, badCursor(cursor)
	}
	raw, err1 := hex.DecodeString(parts[0])
	since, err2 := strconv.ParseInt(parts[1], 36, 64)
	order, err3 := strconv.ParseUint(parts[2], 36, 32)
	mark, err4 := strconv.ParseUint(parts[3], 36, 32)
	if errors.Join(err1, err2, err3, err4) != nil || len(raw) != 16 {
		return p, badCursor(cursor)
	}
	p = place{broker.ID(raw), since, order, mark}
	if mark == uint64(s.mark) || q == nil {
		return p, nil
	}
	if j := q.job(p.id); j != nil && j.state() == state && s.changedAt(j) == p.since {
		p.order = uint64(j.order)
		return p, nil
	}
	return place{}, nil
}

func badCursor(cursor string) error {
	return fmt.Errorf("%w: cursor %.64q is not from a list", broker.ErrInvalid, cursor)
}

// after returns the first job of a list behind a place.
func (s *State) after(q *queue, state broker.State, p place) *job {
	if j := q.job(p.id); j != nil && j.state() == state && uint64(j.order) == p.order {
		return s.nextOf(j)
	}
	j := s.firstOf(&q.lists[state])
	for j != nil && uint64(j.order) <= p.order {
		j = s.nextOf(j)
	}
	return j
}

func (s *State) chosen(j *job, f *broker.Filter, now Now) bool {
	l := s.laneOf(j)
	if f.Task != "" && l.task.name != f.Task || f.Tenant != "" && l.tenant != f.Tenant || f.Group != "" && l.group != f.Group {
		return false
	}
	if f.Key != "" && s.keyOf(j) != f.Key {
		return false
	}
	if x := s.extOf(j); f.ErrorContains != "" && (x == nil || x.err.Zero()) {
		return false
	}
	age := time.Duration(now.Steady - s.changedAt(j))
	if j.state() == broker.Ready && j.flags&scheduled != 0 {
		age = time.Duration(clockOf(j, now) - s.runAt(j))
	}
	return (f.OlderThan == 0 || age >= f.OlderThan) && (f.NewerThan == 0 || age < f.NewerThan)
}

// Counts returns the kept numbers of a queue, or of all for "", sorted.
func (s *State) Counts(now Now, queue string) (all []broker.Count) {
	for _, name := range s.Queues() {
		if queue != "" && queue != name {
			continue
		}
		q := s.queues[name]
		s.promote(q, now)
		moving := q.move.said()
		for _, t := range q.order {
			all = append(all, broker.Count{
				Queue: name, Task: t.name, Paused: q.paused, Moving: moving,
				Scheduled: t.n[broker.Scheduled], Ready: t.n[broker.Ready], Leased: t.n[broker.Leased],
				Done: t.n[broker.Done], Dead: t.n[broker.Dead], Cancelled: t.n[broker.Cancelled], Totals: t.totals,
				Depth: q.load.jobs, HighWater: q.high, Bytes: q.load.bytes,
			})
		}
		if len(q.order) == 0 && q.rests() {
			all = append(all, broker.Count{Queue: name, Paused: q.paused, Moving: moving, Depth: q.load.jobs, HighWater: q.high, Bytes: q.load.bytes})
		}
	}
	return all
}

// NextDue returns how long until the next scheduled job of a queue is due, or a
// rate lets the next one through that a claim has found waiting; 0 means that
// neither is known.
func (s *State) NextDue(now Now, queue string) time.Duration {
	q := s.queues[queue]
	if q == nil {
		return 0
	}
	var next time.Duration
	for i, t := range [...]int64{now.Steady, now.Wall} {
		if it := q.due[i].top(s); it != nil {
			if d := max(time.Duration(it.at-t), 1); next == 0 || d < next {
				next = d
			}
		}
	}
	if at := q.nextWake(); at > 0 {
		if d := max(time.Duration(at-now.Steady), 1); next == 0 || d < next {
			next = d
		}
	}
	return next
}

// Len returns the number of jobs of all queues.
func (s *State) Len() (n int) {
	for _, q := range s.queues {
		n += q.jobs.len()
	}
	return n
}

// Paused reports whether claims from a queue are stopped.
func (s *State) Paused(queue string) bool { q := s.queues[queue]; return q != nil && q.rests() }
