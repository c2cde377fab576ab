package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// TestWhatWasMovedIsFoundWhereItIs moves pieces of three files, with gaps
// between them, and looks each up: from the writer and from the file.
func TestWhatWasMovedIsFoundWhereItIs(t *testing.T) {
	_, l, _ := compacted(t)
	must(t, errOf(l.TryCompactLock()))
	defer l.CompactUnlock()
	w, err := l.NewPayloadFile(2)
	must(t, err)
	type place struct {
		file FileID
		off  uint32
		text string
	}
	var all []place
	for _, file := range []FileID{SegmentFile(1), SegmentFile(2), PayloadFile(1)} {
		off := uint32(64)
		for i := range 3*markEvery + 5 {
			p := place{file, off + uint32(i%7*i), fmt.Sprintf("%v %d", file.Name(), i*i)}
			must(t, w.Move(p.file, p.off, []byte(p.text)))
			all = append(all, p)
			off = p.off + uint32(len(p.text))
		}
	}
	must(t, w.Finish())
	read, err := l.ReadMoved(2)
	must(t, err)
	for name, parts := range map[string][]*Moved{"writer": w.Moved(), "file": read} {
		if len(parts) != 3 {
			t.Fatalf("%s: %d files", name, len(parts))
		}
		at := map[FileID]*Moved{}
		for _, m := range parts {
			at[m.From] = m
		}
		for i, p := range all {
			to, ok := at[p.file].Find(p.off, uint32(len(p.text)))
			b := make([]byte, len(p.text))
			if !ok || at[p.file].To != PayloadFile(2) {
				t.Fatalf("%s: place %d is not found", name, i)
			}
			must(t, l.ReadAt(PayloadFile(2), b, int64(to)))
			if string(b) != p.text {
				t.Errorf("%s: place %d holds %q, want %q", name, i, b, p.text)
			}
			for _, wrong := range []place{{off: p.off + 1, text: p.text}, {off: p.off, text: p.text + "x"}, {off: p.off - 1, text: p.text}} {
				if to, ok := at[p.file].Find(wrong.off, uint32(len(wrong.text))); ok {
					t.Errorf("%s: what was not moved is found at %d", name, to)
				}
			}
		}
		if _, ok := at[SegmentFile(1)].Find(1, 1); ok {
			t.Errorf("%s: what lies before all that was moved is found", name)
		}
	}
	if _, err := l.ReadMoved(9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	if parts, err := l.ReadMoved(1); err != nil || len(parts) != 0 {
		t.Errorf("of a file without a table: %d parts, %v", len(parts), err)
	}
}

// TestADamagedTableIsRefused flips each bit of a table.
func TestADamagedTableIsRefused(t *testing.T) {
	m, l, _ := compacted(t)
	must(t, errOf(l.TryCompactLock()))
	w, err := l.NewPayloadFile(2)
	must(t, err)
	for i := range 100 {
		must(t, w.Move(SegmentFile(1), uint32(100*i), []byte("payload")))
	}
	must(t, w.Finish())
	l.CompactUnlock()
	name := join(labDir, PayloadFile(2).Name())
	whole, err := m.ReadFile(name)
	must(t, err)
	for i := sideHeader + 700; i < len(whole); i++ {
		for bit := range 8 {
			b := append([]byte(nil), whole...)
			b[i] ^= 1 << bit
			must(t, m.WriteFile(name, b))
			if parts, err := l.ReadMoved(2); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d, bit %d: %d parts, %v", i, bit, len(parts), err)
			}
		}
	}
}
