package journal

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestAFullDiskStopsEnqueuesAndLetsSettlementsGoOn(t *testing.T) {
	big := func(o *Options) { o.FirstSegmentBytes = 64 << 10 }
	m := crashfs.New(crashfs.Config{Seed: 1, DiskBytes: 1200 << 10})
	l := mustOpenOn(t, m.Process(), big)
	must(t, l.Prepare())
	text := strings.Repeat("e", 2000)
	var want []string
	add := func(class Class) error {
		s := fmt.Sprintf("%d %s", len(want), text)
		err := appendOne(l, s, class)
		if err == nil {
			want = append(want, s)
		}
		select {
		case <-l.PrepareWanted():
			if perr := l.Prepare(); perr != nil && !errors.Is(perr, ErrDiskFull) {
				t.Fatal(perr)
			}
		default:
		}
		return err
	}
	var err error
	for err == nil && len(want) < 2000 {
		err = add(Enqueue)
	}
	if !errors.Is(err, ErrDiskFull) || !l.Full() {
		t.Fatalf("after %d enqueues: %v, full %v", len(want), err, l.Full())
	}
	enqueued, active := len(want), l.Pos().Segment
	peer := mustOpenOn(t, m.Process(), big)
	if err := appendOne(peer, "no", Enqueue); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a peer's enqueue: %v", err)
	}
	m.SetDiskBytes(m.Used()) // not a block more
	for err = nil; err == nil; {
		err = add(Settle)
	}
	if !errors.Is(err, ErrDiskFull) {
		t.Fatalf("settling stopped with %v", err)
	}
	if got := l.Pos().Segment - active; got < 1 || len(want)-enqueued < 50 {
		t.Errorf("settlements went on for %d frames, into %d more segments", len(want)-enqueued, got)
	}
	sameLog(t, l, want)
	must(t, l.Poisoned())
	_, after, err := revive(m.Crash(crashfs.KeepAll).Process())
	must(t, err)
	sameTexts(t, after, want)

	m.SetDiskBytes(0)
	m.Clock.Advance(2 * askAgain)
	if err := add(Enqueue); !errors.Is(err, ErrDiskFull) {
		t.Errorf("before the next Prepare: %v", err)
	}
	must(t, l.Prepare())
	must(t, add(Enqueue))
	sameLog(t, peer, want)
}

// sameLog checks what a handle reads from the start.
func sameLog(t *testing.T, l *Log, want []string) {
	t.Helper()
	locked(t, l, func() {
		got, err := load(l, l.CatchUp)
		must(t, err)
		sameTexts(t, got, want)
	})
}

func TestACheckpointFitsOnAFullDisk(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	w := &world{m: m}
	big := func(o *Options) { o.FirstSegmentBytes = 64 << 10 }
	l := mustOpenOn(t, m.Process(), big)
	must(t, l.Prepare())
	must(t, w.append(l, 20))
	m.SetDiskBytes(m.Used())
	if ok, err := l.TryCompactLock(); !ok {
		t.Fatal(err)
	}
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	var state []string
	must(t, l.Scan(1, 1, bodies(&state)))
	calls := 0
	must(t, l.WriteCheckpoint(1, func(w io.Writer) error { calls++; return encodeTexts(w, state) }))
	if calls != 3 { // without room, to see how much it takes, and in RESERVE
		t.Errorf("the checkpoint was written %d times; was the disk full?", calls)
	}
	// CURRENT itself takes a block: whatever is in the way is dropped first.
	m.SetDiskBytes(m.Used() + 4096)
	must(t, l.Flip(Current{Checkpoint: 1}))
	must(t, errOf(l.Drop(func(FileID) bool { return false })))
	l.CompactUnlock()
	_, got, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, got, w.tried)
}
