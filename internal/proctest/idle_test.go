//go:build linux

package proctest

import (
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

func TestAnIdleWorkerStartsAJobOfAnotherProcessAtOnce(t *testing.T) {
	const n = 200
	dir := newStore(t)
	w := ready(t, plan{Store: dir, Concurrency: 4})
	var called, returned []time.Duration // from the call, and from the return, of Enqueue
	with(t, dir, func(c *spool.Client) {
		for i := range n {
			before := now()
			got, err := note.Enqueue(t.Context(), c, args{})
			must(t, err)
			after := now()
			e := w.await("start", 1+i+1)[1+i]
			w.await("ack", 1+i+1) // it is idle again
			if e.id() != got.ID {
				t.Fatalf("job %v started, enqueued was %v", e.id(), got.ID)
			}
			if took := e.At - before; took > 2*time.Second {
				t.Fatalf("job %d started %v after it was enqueued", i, took)
			}
			called, returned = append(called, e.At-before), append(returned, max(e.At-after, 0))
		}
	})
	t.Logf("from the call of Enqueue to the start: p50 %v, p99 %v, max %v", quantile(called, 0.5), quantile(called, 0.99), quantile(called, 1))
	t.Logf("from its return to the start: p50 %v, p99 %v, max %v", quantile(returned, 0.5), quantile(returned, 0.99), quantile(returned, 1))
}

func quantile(all []time.Duration, q float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(int(q*float64(len(all))), len(all)-1)].Round(time.Microsecond)
}

func TestAnIdleWorkerUsesNextToNoProcessorTime(t *testing.T) {
	t.Parallel() // it mostly waits
	const span = 5 * time.Second
	dir := newStore(t)
	w := ready(t, plan{Store: dir})
	before := w.usage(1)
	begun := now()
	eventually(t, "the span is over", func() bool { return now()-begun >= span })
	used := w.usage(2) - before
	t.Logf("%v of processor time in %v idle", used.Round(10*time.Microsecond), span)
	if used > 50*time.Millisecond {
		t.Errorf("an idle worker used %v in %v", used, span)
	}
}

// usage asks a worker for the n-th time how much processor time it has used.
func (p *process) usage(n int) time.Duration {
	p.t.Helper()
	p.order(order{Do: "usage"})
	return time.Duration(p.await("usage", n)[n-1].Number)
}
