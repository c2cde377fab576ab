package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestADirectoryThatIsNotAStoreIsRefused(t *testing.T) {
	files := map[string]func(m *crashfs.Machine) error{
		"somebody's file": func(m *crashfs.Machine) error {
			return errors.Join(m.Process().Mkdir(labDir), m.Process().SyncDir("/"), m.WriteFile(labDir+"/notes.txt", nil))
		},
		"a store that lost CURRENT": func(m *crashfs.Machine) error {
			l, err := openOn(m.Process())
			return errors.Join(err, appendOne(l, "x", Settle), l.Close(), m.Process().Remove(labDir+"/CURRENT"))
		},
		"a store that lost CURRENT and segment 1": func(m *crashfs.Machine) error {
			l, err := openOn(m.Process())
			return errors.Join(err, appendOne(l, "x", Settle), compactNow(l), l.Close(), m.Process().Remove(labDir+"/CURRENT"))
		},
		"an empty CURRENT": func(m *crashfs.Machine) error {
			l, err := openOn(m.Process())
			return errors.Join(err, l.Close(), m.WriteFile(labDir+"/CURRENT", nil))
		},
		"a garbled CURRENT": func(m *crashfs.Machine) error {
			l, err := openOn(m.Process())
			b, rerr := m.ReadFile(labDir + "/CURRENT")
			return errors.Join(err, l.Close(), rerr, m.WriteFile(labDir+"/CURRENT", bytes.Replace(b, []byte("first 1"), []byte("first 2"), 1)))
		},
		"a very long CURRENT": func(m *crashfs.Machine) error {
			l, err := openOn(m.Process())
			return errors.Join(err, l.Close(), m.WriteFile(labDir+"/CURRENT", make([]byte, 1<<20)))
		},
	}
	for name, prepare := range files {
		m := crashfs.New(crashfs.Config{Seed: 1})
		must(t, prepare(m))
		before := snapshot(t, m)
		_, err := openOn(m.Process())
		if !errors.Is(err, ErrNotStore) {
			t.Errorf("%s: %v", name, err)
		}
		sameFiles(t, snapshot(t, m), before)
	}
}

func TestAnUnfinishedCreationIsCompleted(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	p := m.Process()
	must(t, p.Mkdir(labDir))
	must(t, p.SyncDir("/"))
	for _, name := range []string{lockName, "000001.new", currentTmp, ".gitignore"} {
		must(t, m.WriteFile(join(labDir, name), []byte("left")))
	}
	must(t, m.WriteFile(join(labDir, "000001.log"), make([]byte, 700)))
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "x", Settle))
	sameLog(t, l, []string{"x"})
}

func TestANewerStoreIsRefusedByItsLevel(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	cur := l.Current()
	must(t, l.Close())
	cur.Level = FormatLevel + 1
	must(t, m.WriteFile(labDir+"/CURRENT", cur.line()))
	_, err := openOn(m.Process())
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "level 2") || !strings.Contains(err.Error(), "up to 1") {
		t.Errorf("open says %v", err)
	}
}

// TestANewerFrameIsRefusedNotCut puts frames with right checksums and
// unacceptable headers at the end of a log.
func TestAnUnacceptableFrameIsRefusedNotCut(t *testing.T) {
	cases := map[string]struct {
		change func(h *header)
		want   error
	}{
		"a newer version":         {func(h *header) { h.version = 2 }, ErrUnsupported},
		"an unknown kind":         {func(h *header) { h.kind = 9 }, ErrUnsupported},
		"an unknown flag":         {func(h *header) { h.flags = 0x80 }, ErrUnsupported},
		"a length over the limit": {func(h *header) { h.length = MaxBody + 1 }, ErrCorrupt},
		"another place":           {func(h *header) { h.pos.Offset += 8 }, ErrCorrupt},
		"another segment":         {func(h *header) { h.pos.Segment++ }, ErrCorrupt},
		"another sequence":        {func(h *header) { h.seq++ }, ErrCorrupt},
		"another predecessor":     {func(h *header) { h.prev++ }, ErrCorrupt},
		"a head in the middle":    {func(h *header) { h.kind = KindHead; h.length = headBody }, ErrCorrupt},
	}
	for name, c := range cases {
		m := crashfs.New(crashfs.Config{Seed: 1})
		l := mustOpenOn(t, m.Process())
		must(t, appendOne(l, "x", Settle))
		must(t, l.Sync())
		h := header{version: frameVersion, kind: KindData, pos: l.at.pos, seq: l.at.seq + 1, prev: l.at.sum, bodySum: l.seed}
		c.change(&h)
		b := make([]byte, headerSize)
		h.put(b, l.seed)
		f, err := l.files.get(SegmentFile(1))
		must(t, err)
		must(t, errOf(f.WriteAt(b, l.at.pos.Offset)))
		m = m.Crash(crashfs.KeepAll)
		before := snapshot(t, m)
		if _, _, err := revive(m.Process()); !errors.Is(err, c.want) {
			t.Errorf("%s: Recover says %v, want %v", name, err, c.want)
		}
		sameFiles(t, snapshot(t, m), before)
	}
}

func TestCurrentComesBackAsItWasWritten(t *testing.T) {
	for _, c := range []Current{
		{Level: 1, Generation: 1, First: 1},
		{Level: 1, Generation: 9, Checkpoint: 12, First: 13, StoreID: [16]byte{1, 2, 255}, Payload: []uint64{3, 12, 4000}},
	} {
		got, err := parseCurrent(c.line())
		must(t, err)
		if !bytes.Equal(got.line(), c.line()) {
			t.Errorf("%q came back as %q", c.line(), got.line())
		}
		for i := range c.line() {
			b := c.line()
			b[i] ^= 1
			if _, err := parseCurrent(b); err == nil {
				t.Errorf("a flipped bit at %d was not noticed: %q", i, b)
			}
		}
	}
}

// TestTheStoreOfTheFirstReleaseOpens reads a store that is kept in testdata. It
// is part of the promise about the format: never write it anew, add others.
func TestTheStoreOfTheFirstReleaseOpens(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	must(t, m.Process().Mkdir(labDir))
	must(t, m.Process().SyncDir("/"))
	names, err := filepath.Glob("testdata/level1/*")
	must(t, err)
	if len(names) < 5 {
		t.Fatalf("only %q in testdata", names)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		must(t, m.WriteFile(join(labDir, filepath.Base(name)), b))
	}
	report, err := Verify(m.Process(), labDir)
	must(t, err)
	if len(report.Findings) > 0 {
		t.Errorf("findings %+v", report.Findings)
	}
	l, got, err := revive(m.Process())
	must(t, err)
	sameTexts(t, got, []string{"one", "two", "three", "four"})
	p := make([]byte, 5)
	must(t, l.ReadAt(PayloadFile(1), p, sideHeader))
	if string(p) != "moved" {
		t.Errorf("the payload file holds %q", p)
	}
	must(t, appendOne(l, "five", Enqueue))
	sameLog(t, l, append(got, "five"))
}

// TestTheFormatIsWhatTheFirstReleaseWrote writes the store of testdata again,
// byte for byte: but for RESERVE, and for how many zeros follow the log, which are
// no part of the format.
func TestTheFormatIsWhatTheFirstReleaseWrote(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 77})
	l := mustOpenOn(t, m.Process(), func(o *Options) { o.FirstSegmentBytes = 512; o.Counters = func() []byte { return []byte("count") } })
	must(t, appendOne(l, "one", Enqueue))
	must(t, appendOne(l, "two", Settle))
	if ok, err := l.TryCompactLock(); !ok {
		t.Fatal(err)
	}
	locked(t, l, func() { must(t, l.CatchUp(discard)); must(t, errOf(l.Seal(0))) })
	w, err := l.NewPayloadFile(1)
	must(t, err)
	must(t, errOf(w.Append([]byte("moved"))))
	must(t, w.Finish())
	must(t, l.WriteCheckpoint(1, writeTexts("one", "two")))
	must(t, l.Flip(Current{Checkpoint: 1, First: 1, Payload: []uint64{1}}))
	l.CompactUnlock()
	must(t, appendOne(l, "three", Settle))
	must(t, l.Sync())
	must(t, appendOne(l, "four", Settle))
	for name, b := range snapshot(t, m) {
		if name == reserveName {
			continue
		}
		path := filepath.Join("testdata", "level1", name)
		if os.Getenv("SPOOL_TEST_WRITE_FORMAT") != "" {
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, b, 0o644))
		}
		want, err := os.ReadFile(path)
		must(t, err)
		if zeros := "\x00"; !bytes.Equal(bytes.TrimRight(b, zeros), bytes.TrimRight(want, zeros)) {
			t.Errorf("%s is not what it was", name)
		}
	}
}

// TestTwoWhoCreateAtTheSameTime lets another process create the store, and write
// to it, before each operation of one that has not taken LOCK yet.
func TestTwoWhoCreateAtTheSameTime(t *testing.T) {
	for n := 0; ; n++ {
		m := crashfs.New(crashfs.Config{Seed: 1})
		p, other := m.Process(), m.Process()
		left, locks := n, false
		m.Inject(func(op crashfs.Op) error {
			if op.Process != p {
				return nil
			}
			if locks = locks || op.Kind == crashfs.OpLock; locks {
				return nil
			}
			if left--; left == -1 {
				l, err := openOn(other)
				must(t, err)
				must(t, appendOne(l, "first", Enqueue))
			}
			return nil
		})
		l, err := openOn(p)
		if err != nil {
			t.Fatalf("before operation %d another process created the store: %v", n, err)
		}
		m.Inject(nil)
		if left >= 0 {
			t.Logf("%d operations", n)
			return
		}
		must(t, appendOne(l, "second", Enqueue))
	}
}
