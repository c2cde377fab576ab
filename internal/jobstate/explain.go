package jobstate

import (
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// Explain says why a job is not running now.
func (s *State) Explain(now Now, ref broker.Ref) (broker.Explanation, error) {
	q := s.queues[ref.Queue]
	if q == nil || q.job(ref.ID) == nil {
		return broker.Explanation{}, broker.ErrNotFound
	}
	s.promote(q, now)
	j := q.job(ref.ID)
	switch {
	case j.state().Final():
		return broker.Explanation{Reason: broker.WhyFinal, Text: s.ending(j)}, nil
	case j.state() == broker.Leased:
		lease := &s.lifeOf(j).lease
		until := nanos(lease.expires)
		return broker.Explanation{
			Reason: broker.WhyLeased, Worker: lease.worker, Until: until,
			Text: fmt.Sprintf("worker %s runs it under a lease until %s", lease.worker, until.Format(time.RFC3339)),
		}, nil
	case j.flags&waitsBatch != 0:
		x := s.extOf(j)
		return broker.Explanation{Reason: broker.WhyBatch, Text: fmt.Sprintf("%d of the %d jobs of its batch are not final yet", x.left, x.size)}, nil
	case j.state() == broker.Scheduled:
		at := nanos(s.runAt(j))
		return broker.Explanation{
			Reason: broker.WhyScheduled, Until: at, After: time.Duration(s.runAt(j) - clockOf(j, now)),
			Text: "it is scheduled for " + at.Format(time.RFC3339),
		}, nil
	case q.moving():
		return broker.Explanation{Reason: broker.WhyMoving, Text: "its queue " + q.move.said()}, nil
	case q.paused:
		return broker.Explanation{Reason: broker.WhyPaused, Text: "its queue is paused"}, nil
	}
	return s.explainReady(now, q, j), nil
}

// ending says how a final job ended.
func (s *State) ending(j *job) string {
	why := map[reason]string{
		reasonAttempts: "its last allowed attempt failed", reasonCrashed: "its last allowed attempt ended with its worker",
		reasonBuried: "its handler buried it", reasonDamaged: "its payload was damaged on the disk",
		reasonDropped: "it was dropped to make room for a newer one", reasonNotStarted: "it was not started in time",
	}[j.reason()]
	if why == "" {
		return fmt.Sprintf("it is %s", j.state())
	}
	return fmt.Sprintf("it is %s: %s", j.state(), why)
}

func (s *State) explainReady(now Now, q *queue, j *job) broker.Explanation {
	someone := false
	s.Listeners(q.name, s.taskOf(j).name, func(Listener) bool { someone = true; return false })
	if !someone {
		return broker.Explanation{
			Reason: broker.WhyNoWorker,
			Text:   fmt.Sprintf("no live worker listens to queue %s and handles task %s", q.name, s.taskOf(j).name),
		}
	}
	if x := s.explainGate(now, q, j); x.Reason != "" {
		return x
	}
	if !s.isNext(now, q, j) {
		a := s.ahead(now, q, j)
		return broker.Explanation{Reason: broker.WhyBehind, Behind: a.n, Text: a.text()}
	}
	return broker.Explanation{Reason: broker.WhyNone, Text: "nothing holds it back: the next free worker takes it"}
}

// explainGate says what refuses j now, if anything does: its ordered group
// before a limit on running jobs, that before the rate that lasts longest.
func (s *State) explainGate(now Now, q *queue, j *job) (x broker.Explanation) {
	if s.laneOf(j).ordered {
		if g := q.groups[groupOf(s.laneOf(j))]; g != nil && g.holder != nil && g.holder != j {
			x = broker.Explanation{Reason: broker.WhyLimit, Holders: []broker.Ref{{Queue: q.name, ID: g.holder.id}}}
			x.Text = fmt.Sprintf("ordered group %q is held by job %s, which is %s", groupOf(s.laneOf(j)), g.holder.id, g.holder.state())
			return x
		}
	}
	for _, m := range s.laneOf(j).bind() {
		if m.rule.Running > 0 && m.running >= m.rule.Running {
			x = broker.Explanation{Reason: broker.WhyLimit, Limit: m.rule.name}
			x.Holders = q.leasedJobs(func(o *job) bool { return slices.Contains(s.laneOf(o).bind(), m) })
			x.Text = fmt.Sprintf("limit %s%s lets %d run at a time, and %d of its jobs do", m.rule.name, m.of(), m.rule.Running, m.running)
			return x
		}
	}
	for _, m := range s.laneOf(j).bind() {
		if m.rule.Running > 0 {
			continue
		}
		if at := m.allowedAt(now.Steady); at > now.Steady && (x.Reason == "" || x.Until.Before(nanos(at))) {
			x = broker.Explanation{Reason: broker.WhyRate, Limit: m.rule.name, Until: nanos(at), After: time.Duration(at - now.Steady)}
			x.Text = fmt.Sprintf("rate %s%s lets the next job start at %s", m.rule.name, m.of(), x.Until.Format("2006-01-02T15:04:05.000Z07:00"))
		}
	}
	return x
}

// of says for which tenant or group a meter counts.
func (m *meter) of() string {
	if m.rule.Per == broker.PerQueue {
		return ""
	}
	return fmt.Sprintf(" of %s %q", m.rule.Per, m.value)
}

// leasedJobs lists at most ten leased jobs.
func (q *queue) leasedJobs(want func(*job) bool) (refs []broker.Ref) {
	s := q.state
	for j := s.firstOf(&q.lists[broker.Leased]); j != nil && len(refs) < 10; j = s.nextOf(j) {
		if want(j) {
			refs = append(refs, broker.Ref{Queue: q.name, ID: j.id})
		}
	}
	return refs
}

// isNext reports whether a live worker that takes j's task would take j now,
// before all else that it takes from the queue.
func (s *State) isNext(now Now, q *queue, j *job) bool {
	l := s.laneOf(j)
	if l.head.j != j {
		return false
	}
	for _, wk := range s.workers {
		if !wk.listens(q.name) || !wk.handles(l.task.name) {
			continue
		}
		takes := q.order
		if len(wk.Tasks) > 0 {
			takes = q.wanted(wk.Tasks)
		}
		if s.next(now, q, takes) == l {
			return true
		}
	}
	return false
}

// ahead says how many ready jobs are claimed before one.
type ahead struct {
	n       int
	atLeast bool // more were not looked at
	about   bool // tenants share, and by the time it is its turn others may have come
}

func (a ahead) text() string {
	more, jobs := "", "jobs of its queue go"
	switch {
	case a.atLeast:
		more = "at least "
	case a.about:
		more = "about "
	}
	if a.n == 1 {
		jobs = "job of its queue goes"
	}
	return fmt.Sprintf("%s%d ready %s first", more, a.n, jobs)
}

// waiting is a tenant's ready jobs of one priority.
type waiting struct {
	n     int
	first spot
}

func (w *waiting) add(at spot) {
	if w.first == (spot{}) || at.before(w.first) {
		w.first = at
	}
	w.n++
}

// ahead counts what goes before j, which is not the next, looking at no more
// than broker.MaxPageExamine jobs: not those that no worker takes or a limit
// holds back, and of another tenant of its priority what that has a turn for
// until it is j's.
func (s *State) ahead(now Now, q *queue, j *job) (a ahead) {
	mine, at := s.laneOf(j), spotOf(j)
	if mine.first == j {
		at = mine.head.spot // it takes the place of the first that waits for it
	}
	own := waiting{first: at}
	goes, others, seen := map[*lane]bool{}, map[string]*waiting{}, 0
	for k := s.firstOf(&q.lists[broker.Ready]); k != nil && !a.atLeast; k = s.nextOf(k) {
		a.atLeast = seen == broker.MaxPageExamine
		seen++
		l := s.laneOf(k)
		yes, known := goes[l]
		if !known {
			s.Listeners(q.name, l.task.name, func(Listener) bool { yes = true; return false })
			g, _, _ := l.refusing(now)
			yes = yes && g == nil
			goes[l] = yes
		}
		switch {
		case !yes || l.priority < mine.priority:
		case l.priority > mine.priority:
			a.n++
		case l.tenant != mine.tenant:
			if others[l.tenant] == nil {
				others[l.tenant] = &waiting{}
			}
			others[l.tenant].add(spotOf(k))
		case spotOf(k).before(at):
			own.add(spotOf(k))
		}
	}
	turn := q.turnOf(mine.priority)
	for tenant, w := range others {
		a.about = true
		turns := own.n * q.weightOf(tenant) / q.weightOf(mine.tenant)
		theirs, ours := turn.shareOf(tenant).effective(), turn.shareOf(mine.tenant).effective()
		if theirs < ours || theirs == ours && w.first.before(own.first) {
			turns++ // theirs comes first
		}
		a.n += min(w.n, turns)
	}
	a.n = max(a.n+own.n, 1)
	return a
}

func (q *queue) weightOf(tenant string) int { return max(q.weights[tenant], 1) }
