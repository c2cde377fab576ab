package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

// look runs fn on a state that includes everything that was published before.
func (b *handle) look(ctx context.Context, fn func(now jobstate.Now)) error {
	if err := b.want(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readForwardLocked()
	if err := b.check(); err != nil {
		return err
	}
	fn(b.now())
	return nil
}

// fill reads what the state does not hold of each ticket's job. Damage shows
// in the job itself: an inspector is not the one to bury it. A job that is gone
// by now is left as Get has one that is not known.
func (b *handle) fill(tickets []jobstate.Ticket) ([]broker.Job, error) {
	jobs := make([]broker.Job, len(tickets))
	read := b.reader(tickets)
	for i := range tickets {
		t := &tickets[i]
		err := t.Fill(read)
		if errors.Is(err, fs.ErrNotExist) {
			err = b.refill(t)
		}
		if errors.Is(err, errDamaged) {
			t.Job.Reason, err = broker.ReasonDamaged, nil
		}
		if errors.Is(err, broker.ErrNotFound) {
			t.Job, err = broker.Job{Queue: t.Job.Queue, ID: t.Job.ID}, nil
		}
		if err != nil {
			return nil, public(err)
		}
		jobs[i] = t.Job
	}
	return jobs, nil
}

// readMoved is read for bytes that a compaction may have moved meanwhile.
func (b *handle) readMoved(l jobstate.Loc) ([]byte, error) {
	p, err := b.read(l)
	if errors.Is(err, fs.ErrNotExist) {
		b.readForward()
		p, err = b.read(l)
	}
	return p, err
}

// Get is Broker.Get.
func (b *handle) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	jobs := make([]broker.Job, len(refs))
	var tickets []jobstate.Ticket
	var index []int
	err := b.look(ctx, func(now jobstate.Now) {
		for i, ref := range refs {
			jobs[i] = broker.Job{Queue: ref.Queue, ID: ref.ID}
			if t, ok := b.s.Get(now, ref); ok {
				tickets, index = append(tickets, t), append(index, i)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	filled, err := b.fill(tickets)
	for k := range filled {
		jobs[index[k]] = filled[k]
	}
	return jobs, err
}

// List is Broker.List.
func (b *handle) List(ctx context.Context, f broker.Filter, cursor string, n int) (page broker.Page, err error) {
	if err := jobstate.CheckList(&f, n); err != nil {
		return page, err
	}
	var found []jobstate.Ticket
	var bad error
	err = b.look(ctx, func(now jobstate.Now) {
		found, page.Cursor, bad = b.s.Select(now, f, f.States[0], cursor, n)
	})
	if err = errors.Join(err, bad); err != nil {
		return broker.Page{}, err
	}
	kept := found[:0]
	for i := range found {
		if jobstate.ErrorMatches(&found[i], f.ErrorContains, b.readMoved) {
			kept = append(kept, found[i])
		}
	}
	page.Jobs, err = b.fill(kept)
	page.Jobs = slices.DeleteFunc(page.Jobs, func(j broker.Job) bool { return j.State == 0 })
	return page, err
}

// Await is Broker.Await. What it returns is durable: it waits for a
// sync that covers the frames it rests on, whoever wrote them.
func (b *handle) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	if err := b.want(ctx); err != nil {
		return nil, err
	}
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	stop := b.hub.Await(refs, ch)
	b.setAwait()
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		stop()
		b.setAwait()
		b.mu.Unlock()
	}()
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(slowPoll)
	defer poll.Stop()
	for {
		ended, err := b.ended(ctx, refs)
		if err != nil || len(ended) > 0 || wait <= 0 {
			return ended, err
		}
		select {
		case <-ch:
		case <-poll.C:
		case <-deadline.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.closed:
			return nil, broker.ErrClosed
		}
	}
}

// ended returns those of refs that are final or not known, durably.
func (b *handle) ended(ctx context.Context, refs []broker.Ref) (ended []broker.Job, err error) {
	jobs, err := b.Get(ctx, refs)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.State == 0 || j.State.Final() {
			ended = append(ended, j)
		}
	}
	if len(ended) > 0 {
		err = b.rest()
	}
	return ended, err
}

// Counts is Broker.Counts.
func (b *handle) Counts(ctx context.Context, queue string) (counts []broker.Count, err error) {
	err = b.look(ctx, func(now jobstate.Now) { counts = b.s.Counts(now, queue) })
	return counts, err
}

// Workers is Broker.Workers.
func (b *handle) Workers(ctx context.Context, queue string) (workers []broker.Worker, err error) {
	err = b.look(ctx, func(jobstate.Now) { workers = b.s.Workers(queue) })
	return workers, err
}

// Explain is Broker.Explain.
func (b *handle) Explain(ctx context.Context, r broker.Ref) (x broker.Explanation, err error) {
	var why error
	err = b.look(ctx, func(now jobstate.Now) { x, why = b.s.Explain(now, r) })
	if err = errors.Join(err, why); err != nil {
		return x, fmt.Errorf("explain %s: %w", r.ID, err)
	}
	return x, nil
}

// watchEvery is how often a handle with watchers reads what others wrote: who
// writes rings only for the end of a job and for changes of settings.
const watchEvery = 100 * time.Millisecond

// Watch is Broker.Watch.
func (b *handle) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	if err := b.want(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.readForwardLocked()
	w, events := b.hub.Watch(f)
	b.setAwait()
	b.readForwardLocked() // what came between the two rang no bell
	b.mu.Unlock()
	b.background(func() {
		var look <-chan time.Time
		if !f.Settings {
			t := time.NewTicker(watchEvery)
			defer t.Stop()
			look = t.C
		}
		for {
			select {
			case <-look:
				b.readForward()
				continue
			case <-ctx.Done():
			case <-b.closed:
			}
			break
		}
		b.mu.Lock()
		b.hub.Unwatch(w)
		b.setAwait()
		b.mu.Unlock()
	})
	return events, nil
}

// Health is Broker.Health.
func (b *handle) Health(ctx context.Context) (broker.Health, error) {
	err := b.want(ctx)
	full := false
	if err == nil {
		b.mu.Lock()
		b.readForwardLocked()
		if err = b.log.Poisoned(); err == nil {
			err = b.broken
		}
		full = b.log.Full()
		b.mu.Unlock()
	}
	switch {
	case errors.Is(err, journal.ErrPoisoned):
		return broker.Health{Status: broker.Poisoned, Text: err.Error() + "; stop every process that uses the store, then start again"}, nil
	case damage(err) && !errors.Is(err, jobstate.ErrNewer):
		return broker.Health{Status: broker.Corrupt, Text: err.Error() + "; see spool verify"}, nil
	case err != nil:
		return broker.Health{}, public(err)
	case full:
		return broker.Health{Status: broker.DiskFull, Text: "the disk is full: enqueue is refused until there is room; claims and settlements go on"}, nil
	}
	return broker.Health{Status: broker.Healthy}, nil
}
