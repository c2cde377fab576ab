//go:build linux

package proctest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/redistest"
)

// walls are by how much the clocks of the four workers are off.
var walls = []time.Duration{0, 2 * time.Second, -2 * time.Second, time.Hour}

// clocked starts four flow workers whose wall clocks differ.
func clocked(t *testing.T, store string) (f *fleet, ledgers string) {
	t.Helper()
	ledgers = filepath.Join(t.TempDir(), "ledgers")
	must(t, os.Mkdir(ledgers, 0o700))
	f = newFleet(t)
	for i, off := range walls {
		name := fmt.Sprintf("worker-%d", i)
		f.add(plan{Role: asFlow, Store: store, Name: name, Ledger: filepath.Join(ledgers, name), Concurrency: 4, TTL: time.Second, Wall: off})
	}
	return f, ledgers
}

func TestProofThatNoWindowExceedsItsRateOnRedisWhateverTheWorkersClocksSay(t *testing.T) {
	fullRun(t)
	span := size(2*time.Second, 20*time.Second)
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	fill(t, s.URL(), span)
	f, ledgers := clocked(t, s.URL())
	eventually(t, "work has begun", func() bool { return len(startsIn(t, ledgers)) > 0 })
	f.killEvery(span/8, span+time.Second)
	f.finish(asFlow)
	f.check()
	told := startsIn(t, ledgers)
	if t.Logf("%d kills", f.kills); f.kills < 3 {
		t.Error("that is too little to show anything")
	}
	for _, p := range paces {
		p.judge(t, told, span, size(0.2, 0.6)) // the jobs of who was killed wait for the end of their leases
	}
}

// startsIn reads the starts that each process has told.
func startsIn(t *testing.T, ledgers string) (told [][]event) {
	t.Helper()
	at := map[string]int{}
	eachEvent(t, ledgers, func(ledger string, e event) {
		if e.What != "start" {
			return
		}
		i, known := at[ledger]
		if !known {
			i = len(told)
			at[ledger], told = i, append(told, nil)
		}
		told[i] = append(told[i], e)
	})
	return told
}

func TestProofThatNothingRunsTwiceAtATimeOnRedisWhateverTheWorkersClocksSay(t *testing.T) {
	fullRun(t)
	span, n := size(4*time.Second, 20*time.Second), size(400, 1600)
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	lines := newLines(t, s.URL(), n)
	f, ledgers := clocked(t, s.URL())
	over := make(chan struct{})
	go func() {
		defer close(over)
		f.killEvery(400*time.Millisecond, span) // a lease outlives its process by its TTL
	}()
	for begun := now(); now()-begun < span; { // the server, too
		pause(span/4 + rand.N(span/4))
		s.Kill()
		s.Restart()
	}
	<-over
	finishLines(t, f, s.URL(), ledgers, lines)
}
