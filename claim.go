package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// Times of the claim loop.
const (
	claimWait    = 5 * time.Second        // for the first job, and up to a fifth more
	claimRotate  = 250 * time.Millisecond // the same when the tasks do not fit in one claim
	claimStumble = time.Millisecond       // first pause after an empty claim that did not wait
	faultMin     = 100 * time.Millisecond
	faultMax     = 5 * time.Second
)

// claimLoop claims into free slots until ctx ends, or until a draining worker
// finds nothing more. No fault of the broker ends it that may pass, but a closed
// client does, with ErrClosed, and a store that is damaged, with ErrCorrupt: it can
// be repaired only when nobody uses it. One of a newer version ends a draining worker,
// with ErrUnsupported: what is there it can never drain.
func (r *run) claimLoop(ctx context.Context) error {
	var pause pause
	for ctx.Err() == nil {
		free := risen(r.free)
		if free == 0 {
			select {
			case <-r.poke:
			case <-ctx.Done():
			}
			continue
		}
		idle := r.idle()
		start := time.Now()
		got, err := r.claim(ctx, free, idle)
		if ctx.Err() != nil {
			return nil
		}
		r.fault("claim", err)
		if err != nil && r.client.closed.Load() {
			return fmt.Errorf("run worker: %w: the client was closed before the worker was stopped", ErrClosed)
		}
		if errors.Is(err, ErrCorrupt) || r.cfg.Drain && errors.Is(err, ErrUnsupported) {
			return fmt.Errorf("run worker: %w", err)
		}
		switch {
		case err != nil:
			rare.Reached(rare.ClaimStumbled)
			pause.after(ctx, faultMin, faultMax)
		case got.jobs > 0:
			pause.reset()
		case got.broken:
		case r.cfg.Drain && !got.more && idle:
			return nil
		case time.Since(start) < claimStumble:
			pause.after(ctx, claimStumble, faultMin)
		}
	}
	return nil
}

// taken is what claiming came to.
type taken struct {
	jobs   int
	more   bool // there may be more now
	broken bool // the wait was broken: what to ask for has changed
}

// pause is a wait that doubles, with jitter.
type pause struct{ next time.Duration }

func (p *pause) reset() { p.next = 0 }

func (p *pause) after(ctx context.Context, first, most time.Duration) {
	sleep(ctx, p.draw(first, most))
}

// draw returns the length of the next wait.
func (p *pause) draw(first, most time.Duration) time.Duration {
	p.next = min(max(p.next, first), most)
	d := p.next/2 + rand.N(p.next/2+1)
	p.next *= 2
	return d
}

// risen returns what count says once it has stopped growing. Each claim and
// each settling is a commit, whose cost hardly depends on how many jobs it is
// for: so one gives way to handlers that are about to return. There is no
// timer, and where nothing else can run this is one look.
func risen(count func() int) int {
	n := count()
	for n > 0 {
		runtime.Gosched()
		more := count()
		if more <= n {
			return more
		}
		n = more
	}
	return n
}

// free returns the number of free slots; none while too much is unsettled.
func (r *run) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsettled >= max(maxUnsettled, r.cfg.Concurrency) {
		return 0
	}
	return min(r.cfg.Concurrency-r.running, broker.MaxClaimJobs)
}

// claim fills free slots: first with what is there, in the order of the queues,
// then, when there was nothing, by waiting for the first job. One claim does
// both when it can ask for everything and nothing but a job need end its wait.
func (r *run) claim(ctx context.Context, free int, idle bool) (taken, error) {
	r.mu.Lock()
	asks, wait, full := r.queues.plan(r.queues.order(), free, r.byQueue)
	breakable := full || r.cfg.Drain
	r.freed = false
	r.mu.Unlock()
	if len(asks) != 1 || len(r.tasks) > 1 || breakable {
		got, err := r.claimNow(ctx, asks, free)
		if got.jobs > 0 || got.more || err != nil || r.cfg.Drain && idle {
			return got, err
		}
	}
	if len(wait.queues) == 0 && full { // every queue is at its limit
		select {
		case <-r.poke:
		case <-ctx.Done():
		}
		return taken{broken: true}, nil
	}
	return r.claimWaiting(ctx, wait, breakable)
}

// claimNow takes what is there.
func (r *run) claimNow(ctx context.Context, asks []ask, free int) (got taken, err error) {
	for _, a := range asks {
		for _, tasks := range r.tasks {
			n := min(a.max, free-got.jobs)
			if n == 0 {
				break
			}
			t, err := r.claimOnce(ctx, a.queues, n, tasks, 0)
			if err != nil {
				return got, err
			}
			got.jobs, got.more, a.max = got.jobs+t.jobs, got.more || t.more, a.max-t.jobs
		}
	}
	return got, nil
}

// claimWaiting waits for the first job of all queues that have room. The end of
// a run breaks the wait when it may change what to ask for.
func (r *run) claimWaiting(ctx context.Context, a ask, breakable bool) (taken, error) {
	if breakable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		r.setInterrupt(cancel)
		defer r.setInterrupt(nil)
	}
	wait := claimWait + rand.N(claimWait/5)
	if len(r.tasks) > 1 {
		wait = claimRotate // and then ask for all of them again
	}
	got, err := r.claimOnce(ctx, a.queues, a.max, r.tasks[0], wait)
	if ctx.Err() != nil {
		got.broken, err = true, nil
	}
	return got, err
}

// setInterrupt sets what ends the waiting claim. A run that has ended since the
// claim was planned ends it at once.
func (r *run) setInterrupt(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interrupt = fn
	if fn != nil && r.freed {
		fn()
	}
}

// claimOnce makes one claim and hands its leases to the slots.
func (r *run) claimOnce(ctx context.Context, queues []string, most int, tasks []string, wait time.Duration) (taken, error) {
	req := broker.ClaimRequest{
		Queues: queues, Tasks: tasks, Max: most, TTL: r.cfg.LeaseTTL, Worker: r.self.ID, Wait: wait,
	}
	start, tries := time.Now(), 0
	var got broker.Claimed
	err := r.client.repeat(ctx, func(call broker.Call) (err error) {
		tries++
		got, err = r.client.broker.Claim(ctx, call, req)
		return err
	})
	if err != nil {
		return taken{}, err
	}
	asked := got.Asked
	if asked.IsZero() || tries > 1 {
		asked = start
	}
	age := time.Since(asked)
	if age >= r.givenUp() && len(got.Leases) > 0 {
		rare.Reached(rare.LeaseProved)
		got.Leases, asked = r.prove(ctx, got.Leases)
	}
	for i := range got.Leases {
		r.accept(&got.Leases[i], asked)
	}
	if age > r.cfg.LeaseTTL/freshPart && len(got.Leases) > 0 {
		notify(r.beat) // the next one in its time would come too late for some
	}
	return taken{jobs: len(got.Leases), more: got.More}, nil
}

// prove returns those of some leases that are still ours, extended, and from when
// on: they came so late that they may be over, and others may have their jobs.
func (r *run) prove(ctx context.Context, leases []broker.Lease) (ours []broker.Lease, from time.Time) {
	req := broker.ExtendRequest{TTL: r.cfg.LeaseTTL}
	for i := range leases {
		req.Leases = append(req.Leases, broker.Extension{Ref: leases[i].Job.Ref(), Token: leases[i].Token})
	}
	from = time.Now()
	beats, err := r.client.broker.Extend(ctx, req)
	if err == nil && len(beats) != len(leases) {
		err = fmt.Errorf("%d answers came back for %d leases", len(beats), len(leases))
	}
	r.fault("extend", err)
	if err != nil {
		return nil, from // their deadlines end them
	}
	for i := range leases {
		if beats[i].Status != broker.Lost {
			ours = append(ours, leases[i])
		}
	}
	if n := len(leases) - len(ours); n > 0 {
		rare.Reached(rare.LeaseTooLate)
		r.log.Warn("jobs were claimed, and the answer came after their leases had ended", "jobs", n)
	}
	return ours, from
}
