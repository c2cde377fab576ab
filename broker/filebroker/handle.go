package filebroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/notify"
	"github.com/spoolq/spool/internal/vfs"
)

// handle is one stay in the store: from the moment it joined until it leaves, or
// until a failed write poisoned the store. Its methods are Broker's.
type handle struct {
	cfg Config
	dir string
	sys vfs.System
	log *journal.Log
	slg *slog.Logger

	mu       sync.Mutex      // guards what follows
	s        *jobstate.State // nil while nothing needs it
	w        jobstate.Writer
	began    time.Time // when this process got LOCK for the commit that it makes
	hub      notify.Hub
	ring     ringing
	lossy    bool              // the log was recovered from poison: claims may be forgotten
	epochEnd journal.Pos       // behind the frame that opened the epoch, where this handle saw it
	loadedIn uint64            // the generation of CURRENT that s was loaded in
	broken   error             // the state is not what the log says, and could not be rebuilt
	taking   map[string]filter // by worker registered through this handle

	lazy   lazy
	queue  gather
	member member
	bells  bells
	room   room
	keeper keeper
	alarm  alarm
	ahead  ahead
	places atomic.Pointer[places] // nil: nothing was moved
	stats  *Stats

	syncing   atomic.Bool
	boot      [16]byte
	life      context.Context // ends with Close
	end       context.CancelFunc
	closed    <-chan struct{} // of life
	closeOnce sync.Once
	closeErr  error
	wg        sync.WaitGroup // background goroutines, and calls that lead a commit
}

// openHandle joins the store. cfg has its defaults. poisoned is told once a second
// that the store is.
func openHandle(dir string, cfg Config, stats *Stats, poisoned func(*handle, error)) (*handle, error) {
	var err error
	b := &handle{
		cfg: cfg, dir: dir, sys: cfg.sys, slg: cfg.Logger.With("store", dir),
		boot: cfg.sys.BootID(), stats: stats, taking: map[string]filter{}, keeper: keeper{wake: make(chan bool, 1)},
	}
	b.bells.init()
	if b.boot == [16]byte{} {
		return nil, fmt.Errorf("open %s: %w: this system does not say when it was started, and without that a lease cannot be told from one before a restart", dir, broker.ErrUnsupported)
	}
	b.life, b.end = context.WithCancel(noContext)
	b.closed = b.life.Done()
	watchdog := time.AfterFunc(patience, func() {
		b.slg.Warn("waiting to open the store: a process holds its lock; stop or continue it", holder(b.sys, dir)...)
	})
	b.log, err = journal.Open(journal.Options{
		Sys: cfg.sys, Dir: dir, AllowUnsafeFS: cfg.AllowUnsafeFS, FirstSegmentBytes: cfg.segment,
		Report: func(what string, args ...any) { b.slg.Warn(what, args...) }, Counters: b.counters,
	})
	watchdog.Stop()
	b.ahead.log = b.log
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, public(err))
	}
	if err := b.join(); err != nil {
		b.leave()
		return nil, fmt.Errorf("open %s: %w", dir, errors.Join(public(err), b.log.Close()))
	}
	b.background(b.prepare)
	b.background(func() { b.letGo(poisoned) })
	return b, nil
}

// holder names who holds the lock of a store that is not open yet, as slog
// wants it; empty when that is not known.
func holder(sys vfs.System, dir string) []any {
	pid, held, ok := journal.HolderOf(sys, dir)
	if !ok {
		return nil
	}
	return []any{"pid", pid, "for", held.Round(time.Millisecond)}
}

// counters are kept in the end record of a segment: a handle that disagrees
// with them is wrong, and stops. One without the state knows none.
func (b *handle) counters() []byte {
	if b.s == nil {
		return nil
	}
	return b.s.Digest()
}

// Close leaves the store: what waits returns, and this handle's leases expire.
func (b *handle) Close() error {
	b.closeOnce.Do(func() {
		b.queue.close()
		b.lazy.close()
		b.end()
		b.mu.Lock()
		b.hub.Close()
		b.mu.Unlock()
		b.bells.stop()
		unset := b.alarm.stop()
		b.wg.Wait()
		b.closeErr = errors.Join(b.leave(), b.log.Close(), unset)
	})
	return b.closeErr
}

// begin refuses a call that cannot be served. (A handle that a fork took along
// finds that out when it has LOCK, before it changes anything.)
func (b *handle) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-b.closed:
		return broker.ErrClosed
	default:
	}
	return nil
}
