package redisbroker

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
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
	flights []*flight     // one for each run that may be out at a time
	took    time.Duration // of the last run, if the server answered it; else 0
	left    chan struct{} // told when a caller left and nobody waits
}

// flight makes runs of a line, one at a time. gather.mu guards it, but for calls.
type flight struct {
	asks  []*ask   // travel now
	calls [][]byte // of them; the leader's
	land  func()   // ends the attempt
	led   bool     // a goroutine makes runs
	last  int      // calls of the last run
}

// idle returns a flight that nobody leads: the first, or a further one while the
// server answers at once. Then one run is prepared while another is out.
func (l *line) idle() *flight {
	for i, f := range l.flights {
		if !f.led && (i == 0 || l.near()) {
			return f
		}
	}
	return nil
}

// near says whether the server answers so fast that callers wait for it themselves.
func (l *line) near() bool { return l.took > 0 && l.took < near }

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

// landIfAllLeft ends attempts that nobody waits for any more.
func (l *line) landIfAllLeft() {
	for _, f := range l.flights {
		if f.land != nil && !slices.ContainsFunc(f.asks, func(a *ask) bool { return a.of.left == nil }) {
			f.land()
		}
	}
}

// lead makes runs until nothing waits.
func (l *line) lead(f *flight) {
	for failed := 0; ; {
		ran, repeat := l.run(f, 0)
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
func (l *line) leadOnce(f *flight) {
	l.run(f, grace)
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if len(l.waiting) > 0 {
		l.g.lead(l, f)
		return
	}
	l.rest(f)
}

// rest ends the lead; gather.mu is held.
func (l *line) rest(f *flight) {
	f.led = false
	if len(l.g.lines) > mostLines && !slices.ContainsFunc(l.flights, func(f *flight) bool { return f.led }) {
		delete(l.g.lines, l.key)
	}
}

// run makes one run, with so much patience (0: as much as an attempt has). It
// says whether there was one, and whether calls of it wait to be repeated.
func (l *line) run(f *flight, patience time.Duration) (ran, repeat bool) {
	l.muster(f)
	ctx, batch := l.take(f, patience)
	if batch == nil {
		return false, false
	}
	f.calls = f.calls[:0]
	again := false
	for _, a := range batch {
		f.calls = append(f.calls, a.call)
		again = again || a.lost
	}
	began := time.Now()
	answers, err := l.g.attempt(ctx, l.key.script, l.key.queue, f.calls, again)
	clear(f.calls)
	return true, l.settle(f, batch, answers, err, time.Since(began))
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
func (l *line) muster(f *flight) {
	there, more := 0, true
	for more {
		l.g.mu.Lock()
		n := len(l.waiting)
		more = n > there && n < f.last
		l.g.mu.Unlock()
		if there = n; more {
			runtime.Gosched()
		}
	}
}

// take returns the calls of the next run, and its context; nil when nothing
// waits, the lead being over then.
func (l *line) take(f *flight, patience time.Duration) (ctx context.Context, batch []*ask) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.dropLeft()
	n := l.fit()
	if n == 0 {
		if patience == 0 {
			l.rest(f)
		}
		return nil, nil
	}
	select {
	case <-l.left:
	default:
	}
	now := time.Now()
	f.asks = append(f.asks[:0], l.waiting[:n]...)
	for _, a := range f.asks {
		if a.first.IsZero() {
			a.first = now
		}
	}
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting, f.last = l.waiting[:rest], n
	if patience > 0 {
		ctx, f.land = context.WithTimeout(l.g.ctx, patience)
	} else {
		ctx, f.land = context.WithCancel(l.g.ctx)
	}
	return ctx, f.asks
}

// fit counts the calls, from the first one that waits, that the next run takes:
// what one can, but beside another leader's run no more than its share.
func (l *line) fit() int {
	out, led := 0, 0
	for _, f := range l.flights {
		if f.led {
			out, led = out+len(f.asks), led+1
		}
	}
	share := (len(l.waiting) + out + led - 1) / led
	most := l.key.script.most
	if most == 0 {
		most = mostWeight
	}
	weight, size := 0, 0
	for i, a := range l.waiting {
		weight += a.weight
		size += len(a.call)
		if i > 0 && (weight > most || size > mostBytes || i >= share) {
			return i
		}
	}
	return len(l.waiting)
}

// settle gives the calls of a run their outcome, or puts them back at the head
// of the line. It says whether there is something to repeat.
func (l *line) settle(f *flight, batch []*ask, answers [][]byte, err error, took time.Duration) (repeat bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	f.land()
	f.land = nil
	defer func() {
		clear(f.asks)
		f.asks = f.asks[:0]
	}()
	if err == nil {
		for i, a := range batch {
			a.answer(answers[i])
		}
		l.took = max(took, 1)
		return false
	}
	l.took = 0
	why, ok := errors.AsType[*failure](err)
	if !ok {
		why = &failure{lost, err}
	}
	var again []*ask
	for _, a := range batch {
		if a.failed(why, l.g.closed) {
			again = append(again, a)
		}
	}
	l.waiting = append(again, l.waiting...)
	return len(again) > 0
}
