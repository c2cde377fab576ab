//go:build linux

package proctest

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

func TestSIGTERMFinishesWhatRunsAndGivesBackTheRest(t *testing.T) {
	dir := newStore(t)
	p := plan{Store: dir, Role: asWorker, Concurrency: 4, TTL: 30 * time.Second, Shutdown: 4 * time.Second, Name: "leaving"}
	leaving := start(t, p)
	finishing := enqueue(t, dir, 2, gate, spool.Retain(time.Hour))
	staying := enqueue(t, dir, 2, hold) // their handlers wait for the end of their context
	leaving.await("start", 4)
	p.Name = "other"
	other := ready(t, p)

	leaving.signal(syscall.SIGTERM)
	leaving.order(order{Do: "open"})
	for _, e := range leaving.await("ack", 2) {
		if !slices.Contains(finishing, e.id()) || e.State != "done" || e.Text != "" {
			t.Errorf("acked was %v, now %s, error %q", e.id(), e.State, e.Text)
		}
	}
	for _, e := range leaving.await("cause", 2) {
		if !slices.Contains(e.Is, "shutdown") {
			t.Errorf("the cause of the context is %q", e.Text)
		}
	}
	released := leaving.await("release", 2)
	if e := leaving.await("stopped", 1)[0]; e.Text != "" {
		t.Errorf("Run returned %q", e.Text)
	}
	leaving.awaitEnd()

	starts := other.await("start", 1+2)[1:]
	for _, e := range starts {
		after := e.At - max(released[0].At, released[1].At)
		t.Logf("%s runs elsewhere %v after it was given back", e.Name, after.Round(10*time.Microsecond))
		if !slices.Contains(staying, e.id()) || e.Attempt != 1 {
			t.Errorf("then ran %v (%s), attempt %d", e.id(), e.Name, e.Attempt)
		}
		if after > takeover {
			t.Errorf("%s ran %v after it was given back, allowed is %v", e.Name, after, takeover)
		}
	}
	for _, j := range jobs(t, dir, finishing...) {
		if j.State != spool.Done || j.Attempt != 1 {
			t.Errorf("job %v is %v, attempt %d", j.ID, j.State, j.Attempt)
		}
	}
}

func TestAWorkerThatWasToldToStopClaimsNoMore(t *testing.T) {
	dir := newStore(t)
	p := plan{Store: dir, Role: asWorker, Concurrency: 4, Name: "leaving"}
	leaving := start(t, p)
	enqueue(t, dir, 1, gate)
	leaving.await("start", 1)
	leaving.signal(syscall.SIGTERM)
	leaving.await("told", 1)
	// From here on the jobs are for others, though three slots are free.
	ids := enqueue(t, dir, 10, note)
	p.Name = "other"
	other := start(t, p)
	other.await("ack", len(ids))
	leaving.order(order{Do: "open"})
	leaving.await("ack", 1)
	leaving.awaitEnd()
	if all, _ := leaving.told("start"); len(all) != 1 {
		t.Errorf("the worker that stops started %d jobs", len(all))
	}
}
