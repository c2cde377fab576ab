package spool

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// A lease is extended at each beat, a third of its TTL apart, unless it was
// claimed less than a sixth ago: so it is never older than a half, and one beat
// may fail. While beats fail they are tried each tenth, and at four fifths of
// the TTL the lease is given up, so that no handler goes on beyond it.
const (
	beatPart    = 3
	freshPart   = 6
	retryPart   = 10
	maxBeatJobs = 1000 // leases in one call
)

// beatLoop keeps the leases and the registration until the run is over, also
// while it shuts down. It is a goroutine of its own so that nothing else that
// the worker does can hold it up.
func (r *run) beatLoop(registered chan<- struct{}) {
	if r.heartbeat(0) != nil {
		notify(r.beat)
	}
	close(registered)
	t := time.NewTimer(r.cfg.LeaseTTL / beatPart)
	defer t.Stop()
	for {
		fresh := r.cfg.LeaseTTL / freshPart
		select {
		case <-t.C:
		case <-r.beat:
			fresh = 0
		case <-r.ctx.Done():
			return
		}
		next := r.cfg.LeaseTTL / beatPart
		if err := r.heartbeat(fresh); err != nil {
			rare.Reached(rare.HeartFailed)
			next = r.cfg.LeaseTTL / retryPart
		}
		t.Reset(next)
	}
}

// heartbeat registers the worker and extends the leases that it holds for
// longer than fresh.
func (r *run) heartbeat(fresh time.Duration) error {
	works := r.stale(fresh)
	var err error
	for first := true; first || len(works) > 0; first = false {
		part := works[:min(len(works), maxBeatJobs)]
		works = works[len(part):]
		if err = r.extend(part); err != nil {
			break
		}
	}
	if r.ctx.Err() != nil {
		return nil
	}
	r.fault("extend", err)
	r.giveUp()
	return err
}

// stale returns the leases that were not confirmed for that long.
func (r *run) stale(fresh time.Duration) []*work {
	before := time.Now().Add(-fresh)
	r.mu.Lock()
	defer r.mu.Unlock()
	var works []*work
	for _, w := range r.held {
		if !w.lost && !w.confirmed.After(before) {
			works = append(works, w)
		}
	}
	return works
}

func (r *run) extend(works []*work) error {
	ctx, cancel := context.WithTimeout(r.ctx, r.patience(works))
	defer cancel()
	req := broker.ExtendRequest{Worker: r.self, TTL: r.cfg.LeaseTTL, Leases: make([]broker.Extension, len(works))}
	room := r.client.caps.MaxBytes
	for i, w := range works {
		req.Leases[i], _ = w.extensionWithin(&room)
	}
	start := time.Now()
	beats, err := r.client.broker.Extend(ctx, req)
	if err == nil && len(beats) != len(works) {
		err = fmt.Errorf("%d answers came back for %d leases", len(beats), len(works))
	}
	if err != nil {
		for i, w := range works {
			w.putBack(req.Leases[i])
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range works {
		switch beats[i].Status {
		case broker.CancelAsked:
			w.cancel(ErrCancelled)
			w.confirmed = start
		case broker.Held:
			w.confirmed = start
		default:
			w.loseLocked()
		}
	}
	return nil
}

// patience is how long a beat may take: until the first lease would be given
// up, at least a tenth of the TTL.
func (r *run) patience(works []*work) time.Duration {
	d := r.cfg.LeaseTTL / beatPart
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range works {
		d = min(d, time.Until(w.confirmed.Add(r.givenUp())))
	}
	return max(d, r.cfg.LeaseTTL/retryPart)
}

// givenUp is at which age a lease that was not extended is given up.
func (r *run) givenUp() time.Duration { return r.cfg.LeaseTTL * 4 / 5 }

// giveUp gives up the leases that could not be extended in time.
func (r *run) giveUp() {
	old := time.Now().Add(-r.givenUp())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.held {
		if w.confirmed.Before(old) {
			rare.Reached(rare.LeaseGivenUp)
			w.loseLocked()
		}
	}
}

// loseLocked stops the handler of a lost lease. When the handler has returned
// it does nothing: the answer to the settlement, which may have come first,
// decides.
func (w *work) loseLocked() {
	if !w.over {
		rare.Reached(rare.HandlerStopped)
		w.lost = true
		w.cancel(ErrLeaseLost)
	}
}

// leave takes back the registration. It lasts no longer than patience, even
// when the broker does not listen to its context.
func (r *run) leave(patience time.Duration) {
	left := make(chan struct{})
	go func() {
		defer close(left)
		ctx, cancel := context.WithTimeout(r.base, patience)
		defer cancel()
		req := broker.ExtendRequest{Worker: r.self, Leaving: true, TTL: r.cfg.LeaseTTL}
		if _, err := r.client.broker.Extend(ctx, req); err != nil {
			r.log.Warn("worker's registration stays until it expires", "worker", r.cfg.Name, "id", r.self.ID, "error", err)
		}
	}()
	waitFor(left, patience)
}
