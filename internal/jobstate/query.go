package jobstate

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// ticket describes j.
func (s *State) ticket(j *job) Ticket {
	l := j.lane
	t := Ticket{Body: j.body, Job: broker.Job{
		Queue: l.task.queue.name, ID: j.id, Task: l.task.name, State: j.state, Reason: reasons[j.reason],
		Priority: l.priority, Tenant: l.tenant, Group: l.group, Ordered: j.flags&ordered != 0,
		Attempt: int(j.attempts), MaxAttempts: int(j.maxAttempts), Failures: int(j.failures),
		EnqueuedAt: nanos(j.enqueuedAt), RunAt: nanos(j.runAt), ClaimedAt: nanos(j.claimedAt),
		HasResult: j.flags&hasResult != 0, CancelRequested: j.flags&cancelAsked != 0,
	}}
	b := &t.Job
	if j.claims > 0 {
		b.Token = j.token()
	}
	if j.state.Final() {
		b.FinishedAt = nanos(j.changedAt)
	}
	if e := j.ext; e != nil {
		t.Err, t.Result = e.err, e.result
		b.Key, b.Retain, b.StartWithin = e.key, time.Duration(e.retain), time.Duration(e.startWithin)
		b.Batch, b.BatchOrdinal = e.batch, e.ordinal
		b.Progress, b.Log, b.Worker = e.progress, slices.Clone(e.log), e.worker
	}
	if j.lease != nil {
		b.Worker, b.LeaseExpiresAt = j.lease.worker, nanos(j.lease.expires)
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
	j := q.jobs[ref.ID]
	if j == nil {
		return Ticket{}, false
	}
	return s.ticket(j), true
}

// Find returns the queues that have a job of that id: one, as a rule.
func (s *State) Find(id broker.ID) (refs []broker.Ref) {
	for _, name := range s.Queues() {
		if s.queues[name].jobs[id] != nil {
			refs = append(refs, broker.Ref{Queue: name, ID: id})
		}
	}
	return refs
}

// Select returns up to n jobs of one queue and state that f chooses, in the
// order in which they entered it, after cursor. It looks at no more than
// broker.MaxPageExamine jobs. ErrorContains is the caller's to check: the
// texts are not here.
func (s *State) Select(now Now, f broker.Filter, state broker.State, cursor string, n int) (found []Ticket, next string, err error) {
	q := s.queues[f.Queue]
	if q == nil {
		return nil, "", nil
	}
	s.promote(q, now)
	if len(f.IDs) > 0 {
		for _, id := range f.IDs {
			if j := q.jobs[id]; j != nil && j.state == state && s.chosen(j, &f, now) {
				found = append(found, s.ticket(j))
			}
		}
		return found, "", nil
	}
	l := &q.lists[state]
	j := l.first
	if cursor != "" {
		if j, err = q.after(l, state, cursor); err != nil {
			return nil, "", err
		}
	}
	for seen := 0; j != nil; j = j.next {
		if len(found) == n || seen == broker.MaxPageExamine {
			return found, cursorAt(j.prev), nil
		}
		seen++
		if s.chosen(j, &f, now) {
			found = append(found, s.ticket(j))
		}
	}
	return found, "", nil
}

// A cursor names the last job looked at, and its place in the list for when it
// has left it since. Places differ a little between handles.
func cursorAt(j *job) string {
	return hex.EncodeToString(j.id[:]) + "." + strconv.FormatUint(j.order, 36)
}

func (q *queue) after(l *list, state broker.State, cursor string) (*job, error) {
	name, at, ok := strings.Cut(cursor, ".")
	raw, err := hex.DecodeString(name)
	order, err2 := strconv.ParseUint(at, 36, 64)
	if !ok || err != nil || err2 != nil || len(raw) != 16 {
		return nil, fmt.Errorf("%w: cursor %.64q is not from a list", broker.ErrInvalid, cursor)
	}
	if j := q.jobs[broker.ID(raw)]; j != nil && j.state == state && j.order == order {
		return j.next, nil
	}
	j := l.first
	for j != nil && j.order <= order {
		j = j.next
	}
	return j, nil
}

func (s *State) chosen(j *job, f *broker.Filter, now Now) bool {
	l := j.lane
	if f.Task != "" && l.task.name != f.Task || f.Tenant != "" && l.tenant != f.Tenant || f.Group != "" && l.group != f.Group {
		return false
	}
	if f.Key != "" && (j.ext == nil || j.ext.key != f.Key) {
		return false
	}
	if f.ErrorContains != "" && (j.ext == nil || j.ext.err.Zero()) {
		return false
	}
	age := time.Duration(now.Steady - j.changedAt)
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
		for _, t := range q.order {
			all = append(all, broker.Count{
				Queue: name, Task: t.name, Paused: q.paused,
				Scheduled: t.n[broker.Scheduled], Ready: t.n[broker.Ready], Leased: t.n[broker.Leased],
				Done: t.n[broker.Done], Dead: t.n[broker.Dead], Cancelled: t.n[broker.Cancelled], Totals: t.totals,
			})
		}
		if len(q.order) == 0 && q.paused {
			all = append(all, broker.Count{Queue: name, Paused: true})
		}
	}
	return all
}

// NextDue returns how long until the next scheduled job of a queue is due; 0
// means that there is none.
func (s *State) NextDue(now Now, queue string) time.Duration {
	q := s.queues[queue]
	if q == nil {
		return 0
	}
	var next time.Duration
	for i, t := range [...]int64{now.Steady, now.Wall} {
		if it := q.due[i].top(); it != nil {
			if d := max(time.Duration(it.at-t), 1); next == 0 || d < next {
				next = d
			}
		}
	}
	return next
}

// Len returns the number of jobs of all queues.
func (s *State) Len() (n int) {
	for _, q := range s.queues {
		n += len(q.jobs)
	}
	return n
}

// Paused reports whether claims from a queue are stopped.
func (s *State) Paused(queue string) bool { q := s.queues[queue]; return q != nil && q.paused }
