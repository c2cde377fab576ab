package crashfs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// twin does the same operations on the real system and on a machine.
type twin struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	dir   string
	real  vfs.System
	m     *crashfs.Machine
	p     *crashfs.Process
	files []pair
}

// pair is the same file open on both sides.
type pair struct{ real, mem vfs.File }

var twinNames = []string{"a", "b", "c"}

func TestRandomOperationsDoAsTheRealSystemDoes(t *testing.T) {
	for seed := range uint64(40) {
		m := crashfs.New(crashfs.Config{Versions: int(seed % 3)})
		w := &twin{
			t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)),
			dir: t.TempDir(), real: vfs.OS(), m: m, p: m.Process(),
		}
		for range 150 {
			w.step()
		}
		w.compare(m)
		w.compare(m.Crash(crashfs.KeepAll))
		for _, f := range w.files { // also of files without a name
			ok(t, f.mem.Sync())
		}
		for _, name := range twinNames {
			if f, err := w.p.Open("/"+name, os.O_RDWR); err == nil {
				ok(t, f.Sync())
			}
		}
		ok(t, w.p.SyncDir("/"))
		w.compare(m.Crash(crashfs.KeepNone))
		for _, f := range w.files {
			ok(t, f.real.Close())
			ok(t, f.mem.Close())
		}
		if t.Failed() {
			return
		}
	}
}

// step does one operation by chance.
func (w *twin) step() {
	name, other := twinNames[w.r.IntN(3)], twinNames[w.r.IntN(3)]
	switch kind := w.r.IntN(12); {
	case kind == 0 || len(w.files) == 0:
		w.open(name, []int{os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC}[w.r.IntN(3)])
	case kind == 1:
		w.same("rename "+name+" "+other, w.real.Rename(w.path(name), w.path(other)), w.p.Rename("/"+name, "/"+other))
	case kind == 2:
		w.same("remove "+name, w.real.Remove(w.path(name)), w.p.Remove("/"+name))
	case kind == 3:
		w.same("syncdir", w.real.SyncDir(w.dir), w.p.SyncDir("/"))
	case kind == 4:
		w.m.Crash(crashfs.KeepRandom(w.r.Uint64())) // shows if it is not left alone
	default:
		w.onFile(kind, w.files[w.r.IntN(len(w.files))], name)
	}
}

func (w *twin) onFile(kind int, f pair, name string) {
	off, size := w.r.Int64N(20_000), 1+w.r.IntN(9000)
	switch kind {
	case 5:
		w.same("truncate", f.real.Truncate(off), f.mem.Truncate(off))
	case 6:
		w.same("sync", f.real.Sync(), f.mem.Sync())
	case 7:
		w.same("drop", f.real.DropCache(), f.mem.DropCache())
	case 8:
		a, err1 := f.real.SameAs(w.path(name))
		b, err2 := f.mem.SameAs("/" + name)
		w.same(fmt.Sprint("same as ", a), err1, err2)
		w.same(fmt.Sprint("same as ", b), err1, err2)
		if a != b {
			w.t.Errorf("seed %d: SameAs is %v and %v", w.seed, a, b)
		}
	case 9:
		a, b := make([]byte, size), make([]byte, size)
		n1, err1 := f.real.ReadAt(a, off)
		n2, err2 := f.mem.ReadAt(b, off)
		w.same("read", err1, err2)
		if n1 != n2 || !bytes.Equal(a, b) {
			w.t.Errorf("seed %d: a read of %d at %d differs (%d and %d bytes)", w.seed, size, off, n1, n2)
		}
	default:
		b := bytes.Repeat([]byte{byte(w.r.IntN(4))}, size) // zeros too
		_, err1 := f.real.WriteAt(b, off)
		_, err2 := f.mem.WriteAt(b, off)
		w.same("write", err1, err2)
	}
}

func (w *twin) path(name string) string { return filepath.Join(w.dir, name) }

func (w *twin) open(name string, flag int) {
	a, err1 := w.real.Open(w.path(name), flag)
	b, err2 := w.p.Open("/"+name, flag)
	w.same("open "+name, err1, err2)
	if err1 == nil && err2 == nil {
		w.files = append(w.files, pair{a, b})
	}
}

// same demands that both fail or neither does.
func (w *twin) same(what string, real, mem error) {
	w.t.Helper()
	if (real == nil) != (mem == nil) {
		w.t.Errorf("seed %d: %s: %v and %v", w.seed, what, real, mem)
	}
}

// compare demands that the names and contents are those of the real system.
func (w *twin) compare(m *crashfs.Machine) {
	w.t.Helper()
	names, err := w.real.ReadDir(w.dir)
	ok(w.t, err)
	got, err := m.Process().ReadDir("/")
	ok(w.t, err)
	if fmt.Sprint(names) != fmt.Sprint(got) {
		w.t.Errorf("seed %d: names %q and %q", w.seed, names, got)
		return
	}
	for _, name := range names {
		want, err := os.ReadFile(w.path(name))
		ok(w.t, err)
		if content(w.t, m, "/"+name) != string(want) {
			w.t.Errorf("seed %d: the content of %s differs", w.seed, name)
		}
	}
}
