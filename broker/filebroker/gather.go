package filebroker

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

// op is one call's part of a commit.
type op struct {
	decide func(now jobstate.Now) // called under LOCK and mu; keeps its answer itself
	// stateless does the same without the state, where nothing binds; nil when
	// the call needs the state.
	stateless func(now jobstate.Now)
	size      int   // about how many bytes it will write
	adds      int64 // by how much a checkpoint becomes larger at most
	class     journal.Class
	claims    bool   // hands out leases: needs an epoch
	free      bool   // its answer does not wait for a sync
	decided   bool   // its decide was called
	scrapes   bool   // takes whatever room is left on a full disk
	after     func() // called under LOCK when the frame has been appended; may be nil
	state     atomic.Uint32
	err       error
	done      chan struct{}
}

const (
	opWaiting uint32 = iota
	opTaken
	opAbandoned // its caller left before it was decided
)

// gather collects the ops of this process for its next commit. Whoever finds
// that nobody makes one leads: it commits what is there, all at once. Beside
// that at most one goroutine syncs. What waits for the disk is committed
// between two syncs, so that each sync is for as many as can be, or during one
// as soon as all are in again that the last sync answered: the next is theirs.
// What does not wait for the disk is committed at once, and takes along what
// else is there: a worker's settlements and its next claim are one commit. There
// is no timer.
type gather struct {
	mu       sync.Mutex
	pending  []*op
	hasty    int   // of pending: do not wait for the disk
	written  []*op // were committed, and wait for the disk
	answered int   // ops of the last sync
	crowd    int   // ops that may be pending soon: those that are, and one for each that was just answered
	leading  bool
	syncing  bool
	closed   bool
}

// add appends o and says whether the caller has to lead: leads counts it then
// until it is done, so that whoever closes g can wait for it.
func (g *gather) add(o *op, leads *sync.WaitGroup) (lead bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false, broker.ErrClosed
	}
	g.pending = append(g.pending, o)
	if o.free {
		g.hasty++
	}
	if lead = g.lead(); lead {
		leads.Add(1)
	}
	return lead, nil
}

// lead gives the lead to the caller, if a commit is to be made and nobody does;
// mu is held.
func (g *gather) lead() bool {
	early := g.hasty == 0 && len(g.pending) < max(g.answered, 2)
	if g.leading || len(g.pending) == 0 || g.syncing && early {
		return false
	}
	g.leading = true
	return true
}

// muster lets the callers come in that the last commit or sync answered: as a
// rule they are about to call again, and one that went ahead of them would have
// a sync of its own that they wait for. It gives way only as long as somebody
// comes.
func (g *gather) muster() {
	there, more := 0, true
	for more {
		g.mu.Lock()
		n := len(g.pending)
		more = n > there && n < g.crowd
		g.mu.Unlock()
		if there = n; more {
			runtime.Gosched()
		}
	}
}

// maxGather bounds the bytes of one frame, but for a single larger call:
// larger writes can be torn by a kill.
const maxGather = 1 << 20

// take returns the ops of the next commit.
func (g *gather) take() []*op {
	g.mu.Lock()
	defer g.mu.Unlock()
	size, n := 0, 0
	for _, o := range g.pending {
		if n > 0 && size+o.size > maxGather {
			break
		}
		size += o.size
		n++
	}
	taken := make([]*op, 0, n)
	for _, o := range g.pending[:n] {
		if o.free {
			g.hasty--
		}
		if o.state.CompareAndSwap(opWaiting, opTaken) {
			taken = append(taken, o)
		}
	}
	rest := copy(g.pending, g.pending[n:])
	clear(g.pending[rest:])
	g.pending = g.pending[:rest]
	g.crowd = n
	return taken
}

// committed ends a lead whose ops wait for the disk, and says what is to be
// done next: a sync, another lead, both, or nothing.
func (g *gather) committed(waiting []*op) (sync, lead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = false
	g.written = append(g.written, waiting...)
	if sync = len(g.written) > 0 && !g.syncing; sync {
		g.syncing = true
	}
	return sync, g.lead()
}

// takeWritten returns the ops that a sync which begins now is for.
func (g *gather) takeWritten() []*op {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.written
	g.written = nil
	return taken
}

// synced ends a sync that answered so many, and says whether there is another
// one to do, and whether a commit is to be led: that goes before the sync, which
// is for it too then.
func (g *gather) synced(answered int) (sync, lead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = answered
	g.crowd = len(g.pending) + answered
	g.syncing = len(g.written) > 0 && (len(g.pending) == 0 || g.leading)
	return g.syncing, g.lead()
}

func (g *gather) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// do puts o into the next commit, once the state is there if it needs that, and
// waits for its outcome; on a full disk, unless it is an enqueue, also for room. A
// caller whose context ends before o was decided leaves, and nothing changes.
func (b *handle) do(ctx context.Context, o *op) error {
	if o.stateless == nil {
		if err := b.want(ctx); err != nil {
			return err
		}
	}
	err := b.submit(ctx, o)
	switch {
	case !noRoom(o, err):
		return err
	case o.class == journal.Enqueue:
		return b.enqueueAgain(ctx, o, err)
	}
	return b.waitForRoom(ctx, o, err)
}

// submit is do for one who knows that the state is there, or not needed.
func (b *handle) submit(ctx context.Context, o *op) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	o.done = make(chan struct{})
	lead, err := b.queue.add(o, &b.wg)
	if err != nil {
		return err
	}
	if lead {
		b.lead(o)
		b.wg.Done()
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.state.CompareAndSwap(opWaiting, opAbandoned) {
			rare.Reached(rare.CallAbandoned)
			return ctx.Err()
		}
		rare.Reached(rare.CallTooLateToLeave)
		<-o.done
	}
	return o.err
}
