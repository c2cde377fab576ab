package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// hub hears what the scripts of queues publish, and tells those of this client
// who wait for it. A queue is listened to from the first that waits on.
type hub struct {
	b    *Broker
	all  sync.WaitGroup
	mu   sync.Mutex
	over bool            // nothing is begun any more
	taps map[string]*tap // by queue
	by   map[broker.ID]*waiter
	seen map[*watch]bool
}

// tap hears one queue.
type tap struct {
	ready   chan struct{} // closed when it is sure to hear
	once    sync.Once
	waiters map[*waiter]bool
	finals  map[broker.ID]map[*waiter]bool // who waits for the end of which job
}

// waiter is a call that waits.
type waiter struct {
	id   broker.ID
	bell chan struct{} // has room for one ring
	taps []*tap
}

func (w *waiter) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// hush forgets that it was told: it is about to look.
func (w *waiter) hush() {
	select {
	case <-w.bell:
	default:
	}
}

// wait returns when it is told, or d is over; else why it ends.
func (w *waiter) wait(ctx context.Context, b *Broker, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.bell:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		return fmt.Errorf("redis: %w", broker.ErrClosed)
	}
	return nil
}

func (h *hub) init(b *Broker) {
	h.b, h.taps, h.by, h.seen = b, map[string]*tap{}, map[broker.ID]*waiter{}, map[*watch]bool{}
}

// begin runs do in a goroutine that Close waits for; not when it has begun to
// wait. h.mu is held.
func (h *hub) begin(do func()) bool {
	if h.over {
		return false
	}
	h.all.Go(do)
	return true
}

// wait returns when nobody listens any more.
func (h *hub) wait() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.all.Wait()
}

func (h *hub) enter() *waiter {
	w := &waiter{id: broker.NewID(), bell: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[w.id] = w
	return w
}

func (h *hub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, w.id)
	for _, e := range w.taps {
		delete(e.waiters, w)
		for id, who := range e.finals {
			if delete(who, w); len(who) == 0 {
				delete(e.finals, id)
			}
		}
	}
}

// listen lets w be told what concerns it in some queues; news also that there
// is a new one.
func (h *hub) listen(ctx context.Context, w *waiter, queues []string, news bool) error {
	if news {
		queues = append(slices.Clone(queues), registry)
	}
	for _, q := range queues {
		if q != registry && !validPlace(q) {
			continue
		}
		h.mu.Lock()
		e := h.tap(q)
		if !e.waiters[w] {
			e.waiters[w] = true
			w.taps = append(w.taps, e)
		}
		h.mu.Unlock()
		if err := h.await(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// await waits until e is sure to hear, for a while: polling stands behind it.
func (h *hub) await(ctx context.Context, e *tap) error {
	select {
	case <-e.ready:
		return nil
	default:
	}
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-e.ready:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-h.b.closed:
		return fmt.Errorf("redis: %w", broker.ErrClosed)
	}
	return nil
}

// tap returns who listens to a queue, begun if nobody does. h.mu is held.
func (h *hub) tap(queue string) *tap {
	e := h.taps[queue]
	if e != nil {
		return e
	}
	e = &tap{ready: make(chan struct{}), waiters: map[*waiter]bool{}, finals: map[broker.ID]map[*waiter]bool{}}
	h.taps[queue] = e
	h.begin(func() {
		err := h.b.t.listen(h.b.ctx, queue, func(message []byte) { h.heard(queue, e, message) })
		_ = err // the broker is closed
	})
	return e
}

// heard passes on a message; nil says that some may have been missed.
func (h *hub) heard(queue string, e *tap, message []byte) {
	if message == nil {
		defer e.once.Do(func() { close(e.ready) }) // after all were told who wait by now
		message = []byte("a")
	}
	if queue == registry && message[0] == 'a' {
		h.b.outdate()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch rest := message[1:]; message[0] {
	case 'a':
		for w := range e.waiters {
			w.ring()
		}
	case 'w':
		for ; len(rest) >= 16; rest = rest[16:] {
			if w := h.by[broker.ID(rest[:16])]; w != nil {
				w.ring()
			}
		}
	case 'f':
		if len(rest) == 16 {
			for w := range e.finals[broker.ID(rest)] {
				w.ring()
			}
		}
	case 'e', 's':
		for w := range h.seen {
			w.heard(message)
		}
	}
}

// withdraw takes a claim off the idle ones that does not wait any more: a job for
// it would wake nobody.
func (h *hub) withdraw(w *waiter, queues []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin(func() {
		ctx, cancel := context.WithTimeout(h.b.ctx, time.Second)
		defer cancel()
		for _, q := range queues {
			if validPlace(q) {
				_, _ = h.b.call(ctx, h.b.s.idle, q, newPacker(broker.ID{}).u32(1).id(w.id))
			}
		}
	})
}

// Await implements broker.Broker.
func (b *Broker) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	deadline := time.Now().Add(wait)
	for try := 0; ; try++ {
		jobs, err := b.await(ctx, b.spread.now().refs(refs), deadline, wait)
		if !moved(err) || try == mostMoves {
			return named(jobs), err
		}
	}
}

// await is Await where the jobs are.
func (b *Broker) await(ctx context.Context, refs []broker.Ref, deadline time.Time, wait time.Duration) ([]broker.Job, error) {
	ended, err := b.ended(ctx, refs, 0)
	if err != nil || len(ended) > 0 || wait <= 0 {
		return ended, err
	}
	w := b.hub.enter()
	defer b.hub.leave(w)
	var queues []string
	for _, r := range refs {
		if !slices.Contains(queues, r.Queue) {
			queues = append(queues, r.Queue)
		}
	}
	if err := b.hub.listen(ctx, w, queues, false); err != nil {
		return nil, err
	}
	b.hub.finals(w, refs)
	for {
		w.hush()
		ended, err := b.ended(ctx, refs, 2*pollEvery)
		left := time.Until(deadline)
		if err != nil || len(ended) > 0 || left <= 0 {
			return ended, err
		}
		if err := w.wait(ctx, b, min(left, pollEvery)); err != nil {
			return nil, err
		}
	}
}

// finals lets w be told of the ends of jobs.
func (h *hub) finals(w *waiter, refs []broker.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range refs {
		e := h.taps[r.Queue]
		if e == nil {
			continue
		}
		delete(e.waiters, w)
		if e.finals[r.ID] == nil {
			e.finals[r.ID] = map[*waiter]bool{}
		}
		e.finals[r.ID][w] = true
	}
}

// ended returns those of the jobs that are final or unknown. The others are
// watched for some time, when that is above 0.
func (b *Broker) ended(ctx context.Context, refs []broker.Ref, watched time.Duration) (ended []broker.Job, err error) {
	jobs, err := b.get(ctx, b.s.ended, refs, watched)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.State == 0 || j.State.Final() {
			ended = append(ended, j)
		}
	}
	return ended, nil
}
