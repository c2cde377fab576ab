//go:build linux || darwin

package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// place is a system and an empty directory on it.
type place struct {
	vfs.System
	dir     string
	symlink func(target, name string) error
	// holder starts another process that holds name open for writing and
	// locked, and returns what kills it.
	holder func(t *testing.T, name string) (kill func())
}

func (p *place) path(base string) string { return filepath.Join(p.dir, base) }

func (p *place) open(t *testing.T, base string, flag int) vfs.File {
	t.Helper()
	f, err := p.Open(p.path(base), flag)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// make makes a file and leaves it open.
func (p *place) make(t *testing.T, base, content string) vfs.File {
	t.Helper()
	f := p.open(t, base, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if n, err := f.WriteAt([]byte(content), 0); err != nil || n != len(content) {
		t.Fatalf("wrote %d bytes, error %v", n, err)
	}
	return f
}

func read(t *testing.T, f vfs.File) string {
	t.Helper()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil || n != len(b) {
		t.Fatalf("read %d of %d bytes, error %v", n, len(b), err)
	}
	return string(b)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// soon returns what arrives on c, or fails after a time that no machine needs.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: still waiting", what)
		panic("unreachable")
	}
}

// TestSystemsAgree holds the real system and the one in memory to the same
// behaviour.
func TestSystemsAgree(t *testing.T) {
	systems := map[string]func(t *testing.T) *place{
		"OS": func(t *testing.T) *place {
			return &place{System: vfs.OS(), dir: t.TempDir(), symlink: os.Symlink, holder: startHolder}
		},
		"crashfs": func(t *testing.T) *place {
			m := crashfs.New(crashfs.Config{})
			p := m.Process()
			ok(t, p.Mkdir("/store"))
			return &place{System: p, dir: "/store", symlink: m.Symlink, holder: func(t *testing.T, name string) func() {
				other := m.Process()
				hold(t, other, name)
				return other.Kill
			}}
		},
	}
	for name, system := range systems {
		for _, c := range agreements {
			t.Run(name+"/"+c.name, func(t *testing.T) { c.test(t, system(t)) })
		}
	}
}

var agreements = []struct {
	name string
	test func(*testing.T, *place)
}{
	{"what is not there is ErrNotExist", missing},
	{"what is there already is ErrExist", existing},
	{"a link is refused and is no regular file", links},
	{"a directory is no file and a file no directory", directories},
	{"a read past the end is io.EOF", ends},
	{"a write past the end leaves zeros", holes},
	{"a truncation cuts and adds zeros", truncations},
	{"an open with O_TRUNC empties the file", emptying},
	{"a file opened for reading cannot be written", readOnly},
	{"names are listed in order", lists},
	{"a rename replaces a file that others go on reading", renames},
	{"a removed file goes on for who has it open", removals},
	{"what was synced and dropped from the cache is read again", syncs},
	{"a lock keeps out another file of the same name", locks},
	{"a waiting lock is taken when the holder closes", waits},
	{"a close reaches a lock that waits", closedWaits},
	{"a closed file refuses everything", closes},
	{"memory is shared by all who map the file", maps},
	{"a map must fit the file", badMaps},
	{"a directory watch sees writers close", watchDir},
	{"a file watch sees writes", watchFile},
	{"a watch of what vanishes says to look at everything", watchGone},
	{"a closed watcher ends the wait", watchClose},
	{"an alarm clock rings at the moment that was set last, and not before", alarmRings},
	{"an alarm clock rings at once for what has passed", alarmPast},
	{"a closed alarm clock ends the wait", alarmClose},
	{"a word in memory wakes who waits for it by another map", wordWakes},
	{"a word that differs is not waited for", wordDiffers},
	{"a wait for a word has an end", wordTimesOut},
	{"a killed process frees its lock and its files close", killed},
	{"the boot has one name", boots},
}

func missing(t *testing.T, p *place) {
	_, err := p.Open(p.path("x"), os.O_RDWR)
	is(t, "open", err, fs.ErrNotExist)
	_, err = p.Open(p.path("x/y"), os.O_RDWR|os.O_CREATE)
	is(t, "open below", err, fs.ErrNotExist)
	_, err = p.Stat(p.path("x"))
	is(t, "stat", err, fs.ErrNotExist)
	_, err = p.ReadDir(p.path("x"))
	is(t, "readdir", err, fs.ErrNotExist)
	is(t, "remove", p.Remove(p.path("x")), fs.ErrNotExist)
	is(t, "rename", p.Rename(p.path("x"), p.path("y")), fs.ErrNotExist)
	is(t, "mkdir", p.Mkdir(p.path("x/y")), fs.ErrNotExist)
	is(t, "syncdir", p.SyncDir(p.path("x")), fs.ErrNotExist)
	is(t, "checkdir", p.CheckDir(p.path("x"), true), fs.ErrNotExist)
	f := p.make(t, "f", "")
	if same, err := f.SameAs(p.path("x")); same || err != nil {
		t.Errorf("SameAs a missing name: %v, %v", same, err)
	}
	ok(t, f.Close())
}

func existing(t *testing.T, p *place) {
	ok(t, p.make(t, "f", "old").Close())
	_, err := p.Open(p.path("f"), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	is(t, "open with O_EXCL", err, fs.ErrExist)
	ok(t, p.Mkdir(p.path("d")))
	is(t, "mkdir", p.Mkdir(p.path("d")), fs.ErrExist)
	is(t, "mkdir of a file's name", p.Mkdir(p.path("f")), fs.ErrExist)
	is(t, "rename over a directory", p.Rename(p.path("f"), p.path("d")), fs.ErrExist)
	f := p.open(t, "f", os.O_RDWR|os.O_CREATE)
	if got := read(t, f); got != "old" {
		t.Errorf("O_CREATE changed the file to %q", got)
	}
	ok(t, f.Close())
}

func links(t *testing.T, p *place) {
	ok(t, p.make(t, "f", "x").Close())
	ok(t, p.symlink(p.path("f"), p.path("l")))
	ok(t, p.symlink(p.dir, p.path("ld")))
	_, err := p.Open(p.path("l"), os.O_RDWR)
	is(t, "open", err, syscall.ELOOP)
	_, err = p.Open(p.path("l"), os.O_RDWR|os.O_CREATE)
	is(t, "open with O_CREATE", err, syscall.ELOOP)
	info, err := p.Stat(p.path("l"))
	ok(t, err)
	if info.Regular || info.Dir {
		t.Errorf("stat says %+v", info)
	}
	if err := p.CheckDir(p.path("ld"), true); err == nil {
		t.Error("CheckDir passes a link")
	}
	if err := p.CheckDir(p.path("ld")+"/", true); err == nil {
		t.Error("CheckDir passes a link with a slash behind it")
	}
	ok(t, p.Remove(p.path("l")))
	if _, err := p.Stat(p.path("f")); err != nil {
		t.Errorf("the file went with its link: %v", err)
	}
}

func directories(t *testing.T, p *place) {
	ok(t, p.Mkdir(p.path("d")))
	f := p.make(t, "f", "")
	_, err := p.Open(p.path("d"), os.O_RDONLY)
	is(t, "open", err, syscall.EISDIR)
	if err := p.Remove(p.path("d")); err == nil {
		t.Error("a directory was removed")
	}
	_, err = p.ReadDir(p.path("f"))
	is(t, "readdir of a file", err, syscall.ENOTDIR)
	is(t, "syncdir of a file", p.SyncDir(p.path("f")), syscall.ENOTDIR)
	is(t, "checkdir of a file", p.CheckDir(p.path("f"), true), syscall.ENOTDIR)
	_, err = p.Open(p.path("f/x"), os.O_RDWR|os.O_CREATE)
	is(t, "open below a file", err, syscall.ENOTDIR)
	info, err := p.Stat(p.path("d"))
	ok(t, err)
	if !info.Dir || info.Regular {
		t.Errorf("stat says %+v", info)
	}
	ok(t, f.Close())
}

func ends(t *testing.T, p *place) {
	f := p.make(t, "f", "abc")
	b := make([]byte, 4)
	for _, c := range []struct {
		off  int64
		len  int
		want int
		err  error
	}{{0, 3, 3, nil}, {0, 4, 3, io.EOF}, {3, 1, 0, io.EOF}, {1000, 4, 0, io.EOF}, {3, 0, 0, nil}} {
		n, err := f.ReadAt(b[:c.len], c.off)
		if n != c.want || err != c.err {
			t.Errorf("ReadAt of %d at %d: %d, %v; want %d, %v", c.len, c.off, n, err, c.want, c.err)
		}
	}
	_, err := f.ReadAt(b, -1)
	is(t, "read before the start", err, syscall.EINVAL)
	_, err = f.WriteAt(b, -1)
	is(t, "write before the start", err, syscall.EINVAL)
	ok(t, f.Close())
}

func holes(t *testing.T, p *place) {
	f := p.make(t, "f", "a")
	_, err := f.WriteAt([]byte("b"), 9000)
	ok(t, err)
	if got, want := read(t, f), "a"+string(make([]byte, 8999))+"b"; got != want {
		t.Errorf("the file has %d bytes, or not zeros between", len(got))
	}
	info, err := p.Stat(p.path("f"))
	ok(t, err)
	if info.Size != 9001 || !info.Regular || info.Dir {
		t.Errorf("stat says %+v", info)
	}
	ok(t, f.Close())
}

func truncations(t *testing.T, p *place) {
	f := p.make(t, "f", string(bytes.Repeat([]byte("x"), 10000)))
	ok(t, f.Truncate(600))
	ok(t, f.Truncate(5000))
	want := append(bytes.Repeat([]byte("x"), 600), make([]byte, 4400)...)
	if got := read(t, f); got != string(want) {
		t.Errorf("after two truncations the file has %d bytes with %d x", len(got), bytes.Count([]byte(got), []byte("x")))
	}
	is(t, "negative size", f.Truncate(-1), syscall.EINVAL)
	ok(t, f.Close())
}

func emptying(t *testing.T, p *place) {
	ok(t, p.make(t, "f", "abc").Close())
	f := p.open(t, "f", os.O_RDWR|os.O_TRUNC)
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("size %d, error %v", size, err)
	}
	ok(t, f.Close())
}

func readOnly(t *testing.T, p *place) {
	ok(t, p.make(t, "f", "abc").Close())
	f := p.open(t, "f", os.O_RDONLY)
	_, err := f.WriteAt([]byte("x"), 0)
	is(t, "write", err, syscall.EBADF)
	is(t, "truncate", f.Truncate(0), syscall.EINVAL)
	if got := read(t, f); got != "abc" {
		t.Errorf("the file holds %q", got)
	}
	ok(t, f.Close())
}

func lists(t *testing.T, p *place) {
	for _, base := range []string{"b", "c", "a"} {
		ok(t, p.make(t, base, "").Close())
	}
	ok(t, p.Mkdir(p.path("B")))
	ok(t, p.Rename(p.path("c"), p.path("0")))
	got, err := p.ReadDir(p.dir)
	ok(t, err)
	if want := []string{"0", "B", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func renames(t *testing.T, p *place) {
	old, fresh := p.make(t, "f", "old"), p.make(t, "f.new", "new")
	ok(t, p.Rename(p.path("f.new"), p.path("f")))
	ok(t, p.SyncDir(p.dir))
	f := p.open(t, "f", os.O_RDWR)
	if got := read(t, f); got != "new" {
		t.Errorf("the name gives %q", got)
	}
	if got := read(t, old); got != "old" {
		t.Errorf("the replaced file gives %q", got)
	}
	for _, c := range []struct {
		what string
		f    vfs.File
		want bool
	}{{"the renamed file", fresh, true}, {"the file opened after", f, true}, {"the replaced file", old, false}} {
		if same, err := c.f.SameAs(p.path("f")); err != nil || same != c.want {
			t.Errorf("%s is the same: %v, %v", c.what, same, err)
		}
	}
	_, err := p.Stat(p.path("f.new"))
	is(t, "stat of the old name", err, fs.ErrNotExist)
	for _, f := range []vfs.File{old, fresh, f} {
		ok(t, f.Close())
	}
}

func removals(t *testing.T, p *place) {
	f := p.make(t, "f", "old")
	ok(t, p.Remove(p.path("f")))
	again := p.make(t, "f", "new")
	_, err := f.WriteAt([]byte("er one"), 3)
	ok(t, err)
	ok(t, f.Sync())
	if got := read(t, f); got != "older one" {
		t.Errorf("the removed file holds %q", got)
	}
	if got := read(t, again); got != "new" {
		t.Errorf("the new file holds %q", got)
	}
	ok(t, f.Close())
	ok(t, again.Close())
}

func syncs(t *testing.T, p *place) {
	f := p.make(t, "f", "abc")
	ok(t, f.Sync())
	ok(t, f.DropCache())
	if got := read(t, f); got != "abc" {
		t.Errorf("the file holds %q", got)
	}
	ok(t, f.Close())
}

func tryLock(t *testing.T, f vfs.File) bool {
	t.Helper()
	got, err := f.TryLock()
	ok(t, err)
	return got
}

func locks(t *testing.T, p *place) {
	a := p.make(t, "f", "")
	b := p.open(t, "f", os.O_RDWR)
	ok(t, a.Lock())
	ok(t, a.Lock())
	if !tryLock(t, a) {
		t.Error("a holder cannot take the lock again")
	}
	if tryLock(t, b) {
		t.Error("two files hold the lock")
	}
	ok(t, b.Unlock()) // of a lock it does not hold
	if tryLock(t, b) {
		t.Error("one file frees the lock of another")
	}
	ok(t, a.Unlock())
	if !tryLock(t, b) {
		t.Error("a freed lock cannot be taken")
	}
	ok(t, b.Close())
	if !tryLock(t, a) {
		t.Error("a close does not free the lock")
	}
	ok(t, a.Close())
}

func waits(t *testing.T, p *place) {
	a := p.make(t, "f", "")
	b := p.open(t, "f", os.O_RDWR)
	ok(t, a.Lock())
	var free atomic.Bool
	done := make(chan error)
	go func() {
		err := b.Lock()
		if !free.Load() {
			err = errors.New("Lock did not wait")
		}
		done <- err
	}()
	for range 100 { // let it begin to wait
		if tryLock(t, b) {
			t.Fatal("two files hold the lock")
		}
	}
	free.Store(true)
	ok(t, a.Close())
	ok(t, soon(t, "Lock", done))
	ok(t, b.Close())
}

func closedWaits(t *testing.T, p *place) {
	a := p.make(t, "f", "")
	b := p.open(t, "f", os.O_RDWR)
	ok(t, a.Lock())
	done := make(chan error)
	go func() { done <- b.Lock() }()
	ok(t, b.Close())
	ok(t, a.Unlock())
	is(t, "lock", soon(t, "Lock of a closed file", done), fs.ErrClosed)
	ok(t, a.Lock())
	ok(t, a.Close())
}

func closes(t *testing.T, p *place) {
	f := p.make(t, "f", "abc")
	ok(t, f.Close())
	b := make([]byte, 1)
	_, err := f.ReadAt(b, 0)
	is(t, "read", err, fs.ErrClosed)
	_, err = f.WriteAt(b, 0)
	is(t, "write", err, fs.ErrClosed)
	_, err = f.Size()
	is(t, "size", err, fs.ErrClosed)
	_, err = f.TryLock()
	is(t, "trylock", err, fs.ErrClosed)
	_, err = f.Map(4096)
	is(t, "map", err, fs.ErrClosed)
	_, err = f.SameAs(p.path("f"))
	is(t, "sameas", err, fs.ErrClosed)
	is(t, "truncate", f.Truncate(1), fs.ErrClosed)
	is(t, "sync", f.Sync(), fs.ErrClosed)
	is(t, "dropcache", f.DropCache(), fs.ErrClosed)
	is(t, "lock", f.Lock(), fs.ErrClosed)
	is(t, "unlock", f.Unlock(), fs.ErrClosed)
	is(t, "close", f.Close(), fs.ErrClosed)
}

func maps(t *testing.T, p *place) {
	a := p.make(t, "f", "")
	b := p.open(t, "f", os.O_RDWR)
	ok(t, a.Truncate(8192))
	_, err := a.WriteAt([]byte("first"), 0)
	ok(t, err)
	ma, err := a.Map(4096)
	ok(t, err)
	mb, err := b.Map(4096)
	ok(t, err)
	if len(ma) != 4096 || string(ma[:5]) != "first" {
		t.Errorf("the map has %d bytes and begins with %q", len(ma), ma[:5])
	}
	word := func(m []byte) *uint64 { return (*uint64)(unsafe.Pointer(&m[8])) }
	if uintptr(unsafe.Pointer(word(ma)))%8 != 0 {
		t.Error("the map is not aligned")
	}
	atomic.AddUint64(word(ma), 1)
	atomic.AddUint64(word(mb), 2)
	if got := atomic.LoadUint64(word(ma)); got != 3 {
		t.Errorf("two atomic additions give %d", got)
	}
	_, err = b.WriteAt([]byte("w"), 4000)
	ok(t, err)
	if ma[4000] != 'w' {
		t.Error("a write does not show in the map")
	}
	copy(ma, "FIRST")
	buf := make([]byte, 5)
	_, err = b.ReadAt(buf, 0)
	ok(t, err)
	if string(buf) != "FIRST" {
		t.Errorf("a read after a store to the map gives %q", buf)
	}
	ok(t, a.Close())
	if got := atomic.LoadUint64(word(mb)); got != 3 {
		t.Errorf("after the other file's close the map holds %d", got)
	}
	ok(t, b.Close())
}

func badMaps(t *testing.T, p *place) {
	f := p.make(t, "f", string(make([]byte, 5000)))
	for _, n := range []int{-4096, 0, 100, 8192} {
		_, err := f.Map(n)
		is(t, "map", err, syscall.EINVAL)
	}
	ok(t, f.Close())
}
