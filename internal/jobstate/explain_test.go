package jobstate

import (
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// TestBehindCountsWhatGoesFirst asks how many jobs go before the last one that
// is enqueued, while a worker for everything is there.
func TestBehindCountsWhatGoesFirst(t *testing.T) {
	limit := broker.Change{Set: []broker.Setting{{Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{"limited"}, Running: 1}}}}
	weight := broker.Change{Set: []broker.Setting{{Kind: broker.WeightSetting, Name: "small", Weight: 10}}}
	flood := func(n int, j broker.NewJob) (jobs []broker.NewJob) {
		for range n {
			j.ID = broker.NewID()
			jobs = append(jobs, j)
		}
		return jobs
	}
	for _, c := range []struct {
		name   string
		change *broker.Change
		claim  []string // tasks of which one is claimed before
		before []broker.NewJob
		last   broker.NewJob
		want   int
		text   string
	}{
		{name: "the first has nothing before it", last: broker.NewJob{Task: "t"}},
		{name: "those that came first", before: flood(3, broker.NewJob{Task: "t"}), last: broker.NewJob{Task: "u"}, want: 3, text: "3 ready jobs of its queue go first"},
		{name: "one is one job", before: flood(1, broker.NewJob{Task: "t"}), last: broker.NewJob{Task: "u"}, want: 1, text: "1 ready job of its queue goes first"},
		{name: "none of a lower priority", before: flood(3, broker.NewJob{Task: "t"}), last: broker.NewJob{Task: "t", Priority: 1}},
		{
			name: "none that a limit holds back", change: &limit, claim: []string{"limited"},
			before: append(flood(4, broker.NewJob{Task: "limited"}), broker.NewJob{ID: broker.NewID(), Task: "free"}),
			last:   broker.NewJob{Task: "free"}, want: 1, text: "1 ready job of its queue goes first",
		},
		{
			name: "one turn of another tenant", before: flood(1000, broker.NewJob{Task: "t", Tenant: "flood"}),
			last: broker.NewJob{Task: "t", Tenant: "small"}, want: 1, text: "about 1 ready job of its queue goes first",
		},
		{
			name: "as many turns of another tenant as it takes", before: append(flood(1000, broker.NewJob{Task: "t", Tenant: "flood"}), flood(4, broker.NewJob{Task: "t", Tenant: "small"})...),
			last: broker.NewJob{Task: "t", Tenant: "small"}, want: 9, text: "about 9 ready jobs of its queue go first",
		},
		{
			name: "fewer turns of one with less weight", change: &weight, before: append(flood(1000, broker.NewJob{Task: "t", Tenant: "flood"}), flood(19, broker.NewJob{Task: "t", Tenant: "small"})...),
			last: broker.NewJob{Task: "t", Tenant: "small"}, want: 21, text: "about 21 ready jobs of its queue go first",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(t, 1)
			h.commit(func() {
				h.s.OpenEpoch(&h.w, 1, "m", [16]byte{1}, 0, false)
				h.s.Register(&h.w, broker.Worker{ID: "w"}, "m")
				if c.change != nil {
					if err := h.s.Configure(&h.w, "q", c.change); err != nil {
						t.Fatal(err)
					}
				}
			})
			c.last.ID = broker.NewID()
			h.enqueued(append(c.before, c.last)...)
			if c.claim != nil {
				h.commit(func() {
					h.s.Claim(&h.w, h.now, Claim{Queue: "q", Tasks: c.claim, Max: 1, TTL: 1e12, Worker: "w", Member: "m"})
				})
			}
			x, err := h.s.Explain(h.now, broker.Ref{Queue: "q", ID: c.last.ID})
			if err != nil || x.Behind != c.want || c.text != "" && x.Text != c.text {
				t.Errorf("%d are before it, want %d: %q, want %q (%v)", x.Behind, c.want, x.Text, c.text, err)
			}
		})
	}
}

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
