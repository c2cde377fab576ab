package journal

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// Tests of this file go to rare places that the others do not get to: see
// internal/rare.

// TestAFailedWriteIsCutWhereNoZerosCanBeWritten: the disk refuses the frame, and
// then the zeros in its place.
func TestAFailedWriteIsCutWhereNoZerosCanBeWritten(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	writes := 0
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, ".log") {
			if writes++; writes <= 2 {
				return crashfs.ShortWrite{N: 60, Err: syscall.EIO}
			}
		}
		return nil
	})
	if err := appendOne(l, "failed", Settle); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrPoisoned) {
		t.Errorf("Append says %v", err)
	}
	must(t, appendOne(l, "two", Settle))
	must(t, l.Sync())
	_, got, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, got, []string{"one", "two"})
}

// TestPoisonHoldsBeforeItsReasonIsThere: whoever found it may be about to write it.
func TestPoisonHoldsBeforeItsReasonIsThere(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l, peer := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	l.control.store(ctlPoison, flagSet)
	if err := appendOne(peer, "no", Settle); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "not recorded") {
		t.Errorf("before, Append says %v", err)
	}
	l.control.poison("a disk that failed")
	if err := appendOne(peer, "no", Settle); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "a disk that failed") {
		t.Errorf("after, Append says %v", err)
	}
}

// TestAFullDiskHasRoomToRecoverFromPoison: for a segment that holds its head, where
// there is none for one as large as the log asks for.
func TestAFullDiskHasRoomToRecoverFromPoison(t *testing.T) {
	big := func(o *Options) { o.FirstSegmentBytes = 64 << 10 }
	m := crashfs.New(crashfs.Config{Seed: 1})
	p := m.Process()
	l := mustOpenOn(t, p, big)
	must(t, appendOne(l, "one", Settle))
	must(t, l.Sync())
	l.Poison(errors.New("a disk that failed"))
	p.Kill()
	m.SetDiskBytes(m.Used() + 3*4096)
	l = mustOpenOn(t, m.Process(), big)
	must(t, errOf(l.TryCompactLock()))
	var got []string
	locked(t, l, func() {
		var err error
		got, err = load(l, l.Recover)
		must(t, err)
	})
	l.CompactUnlock()
	sameTexts(t, got, []string{"one"})
	m.SetDiskBytes(0)
	must(t, appendOne(l, "two", Settle))
	must(t, l.Sync())
	_, got, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, got, []string{"one", "two"})
}
