//go:build linux

package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

func TestProofThatNothingRunsTwiceAtATimeOrGetsStuck(t *testing.T) {
	span, n := size(3*time.Second, 60*time.Second), size(250, 4500)
	top := t.TempDir()
	dir, ledgers := filepath.Join(top, "jobs"), filepath.Join(top, "ledgers")
	must(t, os.Mkdir(ledgers, 0o700))
	lines := newLines(t, dir, n)
	f := newFleet(t)
	for i := range 4 {
		name := fmt.Sprintf("worker-%d", i)
		// Within this TTL a lease ends by its settlement, or with its process.
		f.add(plan{Role: asFlow, Store: dir, Name: name, Ledger: filepath.Join(ledgers, name), Concurrency: 4, TTL: 5 * time.Minute})
	}
	f.killFor(span)
	finishLines(t, f, dir, ledgers, lines)
}

// newLines enqueues n jobs of each sort of which one runs at a time.
func newLines(t *testing.T, store string, n int) []*line {
	t.Helper()
	lines := []*line{{name: alone.Name()}}
	with(t, store, func(c *spool.Client) {
		lines[0].enqueue(t, c, n, alone)
		for _, g := range []string{"a", "b", "c"} {
			l := &line{name: "group " + g, ordered: true}
			l.enqueue(t, c, n, sequence, spool.Group(g))
			lines = append(lines, l)
		}
	})
	return lines
}

// finishLines lets the four workers of a fleet work what is left, and judges.
func finishLines(t *testing.T, f *fleet, store, ledgers string, lines []*line) {
	t.Helper()
	with(t, store, func(c *spool.Client) {
		n := int64(len(lines[0].ids))
		left := unfinished(t, c)
		eventually(t, "every process runs again", func() bool { return f.order(order{Do: "hurry"}) == 4 })
		drained(t, c)
		t.Logf("%d kills; %d of %d jobs were left to work after the last one", f.kills, left, 4*n)
		if left < n/10 {
			t.Error("there was not always work")
		}
	})
	f.finish(asFlow)
	f.check()
	runs, cut := readRuns(t, ledgers, f.killed)
	if t.Logf("%d leases ended while their handlers ran", cut); cut == 0 {
		t.Error("no kill hit a running handler")
	}
	with(t, store, func(c *spool.Client) {
		all := recount(t, c)
		for _, l := range lines {
			l.judge(t, all, runs)
		}
	})
}

// line is jobs of which one runs at a time.
type line struct {
	name    string
	ordered bool
	ids     []spool.ID
}

func (l *line) enqueue(t *testing.T, c *spool.Client, n int, task *spool.Task[args], opts ...spool.JobOption) {
	t.Helper()
	l.ids = append(l.ids, enqueueAll(t, c, slices.Repeat([]spool.Spec{task.With(args{}, opts...)}, n))...)
}

// run is the lease of one run, on the store's clock: it was valid from its
// claim until its end, at least.
type run struct {
	id         spool.ID
	token      spool.Token
	begin, end time.Time
}

// readRuns reads the runs that processes have told of. A lease was valid until
// its handler returned (it may have been settled at any time from then on, even
// when its process was killed before it could tell), or until its process was
// killed before that; cut counts those.
func readRuns(t *testing.T, ledgers string, killed map[string]time.Duration) (runs map[spool.ID][]run, cut int) {
	t.Helper()
	var events []event
	type lease struct {
		id    spool.ID
		token spool.Token
	}
	ends := map[lease]time.Duration{}
	var offset time.Duration // of the store's clock, at least
	eachEvent(t, ledgers, func(ledger string, e event) {
		of := lease{e.id(), e.Token}
		switch e.What {
		case "start":
			events = append(events, e)
			offset = max(offset, time.Duration(e.Claimed.UnixNano())-e.At)
			ends[of] = max(e.At, killed[ledger])
			cut++
		case "return":
			ends[of] = e.At
			cut--
		}
	})
	runs = map[spool.ID][]run{}
	for _, e := range events {
		end := time.Unix(0, int64(ends[lease{e.id(), e.Token}]+offset))
		runs[e.id()] = append(runs[e.id()], run{e.id(), e.Token, e.Claimed, end})
	}
	return runs, cut
}

// judge looks for two leases that were valid at a time, and for jobs of a group
// that ran before their turn.
func (l *line) judge(t *testing.T, all map[spool.ID][]broker.Job, runs map[spool.ID][]run) {
	t.Helper()
	var leases []run
	var before broker.Job
	attempts := 0
	for i, id := range l.ids {
		if len(all[id]) != 1 || all[id][0].State != spool.Done {
			t.Fatalf("%s: job %d is not done: %+v", l.name, i, all[id])
		}
		j := all[id][0]
		attempts += j.Attempt
		told := slices.DeleteFunc(runs[id], func(r run) bool { return r.token == j.Token })
		told = append(told, run{id, j.Token, j.ClaimedAt, j.FinishedAt})
		for _, r := range told {
			if l.ordered && r.begin.Before(before.FinishedAt) {
				t.Errorf("%s: job %d was claimed %v before the one before it was done", l.name, i, before.FinishedAt.Sub(r.begin))
			}
		}
		leases, before = append(leases, told...), j
	}
	slices.SortFunc(leases, func(a, b run) int { return a.begin.Compare(b.begin) })
	held, slack := leases[0], time.Hour
	for _, r := range leases[1:] {
		gap := r.begin.Sub(held.end)
		if gap < 0 {
			t.Errorf("%s: job %v was claimed with token %v while job %v was leased with token %v, for %v at least", l.name, r.id, r.token, held.id, held.token, -gap)
		}
		slack = min(slack, gap)
		if r.end.After(held.end) {
			held = r
		}
	}
	span := held.end.Sub(leases[0].begin)
	t.Logf("%s: %d jobs by %d runs, %d of them told, in %v; the shortest time between two leases is %v", l.name, len(l.ids), attempts, len(leases), span.Round(time.Millisecond), slack)
}
