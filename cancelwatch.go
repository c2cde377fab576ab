package spool

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
)

// watchAge is how long a job runs before its worker listens for its
// cancellation; a shorter one is over before it matters. The worker stops
// listening when none has run so long for watchRest checks.
const (
	watchAge  = time.Second
	watchRest = 10
)

// watchLoop makes a worker hear of cancellations at once, where the heartbeat
// alone would tell it a third of a TTL later. It watches the store only while
// a job runs for long. What it hears is a hint: it makes the heart beat.
func (r *run) watchLoop() {
	t := time.NewTicker(watchAge)
	defer t.Stop()
	var events <-chan broker.Event
	var stop context.CancelFunc
	rest := 0
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for {
		select {
		case <-r.ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if r.holds(e.Queue, e.ID) {
				notify(r.beat)
			}
			continue
		case <-t.C:
		}
		long := r.runsLong()
		if rest++; long {
			rest = 0
		}
		switch {
		case long && events == nil:
			if stop != nil {
				stop()
			}
			if events, stop = r.watch(); events != nil {
				notify(r.beat) // for what was cancelled before
			}
		case rest >= watchRest && events != nil:
			stop()
			events, stop = nil, nil
		}
	}
}

func (r *run) watch() (<-chan broker.Event, context.CancelFunc) {
	ctx, stop := context.WithCancel(r.ctx)
	events, err := r.client.broker.Watch(ctx, Filter{Reason: broker.ReasonCancelAsked})
	if r.ctx.Err() == nil {
		r.fault("watch", err)
	}
	if err != nil {
		stop()
		return nil, nil
	}
	return events, stop
}

// runsLong reports whether a job has run for watchAge.
func (r *run) runsLong() bool {
	old := time.Now().Add(-watchAge)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.held {
		if !w.over && !w.claimed.After(old) {
			return true
		}
	}
	return false
}

func (r *run) holds(queue string, id ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.held {
		if w.Job.ID == id && w.Job.Queue == queue {
			return true
		}
	}
	return false
}
