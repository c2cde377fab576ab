package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
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

// attempt brings calls to the server once; its error is a *failure.
type attempt func(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error)

// gather makes runs of concurrent calls. Of one script and queue one run is in
// flight at a time; what comes meanwhile travels with the next, all at once.
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
	idle   []chan *line // leaders without a line: their stacks have grown already
	closed bool
}

const (
	mostIdle  = 8    // leaders that are kept
	mostLines = 1000 // lines that are kept though nothing waits in them
)

type lineKey struct {
	script *script
	queue  string
}

// line holds the calls of one script and queue. gather.mu guards it.
type line struct {
	g       *gather
	key     lineKey
	waiting []*ask        // in the order in which they came
	flight  []*ask        // travel now
	calls   [][]byte      // of the flight; the leader's
	land    func()        // ends the flight's attempt
	leading bool          // a goroutine makes runs
	last    int           // calls of the last run
	took    time.Duration // of the last run that the server answered; 0 before
	left    chan struct{} // told when a caller left and nobody waits
}

// ask is one call of a request.
type ask struct {
	of     *request
	index  int // in the request
	call   []byte
	weight int
	first  time.Time // of its attempts; zero before
	lost   bool      // an attempt may have taken place
}

// request is what one caller asks: its calls, which may travel apart.
type request struct {
	answers [][]byte
	open    int   // calls without an outcome
	done    int   // calls with an answer
	err     error // the first, but ErrUnknown before any other
	left    error // why its caller leaves: the error of its context
	decided chan struct{}
}

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
	l, leads, err := g.add(r, lineKey{s, queue}, calls)
	if err != nil {
		return nil, err
	}
	if leads {
		l.leadOnce()
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
// caller, for one run, where the server is near.
func (g *gather) add(r *request, key lineKey, calls [][]byte) (l *line, leads bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false, broker.ErrClosed
	}
	if l = g.lines[key]; l == nil {
		l = &line{g: g, key: key, left: make(chan struct{}, 1)}
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
	if l.leading {
		return l, false, nil
	}
	l.leading = true
	if leads = l.took > 0 && l.took < near; leads {
		g.leads.Add(1)
	} else {
		g.lead(l)
	}
	return l, leads, nil
}

// lead gives a line to a leader that is idle, or to a new one; mu is held.
func (g *gather) lead(l *line) {
	if n := len(g.idle); n > 0 {
		g.idle[n-1] <- l
		g.idle = g.idle[:n-1]
		return
	}
	g.leads.Go(func() {
		next := make(chan *line, 1)
		for ; l != nil; l = <-next {
			l.lead()
			if !g.rest(next) {
				return
			}
		}
	})
}

// rest keeps a leader for the next line; nil, sent or not, ends it.
func (g *gather) rest(next chan *line) bool {
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

// unknown is the outcome of a call of which no reply came.
func unknown(cause error) error {
	if errors.Is(cause, broker.ErrUnknown) {
		return cause
	}
	return fmt.Errorf("%w: %w", broker.ErrUnknown, cause)
}

// dropLeft settles the waiting calls whose callers leave, and tells the leader
// when nobody is left.
func (l *line) dropLeft() {
	kept := l.waiting[:0]
	for _, a := range l.waiting {
		if a.of.left == nil {
			kept = append(kept, a)
		} else {
			a.leave()
		}
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
	if len(kept) == 0 {
		select {
		case l.left <- struct{}{}:
		default:
		}
	}
}

// leave settles a call that is not on its way when its caller leaves.
func (a *ask) leave() {
	if a.lost {
		a.fail(unknown(a.of.left))
		return
	}
	a.fail(a.of.left)
}

// landIfAllLeft ends the attempt that nobody waits for any more.
func (l *line) landIfAllLeft() {
	for _, a := range l.flight {
		if a.of.left == nil {
			return
		}
	}
	if l.land != nil {
		l.land()
	}
}

// lead makes runs until nothing waits.
func (l *line) lead() {
	for failed := 0; ; {
		ran, repeat := l.run(0)
		switch {
		case !ran:
			return
		case repeat:
			failed++
			l.pause(backoff(failed))
		default:
			failed = 0
		}
	}
}

// leadOnce makes one run for a caller, and leaves what waits then to a leader.
func (l *line) leadOnce() {
	l.run(grace)
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if len(l.waiting) > 0 {
		l.g.lead(l)
		return
	}
	l.rest()
}

// rest ends the lead; gather.mu is held.
func (l *line) rest() {
	l.leading = false
	if len(l.g.lines) > mostLines {
		delete(l.g.lines, l.key)
	}
}

// run makes one run, with so much patience (0: as much as an attempt has). It
// says whether there was one, and whether calls of it wait to be repeated.
func (l *line) run(patience time.Duration) (ran, repeat bool) {
	l.muster()
	ctx, batch := l.take(patience)
	if batch == nil {
		return false, false
	}
	l.calls = l.calls[:0]
	for _, a := range batch {
		l.calls = append(l.calls, a.call)
	}
	began := time.Now()
	answers, err := l.g.attempt(ctx, l.key.script, l.key.queue, l.calls)
	clear(l.calls)
	return true, l.settle(batch, answers, err, time.Since(began))
}

// backoff is how long to wait after so many failures: anything up to a bound
// that doubles, so that clients that failed together do not come back together.
func backoff(failed int) time.Duration {
	bound := min(backoffLeast<<min(failed-1, 20), backoffMost)
	return rand.N(bound)
}

// pause waits for d, or less when nothing is left to do.
func (l *line) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.left:
	case <-l.g.ctx.Done():
	}
}

// muster lets the callers that the last run answered come in: as a rule they
// are about to call again. It gives way only as long as somebody comes.
func (l *line) muster() {
	there, more := 0, true
	for more {
		l.g.mu.Lock()
		n := len(l.waiting)
		more = n > there && n < l.last
		l.g.mu.Unlock()
		if there = n; more {
			runtime.Gosched()
		}
	}
}

// take returns the calls of the next run, and its context; nil when nothing
// waits, the lead being over then.
func (l *line) take(patience time.Duration) (ctx context.Context, flight []*ask) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.dropLeft()
	n := l.fit()
	if n == 0 {
		if patience == 0 {
			l.rest()
		}
		return nil, nil
	}
	select {
	case <-l.left:
	default:
	}
	now := time.Now()
	l.flight = append(l.flight[:0], l.waiting[:n]...)
	for _, a := range l.flight {
		if a.first.IsZero() {
			a.first = now
		}
	}
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting, l.last = l.waiting[:rest], n
	if patience > 0 {
		ctx, l.land = context.WithTimeout(l.g.ctx, patience)
	} else {
		ctx, l.land = context.WithCancel(l.g.ctx)
	}
	return ctx, l.flight
}

// fit counts the calls, from the first one that waits, that one run can take.
func (l *line) fit() int {
	most := l.key.script.most
	if most == 0 {
		most = mostWeight
	}
	weight, size := 0, 0
	for i, a := range l.waiting {
		weight += a.weight
		size += len(a.call)
		if i > 0 && (weight > most || size > mostBytes) {
			return i
		}
	}
	return len(l.waiting)
}

// settle gives the calls of a run their outcome, or puts them back at the head
// of the line. It says whether there is something to repeat.
func (l *line) settle(batch []*ask, answers [][]byte, err error, took time.Duration) (repeat bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.land()
	l.land = nil
	defer func() {
		clear(l.flight)
		l.flight = l.flight[:0]
	}()
	if err == nil {
		for i, a := range batch {
			a.answer(answers[i])
		}
		l.took = max(took, 1)
		return false
	}
	l.took = 0
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{lost, err}
	}
	var again []*ask
	for _, a := range batch {
		if a.failed(f, l.g.closed) {
			again = append(again, a)
		}
	}
	l.waiting = append(again, l.waiting...)
	return len(again) > 0
}

// failed says whether the call is to be made again, or settles it. A refusal
// says nothing of an earlier attempt whose reply was lost.
func (a *ask) failed(f *failure, closed bool) (again bool) {
	if f.fate == lost {
		a.lost = true
	}
	switch {
	case f.fate == weak, f.fate == refused && !a.lost:
		a.fail(f.err)
	case a.of.left != nil:
		a.leave()
	case closed:
		a.close()
	case time.Since(a.first) < retryFor-backoffMost:
		return true
	case a.lost:
		a.fail(unknown(f.err))
	default:
		a.fail(fmt.Errorf("redis: the server could not be reached, or was not ready, for %s: %w", retryFor, f.err))
	}
	return false
}

// close settles a call when the transport is closed.
func (a *ask) close() {
	if a.lost {
		a.fail(unknown(broker.ErrClosed))
		return
	}
	a.fail(broker.ErrClosed)
}

func (a *ask) answer(b []byte) {
	a.of.answers[a.index] = b
	a.of.done++
	a.of.settled()
}

func (a *ask) fail(err error) {
	if a.of.err == nil || errors.Is(err, broker.ErrUnknown) {
		a.of.err = err
	}
	a.of.settled()
}

func (r *request) settled() {
	if r.open--; r.open == 0 {
		close(r.decided)
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
