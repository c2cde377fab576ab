package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

const labDir = "/jobs"

// openOn opens the log of a simulated machine.
func openOn(sys vfs.System, change ...func(*Options)) (*Log, error) {
	o := Options{Sys: sys, Dir: labDir, FirstSegmentBytes: 1024}
	for _, c := range change {
		c(&o)
	}
	return Open(o)
}

func mustOpenOn(t testing.TB, sys vfs.System, change ...func(*Options)) *Log {
	t.Helper()
	l, err := openOn(sys, change...)
	must(t, err)
	return l
}

// appendOne is one commit without the sync.
func appendOne(l *Log, s string, class Class) error {
	if err := l.Lock(); err != nil {
		return err
	}
	defer l.Unlock()
	if err := l.CatchUp(discard); err != nil {
		return err
	}
	if err := l.Reserve(len(s), class, 0); err != nil {
		return err
	}
	buf, _, _ := l.Body()
	_, err := l.Append(append(buf, s...), FrameHeader{Count: 1, Epoch: 7})
	return err
}

// load reads checkpoint and frames of a store, the frames by read.
func load(l *Log, read func(fn func(*Frame) error) error) ([]string, error) {
	_, content, err := l.Start()
	if err != nil {
		return nil, err
	}
	var got []string
	err = content(func(r io.Reader) error {
		got, err = decodeTexts(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = read(bodies(&got))
	return got, err
}

// revive does what a lone opener does, and returns the handle and what it read.
func revive(sys vfs.System) (*Log, []string, error) {
	l, err := openOn(sys)
	if err != nil {
		return nil, nil, err
	}
	if ok, err := l.TryCompactLock(); err != nil || !ok {
		return nil, nil, fmt.Errorf("COMPACT not free: %w", err)
	}
	defer l.CompactUnlock()
	if err := l.Lock(); err != nil {
		return nil, nil, err
	}
	defer l.Unlock()
	got, err := load(l, l.Recover)
	return l, got, err
}

// encodeTexts and decodeTexts are what the tests keep in a checkpoint.
func encodeTexts(w io.Writer, texts []string) error {
	for _, s := range texts {
		if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))); err != nil {
			return err
		}
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	return nil
}

func decodeTexts(r io.Reader) ([]string, error) {
	var texts []string
	for {
		var n [4]byte
		if _, err := io.ReadFull(r, n[:]); err == io.EOF {
			return texts, nil
		} else if err != nil {
			return nil, err
		}
		size, xs := binary.LittleEndian.Uint32(n[:]), uint32(0)
		if size&shortText != 0 {
			size, xs = size&shortStem, size&^shortText>>16
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		texts = append(texts, string(b)+strings.Repeat("x", int(xs)))
	}
}

// compactNow makes a checkpoint of all that is sealed now.
func compactNow(l *Log) error {
	if ok, err := l.TryCompactLock(); err != nil || !ok {
		return fmt.Errorf("COMPACT not free: %w", err)
	}
	defer l.CompactUnlock()
	if err := l.Lock(); err != nil {
		return err
	}
	n, err := uint64(0), l.CatchUp(discard)
	if err == nil {
		n, err = l.Seal(0)
	}
	l.Unlock()
	if err != nil {
		return err
	}
	cur, err := l.Refresh()
	if err != nil {
		return err
	}
	var state []string
	if cur.Checkpoint > 0 {
		err := l.ReadCheckpoint(cur.Checkpoint, func(r io.Reader) (err error) {
			state, err = decodeTexts(r)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := l.Scan(cur.Checkpoint+1, n, bodies(&state)); err != nil {
		return err
	}
	p, err := l.NewPayloadFile(n)
	if err != nil {
		return err
	}
	if _, err := p.Append(bytes.Repeat([]byte("payload"), 300)); err != nil {
		return err
	}
	if err := p.Finish(); err != nil {
		return err
	}
	if err := l.WriteCheckpoint(n, func(w io.Writer) error { return encodeTexts(w, state) }); err != nil {
		return err
	}
	if err := l.Flip(Current{Checkpoint: n, Payload: []uint64{n}}); err != nil {
		return err
	}
	_, err = l.Drop(func(FileID) bool { return false })
	return err
}

// prefix checks that got is want[:n] for an n of at least atLeast.
func prefix(got, want []string, atLeast int) error {
	if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		return fmt.Errorf("what came back is no prefix of what was written:\n%q\n%q", got, want)
	}
	if len(got) < atLeast {
		return fmt.Errorf("%d frames came back, but %d were durable", len(got), atLeast)
	}
	return nil
}

// snapshot is the content of the files that hold the log.
func snapshot(t testing.TB, m *crashfs.Machine) map[string][]byte {
	t.Helper()
	names, err := m.Process().ReadDir(labDir)
	must(t, err)
	files := map[string][]byte{}
	for _, n := range names {
		switch n {
		case lockName, nextName, compactName, prepName, controlName:
			continue
		}
		b, err := m.ReadFile(join(labDir, n))
		must(t, err)
		files[n] = b
	}
	return files
}

func sameFiles(t testing.TB, got, want map[string][]byte) {
	t.Helper()
	for n := range want {
		if b, ok := got[n]; !ok || !bytes.Equal(b, want[n]) {
			t.Errorf("%s was changed", n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d files, there were %d", len(got), len(want))
	}
}
