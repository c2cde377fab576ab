package brokertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// historySteps is the length of one history.
const historySteps = 100

// shrinkRuns bounds how often a failing history is run again to make it shorter.
const shrinkRuns = 400

// RunHistories runs n random histories of several clients, the first from seed
// and each next from the seed that follows, and compares after every step the
// answers and all that can be seen of the store with the [Model] on the same
// clock. The harness needs Clock and Advance. A history that fails is made
// shorter by leaving steps out, and printed with its seed.
func RunHistories(t *testing.T, open func(t *testing.T) Harness, n int, seed uint64) {
	runHistories(t, n, seed, func(t *testing.T, run func(t *testing.T, h Harness)) {
		t.Run("history", func(t *testing.T) { run(t, open(t)) })
	})
}

// RunHistoriesInBubbles is RunHistories with each run in a testing/synctest
// bubble, where time is the bubble's unless the harness says otherwise.
func RunHistoriesInBubbles(t *testing.T, open func(t *testing.T) Harness, n int, seed uint64) {
	runHistories(t, n, seed, func(t *testing.T, run func(t *testing.T, h Harness)) {
		synctest.Test(t, func(t *testing.T) { run(t, bubble(open(t))) })
	})
}

// stage gives a run a fresh store.
type stage func(t *testing.T, run func(t *testing.T, h Harness))

func runHistories(t *testing.T, n int, seed uint64, on stage) {
	t.Helper()
	for i := range n {
		s := seed + uint64(i)
		if report := hunt(t, s, on); report != "" {
			t.Errorf("seed %d: %s", s, report)
			return
		}
	}
}

// hunt runs the history of one seed. When it fails, hunt returns the shortest
// script that it finds to fail too, and how.
func hunt(t *testing.T, seed uint64, on stage) string {
	script := newScript(seed)
	failure := play(t, script, on)
	if failure == "" {
		return ""
	}
	script, failure = shrink(t, script, failure, on)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nafter the last of these steps:\n", failure)
	for i, s := range script {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, s)
	}
	return b.String()
}

// newScript makes the steps of a seed's history.
func newScript(seed uint64) []step {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x5b001)), theme: theme(seed % uint64(themes))}
	script := make([]step, historySteps)
	for i := range script {
		script[i] = g.step()
	}
	return script
}

// play runs a script against a fresh store and a fresh model, and returns how
// it failed, or "".
func play(t *testing.T, script []step, on stage) string {
	var failures []string
	on(t, func(t *testing.T, h Harness) {
		if h.Clock == nil || h.Advance == nil {
			t.Fatal("histories need a harness with Clock and Advance")
		}
		failures, _ = recorded(t, func(t testing.TB) {
			p := newPlayer(begin(t, h))
			for i, s := range script {
				waiting := p.waitingBatches()
				s.do(p)
				if p.repeats != nil && !p.failed() {
					p.repeats.again(i)
				}
				if e, ok := s.(enqueueStep); !ok || !e.quiet || i == len(script)-1 {
					p.compare()
				}
				if p.failed() {
					return
				}
				if !inOrder(s) && completed(waiting) > 1 {
					break // which of them comes first is open from here on
				}
			}
			p.f.finish()
		})
	})
	if len(failures) > 0 {
		return strings.Join(failures, "\n")
	}
	return ""
}

// shrink leaves out parts of a script, smaller and smaller ones, for as long as
// what is left still fails.
func shrink(t *testing.T, script []step, failure string, on stage) ([]step, string) {
	runs := 0
	for size := len(script) / 2; size > 0; {
		shorter := false
		for at := 0; at < len(script) && runs < shrinkRuns; {
			end := min(at+size, len(script))
			try := append(append([]step(nil), script[:at]...), script[end:]...)
			runs++
			if f := play(t, try, on); f != "" {
				script, failure, shorter = try, f, true
			} else {
				at = end
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return script, failure
}

// The names that a history uses: few, so that its steps meet.
var (
	historyQueues = []string{"a", "b"}
	historyTasks  = []string{"t", "u"}
	historyKeys   = []string{"", "k", "k", "l"}
	// A group has the name of a tenant: a job without a group is of its tenant's.
	historyTenants = []string{"", "", "x", "y"}
	historyGroups  = []string{"", "", "", "g", "x"}
	// A worker registers through one client.
	historyWorkers = [historyClients]string{"w0", "w1", "w2"}
)

// The numbers of jobs and clients of a history.
const (
	historySlots   = 32
	historyClients = 3
)

// historyUnit is what the times of a history are multiples of, more or less.
const historyUnit = 20 * time.Millisecond
