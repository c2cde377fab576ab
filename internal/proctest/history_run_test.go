//go:build linux

package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

// TestHistoriesOfManyProcessesAreLinearizable lets processes make random
// calls about the same jobs, kills them at random, and gives what they were answered
// to two checkers that share nothing but the ledgers: one looks for an order of each
// job's operations that explains every answer, the other holds them against the
// lists and counters of the store.
func TestHistoriesOfManyProcessesAreLinearizable(t *testing.T) {
	jobs, span, least := size(60, 20_000), size(1500*time.Millisecond, 150*time.Second), size(2_000, 1_000_000)
	top := t.TempDir()
	dir, ledgers := filepath.Join(top, "jobs"), filepath.Join(top, "ledgers")
	must(t, os.Mkdir(ledgers, 0o700))
	f := newFleet(t)
	begun := now()
	for i := range 4 {
		p := plan{Role: asHistorian, Store: dir, Name: fmt.Sprintf("historian-%d", i), Concurrency: 3, Jobs: jobs, Begun: begun, Span: span}
		p.Ledger = filepath.Join(ledgers, p.Name)
		f.add(p)
	}
	f.killEvery(250*time.Millisecond, span)
	f.finish(asHistorian)
	f.check()
	h := readHistory(t, ledgers, f.killed)
	with(t, dir, func(c *spool.Client) {
		h.final(t, c)
		a := h.audit(readStore(t, c))
		for i, text := range a.findings {
			if i < 20 {
				t.Error(text)
			}
		}
		open := 0
		for _, o := range h.ops {
			if o.open() {
				open++
			}
		}
		checked := now()
		h.linearizable(t, 10*time.Second)
		t.Logf("%d kills, %d operations on %d jobs, %d of them unanswered; the audit held %d jobs to less, since they were deleted; every order was found within %v",
			f.kills, len(h.ops), len(h.byJob()), open, a.deleted, (now() - checked).Round(time.Millisecond))
		if len(h.ops) < least || open == 0 || a.deleted > jobs/2 {
			t.Errorf("this shows little: at least %d operations and some without an answer were wanted", least)
		}
	})
}
