package jobstate

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/limit"
)

// held is how many things of each sort a queue's State keeps beside its jobs.
func held(s *State, q *queue) map[string]int {
	n := map[string]int{"starts": len(s.starts[0]) + len(s.starts[1]), "lanes": len(s.lanes) - len(s.unused) - 1, "loads": len(q.loads), "turns": len(q.turns), "keys": len(q.keys), "groups": len(q.groups), "wakes": len(q.wakes)}
	for _, t := range q.turns {
		n["shares"] += len(t.shares)
	}
	stands := []*stand{}
	for _, t := range q.order {
		stands = append(stands, &t.open)
	}
	for _, r := range q.rules {
		n["meters"] += len(r.meters)
		for _, m := range r.meters {
			for _, st := range m.parked {
				stands = append(stands, st)
			}
		}
	}
	for _, st := range stands {
		for _, v := range st.levels {
			n["entrants"] += len(v.entrants)
		}
	}
	return n
}

func TestWhatCameAndWentIsForgotten(t *testing.T) {
	limit := func(l broker.Limit) []broker.Setting {
		l.Tasks = []string{"t"}
		return []broker.Setting{{Kind: broker.LimitSetting, Name: "l", Limit: &l}}
	}
	for _, c := range []struct {
		name string
		set  []broker.Setting
		make func(i int, j *broker.NewJob)
		stay bool // a job that nobody takes is ready all the time
	}{
		{"tenants", nil, func(i int, j *broker.NewJob) { j.Tenant = fmt.Sprint(i) }, false},
		{"tenants beside a task that nobody handles", nil, func(i int, j *broker.NewJob) { j.Tenant = fmt.Sprint(i) }, true},
		{"groups", nil, func(i int, j *broker.NewJob) { j.Group, j.Ordered = fmt.Sprint(i), true }, false},
		{"priorities", nil, func(i int, j *broker.NewJob) { j.Priority = int32(i) }, false},
		{"deadlines to start", nil, func(_ int, j *broker.NewJob) { j.StartWithin = time.Hour }, false},
		{"keys", nil, func(i int, j *broker.NewJob) { j.Key, j.KeyHold, j.KeyFor = fmt.Sprint(i), broker.HoldFor, 1 }, false},
		{"tenants that wait at a limit", limit(broker.Limit{Running: 1}), func(i int, j *broker.NewJob) { j.Tenant = fmt.Sprint(i) }, false},
		{"tenants with a limit of their own", limit(broker.Limit{Running: 1, Per: broker.PerTenant}), func(i int, j *broker.NewJob) { j.Tenant = fmt.Sprint(i / 2) }, false},
		{"groups with a rate of their own", limit(broker.Limit{Count: 1, Every: 1, Per: broker.PerGroup}), func(i int, j *broker.NewJob) { j.Group = fmt.Sprint(i / 2) }, false},
		{"tenants that wait for an ordered group", nil, func(i int, j *broker.NewJob) { j.Tenant, j.Group, j.Ordered = fmt.Sprint(i), "g", true }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(t, 1)
			h.commit(func() {
				if err := h.s.Configure(&h.w, "q", &broker.Change{Set: c.set}); err != nil {
					t.Fatal(err)
				}
			})
			if c.stay {
				h.put(broker.NewJob{Task: "other"})
			}
			for i := range 2000 {
				a, b := broker.NewJob{Task: "t"}, broker.NewJob{Task: "t", Retain: -1}
				c.make(2*i, &a)
				c.make(2*i+1, &b)
				ids := h.put(a, b)
				h.run()
				if i%2 == 0 { // it ends where it waits
					h.commit(func() { h.s.Cancel(&h.w, "q", ids[1:], "") })
				}
				for len(h.leases) > 0 {
					for _, l := range h.leases {
						h.commit(func() {
							h.s.Settle(&h.w, h.now, &broker.Settlement{Ref: l.Job.Ref(), Token: l.Job.Token, Kind: broker.Ack})
						})
					}
					h.leases = nil
					h.run()
				}
			}
			var checkpoint bytes.Buffer
			if err := h.s.Encode(&checkpoint); err != nil {
				t.Fatal(err)
			}
			if n := checkpoint.Len(); n > 8<<10 { // 130 keys whose time is over
				t.Errorf("the checkpoint has %d bytes", n)
			}
			for what, n := range held(h.s, h.s.queues["q"]) {
				if n > 200 {
					t.Errorf("%d %s are kept", n, what)
				}
			}
		})
	}
}

// put enqueues jobs as one frame.
func (h *history) put(jobs ...broker.NewJob) (ids []broker.ID) {
	h.now.Steady++
	h.commit(func() {
		answers, err := h.s.Enqueue(&h.w, h.now, "q", jobs)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, a := range answers {
			ids = append(ids, a.ID)
		}
	})
	return ids
}

// run claims what can be had of task t.
func (h *history) run() {
	h.now.Steady++
	h.commit(func() {
		got, _ := h.s.Claim(&h.w, h.now, Claim{Queue: "q", Tasks: []string{"t"}, Max: 10, TTL: time.Hour, Worker: "w", Member: "m1"})
		h.leases = append(h.leases, got...)
	})
}

// TestABucketIsKeptForAPartOfANanosecond: a rate of 2 in 20,000,001 ns has it, and
// whoever forgot the bucket before would find it full too early.
func TestABucketIsKeptForAPartOfANanosecond(t *testing.T) {
	m := meter{rate: limit.State{Last: 100, High: 100, Debt: 5, Part: 1}}
	for at, want := range map[int64]bool{104: true, 105: true, 106: false} {
		if m.used(at) != want {
			t.Errorf("at %d the bucket is in use: %v", at, !want)
		}
	}
}
