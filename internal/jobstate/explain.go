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
	if q == nil || q.jobs[ref.ID] == nil {
		return broker.Explanation{}, broker.ErrNotFound
	}
	s.promote(q, now)
	j := q.jobs[ref.ID]
	switch {
	case j.state.Final():
		return broker.Explanation{Reason: broker.WhyFinal, Text: fmt.Sprintf("it is %s (%s)", j.state, reasons[j.reason])}, nil
	case j.state == broker.Leased:
		until := nanos(j.lease.expires)
		return broker.Explanation{
			Reason: broker.WhyLeased, Worker: j.lease.worker, Until: until,
			Text: fmt.Sprintf("worker %s runs it under a lease until %s", j.lease.worker, until.Format(time.RFC3339)),
		}, nil
	case j.flags&waitsBatch != 0:
		return broker.Explanation{Reason: broker.WhyBatch, Text: fmt.Sprintf("%d of the %d jobs of its batch are not final yet", j.ext.left, j.ext.size)}, nil
	case j.state == broker.Scheduled:
		at := nanos(j.runAt)
		return broker.Explanation{
			Reason: broker.WhyScheduled, Until: at, After: time.Duration(j.runAt - clockOf(j, now)),
			Text: "it is scheduled for " + at.Format(time.RFC3339),
		}, nil
	case q.paused:
		return broker.Explanation{Reason: broker.WhyPaused, Text: "its queue is paused"}, nil
	}
	return s.explainReady(now, q, j), nil
}

func (s *State) explainReady(now Now, q *queue, j *job) broker.Explanation {
	someone := false
	s.Listeners(q.name, j.lane.task.name, func(Listener) bool { someone = true; return false })
	if !someone {
		return broker.Explanation{
			Reason: broker.WhyNoWorker,
			Text:   fmt.Sprintf("no live worker listens to queue %s and handles task %s", q.name, j.lane.task.name),
		}
	}
	if x := s.explainGate(now, q, j); x.Reason != "" {
		return x
	}
	if n, atLeast := q.ahead(j); n > 0 {
		more := ""
		if atLeast {
			more = "at least "
		}
		return broker.Explanation{Reason: broker.WhyBehind, Behind: n, Text: fmt.Sprintf("%s%d ready jobs of its queue go first", more, n)}
	}
	return broker.Explanation{Reason: broker.WhyNone, Text: "nothing holds it back: the next free worker takes it"}
}

// explainGate says what refuses j now, if anything does: its ordered group
// before a limit on running jobs, that before the rate that lasts longest.
func (s *State) explainGate(now Now, q *queue, j *job) (x broker.Explanation) {
	if j.lane.ordered {
		if g := q.groups[groupOf(j.lane)]; g != nil && g.holder != nil && g.holder != j {
			x = broker.Explanation{Reason: broker.WhyLimit, Holders: []broker.Ref{{Queue: q.name, ID: g.holder.id}}}
			x.Text = fmt.Sprintf("ordered group %q is held by job %s, which is %s", groupOf(j.lane), g.holder.id, g.holder.state)
			return x
		}
	}
	for _, m := range j.lane.bind() {
		if m.rule.Running > 0 && m.running >= m.rule.Running {
			x = broker.Explanation{Reason: broker.WhyLimit, Limit: m.rule.name}
			x.Holders = q.leasedJobs(func(o *job) bool { return slices.Contains(o.lane.bind(), m) })
			x.Text = fmt.Sprintf("limit %s%s allows %d running jobs, and %d run", m.rule.name, m.of(), m.rule.Running, m.running)
			return x
		}
	}
	for _, m := range j.lane.bind() {
		if m.rule.Running > 0 {
			continue
		}
		if at := m.allowedAt(now.Steady); at > now.Steady && (x.Reason == "" || x.Until.Before(nanos(at))) {
			x = broker.Explanation{Reason: broker.WhyRate, Limit: m.rule.name, Until: nanos(at), After: time.Duration(at - now.Steady)}
			x.Text = fmt.Sprintf("rate %s%s lets the next job start at %s", m.rule.name, m.of(), x.Until.Format(time.RFC3339Nano))
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
	for j := q.lists[broker.Leased].first; j != nil && len(refs) < 10; j = j.next {
		if want(j) {
			refs = append(refs, broker.Ref{Queue: q.name, ID: j.id})
		}
	}
	return refs
}

// ahead counts the ready jobs that are claimed before j, looking at no more
// than broker.MaxPageExamine.
func (q *queue) ahead(j *job) (n int, atLeast bool) {
	mine := item{at: j.place, seq: j.seq}
	if j.lane.first.j == j {
		mine = j.lane.head // it takes the place of the first that waits for it
	}
	seen := 0
	for k := q.lists[broker.Ready].first; k != nil; k = k.next {
		if seen == broker.MaxPageExamine {
			return n, true
		}
		seen++
		its := item{at: k.place, seq: k.seq}
		if k.lane.priority > j.lane.priority || k.lane.priority == j.lane.priority && its.before(&mine) {
			n++
		}
	}
	return n, false
}
