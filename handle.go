package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// work is one claimed job on its way through a worker. It is made for each job:
// what can be kept in it needs no allocation of its own.
type work struct {
	Lease
	handler *taskHandler
	ctx     leaseContext
	cancel  context.CancelCauseFunc
	claimed time.Time // when this worker got it
	start   time.Time // of the handler

	outcome    Outcome
	failure    string // the text of outcome.Err, read once: its methods are the user's
	refused    bool   // nothing was settled
	done       bool   // settled or refused; this and the next are the settler's
	unknown    bool   // a settlement may have taken place
	settlement broker.Settlement

	// Guarded by run.mu.
	place     int       // in run.held; -1 when it is not there any more
	confirmed time.Time // the lease lasts from here for a TTL, as far as we know
	lost      bool      // the lease is known or feared to be lost
	over      bool      // the handler has returned
}

// leaseContext is a handler's context, in which LeaseFrom finds the lease.
type leaseContext struct {
	context.Context
	lease *Lease
}

func (c *leaseContext) Value(key any) any {
	if _, ok := key.(leaseKey); ok {
		return c.lease
	}
	return c.Context.Value(key)
}

// accept takes a claimed lease into a slot. A lease that came after the end of
// Run's context, or of a task that was not asked for, is given back.
func (r *run) accept(l *broker.Lease, claimed time.Time) {
	w := &work{claimed: time.Now(), confirmed: claimed}
	w.Job, w.Token, w.ExpiresAt = l.Job, l.Token, l.ExpiresAt
	w.client, w.ttl = r.client, r.cfg.LeaseTTL
	inner, cancel := context.WithCancelCause(r.base)
	w.ctx, w.cancel = leaseContext{inner, &w.Lease}, cancel
	if w.handler = r.handlers[w.Job.Task]; w.handler == nil {
		w.handler = r.handlers[""]
	}
	start := w.handler != nil && r.life.Err() == nil

	r.mu.Lock()
	w.place = len(r.held)
	r.held = append(r.held, w)
	r.running++
	if _, limited := r.queues.limits[w.Job.Queue]; limited {
		r.byQueue[w.Job.Queue]++
	}
	r.mu.Unlock()
	if start {
		r.jobs <- w
		return
	}
	w.start = time.Now()
	rare.Reached(rare.ClaimGivenBack)
	w.outcome.Kind = broker.Release
	r.finish(w)
}

// slot runs one job after the other. A handler or a hook that ends its
// goroutine (runtime.Goexit, as testing.T.Fatal does) ends the slot with it:
// another takes its place.
func (r *run) slot(slots *sync.WaitGroup) {
	var w *work // in its handler
	over := false
	defer func() {
		if over {
			slots.Done()
			return
		}
		defer func() { go r.slot(slots) }()
		if w != nil {
			rare.Reached(rare.HandlerLeft)
			w.conclude(errors.New("handler ended its goroutine (runtime.Goexit)"))
			r.finish(w)
		}
	}()
	for next := range r.jobs {
		w = next
		w.conclude(w.run(r))
		w = nil
		r.finish(next)
	}
	over = true
}

// run calls the handler and returns its error, or its panic as one.
func (w *work) run(r *run) (err error) {
	w.start = time.Now()
	ctx := context.Context(&w.ctx)
	if ctx.Err() != nil { // before it began
		return context.Cause(ctx)
	}
	if w.Job.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Job.Timeout)
		defer cancel()
	}
	if r.cfg.Hooks.Started != nil {
		r.hook(func() { r.cfg.Hooks.Started(&w.Lease) })
	}
	defer func() {
		if p := recover(); p != nil {
			rare.Reached(rare.HandlerPanicked)
			err = newPanicError(p)
		}
	}()
	err = w.handler.run(ctx, &w.Lease)
	if err != nil && ctx.Err() != nil && w.ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("timeout of %v is over: %w", w.Job.Timeout, err)
	}
	return err
}

// panicError is the error of a handler that panicked.
type panicError struct{ text string }

func (e *panicError) Error() string { return e.text }

// maxPanicBytes of the panic's value are kept, so that the stack fits behind.
const maxPanicBytes = 1 << 10

func newPanicError(p any) error {
	value := fmt.Sprint(p) // catches panics of its methods
	if len(value) > maxPanicBytes {
		value = value[:maxPanicBytes] + "…"
	}
	return &panicError{broker.CutError("panic: " + value + "\n\n" + string(debug.Stack()))}
}

// conclude decides how the run is settled.
func (w *work) conclude(err error) {
	w.outcome.Duration = time.Since(w.start)
	w.outcome.Err = err
	if err == nil {
		w.outcome.Kind = broker.Ack
		return
	}
	// The methods of err are the user's, and can panic.
	defer func() {
		if p := recover(); p != nil {
			w.fail(fmt.Sprintf("%T, whose methods panicked: %v", err, p), err)
		}
	}()
	cause := context.Cause(&w.ctx)
	s := steer(err)
	switch {
	case cause == ErrCancelled:
		w.outcome.Kind = broker.Cancel
	case s != nil:
		w.outcome.Kind, w.settlement.Delay = s.kind, s.delay
	case cause == ErrShutdown:
		w.outcome.Kind = broker.Release
	default:
		w.fail("", err)
	}
	w.failure = errorText(err)
}

// fail makes the run a failed attempt.
func (w *work) fail(text string, err error) {
	w.outcome.Kind, w.failure = broker.Nack, broker.CutError(text)
	defer func() {
		if p := recover(); p != nil { // in the task's own policy
			w.settlement.Delay = Exponential{}.Delay(w.Job.Attempt, nil)
		}
	}()
	w.settlement.Delay = clampDelay(w.handler.retry.Delay(w.Job.Attempt, err))
}

// finish frees the slot of w and passes it on to be settled, unless its lease
// is lost or the handler has settled it.
func (r *run) finish(w *work) {
	w.cancel(context.Canceled) // ends what the handler has left waiting
	own := w.Lease.end()
	w.settlement.Kind, w.settlement.Ref, w.settlement.Token = w.outcome.Kind, w.Job.Ref(), w.Token
	switch w.outcome.Kind {
	case broker.Nack, broker.Bury, broker.Cancel:
		w.settlement.Error = w.failure
	case broker.Ack:
		w.settlement.Result, w.settlement.FollowUps = w.result, w.followUps
	}
	r.mu.Lock()
	w.over = true
	r.running--
	if _, limited := r.byQueue[w.Job.Queue]; limited {
		r.byQueue[w.Job.Queue]--
	}
	drop := w.lost || own || r.closed
	if drop {
		if w.outcome.Kind = 0; !own {
			rare.Reached(rare.NothingSettled)
			w.refuse(ErrLeaseLost)
		}
		r.unhold(w)
	} else {
		r.finished = append(r.finished, w)
		r.unsettled++
	}
	r.freeLocked()
	r.mu.Unlock()
	notify(r.poke)
	if drop {
		r.report(w)
	} else {
		notify(r.ready)
	}
}

// freeLocked says that a slot or a settlement came free.
func (r *run) freeLocked() {
	r.freed = true
	if r.interrupt != nil {
		r.interrupt()
	}
}

// unhold forgets a lease.
func (r *run) unhold(w *work) {
	if w.place < 0 {
		return
	}
	last := len(r.held) - 1
	r.held[w.place] = r.held[last]
	r.held[w.place].place = w.place
	r.held[last] = nil
	r.held, w.place = r.held[:last], -1
}

// refuse notes that nothing was settled, and why.
func (w *work) refuse(why error) {
	w.refused = true
	w.outcome.Kind, w.outcome.Err = 0, errors.Join(why, w.outcome.Err)
	w.failure = strings.TrimSuffix(why.Error()+"; "+w.failure, "; ")
}

// report logs and counts how a run ended.
func (r *run) report(w *work) {
	o := w.outcome
	level, text := slog.LevelDebug, "job finished"
	switch {
	case w.refused:
		level, text = slog.LevelWarn, "job not settled"
	case o.Kind == broker.Nack || o.Kind == broker.Bury || o.State == Dead:
		level, text = slog.LevelWarn, "job failed"
	}
	if r.log.Enabled(r.base, level) {
		r.log.LogAttrs(r.base, level, text, slog.String("task", w.Job.Task), slog.String("queue", w.Job.Queue),
			slog.String("job", w.Job.ID.String()), slog.Int("attempt", w.Job.Attempt), slog.String("settled", o.Kind.String()),
			slog.String("state", o.State.String()), slog.Duration("took", o.Duration), slog.String("error", w.failure))
	}
	if r.cfg.Hooks.Finished != nil {
		r.hook(func() { r.cfg.Hooks.Finished(&w.Lease, o) })
	}
}

// end closes the lease to its handler and reports whether the handler has
// settled it, or is about to.
func (l *Lease) end() (own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != leaseOpen {
		return true
	}
	l.state = leaseEnded
	return false
}
