package journal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// countSyncs counts the syncs of the log on a machine, each of which does what is
// given.
func countSyncs(m *crashfs.Machine, do func() error) *atomic.Int32 {
	var n atomic.Int32
	m.Inject(func(op crashfs.Op) error {
		if op.Kind != crashfs.OpSync || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		n.Add(1)
		return do()
	})
	return &n
}

// openSyncing opens handles that have synced once, after which they trust their
// descriptors.
func openSyncing(t *testing.T, m *crashfs.Machine, n int) []*Log {
	all := make([]*Log, n)
	for i := range all {
		all[i] = mustOpenOn(t, m.Process())
		must(t, appendOne(all[i], "before", Settle))
		must(t, all[i].Sync())
	}
	return all
}

// TestOneSyncIsForAllWhoWaitedForTheLast: of five processes the first syncs,
// and one of the others does for all that were appended meanwhile.
func TestOneSyncIsForAllWhoWaitedForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		all := openSyncing(t, m, 5)
		n := countSyncs(m, func() error {
			time.Sleep(syncPatience / 4)
			return nil
		})
		var wg sync.WaitGroup
		var own atomic.Int32
		for i, l := range all {
			must(t, appendOne(l, fmt.Sprint(i), Settle))
			end := l.Pos()
			wg.Go(func() {
				mine, err := l.SyncTo(end)
				if err != nil || l.Durable().Before(end) {
					t.Errorf("process %d: durable up to %v of %v, error %v", i, l.Durable(), end, err)
				}
				if mine {
					own.Add(1)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if n.Load() != 2 || own.Load() != 2 {
			t.Errorf("%d syncs for five processes, of which %d say that it was theirs; want the first one's, and one for the rest", n.Load(), own.Load())
		}
	})
}

// TestASyncIsNotForWhatCameAfterItBegan: who appends during a sync is not
// answered by it.
func TestASyncIsNotForWhatCameAfterItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		all := openSyncing(t, m, 2)
		a, b := all[0], all[1]
		must(t, appendOne(a, "first", Settle))
		n := countSyncs(m, func() error {
			time.Sleep(syncPatience / 2)
			return nil
		})
		done := make(chan error, 1)
		go func() { done <- a.Sync() }()
		synctest.Wait()
		must(t, appendOne(b, "second", Settle))
		must(t, b.Sync())
		must(t, <-done)
		if n.Load() != 2 {
			t.Errorf("%d syncs, want one for each", n.Load())
		}
	})
}

func TestASyncerThatIsGoneHoldsNobodyUp(t *testing.T) {
	cases := []struct {
		name string
		gone func(t *testing.T, m *crashfs.Machine, a *Log)
	}{
		{"it was killed", func(_ *testing.T, m *crashfs.Machine, a *Log) {
			a.sys.(*crashfs.Process).Kill()
		}},
		{"it was stopped, and goes on later", func(*testing.T, *crashfs.Machine, *Log) {}},
		{"CONTROL says so, and it is not true", func(t *testing.T, m *crashfs.Machine, a *Log) {
			a.control.store(ctlSyncer, 42)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := crashfs.New(crashfs.Config{Seed: 1})
				all := openSyncing(t, m, 2)
				a, b := all[0], all[1]
				must(t, appendOne(a, "first", Settle))
				goOn := make(chan bool)
				m.Inject(func(op crashfs.Op) error {
					if op.Process == a.sys && op.Kind == crashfs.OpSync {
						<-goOn
					}
					return nil
				})
				done := make(chan error, 1)
				go func() { done <- a.Sync() }()
				synctest.Wait()
				c.gone(t, m, a)
				must(t, appendOne(b, "second", Settle))
				begun := time.Now()
				must(t, b.Sync())
				if took := time.Since(begun); took > 2*syncPatience {
					t.Errorf("waited %v for who is gone", took)
				}
				close(goOn)
				<-done
				begun = time.Now()
				must(t, appendOne(b, "third", Settle))
				must(t, b.Sync())
				if took := time.Since(begun); took > 0 {
					t.Errorf("the next sync was held up for %v", took)
				}
			})
		})
	}
}

// TestNobodySyncsAfterAFailedSync: those who waited for it are told, and do not
// sync what may be lost.
func TestNobodySyncsAfterAFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		all := openSyncing(t, m, 2)
		a, b := all[0], all[1]
		must(t, appendOne(a, "first", Settle))
		n := countSyncs(m, func() error {
			time.Sleep(syncPatience / 2)
			return syscall.EIO
		})
		done := make(chan error, 2)
		go func() { done <- a.Sync() }()
		synctest.Wait()
		must(t, appendOne(b, "second", Settle))
		go func() { done <- b.Sync() }()
		for range 2 {
			if err := <-done; !errors.Is(err, ErrPoisoned) {
				t.Errorf("answered %v", err)
			}
		}
		if n.Load() != 1 {
			t.Errorf("%d syncs, want the one that failed", n.Load())
		}
	})
}

// TestASyncFollowsTheLogPastACompaction lets the segment that is to be synced be
// sealed and dropped between the look where the log ends and the open.
func TestASyncFollowsTheLogPastACompaction(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	busy, idle := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, appendOne(busy, "one", Settle))
	did := false
	m.Inject(func(op crashfs.Op) error {
		if op.Kind != crashfs.OpOpen || !strings.HasSuffix(op.Path, SegmentFile(1).Name()) || did {
			return nil
		}
		did = true
		must(t, errOf(busy.TryCompactLock()))
		locked(t, busy, func() { must(t, busy.CatchUp(discard)); must(t, errOf(busy.Seal(0))) })
		must(t, busy.WriteCheckpoint(1, writeTexts("one")))
		must(t, busy.Flip(Current{Checkpoint: 1}))
		must(t, errOf(busy.Drop(func(FileID) bool { return false })))
		busy.CompactUnlock()
		return nil
	})
	must(t, idle.Sync())
	if !did {
		t.Error("nothing was dropped")
	}
	if end := busy.Pos(); idle.Durable().Before(end) {
		t.Errorf("durable up to %v, the log ends at %v", idle.Durable(), end)
	}
}
