package filebroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/notify"
	"github.com/spoolq/spool/internal/vfs"
)

// SyncMode says what an acknowledged call has waited for.
type SyncMode int

// The sync modes. They decide when this handle answers, not what others do.
const (
	// SyncAlways answers when the data is on the disk: nothing acknowledged is
	// lost to a crash of the process or a power cut. The default.
	SyncAlways SyncMode = iota
	// SyncInterval answers when the operating system has the data, and syncs
	// every Config.SyncEvery: a crash of the process loses nothing, a power
	// cut up to that much of what was acknowledged.
	SyncInterval
	// SyncNever leaves syncing to the operating system: a crash of the process
	// loses nothing, a power cut whatever the system had not written.
	SyncNever
)

// Config is the configuration of Open. The zero value works and is durable.
type Config struct {
	Sync      SyncMode
	SyncEvery time.Duration // for SyncInterval; 0 means 100 ms
	// AllowUnsafeFS opens a store on a file system whose locks or syncs may
	// not be what they claim: network, FUSE, overlay.
	AllowUnsafeFS bool
	// Logger is told of what an operator should know: a torn tail was cut, a
	// process holds the lock for long. nil means slog.Default.
	Logger *slog.Logger

	sys     vfs.System // nil: the real one
	segment int64      // bytes of the first segment; 0: the journal's default
}

// Broker is a handle on a store in a directory. It is safe for concurrent use.
// Two handles on one directory, in one process or several, are two clients.
type Broker struct {
	cfg Config
	dir string
	sys vfs.System
	log *journal.Log
	slg *slog.Logger
	pid int

	mu       sync.Mutex // guards what follows
	s        *jobstate.State
	w        jobstate.Writer
	hub      notify.Hub
	ring     ringing
	broken   error // the state is not what the log says, and could not be rebuilt
	unsynced bool  // claims were answered without a sync

	queue  gather
	member member
	bells  bells
	stats  Stats

	syncing   atomic.Bool
	started   time.Duration // machine's monotonic clock when this handle was opened
	boot      [16]byte
	life      context.Context // ends with Close
	end       context.CancelFunc
	closed    <-chan struct{} // of life
	closeOnce sync.Once
	closeErr  error
	wg        sync.WaitGroup // background goroutines
}

var _ broker.Broker = (*Broker)(nil)

// Stats counts what a handle did, for benchmarks and tests.
type Stats struct {
	Commits atomic.Int64 // frames appended
	Syncs   atomic.Int64 // fdatasync calls for answers
}

// Stats returns the handle's counters.
func (b *Broker) Stats() *Stats { return &b.stats }

// Open opens the store in dir, which is made when it is not there. When it
// returns, the store exists durably.
//
// Errors: ErrUnsupported when the file system or the format cannot be used,
// ErrCorrupt when the store is damaged below what it had promised to keep,
// ErrPoisoned when a write failed and other processes still hold the store
// open; ErrInvalid when dir holds something else. Nothing is changed by a
// failed Open of a store that exists.
func Open(dir string, cfg Config) (*Broker, error) {
	if cfg.sys == nil {
		cfg.sys = vfs.OS()
	}
	if cfg.SyncEvery <= 0 {
		cfg.SyncEvery = 100 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	b := &Broker{
		cfg: cfg, dir: dir, sys: cfg.sys, slg: cfg.Logger.With("store", dir), pid: cfg.sys.PID(),
		started: cfg.sys.Monotonic(), boot: cfg.sys.BootID(),
	}
	if b.boot == [16]byte{} {
		return nil, fmt.Errorf("open %s: %w: this system does not say when it was started, and without that a lease cannot be told from one before a restart", dir, broker.ErrUnsupported)
	}
	b.life, b.end = context.WithCancel(noContext)
	b.closed = b.life.Done()
	watchdog := time.AfterFunc(patience, func() {
		b.slg.Warn("waiting to open the store: a process holds its lock; stop or continue it")
	})
	b.log, err = journal.Open(journal.Options{
		Sys: cfg.sys, Dir: dir, AllowUnsafeFS: cfg.AllowUnsafeFS, FirstSegmentBytes: cfg.segment,
		Report: func(what string, args ...any) { b.slg.Warn(what, args...) }, Counters: b.counters,
	})
	watchdog.Stop()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, public(err))
	}
	if err := b.join(); err != nil {
		b.leave()
		return nil, fmt.Errorf("open %s: %w", dir, errors.Join(public(err), b.log.Close()))
	}
	b.start()
	return b, nil
}

// counters are kept in the end record of a segment: a handle that disagrees
// with them is wrong, and stops.
func (b *Broker) counters() []byte { return b.s.Digest() }

// Caps implements broker.Broker.
func (b *Broker) Caps() broker.Caps {
	c := broker.Caps{Broker: "file", OneCommit: true, MaxBatch: broker.MaxBatchJobs, MaxBytes: broker.MaxCallBytes, HandleLeases: true}
	switch b.cfg.Sync {
	case SyncAlways:
		c.Durability = "crash of any process, power cut (synced before the answer)"
	case SyncInterval:
		c.Durability = fmt.Sprintf("crash of any process; a power cut loses up to %v", b.cfg.SyncEvery)
	case SyncNever:
		c.Durability = "crash of any process; not a power cut"
	}
	return c
}

// Close implements broker.Broker. What was acknowledged stays; this handle's
// leases expire at once.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.queue.close()
		b.end()
		b.mu.Lock()
		b.hub.Close()
		b.mu.Unlock()
		b.bells.stop()
		b.wg.Wait()
		b.closeErr = errors.Join(b.leave(), b.log.Close())
	})
	return b.closeErr
}

// begin refuses a call that cannot be served.
func (b *Broker) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-b.closed:
		return broker.ErrClosed
	default:
	}
	if b.sys.PID() != b.pid {
		return fmt.Errorf("%w: this handle was opened before a fork; open another one in the child", broker.ErrUnsupported)
	}
	return nil
}

// public turns the journal's errors into the contract's.
func public(err error) error {
	for _, pair := range [...]struct{ from, to error }{
		{journal.ErrPoisoned, broker.ErrPoisoned}, {journal.ErrCorrupt, broker.ErrCorrupt},
		{journal.ErrDiskFull, broker.ErrFull}, {journal.ErrUnsupported, broker.ErrUnsupported},
		{journal.ErrNotStore, broker.ErrInvalid}, {jobstate.ErrRecord, broker.ErrCorrupt},
	} {
		if errors.Is(err, pair.from) && !errors.Is(err, pair.to) {
			return fmt.Errorf("%w: %w", pair.to, err)
		}
	}
	return err
}
