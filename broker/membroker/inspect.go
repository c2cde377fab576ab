package membroker

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// Await implements broker.Broker.
func (b *Broker) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	ch := make(chan struct{}, 1)
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	stop := b.hub.Await(refs, ch)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		stop()
		b.mu.Unlock()
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		jobs, err := b.Get(ctx, refs)
		if err != nil {
			return nil, err
		}
		var ended []broker.Job
		for _, j := range jobs {
			if j.State == 0 || j.State.Final() {
				ended = append(ended, j)
			}
		}
		if len(ended) > 0 || wait <= 0 {
			return ended, nil
		}
		select {
		case <-ch:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.closed:
			return nil, broker.ErrClosed
		}
	}
}

// Get implements broker.Inspector.
func (b *Broker) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	now := b.now()
	jobs := make([]broker.Job, len(refs))
	for i, ref := range refs {
		jobs[i] = broker.Job{Queue: ref.Queue, ID: ref.ID}
		if t, ok := b.s.Get(now, ref); ok {
			if err := t.Fill(b.read); err != nil {
				return nil, err
			}
			jobs[i] = t.Job
		}
	}
	return jobs, nil
}

// List implements broker.Inspector.
func (b *Broker) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	if err := jobstate.CheckList(&f, n); err != nil {
		return broker.Page{}, err
	}
	if err := b.begin(ctx); err != nil {
		return broker.Page{}, err
	}
	defer b.mu.Unlock()
	found, next, err := b.s.Select(b.now(), f, f.States[0], cursor, n)
	if err != nil {
		return broker.Page{}, err
	}
	kept := found[:0]
	for i := range found {
		if jobstate.ErrorMatches(&found[i], f.ErrorContains, b.read) {
			kept = append(kept, found[i])
		}
	}
	jobs, err := b.fill(kept)
	return broker.Page{Jobs: jobs, Cursor: next}, err
}

// Counts implements broker.Inspector.
func (b *Broker) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	return b.s.Counts(b.now(), queue), nil
}

// Workers implements broker.Inspector.
func (b *Broker) Workers(ctx context.Context, queue string) ([]broker.Worker, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	return b.s.Workers(queue), nil
}

// Explain implements broker.Inspector.
func (b *Broker) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	if err := b.begin(ctx); err != nil {
		return broker.Explanation{}, err
	}
	defer b.mu.Unlock()
	x, err := b.s.Explain(b.now(), r)
	if err != nil {
		return x, fmt.Errorf("explain %s: %w", r.ID, err)
	}
	return x, nil
}

// Watch implements broker.Inspector.
func (b *Broker) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	w, events := b.hub.Watch(f)
	go func() {
		select {
		case <-ctx.Done():
		case <-b.closed:
		}
		b.mu.Lock()
		b.hub.Unwatch(w)
		b.mu.Unlock()
	}()
	return events, nil
}

// Health implements broker.Inspector.
func (b *Broker) Health(ctx context.Context) (broker.Health, error) {
	if err := b.begin(ctx); err != nil {
		return broker.Health{}, err
	}
	defer b.mu.Unlock()
	return broker.Health{Status: broker.Healthy}, nil
}
