package jobstate

import (
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// What Explain says of each ready job is held against the next claim of a
// worker that takes everything, the only one there is.
func TestExplainSaysWhatTheNextClaimTakes(t *testing.T) {
	claims := 0
	for seed := range uint64(100) {
		h := newHistory(t, seed)
		for range 100 {
			h.step()
			for _, name := range []string{"q0", "q1"} {
				if q := h.s.queues[name]; q != nil && !q.paused {
					claims += h.explainAndClaim(q)
				}
			}
		}
	}
	if claims < 5000 {
		t.Errorf("only %d jobs were claimed", claims)
	}
}

// explainAndClaim claims one job of a queue, and returns how many there were.
func (h *history) explainAndClaim(q *queue) int {
	h.t.Helper()
	h.now.Steady++
	var got []Ticket
	more, none := false, map[broker.ID]bool{}
	h.commit(func() {
		clear(h.s.workers)
		h.s.Register(&h.w, broker.Worker{ID: "w", Name: "w"}, "m1")
		h.s.Upkeep(&h.w, h.now, 1000, nil)
		h.s.promote(q, h.now)
		var ready []broker.ID
		for j := h.s.firstOf(&q.lists[broker.Ready]); j != nil; j = h.s.nextOf(j) {
			ready = append(ready, j.id)
		}
		for _, id := range ready {
			x, err := h.s.Explain(h.now, broker.Ref{Queue: q.name, ID: id})
			if err != nil {
				h.t.Fatal(err)
			}
			if x.Reason == broker.WhyNone {
				none[id] = true
			}
		}
		got, more = h.s.Claim(&h.w, h.now, Claim{Queue: q.name, Max: 1, TTL: time.Second, Worker: "w", Member: "m1"})
	})
	h.leases = append(h.leases, got...)
	switch {
	case len(none) != len(got):
		h.t.Fatalf("nothing holds back %d jobs, %d were claimed", len(none), len(got))
	case len(got) == 1 && !none[got[0].Job.ID]:
		h.t.Fatalf("another job was claimed than the one that nothing holds back")
	case len(got) == 0 && !more:
		h.wantRefused(q)
	}
	return len(got)
}

// wantRefused wants every lane of a queue to be refused: a claim found nothing.
func (h *history) wantRefused(q *queue) {
	h.t.Helper()
	for _, t := range q.order {
		for _, l := range t.lanes {
			if l.n > 0 && h.s.refuses(l, h.now) == nil {
				h.t.Fatalf("a lane of task %s, %+v, could be claimed, and nothing was", t.name, l.laneKey)
			}
		}
	}
}
