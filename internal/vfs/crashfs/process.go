package crashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spoolq/spool/internal/vfs"
)

// Process is one process of a machine. It implements vfs.System; its errors
// are *fs.PathError.
type Process struct {
	m   *Machine
	pid int

	randMu sync.Mutex
	rand   *rand.ChaCha8

	// Under the machine's lock.
	killed   bool
	opened   int // files so far
	files    map[*file]bool
	watchers map[*watcher]bool
	aliases  *aliases
}

var _ vfs.System = (*Process)(nil)

// aliases are the memory maps of one process. They are given back when the
// process is garbage: a goroutine of a killed one can still use them.
type aliases struct {
	mu   sync.Mutex
	maps map[*byte][]byte
}

func (a *aliases) add(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.maps[&b[0]] = b
}

// free unmaps b; its first byte is not looked at twice.
func (a *aliases) free(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.maps, &b[0])
	freeAlias(b)
}

func newProcess(m *Machine, pid int) *Process {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], m.cfg.Seed)
	binary.LittleEndian.PutUint64(seed[8:], m.boot)
	binary.LittleEndian.PutUint64(seed[16:], uint64(pid))
	p := &Process{
		m: m, pid: pid, rand: rand.NewChaCha8(seed),
		files: map[*file]bool{}, watchers: map[*watcher]bool{},
		aliases: &aliases{maps: map[*byte][]byte{}},
	}
	runtime.AddCleanup(p, func(a *aliases) {
		for _, b := range a.maps {
			freeAlias(b)
		}
	}, p.aliases)
	return p
}

// Kill ends the process as SIGKILL does: its files close, which watchers see,
// then its locks are free, and whatever it does from now on fails with
// ErrKilled, also what it is waiting for. What it wrote stays written.
func (p *Process) Kill() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.killed || p.m.stopped {
		return
	}
	p.killed = true
	files := slices.SortedFunc(maps.Keys(p.files), func(a, b *file) int { return a.seq - b.seq })
	for _, f := range files {
		f.unmap(cutOff)
		f.drop()
	}
	p.m.wakeAll()
	// The kernel reports a close before it frees the lock. Let others see it.
	p.m.mu.Unlock()
	runtime.Gosched()
	p.m.mu.Lock()
	for _, f := range files {
		f.unlock()
	}
	clear(p.watchers)
}

// admit counts an operation and asks the function given to Inject. On nil the
// operation is to be done.
func (p *Process) admit(op Op) error {
	p.m.mu.Lock()
	if err := p.m.gone(p); err != nil {
		p.m.mu.Unlock()
		return err
	}
	op.Process, op.Seq = p, p.m.ops
	p.m.ops++
	inject := p.m.inject
	p.m.mu.Unlock()
	if inject == nil {
		return nil
	}
	return inject(op)
}

// suffer does what an injected error means beyond being returned.
func (p *Process) suffer(err error) error {
	switch {
	case errors.Is(err, ErrKilled):
		p.Kill()
	case errors.Is(err, ErrCrash):
		p.m.Stop()
	}
	var short ShortWrite
	if errors.As(err, &short) {
		if short.Err == nil {
			return syscall.EIO
		}
		return short.Err
	}
	return err
}

// do runs fn, which does op, under the machine's lock.
func (p *Process) do(op Op, fn func() error) error {
	return p.doOrLose(op, fn, func() {})
}

// doOrLose is do, and runs lose under the lock if the disk is to fail instead.
func (p *Process) doOrLose(op Op, fn func() error, lose func()) error {
	if err := p.admit(op); err != nil {
		err = p.suffer(err)
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		if p.m.gone(p) == nil {
			lose()
		}
		return wrap(op, err)
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if err := p.m.gone(p); err != nil {
		return wrap(op, err)
	}
	return wrap(op, fn())
}

// wrap makes an error look like one of package os.
func wrap(op Op, err error) error {
	if err == nil {
		return nil
	}
	if op.Kind == OpRename {
		return &os.LinkError{Op: "rename", Old: op.Path, New: op.To, Err: err}
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Path, Err: err}
}

// Wall is that of the machine's Clock.
func (p *Process) Wall() time.Time { return p.m.Clock.Wall() }

// Monotonic is that of the machine's Clock.
func (p *Process) Monotonic() time.Duration { return p.m.Clock.Monotonic() }

// Alarm says that there is none: package time wakes whoever waits, as the clock
// can follow that.
func (p *Process) Alarm() (vfs.Alarm, error) {
	return nil, fmt.Errorf("make an alarm clock: %w", errors.ErrUnsupported)
}

// WaitWord looks at the word now and then, in package time.
func (p *Process) WaitWord(w *atomic.Uint32, old uint32, d time.Duration) error {
	const looks = 100
	for range looks {
		if w.Load() != old {
			return nil
		}
		time.Sleep(d / looks)
	}
	return os.ErrDeadlineExceeded
}

// WakeWord does nothing: who waits looks by itself.
func (p *Process) WakeWord(*atomic.Uint32) {}

// BootID differs from that of the machine before a crash.
func (p *Process) BootID() [16]byte { return p.m.bootID() }

// PID is the process id; the first process of each boot has 1001.
func (p *Process) PID() int { return p.pid }

// Rand fills b with bytes that depend on the seed, the boot, the process and
// the bytes before, nothing else.
func (p *Process) Rand(b []byte) {
	p.randMu.Lock()
	defer p.randMu.Unlock()
	if _, err := p.rand.Read(b); err != nil {
		panic(err) // documented never to happen
	}
}

// Open is that of vfs.FS.
func (p *Process) Open(name string, flag int) (vfs.File, error) {
	var f *file
	err := p.do(Op{Kind: OpOpen, Path: name}, func() (err error) {
		f, err = p.open(name, flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (p *Process) open(name string, flag int) (*file, error) {
	dir, base, err := p.m.split(name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	switch {
	case base == "":
		return nil, syscall.EISDIR
	case n == nil && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = newFile()
		p.m.create(name, dir, base, n)
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case n.kind == link:
		return nil, syscall.ELOOP
	case n.kind == directory:
		return nil, syscall.EISDIR
	}
	f := &file{
		p: p, node: n, path: name, seq: p.opened, failures: n.failures,
		reads: flag&os.O_WRONLY == 0, writes: flag&(os.O_WRONLY|os.O_RDWR) != 0,
	}
	if flag&os.O_TRUNC != 0 && f.writes {
		p.m.truncate(n, 0)
	}
	n.opens++
	p.opened++
	p.files[f] = true
	return f, nil
}

// Rename is that of vfs.FS.
func (p *Process) Rename(oldname, newname string) error {
	return p.do(Op{Kind: OpRename, Path: oldname, To: newname}, func() error {
		return p.m.rename(oldname, newname)
	})
}

// Remove is that of vfs.FS.
func (p *Process) Remove(name string) error {
	return p.do(Op{Kind: OpRemove, Path: name}, func() error { return p.m.remove(name) })
}

// Mkdir is that of vfs.FS.
func (p *Process) Mkdir(name string) error {
	return p.do(Op{Kind: OpMkdir, Path: name}, func() error {
		dir, base, err := p.m.split(name)
		if err != nil {
			return err
		}
		if base == "" || dir.names[base] != nil {
			return syscall.EEXIST
		}
		p.m.create(name, dir, base, newDir())
		return nil
	})
}

// ReadDir is that of vfs.FS.
func (p *Process) ReadDir(name string) (names []string, err error) {
	err = p.do(Op{Kind: OpReadDir, Path: name}, func() error {
		n, err := p.m.findDir(name)
		if err != nil {
			return err
		}
		names = slices.Sorted(maps.Keys(n.names))
		return nil
	})
	return names, err
}

// Stat is that of vfs.FS.
func (p *Process) Stat(name string) (info vfs.Info, err error) {
	err = p.do(Op{Kind: OpStat, Path: name}, func() error {
		n, err := p.m.find(name)
		if err != nil {
			return err
		}
		info = vfs.Info{Size: n.size, Dir: n.kind == directory, Regular: n.kind == regular}
		return nil
	})
	return info, err
}

// SyncDir is that of vfs.FS.
func (p *Process) SyncDir(name string) error {
	with := func(fn func(dir *inode)) error {
		n, err := p.m.findDir(name)
		if err == nil {
			fn(n)
		}
		return err
	}
	return p.doOrLose(Op{Kind: OpSyncDir, Path: name},
		func() error { return with(p.m.syncDir) },
		func() { _ = with(p.m.failSyncDir) }) // no directory, nothing to lose
}

// CheckDir finds fault only with what is no directory. Inject can refuse the
// rest.
func (p *Process) CheckDir(name string, allow bool) error {
	return p.do(Op{Kind: OpCheckDir, Path: name}, func() error {
		n, err := p.m.find(name)
		if err == nil && n.kind == link {
			return errors.New("is a symbolic link")
		}
		if err == nil && n.kind != directory {
			return syscall.ENOTDIR
		}
		return err
	})
}

// CheckMount finds fault with nothing; Inject can.
func (p *Process) CheckMount(name string, allow bool) error {
	return p.do(Op{Kind: OpCheckDir, Path: name}, func() error { return nil })
}

// Watch is that of vfs.FS.
func (p *Process) Watch() (vfs.Watcher, error) {
	var w *watcher
	err := p.do(Op{Kind: OpWatch}, func() error {
		if p.m.cfg.NoWatch {
			return errors.ErrUnsupported
		}
		w = newWatcher(p)
		p.watchers[w] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// String gives the process id.
func (p *Process) String() string { return fmt.Sprintf("process %d", p.pid) }

// findDir is find for a directory.
func (m *Machine) findDir(name string) (*inode, error) {
	n, err := m.find(name)
	switch {
	case err != nil:
		return nil, err
	case n.kind == link:
		return nil, syscall.ELOOP
	case n.kind != directory:
		return nil, syscall.ENOTDIR
	}
	return n, nil
}
