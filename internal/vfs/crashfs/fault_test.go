package crashfs_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// failOnce has the next operation of a kind fail with err.
func failOnce(m *crashfs.Machine, kind crashfs.OpKind, err error) {
	done := false
	m.Inject(func(op crashfs.Op) error {
		if done || op.Kind != kind {
			return nil
		}
		done = true
		return err
	})
}

// replace is the usual way to replace a file, in six operations.
func replace(p *crashfs.Process, name, content string) error {
	f, err := p.Open(name+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := p.Rename(name+".new", name); err != nil {
		return err
	}
	return p.SyncDir("/")
}

// This is how a store is tested: a power cut before every operation, every
// state that it can leave, and a machine without syncs that must fail.
func TestEveryPowerCutLeavesTheOldFileOrTheNewOne(t *testing.T) {
	bad := map[bool]int{}
	for _, ignore := range []bool{false, true} {
		for n := 0; ; n++ {
			m := crashfs.New(crashfs.Config{IgnoreSync: ignore})
			ok(t, m.WriteFile("/f", []byte("old")))
			m.Inject(func(op crashfs.Op) error {
				if op.Seq == n {
					return crashfs.ErrCrash
				}
				return nil
			})
			err := replace(m.Process(), "/f", "new")
			for how, next := range m.Crashes(1000, 1) {
				got := content(t, next, "/f")
				if err == nil && got != "new" || got != "old" && got != "new" {
					bad[ignore]++
					if !ignore {
						t.Errorf("before op %d, %s: the file holds %q", n, how, got)
					}
				}
			}
			if err == nil {
				if n != 6 {
					t.Errorf("there were %d operations", n)
				}
				break
			}
			is(t, "replace", err, crashfs.ErrCrash)
		}
	}
	if bad[true] == 0 {
		t.Error("without syncs nothing went wrong: the test proves nothing")
	}
}

func TestInjectSeesEveryOperation(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	var got []string
	m.Inject(func(op crashfs.Op) error {
		if op.Seq != len(got) {
			t.Errorf("%v has number %d", op, op.Seq)
		}
		got = append(got, op.String())
		return nil
	})
	p := m.Process()
	ok(t, replace(p, "/f", "new"))
	want := `op 0 of process 1001: open /f.new
op 1 of process 1001: write /f.new at 0, 3 bytes
op 2 of process 1001: sync /f.new
op 3 of process 1001: close /f.new
op 4 of process 1001: rename /f.new to /f
op 5 of process 1001: syncdir /`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	if m.Ops() != 6 {
		t.Errorf("Ops is %d", m.Ops())
	}
	m.Inject(nil)
	_, err := p.Stat("/f")
	ok(t, err)
	if len(got) != 6 || m.Ops() != 7 {
		t.Errorf("after Inject(nil): %d seen of %d", len(got), m.Ops())
	}
}

func TestAnInjectedErrorIsReturnedAndNothingDone(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", "abc")
	ok(t, p.Mkdir("/d"))
	w, err := p.Watch()
	ok(t, err)
	b := make([]byte, 3)
	ops := map[crashfs.OpKind]func() error{
		crashfs.OpOpen:      func() error { _, err := p.Open("/g", os.O_RDWR|os.O_CREATE); return err },
		crashfs.OpRename:    func() error { return p.Rename("/f", "/g") },
		crashfs.OpRemove:    func() error { return p.Remove("/f") },
		crashfs.OpMkdir:     func() error { return p.Mkdir("/g") },
		crashfs.OpReadDir:   func() error { _, err := p.ReadDir("/"); return err },
		crashfs.OpStat:      func() error { _, err := p.Stat("/f"); return err },
		crashfs.OpSyncDir:   func() error { return p.SyncDir("/") },
		crashfs.OpCheckDir:  func() error { return p.CheckDir("/", false) },
		crashfs.OpWatch:     func() error { _, err := p.Watch(); return err },
		crashfs.OpReadAt:    func() error { _, err := f.ReadAt(b, 0); return err },
		crashfs.OpWriteAt:   func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		crashfs.OpTruncate:  func() error { return f.Truncate(4096) },
		crashfs.OpSize:      func() error { _, err := f.Size(); return err },
		crashfs.OpSync:      func() error { return f.Sync() },
		crashfs.OpDropCache: func() error { return f.DropCache() },
		crashfs.OpLock:      func() error { return f.Lock() },
		crashfs.OpTryLock:   func() error { _, err := f.TryLock(); return err },
		crashfs.OpUnlock:    func() error { return f.Unlock() },
		crashfs.OpMap:       func() error { _, err := f.Map(4096); return err },
		crashfs.OpSameAs:    func() error { _, err := f.SameAs("/f"); return err },
		crashfs.OpClose:     func() error { return f.Close() },
		crashfs.OpWatchDir:  func() error { return w.Dir("/") },
		crashfs.OpWatchFile: func() error { return w.File("/f") },
	}
	if len(ops) != int(crashfs.OpWatchFile)+1 {
		t.Errorf("%d of %d kinds are tested", len(ops), crashfs.OpWatchFile+1)
	}
	for kind := range crashfs.OpClose + 1 { // in order: Close is the last for f
		failOnce(m, kind, syscall.EMFILE)
		is(t, kind.String(), ops[kind](), syscall.EMFILE)
	}
	for _, kind := range []crashfs.OpKind{crashfs.OpWatchDir, crashfs.OpWatchFile} {
		failOnce(m, kind, syscall.ENOSPC)
		is(t, kind.String(), ops[kind](), syscall.ENOSPC)
	}
	m.Inject(nil)
	if got, want := tree(t, m, "/"), "d/() f=abc"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	is(t, "read after a failed close", ops[crashfs.OpReadAt](), fs.ErrClosed)
	if free, err := open(t, p, "/f", os.O_RDWR).TryLock(); !free || err != nil {
		t.Errorf("a failed lock was taken: %v, %v", free, err)
	}
}

func TestAShortWriteDoesItsBeginning(t *testing.T) {
	for _, c := range []struct {
		name    string
		short   crashfs.ShortWrite
		n       int
		err     error
		content string
	}{
		{"a part", crashfs.ShortWrite{N: 2, Err: syscall.ENOSPC}, 2, syscall.ENOSPC, "xyc"},
		{"nothing", crashfs.ShortWrite{}, 0, syscall.EIO, "abc"},
		{"more than there is", crashfs.ShortWrite{N: 9}, 3, syscall.EIO, "xyz"},
		{"a part, then a kill", crashfs.ShortWrite{N: 1, Err: crashfs.ErrKilled}, 1, crashfs.ErrKilled, "xbc"},
		{"a part, then a power cut", crashfs.ShortWrite{N: 1, Err: crashfs.ErrCrash}, 1, crashfs.ErrCrash, "xbc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{})
			f := create(t, m.Process(), "/f", "abc")
			failOnce(m, crashfs.OpWriteAt, c.short)
			n, err := f.WriteAt([]byte("xyz"), 0)
			if n != c.n {
				t.Errorf("wrote %d, want %d", n, c.n)
			}
			is(t, "write", err, c.err)
			if got := content(t, m, "/f"); got != c.content {
				t.Errorf("the file holds %q, want %q", got, c.content)
			}
			_, err = f.Size()
			if dead := c.err == crashfs.ErrKilled || c.err == crashfs.ErrCrash; dead {
				is(t, "after the end", err, c.err)
			} else {
				ok(t, err)
			}
		})
	}
	m := crashfs.New(crashfs.Config{})
	m.Inject(func(crashfs.Op) error { return crashfs.ShortWrite{N: 1, Err: syscall.EACCES} })
	is(t, "an open", m.Process().Mkdir("/d"), syscall.EACCES)
}

// The pages of a failed sync are clean, readable and not on the disk, and the
// next sync says nothing.
func TestAFailedSyncLosesWhatItShouldWrite(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", sectors("aaaaaaaaa"))
	before, told := open(t, m.Process(), "/f", os.O_RDWR), open(t, p, "/f", os.O_RDWR)
	write(t, f, "lost", 0)
	failOnce(m, crashfs.OpSync, syscall.EIO)
	is(t, "sync", f.Sync(), syscall.EIO)
	ok(t, f.Sync())
	after := open(t, p, "/f", os.O_RDWR)
	ok(t, after.Sync())
	is(t, "sync of a file opened before", before.Sync(), syscall.EIO)
	ok(t, before.Sync())
	is(t, "sync of another file opened before", told.Sync(), syscall.EIO)

	if got := content(t, m, "/f")[:4]; got != "lost" {
		t.Errorf("after the failure the file begins with %q", got)
	}
	write(t, f, "kept", 4600) // in another sector, after the failure
	ok(t, f.Sync())
	if got := content(t, m.Crash(crashfs.KeepNone), "/f"); got[:4] != "aaaa" || got[4600:4604] != "kept" {
		t.Errorf("after a power cut the file holds %q and %q", got[:4], got[4600:4604])
	}
	write(t, f, "pending", 1000)
	ok(t, f.DropCache())
	if got := content(t, m, "/f"); got[:4] != "aaaa" || got[4600:4604] != "kept" || got[1000:1007] != "pending" {
		t.Errorf("without the cache the file holds %q, %q and %q", got[:4], got[1000:1007], got[4600:4604])
	}
	ok(t, f.Sync())
	if units := m.Units(); len(units) != 0 {
		t.Errorf("pending in the end: %v", units)
	}
}

func TestAWriteAfterAFailedSyncIsWrittenAgain(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", sectors("aa"))
	write(t, f, sectors("bb"), 0)
	failOnce(m, crashfs.OpSync, syscall.EIO)
	is(t, "sync", f.Sync(), syscall.EIO)
	write(t, f, sectors("c"), 0)
	ok(t, f.Sync())
	if got := outcomes(t, m); strings.Join(got, " ") != "f=c512a512 f=c512b512" {
		t.Errorf("got %q", got)
	}
}

func TestAFailedSyncLosesASize(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", "a")
	ok(t, f.Truncate(3))
	failOnce(m, crashfs.OpSync, syscall.EIO)
	is(t, "sync", f.Sync(), syscall.EIO)
	ok(t, f.Sync())
	if got := outcomes(t, m); strings.Join(got, " ") != "f=a f=a02" {
		t.Errorf("after another sync: %q", got)
	}
	ok(t, f.Truncate(4))
	ok(t, f.Sync())
	if got := outcomes(t, m); strings.Join(got, " ") != "f=a03" {
		t.Errorf("after another size: %q", got)
	}
}

func TestAFailedSyncDirLosesItsChanges(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	ok(t, open(t, p, "/f", os.O_RDWR|os.O_CREATE).Close())
	failOnce(m, crashfs.OpSyncDir, syscall.EIO)
	is(t, "syncdir", p.SyncDir("/"), syscall.EIO)
	ok(t, open(t, p, "/g", os.O_RDWR|os.O_CREATE).Close())
	ok(t, p.SyncDir("/"))
	if got := outcomes(t, m); strings.Join(got, ", ") != "f=empty g=empty, g=empty" {
		t.Errorf("got %q", got)
	}
}

func TestAFullDiskRefusesNewBlocksOnly(t *testing.T) {
	m := crashfs.New(crashfs.Config{DiskBytes: 5 * 4096})
	p := m.Process()
	f := create(t, p, "/f", string(make([]byte, 2*4096))) // zeros take blocks
	g := create(t, p, "/g", "x")
	ok(t, g.Truncate(1<<20)) // a hole takes none
	if m.Used() != 3*4096 {
		t.Errorf("%d bytes are used", m.Used())
	}
	n, err := f.WriteAt([]byte(strings.Repeat("y", 4*4096)), 4096)
	if n != 3*4096 {
		t.Errorf("wrote %d bytes before the disk was full", n)
	}
	is(t, "write", err, syscall.ENOSPC)
	write(t, f, strings.Repeat("z", 4*4096), 0) // in place
	_, err = g.WriteAt([]byte("x"), 9000)
	is(t, "write into a hole", err, syscall.ENOSPC)
	ok(t, f.Truncate(4096))
	write(t, g, "x", 9000)
	ok(t, p.Rename("/f", "/h"))
	ok(t, p.Remove("/h"))
	if m.Used() != 3*4096 {
		t.Errorf("a removed file that is open gave back its blocks: %d bytes are used", m.Used())
	}
	ok(t, f.Close())
	if m.Used() != 2*4096 {
		t.Errorf("after its close %d bytes are used", m.Used())
	}
	if next := m.Crash(crashfs.KeepAll); next.Used() != 2*4096 {
		t.Errorf("after a power cut %d bytes are used", next.Used())
	}
	m.SetDiskBytes(m.Used())
	_, err = g.WriteAt([]byte("x"), 20000)
	is(t, "write to the smaller disk", err, syscall.ENOSPC)
	m.SetDiskBytes(0)
	write(t, g, "x", 20000)
}

func TestATruncationUnderAMapIsLoud(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", sectors("aaaaaaaaaa"))
	_, err := f.Map(4096)
	ok(t, err)
	ok(t, f.Truncate(4096))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		err := f.Truncate(4095)
		t.Errorf("truncated, error %v", err)
	}()
}

func TestAMapTakesBlocksAndCannotGrow(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", "x")
	ok(t, f.Truncate(3*4096))
	m.SetDiskBytes(m.Used())
	_, err := f.Map(8192)
	is(t, "map of a hole on a full disk", err, syscall.ENOSPC)
	m.SetDiskBytes(0)
	b, err := f.Map(8192)
	ok(t, err)
	if m.Used() != 2*4096 || b[0] != 'x' || b[4096] != 0 {
		t.Errorf("%d bytes are used for a map that holds %q and %q", m.Used(), b[0], b[4096])
	}
	_, err = f.Map(3 * 4096)
	is(t, "a larger map", err, syscall.ENOMEM)
	_, err = f.Map(4096)
	ok(t, err)
	ok(t, m.WriteFile("/f", []byte(sectors(strings.Repeat("c", 24)))))
	if b[5000] != 'c' {
		t.Errorf("a change from outside does not show in the map: %q", b[5000])
	}
	if units := m.Units(); len(units) > 0 {
		t.Errorf("a change from outside is pending: %v", units)
	}
	ok(t, f.Close())
	ok(t, m.WriteFile("/f", nil))
}

func TestAllProcessesCanWorkAtOnce(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	ok(t, m.WriteFile("/lock", nil))
	ok(t, m.WriteFile("/n", []byte{0}))
	var all sync.WaitGroup
	for range 4 {
		p := m.Process()
		lock, n := open(t, p, "/lock", os.O_RDWR), open(t, p, "/n", os.O_RDWR)
		all.Go(func() {
			for range 50 {
				if err := increment(lock, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		m.Crash(crashfs.KeepAll)
	}
	all.Wait()
	if got := content(t, m, "/n")[0]; got != 200 {
		t.Errorf("200 increments under a lock give %d", got)
	}
}

func increment(lock, n vfs.File) error {
	var b [1]byte
	if err := lock.Lock(); err != nil {
		return err
	}
	if _, err := n.ReadAt(b[:], 0); err != nil {
		return err
	}
	b[0]++
	if _, err := n.WriteAt(b[:], 0); err != nil {
		return err
	}
	return lock.Unlock()
}
