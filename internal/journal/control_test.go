package journal

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestGarbageInControlIsOnlyAHint garbles each word of CONTROL in turn: no
// handle may lose, repeat or refuse a frame for it.
func TestGarbageInControlIsOnlyAHint(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, w.append(a, 2))
	for word := range controlSize / 8 {
		for _, garbage := range []uint64{0, 1, ^uint64(0), r.Uint64(), r.Uint64()} {
			a.control.store(word, garbage)
			var early []string
			must(t, b.Read(bodies(&early)))
			must(t, a.Poisoned())
			must(t, appendOne(b, "x", Enqueue))
			must(t, appendOne(a, "y", Enqueue))
			w.tried = append(w.tried, "x", "y")
			must(t, errOf(b.Refresh()))
			if b.GenerationChanged() {
				t.Fatalf("word %d: the generation seems to change for ever", word)
			}
			if err := b.Sync(); err != nil {
				t.Fatalf("word %d: %v", word, err)
			}
		}
		if word%64 == 0 {
			sameLog(t, b, w.tried)
		}
	}
	sameLog(t, mustOpenOn(t, m.Process()), w.tried)
}

func TestControlIsRebuiltAfterARestart(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	a := mustOpenOn(t, m.Process())
	must(t, w.append(a, 4))
	atomic.StoreUint64(&a.Shared()[3], 42)
	same := mustOpenOn(t, m.Process())
	if got := atomic.LoadUint64(&same.Shared()[3]); got != 42 || len(same.Shared()) != 256 {
		t.Errorf("a peer's shared word is %d of %d", got, len(same.Shared()))
	}
	m = m.Crash(crashfs.KeepAll)
	b := mustOpenOn(t, m.Process())
	if got := atomic.LoadUint64(&b.Shared()[3]); got != 0 {
		t.Errorf("after a restart the shared word is %d", got)
	}
	if p, ok := b.control.pos(ctlEnd); ok {
		t.Errorf("after a restart the published end is %v", p)
	}
	if p := b.Durable(); p != (Pos{}) {
		t.Errorf("after a restart durable is %v", p)
	}
	sameLog(t, b, w.tried)
}

func TestAShortOrMissingControlIsMadeAnew(t *testing.T) {
	for _, damage := range []func(m *crashfs.Machine) error{
		func(m *crashfs.Machine) error { return m.Process().Remove(join(labDir, controlName)) },
		func(m *crashfs.Machine) error { return m.WriteFile(join(labDir, controlName), []byte("short")) },
		func(m *crashfs.Machine) error { return m.WriteFile(join(labDir, controlName), make([]byte, 9000)) },
	} {
		m := crashfs.New(crashfs.Config{Seed: 1})
		w := &world{m: m}
		must(t, w.append(mustOpenOn(t, m.Process()), 4))
		m = m.Crash(crashfs.KeepAll)
		must(t, damage(m))
		sameLog(t, mustOpenOn(t, m.Process()), w.tried)
	}
}

func TestPositionsSurvivePacking(t *testing.T) {
	for _, p := range []Pos{{0, 8}, {1, 0}, {1, 8}, {13, 4096}, {maxSegment, maxOffset}} {
		if got, ok := unpack(pack(p)); !ok || got != p {
			t.Errorf("%v came back as %v, %v", p, got, ok)
		}
	}
	if _, ok := unpack(0); ok {
		t.Error("0 is a position")
	}
	if pack(Pos{}) == 0 {
		t.Error("the first position is packed as unknown")
	}
	bad := 0
	r := rand.New(rand.NewPCG(3, 3))
	for range 1 << 16 {
		if _, ok := unpack(r.Uint64()); ok {
			bad++
		}
	}
	if bad > 100 {
		t.Errorf("%d of 65536 random words are taken for a position", bad)
	}
}

func TestTheLockHasOneHolder(t *testing.T) {
	dir := storeDir(t)
	a, b := open(t, dir), open(t, dir)
	must(t, a.Lock())
	for name, l := range map[string]*Log{"another handle": b, "another goroutine": a} {
		if ok, err := l.TryLock(); ok || err != nil {
			t.Errorf("%s took it too: %v, %v", name, ok, err)
		}
	}
	if pid, held, ok := b.Holder(); !ok || pid != vfs.OS().PID() || held < 0 || held > time.Minute {
		t.Errorf("the holder is %d since %v, %v", pid, held, ok)
	}
	got := make(chan error)
	go func() { got <- b.Lock() }()
	select {
	case err := <-got:
		t.Fatalf("two holders (%v)", err)
	default:
	}
	a.Unlock()
	must(t, <-got)
	if ok, err := a.TryLock(); ok || err != nil {
		t.Errorf("taken from its holder: %v, %v", ok, err)
	}
	b.Unlock()
	if _, _, ok := b.Holder(); ok {
		t.Error("a holder is named although it is free")
	}
	ok, err := a.TryLock()
	if !ok {
		t.Errorf("not free: %v", err)
	}
	a.Unlock()
}

func TestWritingNeedsTheLockAndCatchUp(t *testing.T) {
	dir := storeDir(t)
	l, peer := open(t, dir), open(t, dir)
	check := func(when string) {
		t.Helper()
		if err := l.Reserve(10, Settle, 0); !errors.Is(err, ErrNotLocked) {
			t.Errorf("%s: Reserve says %v", when, err)
		}
		if _, err := l.Append([]byte("x"), FrameHeader{}); !errors.Is(err, ErrNotLocked) {
			t.Errorf("%s: Append says %v", when, err)
		}
		if _, err := l.Seal(0); !errors.Is(err, ErrNotLocked) {
			t.Errorf("%s: Seal says %v", when, err)
		}
	}
	check("without the lock")
	if err := l.CatchUp(discard); !errors.Is(err, ErrNotLocked) {
		t.Errorf("CatchUp says %v", err)
	}
	locked(t, l, func() {
		check("before CatchUp")
		must(t, l.CatchUp(discard))
		must(t, l.Reserve(1, Enqueue, 0))
	})
	check("after Unlock")
	add(t, peer, "between")
	locked(t, l, func() { check("in a new turn") })
	for name, err := range map[string]error{
		"Recover":         l.Recover(discard),
		"Flip":            l.Flip(Current{}),
		"WriteCheckpoint": l.WriteCheckpoint(1, nil),
		"NewPayloadFile":  errOf(l.NewPayloadFile(1)),
		"Drop":            errOf(l.Drop(nil)),
	} {
		if !errors.Is(err, ErrNotLocked) {
			t.Errorf("%s without its lock says %v", name, err)
		}
	}
}

func TestAReplacedLockIsNoticed(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	p := m.Process()
	must(t, p.Remove(join(labDir, lockName)))
	m.Clock.Advance(time.Second)
	if err := l.Lock(); !errors.Is(err, ErrNotStore) {
		t.Errorf("Lock says %v", err)
	}
	must(t, m.WriteFile(join(labDir, lockName), nil))
	if err := l.Lock(); !errors.Is(err, ErrNotStore) {
		t.Errorf("with another LOCK it says %v", err)
	}
}

// TestAReplacedFileIsNoticedByABusyHandle: one that never pauses for as long as
// the interval between two comparisons.
func TestAReplacedFileIsNoticedByABusyHandle(t *testing.T) {
	for _, name := range []string{lockName, controlName} {
		t.Run(name, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{Seed: 1})
			l := mustOpenOn(t, m.Process())
			must(t, appendOne(l, "one", Settle))
			must(t, m.Process().Remove(join(labDir, name)))
			for range 20 {
				m.Clock.Advance(recheck / 10)
				if err := appendOne(l, "more", Settle); err != nil {
					if !errors.Is(err, ErrNotStore) || !strings.Contains(err.Error(), name) {
						t.Error(err)
					}
					return
				}
			}
			t.Errorf("the handle wrote for %v without %s", 2*recheck, name)
		})
	}
}

// forked is a process after a fork: the same handle, another pid.
type forked struct {
	vfs.System
	child bool
}

func (f *forked) PID() int {
	if f.child {
		return f.System.PID() + 1
	}
	return f.System.PID()
}

func TestAHandleIsOfNoUseAfterAFork(t *testing.T) {
	f := &forked{System: crashfs.New(crashfs.Config{}).Process()}
	l := mustOpenOn(t, f)
	must(t, appendOne(l, "parent", Settle))
	f.child = true
	if err := l.Lock(); !errors.Is(err, ErrClosed) {
		t.Errorf("the child's Lock says %v", err)
	}
}

func TestAClosedHandleSaysSo(t *testing.T) {
	l := open(t, storeDir(t))
	add(t, l, "one")
	must(t, l.Close())
	must(t, l.Close())
	if err := l.Lock(); !errors.Is(err, ErrClosed) {
		t.Errorf("Lock says %v", err)
	}
	if err := l.Prepare(); !errors.Is(err, ErrClosed) {
		t.Errorf("Prepare says %v", err)
	}
	if err := l.ReadAt(SegmentFile(1), make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("ReadAt says %v", err)
	}
	must(t, l.Poisoned())
}
