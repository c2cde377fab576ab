package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool/internal/vfs"
)

// open opens a log of small segments on the real file system.
func open(t testing.TB, dir string, change ...func(*Options)) *Log {
	t.Helper()
	o := Options{Sys: vfs.OS(), Dir: dir, FirstSegmentBytes: 1024}
	for _, c := range change {
		c(&o)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func storeDir(t testing.TB) string { return filepath.Join(t.TempDir(), "jobs") }

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// locked runs fn under LOCK.
func locked(t testing.TB, l *Log, fn func()) {
	t.Helper()
	must(t, l.Lock())
	defer l.Unlock()
	fn()
}

// bodies returns a function that collects the bodies of frames.
func bodies(to *[]string) func(*Frame) error {
	return func(f *Frame) error {
		if f.Kind == KindData {
			*to = append(*to, string(f.Body))
		}
		return nil
	}
}

func discard(*Frame) error { return nil }

// add appends one frame per body, each under LOCK of its own.
func add(t testing.TB, l *Log, texts ...string) {
	t.Helper()
	for _, s := range texts {
		locked(t, l, func() {
			must(t, l.CatchUp(discard))
			must(t, l.Reserve(len(s), Settle, 0))
			buf, _, _ := l.Body()
			_, err := l.Append(append(buf, s...), FrameHeader{Count: 1})
			must(t, err)
		})
	}
}

// texts is n bodies of different lengths.
func texts(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("frame %d %s", i, bytes.Repeat([]byte{'x'}, i*7%90)))
	}
	return out
}

// readAllFrames opens the store and returns the bodies of all its frames.
func readAllFrames(t testing.TB, dir string, change ...func(*Options)) []string {
	t.Helper()
	l := open(t, dir, change...)
	defer l.Close()
	var got []string
	locked(t, l, func() { must(t, l.CatchUp(bodies(&got))) })
	return got
}

func sameTexts(t testing.TB, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d frames, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("frame %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestFramesComeBackInOrderOverManySegments(t *testing.T) {
	dir := storeDir(t)
	want := texts(100)
	l := open(t, dir)
	must(t, l.Prepare())
	for i, s := range want {
		add(t, l, s)
		if i%10 == 0 {
			must(t, l.Prepare())
		}
	}
	if err := l.Sync(); err != nil || l.Durable() != l.Pos() {
		t.Fatalf("sync gave %v, %v; the end is %v", l.Durable(), err, l.Pos())
	}
	if l.Pos().Segment < 3 {
		t.Fatalf("only %v was reached", l.Pos())
	}
	sameTexts(t, readAllFrames(t, dir), want)
}

func TestAPeerReadsWhatWasPublished(t *testing.T) {
	dir := storeDir(t)
	a, b := open(t, dir), open(t, dir)
	want := texts(40)
	var got []string
	for i, s := range want {
		if i%2 == 0 {
			add(t, a, s)
		} else {
			add(t, a, s)
		}
		must(t, b.Read(bodies(&got)))
	}
	sameTexts(t, got, want)
	if b.Behind() != 0 {
		t.Errorf("behind %d", b.Behind())
	}
	_ = os.Remove
}
