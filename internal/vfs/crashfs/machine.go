package crashfs

import (
	"encoding/binary"
	"fmt"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Config describes a machine. The zero value is one that has just booted, with
// an empty disk without a size limit, whose clock stands still.
type Config struct {
	// Seed decides random numbers, boot ids and where sectors tear.
	Seed uint64
	// DiskBytes is the size of the disk; zero means no limit. Files take it in
	// blocks of 4096 bytes, holes none.
	DiskBytes int64
	// IgnoreSync makes Sync and SyncDir return nil and do nothing: a test of
	// durability that does not fail on such a machine proves nothing.
	IgnoreSync bool
	// Versions is how many states of a sector, or sizes of a file, between the
	// durable one and the newest a power cut can leave too. Zero means none.
	Versions int
	// Torn lets a power cut leave a sector that begins with the new bytes and
	// ends with the old, too.
	Torn bool
	// FollowTime lets the clock go along with package time, as in a bubble of
	// testing/synctest. The machine must then be made inside the bubble.
	FollowTime bool
	// Start is the wall time at first. Zero means the beginning of 2026, or the
	// present with FollowTime.
	Start time.Time
	// Uptime is the monotonic time at first.
	Uptime time.Duration
	// NoWatch makes Watch fail with errors.ErrUnsupported.
	NoWatch bool
	// WatchQueue is how many reports wait for a reader before they are dropped
	// for a zero one. Zero means 16384.
	WatchQueue int
}

// Machine is a computer with one disk and any number of processes. Safe for
// concurrent use.
type Machine struct {
	// Clock is the time of all processes.
	Clock *Clock

	cfg  Config
	boot uint64 // counts from 1

	mu      sync.Mutex
	wake    sync.Cond // a lock was freed, a process was killed, the machine stopped
	root    *inode
	changes []*change // of directories, not yet durable, oldest first
	owner   *owner    // of the pages that may be written in place
	zero    *page     // never written
	limit   int64     // of the disk, in bytes
	used    int64     // of the disk, in bytes
	procs   []*Process
	inject  func(Op) error
	ops     int
	stopped bool
}

// New returns a machine that has just booted. Its disk holds the directory "/"
// and nothing else.
func New(cfg Config) *Machine {
	if cfg.Start.IsZero() {
		cfg.Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
		if cfg.FollowTime {
			cfg.Start = time.Now()
		}
	}
	if cfg.WatchQueue == 0 {
		cfg.WatchQueue = 16384
	}
	m := &Machine{
		Clock: newClock(cfg.Start, cfg.Uptime, cfg.FollowTime),
		cfg:   cfg,
		boot:  1,
		owner: new(owner),
		zero:  &page{b: make([]byte, pageSize)},
		limit: cfg.DiskBytes,
		root:  newDir(),
	}
	m.wake.L = &m.mu
	return m
}

// Process starts a process. Process ids count up from 1001 after each boot.
func (m *Machine) Process() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := newProcess(m, 1001+len(m.procs))
	m.procs = append(m.procs, p)
	return p
}

// Inject has fn called before every operation of every process, without any
// lock held: fn may call the machine, kill processes, or wait. What it returns
// is done instead of the operation (see ErrKilled, ErrCrash and ShortWrite); any
// other error is the operation's. An injected error of Sync loses what was to
// be written, as the package comment says; one of Close closes all the same.
// A nil fn ends it.
func (m *Machine) Inject(fn func(op Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inject = fn
}

// Ops is how many operations were begun so far, those of dead processes not
// counted.
func (m *Machine) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// Used is how many bytes of the disk are taken.
func (m *Machine) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// SetDiskBytes changes the size of the disk; zero means no limit. What is
// stored already stays.
func (m *Machine) SetDiskBytes(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = n
}

// Stop cuts the power: whatever any process does now fails with ErrCrash, and
// the disk stays as it is. Crash tells what is left of it.
func (m *Machine) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return
	}
	m.stopped = true
	m.root.walk(func(n *inode) { n.freeze() })
	m.wakeAll()
}

// wakeAll lets everyone who waits look again.
func (m *Machine) wakeAll() {
	m.wake.Broadcast()
	for _, p := range m.procs {
		for w := range p.watchers {
			w.wake.Broadcast()
		}
	}
}

// ReadFile returns the content of a file as a process would read it now.
func (m *Machine) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return nil, err
	}
	if n.kind != regular {
		return nil, syscall.EISDIR
	}
	b := make([]byte, n.size)
	n.read(b, 0)
	return b, nil
}

// WriteFile puts a file on the disk, durably and past every fault and limit,
// as someone else's hand would: it replaces the content of the file of that
// name or makes it. The directory must be there and durable.
func (m *Machine) WriteFile(name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.split(name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		n = newFile()
		dir.link(base, n)
	}
	if n.kind != regular {
		return syscall.EISDIR
	}
	dir.durable[base] = n
	limit := m.limit
	m.limit = 0
	defer func() { m.limit = limit }()
	if _, err := m.write(n, content, 0); err != nil {
		return err
	}
	m.truncate(n, int64(len(content)))
	n.settle()
	return nil
}

// Symlink makes name a symbolic link, durably.
func (m *Machine) Symlink(target, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.split(name)
	if err != nil {
		return err
	}
	if dir.names[base] != nil {
		return syscall.EEXIST
	}
	n := &inode{kind: link, target: target}
	dir.link(base, n)
	dir.durable[base] = n
	return nil
}

// gone is why a process can do nothing any more, or nil.
func (m *Machine) gone(p *Process) error {
	switch {
	case m.stopped:
		return ErrCrash
	case p.killed:
		return ErrKilled
	}
	return nil
}

// bootID differs for each boot and each seed.
func (m *Machine) bootID() (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], m.cfg.Seed)
	binary.BigEndian.PutUint64(id[8:], m.boot)
	return id
}

// clean makes a path absolute, with slashes.
func clean(name string) string {
	return path.Clean("/" + filepath.ToSlash(name))
}

// String tells the machine from others of the test.
func (m *Machine) String() string {
	return fmt.Sprintf("machine with seed %d at boot %d", m.cfg.Seed, m.boot)
}
