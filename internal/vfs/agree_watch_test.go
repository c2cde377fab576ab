//go:build linux || darwin

package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool/internal/vfs"
)

func (p *place) watch(t *testing.T) vfs.Watcher {
	t.Helper()
	w, err := p.Watch()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	ok(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	})
	return w
}

// next returns the next report, or fails when none comes.
func next(t *testing.T, w vfs.Watcher) vfs.WatchEvent {
	t.Helper()
	type report struct {
		e   vfs.WatchEvent
		err error
	}
	c := make(chan report, 1)
	go func() {
		e, err := w.Next()
		c <- report{e, err}
	}()
	r := soon(t, "Next", c)
	ok(t, r.err)
	return r.e
}

func watchDir(t *testing.T, p *place) {
	w := p.watch(t)
	before := p.make(t, "before", "")
	ok(t, w.Dir(p.dir))
	ok(t, p.open(t, "before", os.O_RDONLY).Close()) // not a writer
	ok(t, p.make(t, "a", "x").Close())
	ok(t, before.Close())
	ok(t, p.Rename(p.path("a"), p.path("b")))
	ok(t, p.open(t, "b", os.O_RDWR).Close())
	for _, want := range []string{"a", "before", "b"} {
		if got := next(t, w); got != (vfs.WatchEvent{Dir: p.dir, Name: want, Closed: true}) {
			t.Errorf("got %+v, want the close of %s", got, want)
		}
	}
	ok(t, p.make(t, "f", "").Close())
	if err := w.Dir(p.path("f")); err == nil {
		t.Error("a file can be watched as a directory")
	}
	is(t, "watch what is not there", w.Dir(p.path("x")), fs.ErrNotExist)
}

func watchFile(t *testing.T, p *place) {
	w := p.watch(t)
	f := p.make(t, "bell", "x")
	ok(t, w.File(p.path("bell")))
	ok(t, w.File(p.path("bell"))) // twice is as good as once
	ok(t, p.make(t, "other", "x").Close())
	want := vfs.WatchEvent{Name: p.path("bell")}
	for range 3 {
		_, err := f.WriteAt([]byte("y"), 0)
		ok(t, err)
		if got := next(t, w); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	is(t, "watch what is not there", w.File(p.path("x")), fs.ErrNotExist)
	ok(t, f.Close())
}

func watchGone(t *testing.T, p *place) {
	w := p.watch(t)
	ok(t, p.make(t, "bell", "x").Close())
	ok(t, w.File(p.path("bell")))
	ok(t, p.Remove(p.path("bell")))
	if got := next(t, w); got != (vfs.WatchEvent{}) {
		t.Errorf("got %+v, want a zero event", got)
	}
}

func watchClose(t *testing.T, p *place) {
	w := p.watch(t)
	ok(t, w.Dir(p.dir))
	done := make(chan error)
	go func() {
		_, err := w.Next()
		done <- err
	}()
	ok(t, w.Close())
	is(t, "next", soon(t, "Next of a closed watcher", done), fs.ErrClosed)
	_, err := w.Next()
	is(t, "next after close", err, fs.ErrClosed)
	is(t, "watch after close", w.Dir(p.dir), fs.ErrClosed)
	is(t, "close", w.Close(), fs.ErrClosed)
}

func killed(t *testing.T, p *place) {
	w := p.watch(t)
	ok(t, p.make(t, "alive", "").Close())
	ok(t, w.Dir(p.dir))
	kill := p.holder(t, p.path("alive"))
	f := p.open(t, "alive", os.O_RDWR)
	if tryLock(t, f) {
		t.Fatal("the other process does not hold the lock")
	}
	kill()
	if got := next(t, w); got != (vfs.WatchEvent{Dir: p.dir, Name: "alive", Closed: true}) {
		t.Errorf("got %+v, want the close of alive", got)
	}
	done := make(chan error)
	go func() { done <- f.Lock() }()
	ok(t, soon(t, "the lock of a killed process", done))
	ok(t, f.Close())
}

func boots(t *testing.T, p *place) {
	if p.BootID() == ([16]byte{}) {
		t.Error("the boot id is zero")
	}
	if first, again := p.BootID(), p.BootID(); first != again {
		t.Error("the boot id changes")
	}
	if a, b := p.Monotonic(), p.Monotonic(); a < 0 || b < a {
		t.Errorf("the monotonic clock says %v, then %v", a, b)
	}
	if p.PID() <= 0 {
		t.Errorf("process id %d", p.PID())
	}
	var a, b [16]byte
	p.Rand(a[:])
	p.Rand(b[:])
	if a == b || a == ([16]byte{}) {
		t.Errorf("random bytes %x, then %x", a, b)
	}
}

// hold opens and locks name.
func hold(t *testing.T, sys vfs.System, name string) vfs.File {
	t.Helper()
	f, err := sys.Open(filepath.Clean(name), os.O_RDWR)
	ok(t, err)
	ok(t, f.Lock())
	return f
}
