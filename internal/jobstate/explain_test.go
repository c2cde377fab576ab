package jobstate

import (
	"testing"

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
