//go:build linux

package proctest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// serverRole is a server in front of a store: it makes the calls that it is told
// to, all at once, and tells what they answered.
type serverRole struct {
	*teller
	broker *filebroker.Broker
	plan   plan
	made   atomic.Int64
}

func openServer(dir string) (*filebroker.Broker, error) {
	return filebroker.Open(dir, filebroker.Config{AllowUnsafeFS: true, RememberCalls: true})
}

func runServer(t *teller, p plan) (err error) {
	r := &serverRole{teller: t, plan: p}
	if r.broker, err = openServer(p.Store); err != nil {
		return err
	}
	r.tell(event{What: "up"})
	var wg sync.WaitGroup
	for o := range orders() {
		wg.Go(func() { r.serve(o) })
	}
	wg.Wait()
	return r.broker.Close()
}

// serve makes the call of an order, whose id is the call's. One answer it takes
// to its grave.
func (r *serverRole) serve(o order) {
	answer := event{What: "answer", Name: o.ID.String()}
	err := makeCall(r.broker, o, &answer)
	answer.Text += errText(err)
	if r.made.Add(1) == int64(r.plan.Calls) {
		r.tell(event{What: "killed", Name: answer.Name})
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
	r.tell(answer)
}

func makeCall(b *filebroker.Broker, o order, answer *event) error {
	ctx, c := context.Background(), broker.Call{ID: o.ID}
	switch o.Do {
	case "enqueue":
		got, err := b.Enqueue(ctx, c, "q", slices.Repeat([]broker.NewJob{{Task: "t", Payload: []byte("payload")}}, o.N))
		for _, a := range got {
			answer.IDs = append(answer.IDs, a.ID)
		}
		return err
	case "claim":
		got, err := b.Claim(ctx, c, broker.ClaimRequest{Queues: []string{"full"}, Max: o.N, Remote: true, TTL: time.Hour})
		for _, l := range got.Leases {
			answer.IDs = append(answer.IDs, l.Job.ID)
			answer.Text += l.Token.String() + " "
		}
		return err
	}
	return fmt.Errorf("no such order: %q", o.Do)
}

// TestEachCallTakesPlaceOnceThoughServersAreKilledBeforeTheyAnswer makes calls
// through a server that kills itself between a commit and its answer, and then
// all of them again through another, which is told the same.
func TestEachCallTakesPlaceOnceThoughServersAreKilledBeforeTheyAnswer(t *testing.T) {
	const calls, jobs = 200, 2
	rounds := size(8, 60)
	dir := newStore(t)
	own, err := filebroker.Open(dir, filebroker.Config{AllowUnsafeFS: true})
	must(t, err)
	defer func() { must(t, own.Close()) }()
	other := start(t, plan{Role: asServer, Store: dir})
	other.await("up", 1)
	seen := map[string]bool{}
	want := map[string]int64{}
	unanswered := 0
	for round := range rounds {
		_, err := own.Enqueue(t.Context(), broker.NewCall(), "full", slices.Repeat([]broker.NewJob{{Task: "t"}}, calls*jobs))
		must(t, err)
		first := start(t, plan{Role: asServer, Store: dir, Calls: 1 + rand.IntN(calls)})
		first.await("up", 1)
		all := someOrders(calls, jobs, want)
		for _, o := range all {
			line, err := json.Marshal(o)
			must(t, err)
			_, _ = first.stdin.Write(append(line, '\n')) // it may be dead already
		}
		<-first.ended
		if round%2 == 0 {
			_, err := own.Compact(t.Context())
			must(t, err)
		}
		unanswered += compareAnswers(t, first, other, all, seen)
		judgeCalls(t, own, want)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d calls were not answered by the first server", unanswered, rounds*calls)
	other.finish()
}

// someOrders are calls of two sorts; want counts what they do.
func someOrders(n, jobs int, want map[string]int64) (all []order) {
	for range n {
		o := order{Do: []string{"enqueue", "claim"}[rand.IntN(2)], ID: broker.NewID(), N: jobs}
		want[o.Do] += int64(jobs)
		all = append(all, o)
	}
	return all
}

// compareAnswers makes all calls again, which have to be answered as they were,
// and differently from each other. It returns how many had no answer.
func compareAnswers(t *testing.T, first, other *process, all []order, seen map[string]bool) (unanswered int) {
	t.Helper()
	told, _ := first.told("answer")
	was := map[string]event{}
	for _, e := range told {
		was[e.Name] = e
	}
	killed := first.await("killed", 1)[0].Name
	if _, ok := was[killed]; ok {
		t.Error("the server answered what it was killed before")
	}
	before, _ := other.told("answer")
	for _, o := range all {
		other.order(o)
	}
	for _, e := range other.await("answer", len(before)+len(all))[len(before):] {
		f, ok := was[e.Name]
		switch {
		case ok && (fmt.Sprint(f.IDs) != fmt.Sprint(e.IDs) || f.Text != e.Text):
			t.Errorf("call %s answered %v %s, made again %v %s", e.Name, f.IDs, f.Text, e.IDs, e.Text)
		case len(e.IDs) != all[0].N:
			t.Errorf("call %s answered %v %s", e.Name, e.IDs, e.Text)
		case !ok:
			unanswered++
		}
		for _, id := range e.IDs {
			if seen[id.String()] {
				t.Errorf("job %v is in the answers of two calls", id)
			}
			seen[id.String()] = true
		}
	}
	return unanswered
}

// judgeCalls wants that each call has taken place once.
func judgeCalls(t *testing.T, b *filebroker.Broker, want map[string]int64) {
	t.Helper()
	all, err := b.Counts(t.Context(), "")
	must(t, err)
	for _, c := range all {
		switch {
		case c.Queue == "q" && c.Ready != want["enqueue"]:
			t.Errorf("%d jobs were enqueued, want %d", c.Ready, want["enqueue"])
		case c.Queue == "full" && (c.Leased != want["claim"] || c.Totals.Claimed != want["claim"]):
			t.Errorf("%d jobs are leased, %d were claimed, want %d", c.Leased, c.Totals.Claimed, want["claim"])
		}
	}
}
