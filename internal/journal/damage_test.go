package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// sample is a store of three segments, the last of them active, whose last two
// frames are not known durable.
type sample struct {
	m      *crashfs.Machine // after a restart
	texts  []string
	frames []Frame // all of them, heads and ends too
	synced Pos     // the largest SyncedUpTo in the log
	tries  int
}

func newSample(t testing.TB) *sample {
	t.Helper()
	s := &sample{}
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process(), func(o *Options) {
		o.FirstSegmentBytes = 1088
		o.Counters = func() []byte { return []byte("counters") }
	})
	must(t, l.Prepare())
	for i := 0; l.Pos().Segment < 3 || i < 3; i++ {
		if l.Pos().Segment < 3 {
			i = 0
		}
		s.texts = append(s.texts, fmt.Sprintf("%d%s", len(s.texts), bytes.Repeat([]byte("."), len(s.texts)*5%40)))
		must(t, appendOne(l, s.texts[len(s.texts)-1], Settle))
		if len(s.texts)%3 == 0 {
			err := l.Sync()
			must(t, err)
		}
		must(t, l.Prepare())
	}
	must(t, l.Close())
	m.Stop()
	s.m = m.Crash(crashfs.KeepAll)
	must(t, Inspect(s.m.Process(), labDir, func(f *Frame) error {
		g := *f
		g.Body = bytes.Clone(f.Body)
		s.frames = append(s.frames, g)
		s.synced = later(s.synced, f.SyncedUpTo)
		return nil
	}))
	if last := s.frames[len(s.frames)-1]; s.synced != (Pos{Segment: 3}) || !s.synced.Before(last.At) {
		t.Fatalf("the sample's last frame is at %v, and %v is durable", last.At, s.synced)
	}
	return s
}

// before is how many data frames lie before p.
func (s *sample) before(p Pos) int {
	n := 0
	for _, f := range s.frames {
		if f.Kind == KindData && f.At.Before(p) {
			n++
		}
	}
	return n
}

// frameAt is the frame that p lies in; not ok when p is after the last.
func (s *sample) frameAt(p Pos) (Frame, bool) {
	for _, f := range s.frames {
		if f.At.Segment == p.Segment && f.At.Offset <= p.Offset && p.Offset < f.At.Offset+frameSize(len(f.Body)) {
			return f, true
		}
	}
	return Frame{}, false
}

// try damages a file, and checks what Verify and Recover make of it: bytes of
// frame f are wrong, so all before it may come back, nothing else.
func (s *sample) try(t *testing.T, name string, content []byte, f Frame) {
	t.Helper()
	m := s.m.Crash(crashfs.KeepAll)
	must(t, m.WriteFile(join(labDir, name), content))
	files := snapshot(t, m)
	report, err := Verify(m.Process(), labDir)
	must(t, err)
	sameFiles(t, snapshot(t, m), files)
	l, got, err := revive(m.Process())
	if report.Damaged() != errors.Is(err, ErrCorrupt) {
		t.Errorf("%s: Recover says %v, Verify %+v", name, err, report.Findings)
	}
	if f.At.Before(s.synced) {
		var c *CorruptError
		if !errors.As(err, &c) {
			t.Fatalf("frame %v, below %v, was damaged in %s, and Recover says %v", f.At, s.synced, name, err)
		}
		sameFiles(t, snapshot(t, m), files)
		return
	}
	must(t, err)
	must(t, prefix(got, s.texts, s.before(f.At)))
	if s.tries++; s.tries%4 == 0 {
		s.goOn(t, m, l, got)
	}
}

// goOn appends to a recovered log, loses the power, and recovers again.
func (s *sample) goOn(t *testing.T, m *crashfs.Machine, l *Log, got []string) {
	t.Helper()
	for i := range 2 {
		text := fmt.Sprintf("after %d", i)
		must(t, appendOne(l, text, Settle))
		got = append(got, text)
	}
	err := l.Sync()
	must(t, err)
	_, again, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	if !slices.Equal(again, got) {
		t.Fatalf("after the second recovery:\n%q, want\n%q", again, got)
	}
}

func TestEveryTruncationGivesThePrefixOrIsRefused(t *testing.T) {
	s := newSample(t)
	for n := uint64(1); n <= 3; n++ {
		name := SegmentFile(n).Name()
		whole, err := s.m.ReadFile(join(labDir, name))
		must(t, err)
		for size := 0; size < len(whole); size += thin {
			f, inside := s.frameAt(Pos{n, int64(size)})
			if !inside {
				f.At = Pos{99, 0} // nothing is lost
			}
			if !inside && n < 3 {
				continue // after an end record: nobody misses it
			}
			s.try(t, name, whole[:size], f)
		}
	}
}

func TestEveryBitFlipIsCutOrRefused(t *testing.T) {
	s := newSample(t)
	for n := uint64(1); n <= 4; n++ {
		name := SegmentFile(n).Name()
		whole, err := s.m.ReadFile(join(labDir, name))
		must(t, err)
		for i := 0; i < len(whole); i += thin {
			f, inside := s.frameAt(Pos{n, int64(i)})
			if !inside {
				f.At = Pos{99, 0}
			}
			if !inside && i%37 != 0 {
				continue // among zeros every place is like the other
			}
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			s.try(t, name, b, f)
		}
	}
}

// TestBlocksThatMoveAreNeverHandedOut zeroes, copies and swaps blocks: what
// comes back is a prefix, or the store is refused.
func TestBlocksThatMoveAreNeverHandedOut(t *testing.T) {
	s := newSample(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 / thin {
		n := uint64(1 + r.IntN(3))
		name := SegmentFile(n).Name()
		whole, err := s.m.ReadFile(join(labDir, name))
		must(t, err)
		b := bytes.Clone(whole)
		size := []int{8, 64, 128, 512}[r.IntN(4)]
		from, to := r.IntN(len(b)-size+1)/8*8, r.IntN(len(b)-size+1)/8*8
		switch r.IntN(3) {
		case 0:
			clear(b[to : to+size])
		case 1:
			copy(b[to:], whole[from:from+size])
		case 2:
			copy(b[to:], whole[from:from+size])
			copy(b[from:], whole[to:to+size])
		}
		m := s.m.Crash(crashfs.KeepAll)
		must(t, m.WriteFile(join(labDir, name), b))
		_, got, err := revive(m.Process())
		if errors.Is(err, ErrCorrupt) {
			continue
		}
		must(t, err)
		must(t, prefix(got, s.texts, s.before(s.synced)))
	}
}

func TestAMissingSegmentIsRefused(t *testing.T) {
	for n := uint64(1); n <= 3; n++ {
		s := newSample(t)
		must(t, s.m.Process().Remove(join(labDir, SegmentFile(n).Name())))
		if _, _, err := revive(s.m.Process()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("without segment %d: %v", n, err)
		}
		report, err := Verify(s.m.Process(), labDir)
		must(t, err)
		if len(report.Findings) == 0 || report.Findings[0].Kind != MissingSegment {
			t.Errorf("without segment %d Verify found %+v", n, report.Findings)
		}
	}
}

// TestDamageWithoutARestartIsNotATornTail flips a bit of the last frame, which
// was acknowledged. Without a restart CONTROL knows that it was durable.
func TestDamageWithoutARestartIsNotATornTail(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	p := m.Process()
	l := mustOpenOn(t, p)
	w := &world{m: m}
	must(t, w.append(l, 4))
	name := join(labDir, SegmentFile(1).Name())
	b, err := m.ReadFile(name)
	must(t, err)
	b[l.at.last.Offset+headerSize] ^= 1
	p.Kill()
	must(t, m.WriteFile(name, b))
	before := snapshot(t, m)
	if _, _, err := revive(m.Process()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Recover says %v", err)
	}
	sameFiles(t, snapshot(t, m), before)
	if report, err := Verify(m.Process(), labDir); err != nil || !report.Damaged() {
		t.Errorf("Verify found %+v, %v", report.Findings, err)
	}
	_, got, err := revive(m.Crash(crashfs.KeepAll).Process())
	must(t, err)
	sameTexts(t, got, w.tried[:3])
}

func TestSalvageDoesWithoutCurrent(t *testing.T) {
	s := newSample(t)
	must(t, s.m.WriteFile(join(labDir, currentName), []byte("gone")))
	var got []string
	report, err := Salvage(s.m.Process(), labDir, bodies(&got))
	must(t, err)
	sameTexts(t, got, s.texts)
	if len(report.Findings) != 1 || report.Findings[0].Kind != BadCurrent {
		t.Errorf("findings %+v", report.Findings)
	}
	stop := fmt.Errorf("stop: %w", &CorruptError{File: "mine"})
	if _, err := Salvage(s.m.Process(), labDir, func(*Frame) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Salvage says %v", err)
	}
}

func TestSalvagePassesOverDamage(t *testing.T) {
	s := newSample(t)
	name := SegmentFile(1).Name()
	b, err := s.m.ReadFile(join(labDir, name))
	must(t, err)
	hurt := s.frames[2]
	b[hurt.At.Offset+headerSize]++
	must(t, s.m.WriteFile(join(labDir, name), b))
	var got []string
	report, err := Salvage(s.m.Process(), labDir, bodies(&got))
	must(t, err)
	want := slices.DeleteFunc(slices.Clone(s.texts), func(x string) bool { return x == string(hurt.Body) })
	sameTexts(t, got, want)
	if !report.Damaged() || report.Findings[0].Kind != BadFrame || report.Findings[0].Offset != hurt.At.Offset {
		t.Errorf("findings %+v", report.Findings)
	}
}
