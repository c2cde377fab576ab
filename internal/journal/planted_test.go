package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// Tests of this file notice faults that the others do not: see internal/mutants.

// TestAFileWhoseSyncFailedIsNotSyncedAgain lets a sync fail after another call of
// the same handle has looked whether the store is poisoned: a second sync of the
// file would succeed, and prove nothing.
func TestAFileWhoseSyncFailedIsNotSyncedAgain(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, l.Prepare())
	must(t, appendOne(l, "one", Settle))
	must(t, l.Lock())
	must(t, l.CatchUp(discard))
	syncs, sealing := 0, false
	m.Inject(func(op crashfs.Op) error {
		switch {
		case op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, SegmentFile(1).Name()):
			syncs++
			return syscall.EIO
		case op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, SegmentFile(1).Name()) && !sealing:
			sealing = true
			if err := l.Sync(); !errors.Is(err, ErrPoisoned) {
				t.Errorf("the sync that fails says %v", err)
			}
		}
		return nil
	})
	_, err := l.Seal(0)
	l.Unlock()
	if !errors.Is(err, ErrPoisoned) {
		t.Errorf("Seal says %v", err)
	}
	if syncs != 1 {
		t.Errorf("the segment was synced %d times, want the once that failed", syncs)
	}
}

func TestAFailedSyncOfTheDirectoryPoisons(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l, peer := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, l.Prepare())
	must(t, appendOne(l, "one", Settle))
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSyncDir {
			m.Inject(nil)
			return syscall.EIO
		}
		return nil
	})
	locked(t, l, func() {
		must(t, l.CatchUp(discard))
		if err := errOf(l.Seal(0)); !errors.Is(err, ErrPoisoned) {
			t.Errorf("Seal says %v", err)
		}
	})
	for _, h := range []*Log{l, peer} {
		if err := appendOne(h, "no", Settle); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "directory") {
			t.Errorf("Append says %v", err)
		}
	}
}

// TestAFailedSyncReachesWhoSyncedBesideIt: the sync of one handle fails late, when
// another has long lost patience and syncs itself. That one succeeds, and its pages
// may be among those that were lost.
func TestAFailedSyncReachesWhoSyncedBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		all := openSyncing(t, m, 2)
		must(t, appendOne(all[0], "first", Settle))
		must(t, appendOne(all[1], "second", Settle))
		begun := 0
		countSyncs(m, func() error {
			begun++
			first := begun == 1
			time.Sleep(3 * syncPatience)
			if first {
				return syscall.EIO
			}
			return nil
		})
		done := make(chan error, 2)
		go func() { done <- all[0].Sync() }()
		synctest.Wait()
		go func() { done <- all[1].Sync() }()
		for range 2 {
			if err := <-done; !errors.Is(err, ErrPoisoned) {
				t.Errorf("answered %v", err)
			}
		}
		if begun != 2 {
			t.Errorf("%d syncs, want two at a time", begun)
		}
	})
}

// TestWhatIsMissingOfThePublishedLogIsRefused damages a frame that nobody was told
// is durable. Without a restart it was whole once: it is no torn tail.
func TestWhatIsMissingOfThePublishedLogIsRefused(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l, peer := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, appendOne(peer, "one", Settle))
	must(t, appendOne(l, "two", Settle))
	name := join(labDir, SegmentFile(1).Name())
	b, err := m.ReadFile(name)
	must(t, err)
	b[l.at.last.Offset+headerSize] ^= 1
	must(t, m.WriteFile(name, b))
	before := snapshot(t, m)
	if err := appendOne(peer, "three", Settle); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Append says %v", err)
	}
	sameFiles(t, snapshot(t, m), before)
}

// TestWhatWasCutIsKeptThroughAPowerCut: the file of what was cut is the only place
// that has it.
func TestWhatWasCutIsKeptThroughAPowerCut(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	peer := mustOpenOn(t, m.Process())
	must(t, appendOne(peer, "first", Settle))
	must(t, peer.Sync())
	victim := m.Process()
	dead := mustOpenOn(t, victim)
	m.Inject(func(op crashfs.Op) error {
		if op.Process == victim && op.Kind == crashfs.OpWriteAt {
			return crashfs.ShortWrite{N: 85, Err: crashfs.ErrKilled}
		}
		return nil
	})
	if err := appendOne(dead, "never answered", Settle); !errors.Is(err, crashfs.ErrKilled) {
		t.Fatal(err)
	}
	m.Inject(nil)
	locked(t, peer, func() { must(t, peer.CatchUp(discard)) })
	after := m.Crash(crashfs.KeepNone)
	names, err := after.Process().ReadDir(labDir)
	must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "torn-") {
			if b, err := after.ReadFile(join(labDir, name)); err != nil || !bytes.HasSuffix(b, []byte("never")) {
				t.Errorf("%s has %q, %v", name, b, err)
			}
			return
		}
	}
	t.Errorf("nothing was kept; there are %q", names)
}

// TestAFailedAppendIsTakenBackForGood: of a write that failed all bytes may have
// got to the file, and from there to the disk.
func TestAFailedAppendIsTakenBackForGood(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "first", Settle))
	must(t, l.Sync())
	kernel := m.Process()
	writes := 0
	m.Inject(func(op crashfs.Op) error {
		if op.Kind != crashfs.OpWriteAt || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		if writes++; writes == 1 {
			return crashfs.ShortWrite{N: op.Length, Err: syscall.EIO}
		}
		m.Inject(nil) // the zeros come next; before that the frame is written back
		f, err := kernel.Open(op.Path, os.O_RDWR)
		return joinClose(errors.Join(err, f.Sync()), f)
	})
	if err := appendOne(l, "failed", Settle); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrPoisoned) {
		t.Fatalf("Append says %v", err)
	}
	m.Stop()
	for name, after := range m.Crashes(200, 1) {
		_, got, err := revive(after.Process())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got) != 1 {
			t.Fatalf("%s: %q came back", name, got)
		}
	}
}

// TestAFrameThatContinuesAnotherIsRefused puts a frame of one history behind those
// of another that took the same places and numbers.
func TestAFrameThatContinuesAnotherIsRefused(t *testing.T) {
	base := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, base.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, l.Sync())
	base.Stop()
	name, last := join(labDir, SegmentFile(1).Name()), int64(0)
	history := func(second, third string) (*crashfs.Machine, []byte) {
		m := base.Crash(crashfs.KeepAll)
		l, _, err := revive(m.Process())
		must(t, err)
		must(t, appendOne(l, second, Settle))
		must(t, appendOne(l, third, Settle))
		last = l.at.last.Offset
		b, err := m.ReadFile(name)
		must(t, err)
		m.Stop()
		return m, b
	}
	_, foreign := history("two", "three")
	m, own := history("owt", "eerht")
	copy(own[last:], foreign[last:])
	m = m.Crash(crashfs.KeepAll)
	must(t, m.WriteFile(name, own))
	_, got, err := revive(m.Process())
	if err == nil {
		sameTexts(t, got, []string{"one", "owt"})
	} else if !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func TestTheDirectoryOfANewStoreIsDurable(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, l.Sync())
	_, got, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, got, []string{"one"})
}

// lockless is a system whose file locks exclude nobody.
type lockless struct{ vfs.System }

func (s lockless) Open(name string, flag int) (vfs.File, error) {
	f, err := s.System.Open(name, flag)
	return locklessFile{f}, err
}

type locklessFile struct{ vfs.File }

func (locklessFile) Lock() error            { return nil }
func (locklessFile) TryLock() (bool, error) { return true, nil }
func (locklessFile) Unlock() error          { return nil }

func TestLocksThatExcludeNobodyAreRefused(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	if _, err := openOn(lockless{m.Process()}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Open says %v", err)
	}
}

// TestFilesAreDroppedOnceTheFlipIsDurable kills who flipped before it synced the
// name of CURRENT, lets another drop the files that the new one does not need, and
// cuts the power before that one syncs what it did.
func TestFilesAreDroppedOnceTheFlipIsDurable(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	victim := m.Process()
	l, peer := mustOpenOn(t, victim), mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, errOf(l.TryCompactLock()))
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	must(t, l.WriteCheckpoint(1, writeTexts("one")))
	renamed := false
	m.Inject(func(op crashfs.Op) error {
		renamed = renamed || op.Kind == crashfs.OpRename && strings.HasSuffix(op.To, currentName)
		if renamed && op.Kind == crashfs.OpSyncDir {
			return crashfs.ErrKilled
		}
		return nil
	})
	if err := l.Flip(Current{Checkpoint: 1}); !errors.Is(err, crashfs.ErrKilled) {
		t.Fatalf("Flip says %v", err)
	}
	removed := 0
	m.Inject(func(op crashfs.Op) error {
		switch {
		case op.Kind == crashfs.OpRemove:
			removed++
		case op.Kind == crashfs.OpSyncDir && removed > 0:
			return crashfs.ErrCrash
		}
		return nil
	})
	must(t, errOf(peer.TryCompactLock()))
	must(t, errOf(peer.Refresh()))
	if _, err := peer.Drop(func(FileID) bool { return false }); !errors.Is(err, crashfs.ErrCrash) {
		t.Fatalf("Drop says %v", err)
	}
	for name, after := range m.Crashes(200, 1) {
		_, got, err := revive(after.Process())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got) != 1 {
			t.Fatalf("%s: %q came back", name, got)
		}
	}
}

// TestNothingOfADamagedBlockIsHandedOut: whoever decodes a checkpoint sees only
// bytes that are right.
func TestNothingOfADamagedBlockIsHandedOut(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, errOf(l.TryCompactLock()))
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	want := bytes.Repeat([]byte("0123456789abcdef"), blockBytes/8)
	must(t, l.WriteCheckpoint(1, func(w io.Writer) error { return errOf(w.Write(want)) }))
	name := join(labDir, checkpointName(1))
	b, err := m.ReadFile(name)
	must(t, err)
	b[sideHeader+2*blockHeader+blockBytes+100] ^= 1 // in the second block
	must(t, m.WriteFile(name, b))
	var got bytes.Buffer
	err = l.ReadCheckpoint(1, func(r io.Reader) error { return errOf(io.Copy(&got, r)) })
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("ReadCheckpoint says %v", err)
	}
	if !bytes.Equal(got.Bytes(), want[:blockBytes]) {
		t.Errorf("%d bytes were handed out, want the %d of the first block", got.Len(), blockBytes)
	}
}

func TestALockThatIsTakenIsNotHadTwice(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l, peer := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	locked(t, l, func() {
		if ok, err := peer.TryLock(); ok || err != nil {
			t.Errorf("another gets it: %v, %v", ok, err)
		}
	})
	ok, err := peer.TryLock()
	if !ok || err != nil {
		t.Fatalf("once it is free it is not to be had: %v, %v", ok, err)
	}
	peer.Unlock()
}

// TestASegmentUnderAnotherNameIsRefused: who begins to read at a segment knows of
// no frame before it, which could tell.
func TestASegmentUnderAnotherNameIsRefused(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	for _, s := range []string{"one", "two"} {
		must(t, appendOne(l, s, Settle))
		locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	}
	b, err := m.ReadFile(join(labDir, SegmentFile(2).Name()))
	must(t, err)
	must(t, m.WriteFile(join(labDir, SegmentFile(1).Name()), b))
	var got []string
	if err := l.Scan(1, 1, bodies(&got)); !errors.Is(err, ErrCorrupt) || len(got) > 0 {
		t.Errorf("Scan hands out %q and says %v", got, err)
	}
}

// TestRecoveryHandsOutOnlyWhatIsOnTheDisk lets the cache show what a failed sync
// lost: what a recovery hands out has to be there after the next power cut, too.
func TestRecoveryHandsOutOnlyWhatIsOnTheDisk(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	p := m.Process()
	l := mustOpenOn(t, p)
	must(t, w.append(l, 4))
	must(t, appendOne(l, "lost", Settle))
	failSync(m)
	if err := l.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Fatalf("the failed sync said %v", err)
	}
	p.Kill()
	_, got, err := revive(m.Process())
	must(t, err)
	sameTexts(t, got, w.tried)
	_, again, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, again, got)
}

func TestAHandleThatWasToldOfAFailureCannotRecover(t *testing.T) {
	for what, kind := range map[string]crashfs.OpKind{"of a segment": crashfs.OpSync, "of the directory": crashfs.OpSyncDir} {
		m := crashfs.New(crashfs.Config{Seed: 1})
		l := mustOpenOn(t, m.Process())
		must(t, l.Prepare())
		must(t, appendOne(l, "one", Settle))
		m.Inject(func(op crashfs.Op) error {
			if op.Kind == kind {
				m.Inject(nil)
				return syscall.EIO
			}
			return nil
		})
		locked(t, l, func() {
			must(t, l.CatchUp(discard))
			if err := errOf(l.Seal(0)); !errors.Is(err, ErrPoisoned) {
				t.Fatalf("a sync %s failed, and Seal says %v", what, err)
			}
		})
		must(t, errOf(l.TryCompactLock()))
		locked(t, l, func() {
			if err := l.Recover(discard); !errors.Is(err, ErrPoisoned) {
				t.Errorf("after a failed sync %s Recover says %v", what, err)
			}
		})
		l.CompactUnlock()
		if err := appendOne(l, "two", Settle); !errors.Is(err, ErrPoisoned) {
			t.Errorf("after a failed sync %s Append says %v", what, err)
		}
	}
}

// TestDamageOverTheStartOfASegmentIsRefused: the log had got far into a segment, so
// all before it was durable, although nothing is left of the segment's first blocks.
func TestDamageOverTheStartOfASegmentIsRefused(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process(), func(o *Options) { o.FirstSegmentBytes = 16 << 10 })
	must(t, appendOne(l, "one", Settle))
	last := l.at.last
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	for range 3 {
		must(t, appendOne(l, strings.Repeat("x", minRead), Settle))
	}
	must(t, l.Sync())
	m.Stop()
	m = m.Crash(crashfs.KeepAll)
	first, second := join(labDir, SegmentFile(1).Name()), join(labDir, SegmentFile(2).Name())
	b, err := m.ReadFile(first)
	must(t, err)
	clear(b[last.Offset:])
	must(t, m.WriteFile(first, b))
	b, err = m.ReadFile(second)
	must(t, err)
	clear(b[:minRead])
	must(t, m.WriteFile(second, b))
	if _, got, err := revive(m.Process()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%q came back, and the error is %v", got, err)
	}
}

func TestAFlipIsDurableWhenItReturns(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, errOf(l.TryCompactLock()))
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	must(t, l.WriteCheckpoint(1, writeTexts("one")))
	must(t, l.Flip(Current{Checkpoint: 1}))
	cur, err := readCurrent(m.Crash(crashfs.KeepNone).Process(), labDir)
	if err != nil || cur.Checkpoint != 1 {
		t.Errorf("after a power cut CURRENT says %+v, %v", cur, err)
	}
}

func TestAnImpossibleLengthOfABlockIsRefused(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, errOf(l.TryCompactLock()))
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	must(t, l.WriteCheckpoint(1, func(w io.Writer) error { return errOf(w.Write(make([]byte, 3*maxBlock))) }))
	name := join(labDir, checkpointName(1))
	b, err := m.ReadFile(name)
	must(t, err)
	binary.LittleEndian.PutUint32(b[sideHeader:], maxBlock+1)
	must(t, m.WriteFile(name, b))
	if err := l.ReadCheckpoint(1, func(r io.Reader) error { return errOf(io.Copy(io.Discard, r)) }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("ReadCheckpoint says %v", err)
	}
}

func TestAFlipToADamagedPayloadFileIsRefused(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, errOf(l.TryCompactLock()))
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	p, err := l.NewPayloadFile(1)
	must(t, err)
	must(t, errOf(p.Append([]byte("a payload"))))
	must(t, p.Finish())
	must(t, l.WriteCheckpoint(1, writeTexts("one")))
	name := join(labDir, PayloadFile(1).Name())
	b, err := m.ReadFile(name)
	must(t, err)
	b[sideHeader] ^= 1
	must(t, m.WriteFile(name, b))
	if err := l.Flip(Current{Checkpoint: 1, Payload: []uint64{1}}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Flip says %v", err)
	}
}

func TestTheReserveGrowsWithTheState(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, l.Prepare())
	const state, adds = 100_000, 50_000
	locked(t, l, func() {
		must(t, l.CatchUp(discard))
		l.SetState(state)
		must(t, l.Reserve(10, Enqueue, adds))
	})
	if size := l.reserveBytes(); size < state+adds {
		t.Errorf("RESERVE has %d bytes for a checkpoint of %d", size, state+adds)
	}
}
