//go:build linux

package proctest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// TestABackupBesideProcessesThatAreKilledIsOneMoment copies a store that eight
// processes work with while they are killed at random.
func TestABackupBesideProcessesThatAreKilledIsOneMoment(t *testing.T) {
	f, dir, ledgers := newMixedFleet(t)
	f.killFor(size(time.Second, 5*time.Second))
	copies := make([]string, size(2, 10))
	var began, ended []time.Duration
	for i := range copies {
		copies[i] = fmt.Sprint(dir, "-copy-", i)
		done := make(chan error)
		began = append(began, now())
		go func() { done <- backup(dir, copies[i]) }()
		f.killFor(300 * time.Millisecond)
		must(t, <-done)
		ended = append(ended, now())
	}
	f.finish(asProducer)
	f.finish(asWorker)
	f.check()
	var original map[spool.ID][]spool.Job
	with(t, dir, func(c *spool.Client) { original = recount(t, c) })
	t.Logf("%d kills, %d jobs", f.kills, len(original))
	for i, name := range copies {
		judgeCopy(t, name, readLedgersUntil(t, ledgers, began[i]), original)
		t.Logf("copy %d took %v", i, ended[i]-began[i])
	}
}

func backup(dir, target string) error {
	b, err := openDirectory(plan{Store: dir})
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.Backup(context.Background(), target)
	return err
}

// readLedgersUntil is what all processes had noted before a moment.
func readLedgersUntil(t *testing.T, dir string, end time.Duration) ledger {
	t.Helper()
	l := ledger{enqueued: map[spool.ID]bool{}, acks: map[spool.ID][]event{}}
	eachEvent(t, dir, func(_ string, e event) {
		switch {
		case e.At >= end:
		case e.What == "enqueued":
			for _, id := range e.IDs {
				l.enqueued[id] = true
			}
		case e.What == "ack" && e.Text == "":
			l.acks[e.id()] = append(l.acks[e.id()], e)
		}
	})
	return l
}

// judgeCopy holds a copy against what was acknowledged before it was begun, and
// against what the store came to.
func judgeCopy(t *testing.T, name string, before ledger, original map[spool.ID][]spool.Job) {
	t.Helper()
	if v, err := filebroker.Verify(name); err != nil || !v.OK {
		t.Errorf("%s: %+v, %v", name, v, err)
	}
	restored := name + "-restored"
	_, err := filebroker.Restore(context.Background(), name, restored, filebroker.Config{AllowUnsafeFS: true})
	must(t, err)
	with(t, restored, func(c *spool.Client) {
		copied := recount(t, c)
		judgeStates(t, c, copied, func(broker.Count, int64) {})
		for id := range before.enqueued {
			if len(copied[id]) != 1 {
				t.Errorf("job %v was acknowledged before %s was begun, and is there %d times", id, name, len(copied[id]))
			}
		}
		for id, acks := range before.acks {
			if len(copied[id]) == 1 && (copied[id][0].State != spool.Done || copied[id][0].Token != acks[0].Token) {
				t.Errorf("job %v was acked before %s was begun, and is %+v there", id, name, copied[id][0])
			}
		}
		for id, list := range copied {
			later := original[id]
			if len(later) != 1 || list[0].Token > later[0].Token && list[0].State == spool.Done || list[0].State == spool.Done && later[0].State != spool.Done {
				t.Errorf("job %v is %+v in %s, and later %+v in the store", id, list[0], name, later)
			}
		}
		if len(before.enqueued) < 50 || len(before.acks) < 20 {
			t.Errorf("%d jobs and %d acks are too little to show anything", len(before.enqueued), len(before.acks))
		}
		t.Logf("%s: %d jobs; %d, and %d acks, were acknowledged before it was begun", filepath.Base(name), len(copied), len(before.enqueued), len(before.acks))
	})
}
