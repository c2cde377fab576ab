package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func writeTexts(texts ...string) func(io.Writer) error {
	return func(w io.Writer) error { return encodeTexts(w, texts) }
}

// compacted is a store with a checkpoint of 8 frames at segment 1, a payload
// file, and two frames after it.
func compacted(t testing.TB) (*crashfs.Machine, *Log, *world) {
	t.Helper()
	w := &world{m: crashfs.New(crashfs.Config{Seed: 1})}
	l := mustOpenOn(t, w.m.Process(), func(o *Options) { o.FirstSegmentBytes = 4096 })
	must(t, w.append(l, 8))
	if ok, err := l.TryCompactLock(); !ok {
		t.Fatal(err)
	}
	defer l.CompactUnlock()
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	p, err := l.NewPayloadFile(1)
	must(t, err)
	must(t, errOf(p.Append([]byte("payload"))))
	must(t, p.Finish())
	must(t, l.WriteCheckpoint(1, writeTexts(w.tried...)))
	must(t, l.Flip(Current{Checkpoint: 1, Payload: []uint64{1}}))
	must(t, w.append(l, 2))
	return w.m, l, w
}

func TestACheckpointReplacesTheSegmentsBeforeIt(t *testing.T) {
	m, l, w := compacted(t)
	must(t, errOf(l.TryCompactLock()))
	n, err := l.Drop(func(f FileID) bool { return f.Payload() })
	must(t, err)
	l.CompactUnlock()
	if n != 1 {
		t.Errorf("%d files dropped", n)
	}
	if ok, _ := l.exists(SegmentFile(1).Name()); ok {
		t.Error("segment 1 is still there")
	}
	_, got, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, got, w.tried)
	var seen []string
	must(t, InspectCheckpoint(m.Process(), labDir, func(n uint64, r io.Reader) (err error) {
		seen, err = decodeTexts(r)
		return err
	}))
	sameTexts(t, seen, w.tried[:8])
	b := make([]byte, 7)
	must(t, InspectAt(m.Process(), labDir, PayloadFile(1), b, sideHeader))
	if string(b) != "payload" {
		t.Errorf("the payload is %q", b)
	}
}

func TestEveryFlippedBitOfACheckpointIsRefused(t *testing.T) {
	m, _, _ := compacted(t)
	for _, name := range []string{checkpointName(1), PayloadFile(1).Name()} {
		whole, err := m.ReadFile(join(labDir, name))
		must(t, err)
		for i := 0; i < 2*len(whole); i += thin {
			b := bytes.Clone(whole)
			if i < len(b) {
				b[i] ^= 1 << (i % 8)
			} else {
				b = b[:i-len(b)]
			}
			after := m.Crash(crashfs.KeepAll)
			must(t, after.WriteFile(join(labDir, name), b))
			before := snapshot(t, after)
			report, err := Verify(after.Process(), labDir)
			must(t, err)
			if !report.Damaged() {
				t.Fatalf("%s, %d: Verify found nothing", name, i)
			}
			if name == checkpointName(1) {
				if _, _, err := revive(after.Process()); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
					t.Fatalf("%s, %d: %v", name, i, err)
				}
			}
			sameFiles(t, snapshot(t, after), before)
		}
	}
}

// TestACheckpointOfAnotherPlaceIsRefused changes what the footer says of the
// segment's end, with a right checksum.
func TestACheckpointOfAnotherPlaceIsRefused(t *testing.T) {
	changes := map[string]func(f *footer){
		"end":      func(f *footer) { f.end += 8 },
		"sequence": func(f *footer) { f.seq++ },
		"checksum": func(f *footer) { f.lastSum++ },
	}
	for what, change := range changes {
		m, l, _ := compacted(t)
		name := join(labDir, checkpointName(1))
		b, err := m.ReadFile(name)
		must(t, err)
		last := b[len(b)-sideFooter:]
		foot, ok := parseFooter(last, checkpointMagic, l.seed)
		if !ok {
			t.Fatal("the footer is not one")
		}
		change(&foot)
		foot.put(last, checkpointMagic, l.seed)
		must(t, m.WriteFile(name, b))
		if _, _, err := revive(m.Crash(crashfs.KeepAll).Process()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("another %s: Recover says %v", what, err)
		}
		must(t, errOf(l.TryCompactLock()))
		if err := l.Flip(Current{Checkpoint: 1}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("another %s: Flip says %v", what, err)
		}
		l.CompactUnlock()
	}
}

func TestAMissingCheckpointIsNotAnEmptyStore(t *testing.T) {
	m, _, _ := compacted(t)
	must(t, m.Process().Remove(join(labDir, checkpointName(1))))
	if _, err := openOn(m.Process()); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
		t.Errorf("open says %v", err)
	}
}

func TestAFlipOfSomethingDamagedIsRefused(t *testing.T) {
	for _, bad := range []FileID{SegmentFile(0), PayloadFile(2)} {
		m, l, w := compacted(t)
		must(t, errOf(l.TryCompactLock()))
		var n uint64
		locked(t, l, func() {
			must(t, l.CatchUp(discard))
			var err error
			n, err = l.Seal(0)
			must(t, err)
		})
		p, err := l.NewPayloadFile(2)
		must(t, err)
		must(t, errOf(p.Append([]byte("second"))))
		must(t, p.Finish())
		must(t, l.WriteCheckpoint(n, writeTexts(w.tried...)))
		name := checkpointName(n)
		if bad.Payload() {
			name = bad.Name()
		}
		b, err := m.ReadFile(join(labDir, name))
		must(t, err)
		b[sideHeader+10] ^= 4
		must(t, m.WriteFile(join(labDir, name), b))
		before := l.Current()
		if err := l.Flip(Current{Checkpoint: n, Payload: []uint64{1, 2}}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("flip with a damaged %s says %v", name, err)
		}
		after, err := l.Refresh()
		must(t, err)
		if after.Generation != before.Generation {
			t.Error("CURRENT was flipped")
		}
	}
}

func TestAHandleThatIsBehindLearnsOfAFlip(t *testing.T) {
	w := &world{m: crashfs.New(crashfs.Config{Seed: 1})}
	l, behind, ahead := mustOpenOn(t, w.m.Process()), mustOpenOn(t, w.m.Process()), mustOpenOn(t, w.m.Process())
	must(t, w.append(l, 4))
	must(t, compactNow(l))
	must(t, w.append(l, 4))
	must(t, ahead.Lock())
	_, err := load(ahead, ahead.CatchUp)
	ahead.Unlock()
	must(t, err)
	must(t, compactNow(l))
	must(t, w.append(l, 2))
	if !behind.GenerationChanged() || !ahead.GenerationChanged() {
		t.Error("the peers do not see the flip")
	}
	// Its descriptors may still be open; a handle without them is told.
	behind.files.drop(func(FileID) bool { return true })
	must(t, behind.Lock())
	err = behind.CatchUp(discard)
	behind.Unlock()
	if !errors.Is(err, ErrBehind) {
		t.Errorf("CatchUp over a dropped segment says %v", err)
	}
	sameLog(t, behind, w.tried)
	var rest []string
	locked(t, ahead, func() { must(t, ahead.CatchUp(bodies(&rest))) })
	must(t, errOf(ahead.Refresh()))
	sameTexts(t, rest, w.tried[8:])
	if behind.GenerationChanged() || ahead.GenerationChanged() {
		t.Error("the generation still seems to change")
	}
}

func TestOnlyOneHandleFlips(t *testing.T) {
	_, l, _ := compacted(t)
	peer := mustOpenOn(t, l.sys)
	must(t, errOf(l.TryCompactLock()))
	if ok, err := peer.TryCompactLock(); ok || err != nil {
		t.Errorf("COMPACT has two holders: %v, %v", ok, err)
	}
	if ok, err := l.TryCompactLock(); ok || err != nil {
		t.Errorf("COMPACT has two holders in one handle: %v, %v", ok, err)
	}
	l.CompactUnlock()
	must(t, errOf(peer.TryCompactLock()))
	must(t, peer.Flip(Current{Checkpoint: 1}))
	peer.CompactUnlock()
	must(t, errOf(l.TryCompactLock()))
	if err := l.Flip(Current{Checkpoint: 1}); err == nil || !strings.Contains(err.Error(), "generation 3") {
		t.Errorf("a flip from an old CURRENT says %v", err)
	}
	must(t, errOf(l.Refresh()))
	must(t, l.Flip(Current{Checkpoint: 1}))
	l.CompactUnlock()
}

func TestDropKeepsWhatIsInUse(t *testing.T) {
	m, l, w := compacted(t)
	p := m.Process()
	for _, name := range []string{"000009.new", "000002.idx", "000002.idx.tmp", "000007.pay", "torn-000001-8", "README"} {
		must(t, m.WriteFile(join(labDir, name), []byte("x")))
	}
	must(t, errOf(l.TryCompactLock()))
	n, err := l.Drop(func(f FileID) bool { return f == SegmentFile(1) })
	must(t, err)
	l.CompactUnlock()
	if n != 4 {
		t.Errorf("%d files dropped", n)
	}
	names, err := p.ReadDir(labDir)
	must(t, err)
	for _, name := range []string{"000001.log", "000001.pay", "000001.idx", "000002.log", "torn-000001-8", "README"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s was dropped; left are %q", name, names)
		}
	}
	b := make([]byte, len(w.tried[0]))
	must(t, l.ReadAt(SegmentFile(1), b, headSize+headerSize))
	if string(b) != w.tried[0] {
		t.Errorf("read %q", b)
	}
	report, err := Verify(p, labDir)
	must(t, err)
	if report.Damaged() {
		t.Errorf("findings %+v", report.Findings)
	}
}

func TestLargeCheckpointsComeBackBlockByBlock(t *testing.T) {
	w := &world{m: crashfs.New(crashfs.Config{Seed: 1})}
	l := mustOpenOn(t, w.m.Process())
	must(t, w.append(l, 2))
	must(t, errOf(l.TryCompactLock()))
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	for _, size := range []int{0, 1, blockBytes - 1, blockBytes, blockBytes + 1, 3*blockBytes + 7} {
		want := []byte(strings.Repeat("0123456789", size/10+1)[:size])
		must(t, l.WriteCheckpoint(1, func(w io.Writer) error {
			for b := want; len(b) > 0; {
				n := min(len(b), 100_001)
				if _, err := w.Write(b[:n]); err != nil {
					return err
				}
				b = b[n:]
			}
			return nil
		}))
		must(t, l.ReadCheckpoint(1, func(r io.Reader) error {
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(got, want) {
				err = fmt.Errorf("%d bytes came back as %d others", len(want), len(got))
			}
			return err
		}))
	}
	no := errors.New("no")
	if err := l.WriteCheckpoint(1, func(w io.Writer) error { return no }); !errors.Is(err, no) {
		t.Errorf("a refused checkpoint says %v", err)
	}
	if ok, _ := l.exists(checkpointName(1) + ".tmp"); ok {
		t.Error("a refused checkpoint stays")
	}
}

func TestADiscardedPayloadFileLeavesNothing(t *testing.T) {
	w := &world{m: crashfs.New(crashfs.Config{Seed: 1})}
	l := mustOpenOn(t, w.m.Process())
	must(t, errOf(l.TryCompactLock()))
	p, err := l.NewPayloadFile(3)
	must(t, err)
	must(t, errOf(p.Append([]byte("x"))))
	must(t, p.Discard())
	must(t, p.Discard())
	for name := range snapshot(t, w.m) {
		if strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".pay") {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := p.Append([]byte("y")); err == nil {
		t.Error("a discarded file takes more")
	}
}

func TestInspectShowsHeadsAndEnds(t *testing.T) {
	m, _, w := compacted(t)
	var kinds []string
	var got []string
	must(t, Inspect(m.Process(), labDir, func(f *Frame) error {
		kinds = append(kinds, f.Kind.String())
		return bodies(&got)(f)
	}))
	sameTexts(t, got, w.tried)
	want := "head data data data data data data data data end head data data"
	if s := strings.Join(kinds, " "); s != want {
		t.Errorf("kinds are %s", s)
	}
	stop := errors.New("stop")
	if err := Inspect(m.Process(), labDir, func(f *Frame) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Inspect says %v", err)
	}
}
