package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// claimers are the workers that claim here. One that names itself is listed as a
// worker of the store, so that explanations and alerts know that somebody takes
// its tasks; it is taken off the list when nothing was heard of it for a while,
// since its process cannot be seen from here.
type claimers struct {
	broker broker.Broker
	mu     sync.Mutex
	known  map[string]*claimer // nil once stopped
}

type claimer struct {
	queues, tasks []string
	listed        time.Time // when that was told to the store
	itself        bool      // it registered itself, by extend
	waiting       int       // claims that wait
	gone          *time.Timer
}

// Bounds of the list. Tests shorten silent.
var silent = 5 * time.Minute // after which a worker counts as gone

const (
	maxClaimers = 10_000           // others are not listed
	relist      = 10 * time.Second // how often a claimer is listed anew that asks for other tasks now
)

func newClaimers(b broker.Broker) *claimers {
	return &claimers{broker: b, known: map[string]*claimer{}}
}

// claim lists who claims, unless it is or need not be. done is called when the
// claim has ended.
func (c *claimers) claim(ctx context.Context, r *broker.ClaimRequest) (done func(), err error) {
	if r.Worker == "" {
		return func() {}, nil
	}
	c.mu.Lock()
	one := c.of(r.Worker)
	if one == nil {
		c.mu.Unlock()
		return func() {}, nil
	}
	one.waiting++
	one.gone.Stop()
	told := one.itself || !one.listed.IsZero() &&
		(time.Since(one.listed) < relist || slices.Equal(one.queues, r.Queues) && slices.Equal(one.tasks, r.Tasks))
	if !told {
		one.queues, one.tasks, one.listed = r.Queues, r.Tasks, time.Now()
	}
	c.mu.Unlock()
	done = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.waiting--; one.waiting == 0 && c.known != nil {
			one.gone.Reset(silent)
		}
	}
	if told {
		return done, nil
	}
	w := broker.Worker{ID: r.Worker, Name: r.Worker, Queues: r.Queues, Tasks: r.Tasks}
	if _, err := c.broker.Extend(ctx, broker.ExtendRequest{Worker: w}); err != nil {
		c.mu.Lock()
		one.listed = time.Time{} // the next claim tries again
		c.mu.Unlock()
		done()
		return nil, err
	}
	return done, nil
}

// beat takes note of a worker that registers itself, or leaves.
func (c *claimers) beat(w *broker.Worker, leaving bool) {
	if w.ID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if leaving {
		if one := c.known[w.ID]; one != nil {
			one.gone.Stop()
			delete(c.known, w.ID)
		}
		return
	}
	if one := c.of(w.ID); one != nil {
		one.itself = true
		if one.waiting == 0 {
			one.gone.Reset(silent)
		}
	}
}

// alive takes note that a worker lives that is listed by its claims, and reports
// whether that was all that w says.
func (c *claimers) alive(w *broker.Worker) bool {
	if w.ID == "" || w.Name != "" || w.Queues != nil || w.Tasks != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.known[w.ID]
	if one == nil || one.itself {
		return false
	}
	if one.waiting == 0 {
		one.gone.Reset(silent)
	}
	return true
}

// of returns a claimer, nil when there are too many. mu is held.
func (c *claimers) of(id string) *claimer {
	one := c.known[id]
	if one != nil || c.known == nil || len(c.known) == maxClaimers {
		return one
	}
	one = &claimer{}
	one.gone = time.AfterFunc(silent, func() { c.forget(id, one) })
	c.known[id] = one
	return one
}

// forget takes a claimer off the list that was silent.
func (c *claimers) forget(id string, one *claimer) {
	c.mu.Lock()
	if c.known[id] != one || one.waiting > 0 {
		c.mu.Unlock()
		return
	}
	delete(c.known, id)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Whoever cannot be told now is the store's to forget, with this process.
	_, _ = c.broker.Extend(ctx, broker.ExtendRequest{Worker: broker.Worker{ID: id}, Leaving: true})
}

// stop forgets all without a word: what the store has of them ends with it.
func (c *claimers) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.known {
		one.gone.Stop()
	}
	c.known = nil
}
