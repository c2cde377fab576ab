package jobstate

import (
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// backlog makes a state with n jobs of task "waits" in that many groups, behind
// a limit of one running job for each group.
func backlog(b *testing.B, n, groups int) (*State, *Writer) {
	s, w := New(nil, nil), &Writer{}
	now := Now{Wall: 1e18, Steady: 1e18}
	w.Reset(nil, 1, 0, now)
	s.OpenEpoch(w, 1, "m", [16]byte{1}, 0, false)
	limit := broker.Setting{Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{"waits"}, Running: 1, Per: broker.PerGroup}}
	if err := s.Configure(w, "q", &broker.Change{Set: []broker.Setting{limit}}); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if i%1000 == 0 {
			w.Reset(w.Body(), 1, 0, now)
		}
		s.enqueue(w, now, "q", &broker.NewJob{ID: broker.NewID(), Task: "waits", Group: fmt.Sprint(i % max(groups, 1)), Priority: 1})
	}
	w.Reset(w.Body(), 1, 0, now)
	for range groups { // every group runs its one
		s.Claim(w, now, Claim{Queue: "q", Tasks: []string{"waits"}, Max: 1, TTL: time.Hour})
	}
	return s, w
}

// BenchmarkClaim measures the enqueue, claim and ack of one job beside a
// backlog that cannot be claimed.
func BenchmarkClaim(b *testing.B) {
	for _, c := range []struct {
		name      string
		n, groups int
		any       bool // the claim names no task, so that it meets the backlog
	}{
		{"with nothing beside it", 0, 0, false},
		{"of another task than a million of one limited group", 1e6, 1, false},
		{"of any task beside a million of one limited group", 1e6, 1, true},
		{"of any task beside a million of 10000 limited groups", 1e6, 10_000, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, w := backlog(b, c.n, c.groups)
			now := Now{Wall: 2e18, Steady: 1e18 + 1}
			claim := Claim{Queue: "q", Tasks: []string{"runs"}, Max: 1, TTL: time.Hour}
			if c.any {
				claim.Tasks = nil
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				w.Reset(w.Body(), 1, 0, now)
				s.enqueue(w, now, "q", &broker.NewJob{ID: broker.NewID(), Task: "runs"})
				got, more := s.Claim(w, now, claim)
				for len(got) == 0 && more { // the first ones find the groups full, once
					got, more = s.Claim(w, now, claim)
				}
				if len(got) != 1 || got[0].Job.Task != "runs" {
					b.Fatalf("claimed %d jobs", len(got))
				}
				s.Settle(w, now, &broker.Settlement{Ref: got[0].Job.Ref(), Token: got[0].Job.Token, Kind: broker.Ack})
			}
		})
	}
}
