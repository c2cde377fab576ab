package journal

import (
	"errors"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// wide makes the segments so large that their content is far away.
func wide(o *Options) { o.FirstSegmentBytes = 1 << 20 }

// TestAdvanceReadsLittle puts a handle at the end of a long log, once far from
// it and once near.
func TestAdvanceReadsLittle(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a := mustOpenOn(t, m.Process(), wide)
	long := strings.Repeat("x", 10_000)
	for range 60 {
		must(t, appendOne(a, long, Enqueue))
		must(t, a.Sync()) // what is not known durable is read back from the disk
	}
	p := m.Process()
	b := mustOpenOn(t, p, wide)
	read := 0
	m.Inject(func(op crashfs.Op) error {
		if op.Process == p && op.Kind == crashfs.OpReadAt {
			read += op.Length
		}
		return nil
	})
	for _, more := range []int{0, 1, 20} {
		m.Clock.Advance(recheck)
		for range more {
			must(t, appendOne(a, long, Enqueue))
		}
		read = 0
		locked(t, b, func() {
			if ok, err := b.Advance(); err != nil || !ok {
				t.Fatalf("advance: %v %v", ok, err)
			}
			if b.Pos() != a.Pos() {
				t.Errorf("advanced to %v, the end is %v", b.Pos(), a.Pos())
			}
			if epoch, stateful := b.Last(); epoch != 7 || stateful {
				t.Errorf("the last frame: epoch %d, stateful %v", epoch, stateful)
			}
			must(t, b.Reserve(1, Enqueue, 0))
			must(t, errOf(b.Append([]byte("b"), FrameHeader{Stateful: true})))
		})
		if read > 64<<10 {
			t.Errorf("%d bytes were read for %d frames more", read, more)
		}
		locked(t, a, func() {
			if ok, err := a.Advance(); err != nil || !ok {
				t.Fatalf("advance: %v %v", ok, err)
			}
			if _, stateful := a.Last(); !stateful {
				t.Error("the last frame is stateful, and was not seen")
			}
		})
	}
}

func TestAdvanceSkipsWhatACompactionDropped(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	w := &world{m: m}
	must(t, w.append(a, 40))
	must(t, compactNow(a))
	must(t, w.append(a, 3))
	locked(t, b, func() {
		if ok, err := b.Advance(); err != nil || !ok || b.Pos() != a.Pos() {
			t.Errorf("advance: %v %v, to %v of %v", ok, err, b.Pos(), a.Pos())
		}
	})
}

func TestAdvanceLeavesWhatHasToBeFoundToOthers(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	roomy := func(o *Options) { o.FirstSegmentBytes = 64 << 10 } // so that the first write is that of the frame
	a := mustOpenOn(t, m.Process(), roomy)
	must(t, w.append(a, 10))
	victim := m.Process()
	dead := mustOpenOn(t, victim, roomy)
	b := mustOpenOn(t, m.Process(), roomy)
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
	for name, l := range map[string]*Log{"after a death in a write": b, "after a restart": mustOpenOn(t, m.Crash(crashfs.KeepAll).Process())} {
		locked(t, l, func() {
			before := l.Pos()
			if ok, err := l.Advance(); ok || err != nil || l.Pos() != before {
				t.Errorf("%s: %v %v, from %v to %v", name, ok, err, before, l.Pos())
			}
		})
	}
}

func TestTheClockIsSharedUntilTheMachineRestarts(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	is := func(l *Log, want int64, known bool) {
		t.Helper()
		locked(t, l, func() {
			if got, ok := l.Clock(); ok != known || known && got != want {
				t.Errorf("the clock is %d, %v; want %d, %v", got, ok, want, known)
			}
		})
	}
	is(b, 0, false)
	for _, offset := range []int64{0, -5, 1 << 60} {
		locked(t, a, func() { a.SetClock(offset) })
		is(b, offset, true)
	}
	is(mustOpenOn(t, m.Crash(crashfs.KeepAll).Process()), 0, false)
	locked(t, b, b.ClearClock)
	is(a, 0, false)
}
