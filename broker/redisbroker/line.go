package redisbroker

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
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
	flight  []*ask        // travel now
	calls   [][]byte      // of the flight; the leader's
	land    func()        // ends the flight's attempt
	leading bool          // a goroutine makes runs
	last    int           // calls of the last run
	took    time.Duration // of the last run that the server answered; 0 before
	left    chan struct{} // told when a caller left and nobody waits
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
	again := false
	for _, a := range batch {
		l.calls = append(l.calls, a.call)
		again = again || a.lost
	}
	began := time.Now()
	answers, err := l.g.attempt(ctx, l.key.script, l.key.queue, l.calls, again)
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
