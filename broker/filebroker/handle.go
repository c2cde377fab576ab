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
	pid int

	mu     sync.Mutex // guards what follows
	s      *jobstate.State
	w      jobstate.Writer
	hub    notify.Hub
	ring   ringing
	lossy  bool  // the log was recovered from poison: claims may be forgotten
	broken error // the state is not what the log says, and could not be rebuilt

	queue  gather // calls whose answer waits for the disk
	quick  gather // calls whose answer does not
	member member
	bells  bells
	alarm  alarm
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

// openHandle joins the store. cfg has its defaults.
func openHandle(dir string, cfg Config, stats *Stats) (*handle, error) {
	var err error
	b := &handle{
		cfg: cfg, dir: dir, sys: cfg.sys, slg: cfg.Logger.With("store", dir), pid: cfg.sys.PID(),
		boot: cfg.sys.BootID(), stats: stats,
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
func (b *handle) counters() []byte { return b.s.Digest() }

// Close leaves the store: what waits returns, and this handle's leases expire.
func (b *handle) Close() error {
	b.closeOnce.Do(func() {
		b.queue.close()
		b.quick.close()
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

// begin refuses a call that cannot be served.
func (b *handle) begin(ctx context.Context) error {
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
