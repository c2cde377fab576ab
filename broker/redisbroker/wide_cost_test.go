package redisbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// longestWide bounds a script of a call of maxBatch jobs that share as little as they
// can: 4.3 to 5.1 ms were measured.
const longestWide = 6 * time.Millisecond

// TestProofThatWideCallsHoldNobodyUp makes calls whose jobs share as little as they
// can: each in a lane of its own, each behind a limit of its own, each in the place
// of one that is dropped for it, which is two calls in one, since it does all of it
// or nothing. With -full it looks at how long the server takes, too.
func TestProofThatWideCallsHoldNobodyUp(t *testing.T) {
	slow(t)
	w := &wide{backlog{t: t, s: redistest.Start(t, redistest.Options{})}}
	w.b = open(t, w.s.URL(), "wide", nil)
	defer w.b.Close()
	limit := func(l broker.Limit) []broker.Setting {
		l.Tasks = []string{"t"}
		return []broker.Setting{{Kind: broker.LimitSetting, Name: "l", Limit: &l}}
	}
	for _, sort := range []struct {
		name  string
		set   []broker.Setting
		calls int // that the second enqueue is
	}{
		{"lanes", nil, 1},
		{"limited", limit(broker.Limit{Per: broker.PerTenant, Running: 1}), 1},
		{"rated", limit(broker.Limit{Per: broker.PerGroup, Count: 1, Every: time.Hour}), 1},
		{"dropped", []broker.Setting{{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: maxBatch, DropOldest: true}}}, 2},
	} {
		steps := []struct {
			name  string
			do    func() error
			calls int
			least time.Duration
		}{
			{name: "enqueue, each begins a lane", do: w.enqueue, calls: 1},
			{name: "enqueue to the same lanes", do: w.enqueue, calls: sort.calls},
			{name: "claim and ack", do: w.work, calls: 1},
		}
		for round := range 5 { // what else the machine does makes one long
			w.queue = fmt.Sprint(sort.name, round)
			if err := w.b.Configure(t.Context(), broker.NewCall(), w.queue, broker.Change{Set: sort.set}); err != nil {
				t.Fatal(err)
			}
			for i := range steps {
				c := w.measure(steps[i].name, steps[i].do)
				if round == 0 || c.longest < steps[i].least {
					steps[i].least = c.longest
				}
				if c.commands > float64(mostCommands*steps[i].calls) {
					t.Errorf("%s: %s: a script made %.0f commands, more than any is to make", sort.name, c.name, c.commands)
				}
			}
		}
		for _, s := range steps {
			t.Logf("%-8s %-28s the longest script %v", sort.name, s.name, s.least)
			if *full && s.least > longestWide*time.Duration(s.calls) {
				t.Errorf("%s: %s: a script took the server %v", sort.name, s.name, s.least)
			}
		}
	}
}

// wide is a queue of jobs that share little.
type wide struct{ backlog }

// enqueue adds as many as one call can, each with a tenant and a group of its own.
func (w *wide) enqueue() error {
	jobs := make([]broker.NewJob, maxBatch)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, 100), Tenant: fmt.Sprint("tenant-", i), Group: fmt.Sprint("group-", i)}
		jobs[i].MakeID()
	}
	_, err := w.b.Enqueue(w.t.Context(), broker.NewCall(), w.queue, jobs)
	return err
}

// work claims and acks what some calls find.
func (w *wide) work() error {
	for range 6 {
		got, err := w.b.Claim(w.t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{w.queue}, Max: maxBatch, TTL: time.Hour, Worker: "w", Remote: true})
		if err != nil {
			return err
		}
		acks := make([]broker.Settlement, len(got.Leases))
		for i, l := range got.Leases {
			acks[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
		}
		if _, err := w.b.Settle(w.t.Context(), broker.NewCall(), acks); err != nil {
			return err
		}
	}
	return nil
}
