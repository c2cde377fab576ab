package brokertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
)

// Explain implements broker.Broker.
func (m *Model) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	if err := m.begin(ctx); err != nil {
		return broker.Explanation{}, err
	}
	s := m.s
	defer s.mu.Unlock()
	j := s.find(r)
	switch {
	case j == nil:
		return broker.Explanation{}, fmt.Errorf("model: %w", broker.ErrNotFound)
	case j.State == broker.Ready:
		return s.explainReady(j), nil
	case j.State == broker.Leased:
		return broker.Explanation{Reason: broker.WhyLeased, Text: "it is running", Worker: j.Worker, Until: j.LeaseExpiresAt}, nil
	case j.waits != nil:
		return broker.Explanation{Reason: broker.WhyBatch, Text: fmt.Sprintf("it waits for %d members of its batch", len(j.waits))}, nil
	case j.State == broker.Scheduled:
		return broker.Explanation{Reason: broker.WhyScheduled, Text: "it is not due yet", Until: j.RunAt}, nil
	}
	return broker.Explanation{Reason: broker.WhyFinal, Text: "it is " + j.State.String()}, nil
}

func (s *store) explainReady(j *job) broker.Explanation {
	runs := slices.ContainsFunc(s.workers(j.Queue), func(w broker.Worker) bool { return canRun(w.Tasks, j.Task) })
	blocks := s.blocks(j)
	behind := s.behind(j)
	switch {
	case s.paused[j.Queue]:
		return broker.Explanation{Reason: broker.WhyPaused, Text: "its queue is paused"}
	case !runs:
		return broker.Explanation{Reason: broker.WhyNoWorker, Text: "no worker listens to its queue and handles its task"}
	case len(blocks) > 0:
		return blocks[0].explain()
	case behind > 0:
		return broker.Explanation{Reason: broker.WhyBehind, Text: fmt.Sprintf("%d jobs are before it", behind), Behind: behind}
	}
	return broker.Explanation{Reason: broker.WhyNone, Text: "nothing holds it back"}
}

// behind counts the jobs that would be claimed before j, 0 when a
// worker takes j next, else all that any worker takes.
func (s *store) behind(j *job) (n int) {
	next, workers := false, s.workers(j.Queue)
	for _, w := range workers {
		next = next || canRun(w.Tasks, j.Task) && s.goesFirst(j, w.Tasks)
	}
	for _, o := range s.in(j.Queue, broker.Ready) {
		taken := slices.ContainsFunc(workers, func(w broker.Worker) bool { return canRun(w.Tasks, o.Task) })
		if !next && taken && o != j && s.blocks(o) == nil && s.rules.before(s, o, j) {
			n++
		}
	}
	return n
}

// goesFirst reports whether j goes before all other jobs of some tasks.
func (s *store) goesFirst(j *job, tasks []string) bool {
	return !slices.ContainsFunc(s.in(j.Queue, broker.Ready), func(o *job) bool {
		return o != j && canRun(tasks, o.Task) && s.blocks(o) == nil && s.rules.before(s, o, j)
	})
}

// maxHolders is how many of the jobs that hold a limit an explanation names.
const maxHolders = 10

func (b block) explain() broker.Explanation {
	e := broker.Explanation{Reason: b.reason, Limit: b.limit}
	if b.reason == broker.WhyRate {
		e.Until, e.Text = b.until, fmt.Sprintf("the rate %s allows the next claim at %v", b.limit, b.until)
		return e
	}
	for _, h := range b.holders[:min(len(b.holders), maxHolders)] {
		e.Holders = append(e.Holders, h.Ref())
	}
	e.Text = fmt.Sprintf("its ordered group is held by %v", e.Holders)
	if b.limit != "" {
		e.Text = fmt.Sprintf("the limit %s is held by %d jobs", b.limit, len(b.holders))
	}
	return e
}
