package filebroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

// The state is loaded by the first call that needs it. Until then a handle only
// enqueues, which does not (stateless.go), and keeps no index in memory.

// lazy is how far a handle is with that.
type lazy struct {
	// gate is held for reading by who makes commits, for writing by who loads:
	// both move the read position. It is taken before LOCK, so that nobody
	// holds LOCK while a load goes on.
	gate  sync.RWMutex
	asked atomic.Bool // the state is loaded for good
	spare bool        // it was loaded to recover the store, and nothing asked for it; guarded by handle.mu

	mu      sync.Mutex // guards what follows
	loading *loading   // nil when none is
	closed  bool
}

// loading is a load under way.
type loading struct {
	done chan struct{}
	err  error // once done is closed
}

func (l *lazy) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// want refuses a call that cannot be served, and loads the state unless it is
// there. A caller whose context ends leaves; the load goes on for the next.
func (b *handle) want(ctx context.Context) error {
	if err := b.begin(ctx); err != nil || b.lazy.asked.Load() {
		return err
	}
	l, err := b.startLoading()
	if err != nil || l == nil {
		return err
	}
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startLoading returns the load under way, after beginning it if need be; nil
// when the state is there.
func (b *handle) startLoading() (*loading, error) {
	z := &b.lazy
	z.mu.Lock()
	defer z.mu.Unlock()
	switch {
	case z.asked.Load():
		return nil, nil
	case z.closed:
		return nil, broker.ErrClosed
	case z.loading == nil:
		l := &loading{done: make(chan struct{})}
		z.loading = l
		b.background(func() {
			err := public(b.settleIn())
			z.mu.Lock()
			z.asked.Store(err == nil)
			l.err, z.loading = err, nil
			z.mu.Unlock()
			close(l.done)
		})
	}
	return z.loading, nil
}

// settleIn makes this handle one that can claim and be rung for, loads the
// state, and ends what dead handles held. Of a poisoned store the state is
// loaded to be looked at, and nothing else.
func (b *handle) settleIn() error {
	if b.log.Poisoned() != nil {
		return b.loadOnce()
	}
	dead, err := b.appear()
	if err != nil {
		return err
	}
	if err := b.loadOnce(); err != nil {
		return err
	}
	if err := b.settleDead(dead); err != nil {
		b.forget(err)
		return err
	}
	b.background(func() { b.bells.run(b) })
	b.background(b.compactor)
	b.background(b.probe)
	return nil
}

// appear hangs up the bell of this handle, and looks who is dead.
func (b *handle) appear() (dead []string, err error) {
	stop := b.watchdog()
	err = b.log.Lock()
	stop()
	if err != nil {
		return nil, err
	}
	defer b.log.Unlock()
	if dead, _, err = b.census(); err == nil && b.bells.file == nil {
		err = b.bells.create(b)
	}
	return dead, err
}

// loadOnce loads the state, without LOCK: the others go on. This handle's own
// commits wait for it, and do not hold LOCK meanwhile.
func (b *handle) loadOnce() error {
	b.lazy.gate.Lock()
	defer b.lazy.gate.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if damage(b.broken) {
		return b.broken // another look does not mend it
	}
	if b.lazy.spare {
		b.lazy.spare = false
		return nil
	}
	err := b.reload()
	if err != nil {
		b.s = nil
	}
	return err
}

// loadTries is how often the state is loaded when compactions, each of which
// writes as much as a load reads, drop what is being loaded.
const loadTries = 20

// reload builds the state anew from the log; mu is held. LOCK may be: it keeps
// compactions from sealing a segment, not from dropping files.
func (b *handle) reload() error {
	read := func() error { return b.log.Read(b.unlessClosed(b.apply)) }
	err := b.load(read)
	for try := 1; overtaken(err) && try < loadTries; try++ {
		rare.Reached(rare.LoadOvertaken)
		err = b.load(read)
	}
	if overtaken(err) {
		err = fmt.Errorf("%w: compactions dropped what was being loaded, %d times in a row: %w", broker.ErrConflict, loadTries, err)
	}
	b.broken = err
	if err != nil {
		return err
	}
	b.hub.WakeAll()
	return nil
}

// forget gives up a state that could not be brought to the end of the log,
// because of err.
func (b *handle) forget(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s, b.broken = nil, nil
	if damage(err) {
		b.broken = err
	}
}

// unlessClosed ends a load when the handle is closed.
func (b *handle) unlessClosed(fn func(*journal.Frame) error) func(*journal.Frame) error {
	return func(f *journal.Frame) error {
		if b.life.Err() != nil {
			return broker.ErrClosed
		}
		return fn(f)
	}
}

// errNeedsState is the outcome of an op that could not do without the state.
var errNeedsState = errors.New("this cannot be decided without the state")
