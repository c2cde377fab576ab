package journal

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// failSync makes the next sync of a segment fail.
func failSync(m *crashfs.Machine) {
	done := false
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") && !done {
			done = true
			return syscall.EIO
		}
		return nil
	})
}

func TestAFailedSyncPoisonsEveryHandle(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	a := mustOpenOn(t, m.Process())
	b := mustOpenOn(t, m.Process())
	must(t, w.append(a, 4))
	must(t, appendOne(b, "unsynced", Settle))
	w.tried = append(w.tried, "unsynced")
	failSync(m)
	if err := a.Sync(); !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("the failed sync said %v", err)
	}
	for _, name := range []string{"its peer", "the one that synced", "one opened later"} {
		l := map[string]*Log{"the one that synced": a, "its peer": b}[name]
		if l == nil {
			l = mustOpenOn(t, m.Process())
		}
		if err := l.Poisoned(); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "sync 000001.log") {
			t.Errorf("%s: poisoned says %v", name, err)
		}
		if err := appendOne(l, "no", Settle); !errors.Is(err, ErrPoisoned) {
			t.Errorf("%s: append says %v", name, err)
		}
		if err := l.Sync(); !errors.Is(err, ErrPoisoned) {
			t.Errorf("%s: sync says %v", name, err)
		}
		if err := l.Prepare(); !errors.Is(err, ErrPoisoned) {
			t.Errorf("%s: prepare says %v", name, err)
		}
		if err := l.Read(discard); err != nil {
			t.Errorf("%s: read says %v", name, err)
		}
	}
	if p := a.Durable(); !p.Before(a.Pos()) {
		t.Errorf("durable up to %v although the sync of what ends at %v failed", p, a.Pos())
	}
}

// TestAFailedSyncIsExplainedThoughTheDiskTakesNothingMore: the reason of a poisoned
// store reaches every handle, also where the file POISON cannot be written, and the
// first reason stays.
func TestAFailedSyncIsExplainedThoughTheDiskTakesNothingMore(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b, c := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, appendOne(a, "unsynced", Settle))
	dead := false
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			dead = true
		}
		if dead {
			return syscall.EIO
		}
		return nil
	})
	if err := a.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Fatalf("the failed sync said %v", err)
	}
	c.Poison(errors.New("another reason, " + strings.Repeat("which is long, ", 100)))
	if err := b.Poisoned(); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "sync 000001.log") || !strings.Contains(err.Error(), syscall.EIO.Error()) {
		t.Errorf("a peer says %v", err)
	}
}

// TestWhatAPoisonedStoreLostIsNoDamage: that it was published promised nothing.
func TestWhatAPoisonedStoreLostIsNoDamage(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a := mustOpenOn(t, m.Process())
	must(t, appendOne(a, "durable", Settle))
	must(t, a.Sync())
	must(t, appendOne(a, "lost", Settle))
	failSync(m)
	if err := a.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Fatal(err)
	}
	f, err := m.Process().Open(labDir+"/000001.log", os.O_RDWR)
	must(t, err)
	must(t, f.DropCache()) // the cache was short of memory
	must(t, f.Close())
	r, err := Verify(m.Process(), labDir)
	must(t, err)
	if r.Damaged() || len(r.Findings) != 1 || r.Findings[0].Kind != IsPoisoned || r.Frames != 2 { // the head and one
		t.Errorf("%d frames, findings %+v", r.Frames, r.Findings)
	}
}

// TestRecoveryFromPoisonGoesOnInANewSegment also checks that a handle that saw
// the failure cannot recover, that what was acknowledged is there, and that
// the lost bytes that the cache still showed are not handed out.
func TestRecoveryFromPoisonGoesOnInANewSegment(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	a := mustOpenOn(t, m.Process())
	must(t, w.append(a, 4))
	must(t, appendOne(a, "lost", Settle))
	failSync(m)
	if err := a.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Fatal(err)
	}
	must(t, errOf(a.TryCompactLock()))
	locked(t, a, func() {
		if err := a.Recover(discard); !errors.Is(err, ErrPoisoned) {
			t.Errorf("recover by the handle that saw the failure: %v", err)
		}
	})
	a.CompactUnlock()
	must(t, a.Close())
	before := a.Current()

	l, got, err := revive(m.Process())
	must(t, err)
	sameTexts(t, got, w.tried)
	if err := l.Poisoned(); err != nil {
		t.Errorf("after the recovery: %v", err)
	}
	if l.Pos().Segment != 2 || l.Current().Generation != before.Generation+1 {
		t.Errorf("the log goes on at %v, generation %d", l.Pos(), l.Current().Generation)
	}
	if ok, _ := l.exists(poisonName); ok {
		t.Error("POISON is still there")
	}
	got = append(got, "after")
	must(t, appendOne(l, "after", Settle))
	must(t, l.Sync())
	report, err := Verify(m.Process(), labDir)
	must(t, err)
	if report.Damaged() {
		t.Errorf("findings %+v", report.Findings)
	}
	_, again, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, again, got)
	must(t, compactNow(l)) // reads a segment that ends without an end record
}

// TestPowerCutsDuringARecoveryFromPoison cuts the power at each operation of it.
func TestPowerCutsDuringARecoveryFromPoison(t *testing.T) {
	for at := 0; ; at++ {
		m := crashfs.New(crashfs.Config{Seed: 2})
		w := &world{m: m}
		a := mustOpenOn(t, m.Process())
		must(t, w.append(a, 4))
		must(t, appendOne(a, "lost", Settle))
		failSync(m)
		if err := a.Sync(); !errors.Is(err, ErrPoisoned) {
			t.Fatal(err)
		}
		w.tried = append(w.tried, "lost")
		n := 0
		m.Inject(func(op crashfs.Op) error {
			if op.Kind.Changes() {
				n++
			}
			if n > at {
				return crashfs.ErrCrash
			}
			return nil
		})
		_, _, err := revive(m.Process())
		m.Stop()
		for name, after := range m.Crashes(samples(20), uint64(at)) {
			if jerr := w.judge(after); jerr != nil {
				t.Fatalf("at operation %d, %s: %v", at, name, jerr)
			}
		}
		if err == nil {
			break
		}
	}
}

// TestEverySyncOfTheLogThatFailsPoisons lets each sync of a scripted run fail
// in turn: nothing that was acknowledged before or after is lost, and the
// next opener alone recovers.
func TestEverySyncThatFailsLosesNothingAcknowledged(t *testing.T) {
	failures := 0
	for at := 0; ; at++ {
		w := &world{m: crashfs.New(crashfs.Config{Seed: 5})}
		n := 0
		w.m.Inject(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync || op.Kind == crashfs.OpSyncDir {
				if n++; n == at+1 {
					return syscall.EIO
				}
			}
			return nil
		})
		err := w.run()
		if err == nil && n <= at {
			break
		}
		failures++
		w.m.Stop()
		for name, m := range w.m.Crashes(samples(4), uint64(at)) {
			if jerr := w.judge(m); jerr != nil {
				t.Fatalf("sync %d failed (%v), %s: %v", at, err, name, jerr)
			}
		}
	}
	if failures < 30 {
		t.Errorf("only %d syncs failed", failures)
	}
}

// TestEveryWriteThatFails is the same for writes, whole and short.
func TestEveryWriteThatFailsLosesNothing(t *testing.T) {
	for _, short := range []int{0, 40, 100} {
		for at := 0; ; at += thin {
			w := &world{m: crashfs.New(crashfs.Config{Seed: 6})}
			n := 0
			w.m.Inject(func(op crashfs.Op) error {
				if op.Kind == crashfs.OpWriteAt {
					if n++; n == at+1 {
						return crashfs.ShortWrite{N: min(short, op.Length), Err: syscall.EIO}
					}
				}
				return nil
			})
			err := w.run()
			if err == nil && n <= at {
				break
			}
			w.m.Inject(nil)
			// Whoever lives reads what was answered, nothing of what failed.
			l := mustOpenOn(t, w.m.Process())
			if l.Poisoned() == nil {
				locked(t, l, func() {
					got, err := load(l, l.CatchUp)
					must(t, err)
					must(t, prefix(got, w.tried, w.acked))
				})
			}
			w.m.Stop()
			must(t, w.judge(w.m.Crash(crashfs.KeepNone)))
			must(t, w.judge(w.m.Crash(crashfs.KeepAll)))
		}
	}
}

func TestAFailedAppendLeavesNothing(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "first", Settle))
	done := false
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, ".log") && !done {
			done = true
			return crashfs.ShortWrite{N: 90, Err: syscall.EIO}
		}
		return nil
	})
	if err := appendOne(l, "never answered", Settle); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrPoisoned) {
		t.Fatalf("the failed append says %v", err)
	}
	report, err := Verify(m.Crash(crashfs.KeepAll).Process(), labDir)
	must(t, err)
	if len(report.Findings) > 0 {
		t.Errorf("findings %+v", report.Findings)
	}
	must(t, appendOne(l, "second", Settle))
	sameLog(t, l, []string{"first", "second"})
}

// TestNobodySeesAFrameThatFailed has a write fail although all of it reached
// the file, and a peer read before it is taken back.
func TestNobodySeesAFrameThatFailed(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l, peer := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, appendOne(l, "first", Settle))
	writes := 0
	var seen []string
	m.Inject(func(op crashfs.Op) error {
		if op.Kind != crashfs.OpWriteAt || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		if writes++; writes == 1 {
			return crashfs.ShortWrite{N: op.Length, Err: syscall.EIO}
		}
		m.Inject(nil)
		must(t, peer.Read(bodies(&seen)))
		return nil
	})
	if err := appendOne(l, "never answered", Settle); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if writes != 2 {
		t.Fatalf("%d writes", writes)
	}
	sameTexts(t, seen, []string{"first"})
	sameLog(t, peer, []string{"first"})
}

// TestALateDescriptorDoesNotVouch is the kernel's trap: a process is told of a
// failed write and dies without a word; a descriptor opened later syncs
// without an error, and the cache still shows the lost bytes.
func TestALateDescriptorDoesNotVouchForLostBytes(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	p := m.Process()
	a := mustOpenOn(t, p)
	must(t, w.append(a, 4))
	must(t, appendOne(a, "lost", Settle))
	failSync(m)
	f, err := a.files.get(SegmentFile(1))
	must(t, err)
	if f.Sync() == nil {
		t.Fatal("the sync did not fail")
	}
	p.Kill()
	b := mustOpenOn(t, m.Process())
	must(t, b.Lock())
	err = b.CatchUp(discard)
	b.Unlock()
	if !errors.Is(err, ErrPoisoned) {
		t.Fatalf("catching up over lost bytes said %v", err)
	}
	c := mustOpenOn(t, m.Process())
	must(t, c.Read(discard))
	if err := c.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Fatalf("syncing lost bytes said %v", err)
	}
	_, got, err := revive(m.Process())
	must(t, err)
	sameTexts(t, got, w.tried)
}

// errOf drops a result.
func errOf[T any](_ T, err error) error { return err }
