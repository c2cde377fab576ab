//go:build linux

package proctest

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// runCompactor enqueues and deletes, so that there is something to compact, and
// compacts all the time.
func runCompactor(t *teller, p plan) error {
	p.NoSync = true
	b, err := openDirectory(p)
	if err != nil {
		return err
	}
	ctx, stop := untilTold(func(order) {})
	defer stop()
	t.tell(event{What: "up"})
	jobs := slices.Repeat([]broker.NewJob{{Task: "compacted", Payload: make([]byte, 1000)}}, 100)
	rounds := int64(0)
	for ; ctx.Err() == nil; rounds++ {
		if _, err := b.Enqueue(context.Background(), broker.NewCall(), "big", jobs); err != nil {
			return err
		}
		if _, err := b.Compact(context.Background()); err != nil {
			return err
		}
	}
	t.tell(event{What: "compacted", Number: rounds * int64(len(jobs))})
	return b.Close()
}

// catchCompacting stops a process that has written a part of a checkpoint, while it
// does not hold the lock that others need.
func catchCompacting(t *testing.T, p *process) {
	t.Helper()
	stopWhile(t, p, "it compacts", func() bool {
		begun, err := filepath.Glob(filepath.Join(p.plan.Store, "*.tmp"))
		must(t, err)
		return len(begun) > 0 && !fileIsFree(t, filepath.Join(p.plan.Store, "COMPACT")) && lockIsFree(t, p.plan.Store)
	})
}

func TestAStoppedCompactorIsNamedAndHoldsNobodyUp(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := newStore(t)
	compactor := start(t, plan{Role: asCompactor, Store: dir})
	compactor.await("up", 1)
	worker := opened(t, plan{Store: dir, Name: "worker"})
	catchCompacting(t, compactor)
	caught := now()
	named := "pid=" + strconv.Itoa(compactor.pid())
	for n := 0; n < 100 || !strings.Contains(worker.log(), named); n++ {
		if a := worker.ask(order{Do: "enqueue"}); a.Text != "" {
			t.Fatalf("an enqueue beside a stopped compactor: %s", a.Text)
		}
		a := worker.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: patience})
		if len(a.IDs) != 1 {
			t.Fatalf("a claim beside a stopped compactor: %+v", a)
		}
		if a := worker.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: a.id(), Token: a.Token}); a.Text != "" {
			t.Fatalf("an ack beside a stopped compactor: %s", a.Text)
		}
		if now()-caught > patience {
			t.Fatalf("nobody named the compactor: %s", worker.log())
		}
	}
	t.Logf("named %v after it was stopped", now()-caught)
	other, err := openDirectory(plan{Store: dir})
	must(t, err)
	if c, err := other.Compact(t.Context()); err != nil || c.Checkpoint != 0 || c.By != compactor.pid() {
		t.Errorf("a compaction beside a stopped one: %+v, %v; process %d holds it", c, err, compactor.pid())
	}
	must(t, other.Close())
	if fileIsFree(t, filepath.Join(dir, "COMPACT")) {
		t.Error("the lock of compactions was taken from its holder")
	}
	compactor.signal(syscall.SIGCONT)
	must(t, compactor.stdin.Close())
	want := compactor.await("compacted", 1)[0].Number
	compactor.awaitEnd()
	if a := worker.ask(order{Do: "enqueue"}); a.Text != "" {
		t.Errorf("an enqueue after the compaction went on: %s", a.Text)
	}
	worker.finish()
	if strings.Count(worker.log(), named) != 1 {
		t.Errorf("named more than once: %s", worker.log())
	}
	if v, err := filebroker.Verify(dir); err != nil || len(v.Findings) > 0 {
		t.Errorf("the store is %+v, %v", v, err)
	}
	with(t, dir, func(c *spool.Client) {
		if got := ready64(t, c); got["compacted"] != want || got[note.Name()] != 1 {
			t.Errorf("there are %v; the compactor enqueued %d", got, want)
		}
	})
}
