package filebroker

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

// op is one call's part of a commit.
type op struct {
	decide func(now jobstate.Now) // called under LOCK and mu; keeps its answer itself
	// stateless does the same without the state, where nothing binds; nil when
	// the call needs the state.
	stateless func(now jobstate.Now)
	size      int // about how many bytes it will write
	class     journal.Class
	claims    bool   // hands out leases: needs an epoch
	free      bool   // its answer does not wait for a sync
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

// gather collects the ops of this process for its next commit. Whoever adds
// the first one leads: it commits what is there, and hands the lead on when
// more has come in meanwhile. There is no timer: a commit takes what gathered
// while the last one was in flight (and see muster).
type gather struct {
	mu      sync.Mutex
	pending []*op
	last    int // ops of the last commit
	leading bool
	closed  bool
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
	lead = !g.leading
	g.leading = true
	if lead {
		leads.Add(1)
	}
	return lead, nil
}

// muster lets the callers that the last commit answered come in: as a rule they
// are about to call again, and one that went ahead of them would have a sync
// of its own that they wait for. It gives way only as long as somebody comes.
func (g *gather) muster() {
	there, more := 0, true
	for more {
		g.mu.Lock()
		n := len(g.pending)
		more = n > there && n < g.last
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
		if o.state.CompareAndSwap(opWaiting, opTaken) {
			taken = append(taken, o)
		}
	}
	rest := copy(g.pending, g.pending[n:])
	clear(g.pending[rest:])
	g.pending = g.pending[:rest]
	g.last = n
	return taken
}

// next ends a lead, or says that there is more to do.
func (g *gather) next() (more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = len(g.pending) > 0
	return g.leading
}

func (g *gather) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// gatherOf chooses where o waits. What does not wait for the disk has commits of
// its own, so that a claim is not held up by the sync of a settlement.
func (b *handle) gatherOf(o *op) *gather {
	if o.free {
		return &b.quick
	}
	return &b.queue
}

// do puts o into the next commit, once the state is there if it needs that, and
// waits for its outcome. A caller whose context ends before o was decided
// leaves, and nothing changes.
func (b *handle) do(ctx context.Context, o *op) error {
	if o.stateless == nil {
		if err := b.want(ctx); err != nil {
			return err
		}
	}
	return b.submit(ctx, o)
}

// submit is do for one who knows that the state is there, or not needed.
func (b *handle) submit(ctx context.Context, o *op) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	o.done = make(chan struct{})
	g := b.gatherOf(o)
	lead, err := g.add(o, &b.wg)
	if err != nil {
		return err
	}
	if lead {
		g.muster()
		b.lead(g, true)
		b.wg.Done()
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.state.CompareAndSwap(opWaiting, opAbandoned) {
			return ctx.Err()
		}
		<-o.done
	}
	return o.err
}
