package jobstate

import (
	"fmt"
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
	case j.state == broker.Scheduled:
		at := nanos(j.runAt)
		return broker.Explanation{
			Reason: broker.WhyScheduled, Until: at, After: time.Duration(j.runAt - clockOf(j, now)),
			Text: "it is scheduled for " + at.Format(time.RFC3339),
		}, nil
	case q.paused:
		return broker.Explanation{Reason: broker.WhyPaused, Text: "its queue is paused"}, nil
	}
	return s.explainReady(q, j), nil
}

func (s *State) explainReady(q *queue, j *job) broker.Explanation {
	someone := false
	s.Listeners(q.name, j.lane.task.name, func(Listener) bool { someone = true; return false })
	if !someone {
		return broker.Explanation{
			Reason: broker.WhyNoWorker,
			Text:   fmt.Sprintf("no live worker listens to queue %s and handles task %s", q.name, j.lane.task.name),
		}
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

// ahead counts the ready jobs that are claimed before j, looking at no more
// than broker.MaxPageExamine.
func (q *queue) ahead(j *job) (n int, atLeast bool) {
	mine := item{at: j.place, seq: j.seq}
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
