package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

const (
	// retryFor is Caps.Retry: how long after its first attempt a call is
	// repeated.
	retryFor = 2 * time.Minute
	// grace is how long a caller whose context ended waits for the outcome of a
	// call that is on its way.
	grace = 100 * time.Millisecond
	// near is how fast a server answers that callers wait for themselves.
	near = 5 * time.Millisecond

	backoffLeast = 10 * time.Millisecond
	backoffMost  = time.Second

	mostWeight = 256     // of one run, where the script does not say
	mostBytes  = 1 << 20 // of one run
)

// attempt brings calls to the server once; its error is a *failure. again says
// that the reply to one of them was lost before.
type attempt func(ctx context.Context, s *script, queue string, calls [][]byte, again bool) ([][]byte, error)

// gather makes runs of concurrent calls. Of one script and queue one run is in
// flight at a time, or as many as the script says; what comes meanwhile travels
// with the next, all at once.
// The first caller goes at once: there is no timer. As a rule it makes its run
// itself, with the patience that it has for any outcome (grace), since handing
// a call to another goroutine and back takes a third of a round trip.
type gather struct {
	attempt attempt
	ctx     context.Context // ends when it is closed
	cancel  context.CancelFunc
	leads   sync.WaitGroup

	mu     sync.Mutex
	lines  map[lineKey]*line
	idle   []chan lead // leaders without a line: their stacks have grown already
	closed bool
}

// lead is what a leader leads: a flight of a line.
type lead struct {
	of *line
	by *flight
}

const (
	mostIdle  = 8    // leaders that are kept
	mostLines = 1000 // lines that are kept though nothing waits in them
)

func newGather(a attempt) *gather {
	g := &gather{attempt: a, lines: map[lineKey]*line{}}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// run is transport.run.
func (g *gather) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil || len(calls) == 0 {
		return nil, err
	}
	r := &request{answers: make([][]byte, len(calls)), open: len(calls), decided: make(chan struct{})}
	l, own, err := g.add(r, lineKey{s, queue}, calls)
	if err != nil {
		return nil, err
	}
	if own != nil {
		l.leadOnce(own)
		g.leads.Done()
	}
	select {
	case <-r.decided:
	case <-ctx.Done():
		g.leave(ctx, l, r)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case r.err == nil:
		return r.answers, nil
	case r.done > 0 && !errors.Is(r.err, broker.ErrUnknown):
		return nil, fmt.Errorf("%w: %d calls of %d took place, then: %w", broker.ErrUnknown, r.done, len(calls), r.err)
	}
	return nil, r.err
}

// add puts a request's calls in line, and sees to it that somebody leads: the
// caller, for one run of the flight own, where the server is near.
func (g *gather) add(r *request, key lineKey, calls [][]byte) (l *line, own *flight, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, broker.ErrClosed
	}
	if l = g.lines[key]; l == nil {
		l = &line{g: g, key: key, left: make(chan struct{}, 1)}
		for range max(key.script.flights, 1) {
			l.flights = append(l.flights, &flight{})
		}
		g.lines[key] = l
	}
	all := make([]ask, len(calls))
	for i, c := range calls {
		all[i] = ask{of: r, index: i, call: c, weight: 1}
		if key.script.weigh != nil {
			all[i].weight = key.script.weigh(c)
		}
		l.waiting = append(l.waiting, &all[i])
	}
	f := l.idle()
	if f == nil {
		return l, nil, nil
	}
	f.led = true
	if !l.near() {
		g.lead(l, f)
		return l, nil, nil
	}
	g.leads.Add(1)
	return l, f, nil
}

// lead gives a line to a leader that is idle, or to a new one; mu is held.
func (g *gather) lead(l *line, f *flight) {
	if n := len(g.idle); n > 0 {
		g.idle[n-1] <- lead{l, f}
		g.idle = g.idle[:n-1]
		return
	}
	g.leads.Go(func() {
		next := make(chan lead, 1)
		for this := (lead{l, f}); this.of != nil; this = <-next {
			this.of.lead(this.by)
			if !g.rest(next) {
				return
			}
		}
	})
}

// rest keeps a leader for the next line; a channel that is closed ends it.
func (g *gather) rest(next chan lead) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(g.idle) >= mostIdle {
		return false
	}
	g.idle = append(g.idle, next)
	return true
}

// leave takes back what is not on its way, waits a little for what is, and
// gives r an outcome.
func (g *gather) leave(ctx context.Context, l *line, r *request) {
	g.mu.Lock()
	r.left = ctx.Err()
	l.dropLeft()
	l.landIfAllLeft()
	g.mu.Unlock()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-r.decided:
		return
	case <-late.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.open > 0 {
		r.err = unknown(r.left)
		r.open = -1 // what comes now comes too late
	}
}

// close refuses further calls, settles those that wait, and gives those on
// their way a little time. The attempts still out end with the client.
func (g *gather) close() {
	g.mu.Lock()
	g.closed = true
	for _, l := range g.lines {
		for _, a := range l.waiting {
			a.close()
		}
		l.waiting = nil
		l.dropLeft()
	}
	for _, next := range g.idle {
		close(next)
	}
	g.idle = nil
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.leads.Wait()
		close(done)
	}()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
	g.cancel()
}
