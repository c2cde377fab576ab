package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestSizesFollowTheRateOfTheLog(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name  string
		size  int64
		bytes int64
		took  time.Duration
		want  int64
	}{
		{"a full segment in a moment doubles", mib, mib - 500, time.Millisecond, 2 * mib},
		{"a full segment in its time stays", 4 * mib, 4 * mib, fillTime, 4 * mib},
		{"a full segment in twice its time halves", 4 * mib, 4 * mib, 2 * fillTime, 2 * mib},
		{"a slow one falls to the smallest", 16 * mib, 16 * mib, time.Hour, mib},
		{"one that was sealed with little in it doubles nothing", mib, 300, time.Nanosecond, mib},
		{"one that was sealed half empty while the log is fast stays", 8 * mib, 3 * mib, time.Millisecond, 8 * mib},
		{"the largest does not double", 16 * mib, 16 * mib, time.Millisecond, 16 * mib},
		{"a clock that stepped back changes nothing", 4 * mib, 4 * mib, -time.Hour, 4 * mib},
		{"one that grew over its size counts as double", 2 * mib, 4 * mib, time.Millisecond, 4 * mib},
	} {
		if got := sizeFor(mib, c.size, c.bytes, c.took); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestSegmentsGrowWhileTheLogIsFastAndShrinkWhenItIsSlow writes fast, then
// slowly, then seals after a pause: what is prepared follows.
func TestSegmentsGrowWhileTheLogIsFastAndShrinkWhenItIsSlow(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	text := strings.Repeat("x", 100)
	fill := func(segments int, pause time.Duration) {
		t.Helper()
		for end := l.Pos().Segment + uint64(segments); l.Pos().Segment < end; {
			m.Clock.Advance(pause)
			must(t, appendOne(l, text, Settle))
			must(t, l.Prepare())
		}
	}
	prepared := func() int64 { return must1(l.FileBytes(SegmentFile(l.Pos().Segment + 2))) }
	must(t, l.Prepare())
	fill(14, time.Microsecond)
	if got := prepared(); got != 16*1024 {
		t.Errorf("while the log is fast %d bytes are prepared", got)
	}
	fill(3, time.Second)
	checkpointOf(t, l, "small")
	must(t, l.Prepare())
	if got := prepared(); got != 1024 {
		t.Errorf("once it is slow %d bytes are prepared", got)
	}
	fill(14, time.Microsecond)
	m.Clock.Advance(time.Hour)
	checkpointOf(t, l, "small")
	for k := uint64(0); k < 2; k++ {
		if size := must1(l.FileBytes(SegmentFile(l.Pos().Segment + k))); size != 1024 {
			t.Errorf("after a compaction of a store that stood still, segment %d has %d bytes", l.Pos().Segment+k, size)
		}
	}
}

// TestCompactionsOfASmallStoreKeepItSmall is the life of a store that is
// compacted by hand, or often: segments get high numbers and stay small.
func TestCompactionsOfASmallStoreKeepItSmall(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	for range 30 {
		must(t, appendOne(l, "small", Enqueue))
		must(t, compactNow(l))
		must(t, l.Prepare())
		size, _, err := l.Disk()
		must(t, err)
		if size > 40<<10 {
			t.Fatalf("at segment %d the store has %d bytes", l.Pos().Segment, size)
		}
	}
}

// TestTheReserveShrinksWithTheCheckpoint writes a large checkpoint and then a
// small one.
func TestTheReserveShrinksWithTheCheckpoint(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	var sizes []int64
	for _, text := range []string{strings.Repeat("y", 100_000), "small"} {
		must(t, appendOne(l, "x", Settle))
		checkpointOf(t, l, text)
		must(t, l.Prepare())
		info, err := m.Process().Stat(join(labDir, reserveName))
		must(t, err)
		sizes = append(sizes, info.Size)
	}
	if sizes[0] < 100_000 || sizes[1] > 8<<10 {
		t.Errorf("the reserve has %d bytes, and %d for a small checkpoint", sizes[0], sizes[1])
	}
}

// checkpointOf puts a text in the place of all that was written.
func checkpointOf(t *testing.T, l *Log, text string) {
	t.Helper()
	must(t, errOf(l.TryCompactLock()))
	defer l.CompactUnlock()
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	n := l.Pos().Segment - 1
	must(t, l.WriteCheckpoint(n, writeTexts(text)))
	must(t, l.Flip(Current{Checkpoint: n}))
	must(t, errOf(l.Drop(func(FileID) bool { return false })))
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
