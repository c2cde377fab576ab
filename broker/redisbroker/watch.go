package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// watch is one open call of Watch.
type watch struct {
	f      broker.Filter
	events chan broker.Event
}

const (
	// watchBuffer is how many events a reader may be late.
	watchBuffer = 256
	// watchLast is for how long queues publish events after somebody has said
	// that he watches.
	watchLast = time.Minute
)

// Watch implements broker.Inspector.
func (b *Broker) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	w := &watch{f: f, events: make(chan broker.Event, watchBuffer)}
	h := &b.hub
	h.mu.Lock()
	e := h.tap(registry)
	h.mu.Unlock()
	if err := h.await(ctx, e); err != nil {
		return nil, err
	}
	if w.announced() {
		if err := b.announce(ctx); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begin(func() { b.keepWatching(ctx, w) }) {
		return nil, fmt.Errorf("redis: %w", broker.ErrClosed)
	}
	h.seen[w] = true
	return w.events, nil
}

// announced reports whether queues have to know that somebody watches: what
// happens rarely they publish always, so that a worker that waits for no more
// does not make them publish the course of every job.
func (w *watch) announced() bool { return !w.f.Settings && w.f.Reason != broker.ReasonCancelAsked }

// keepWatching says again and again that somebody watches, until he does not.
func (b *Broker) keepWatching(ctx context.Context, w *watch) {
	defer func() {
		b.hub.mu.Lock()
		defer b.hub.mu.Unlock()
		delete(b.hub.seen, w)
		close(w.events)
	}()
	var again <-chan time.Time
	if w.announced() {
		tick := time.NewTicker(watchLast / 6)
		defer tick.Stop()
		again = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.closed:
			return
		case <-again:
			_ = b.announce(ctx) // the next one may get through
		}
	}
}

// announce tells all queues, and the registry for those to come, that somebody
// watches.
func (b *Broker) announce(ctx context.Context) error {
	c, err := b.ask(ctx, watchAll, "", nil, watchLast)
	if err != nil {
		return err
	}
	p := newPacker(broker.ID{}).u64(0).u64(watchLast.Microseconds()).u32(0)
	for _, q := range c.queues {
		if _, err := b.call(ctx, b.s.worker, q, p); err != nil && !nowhere(err) {
			return err
		}
	}
	return nil
}

// heard passes on an event that the filter chooses. A slow reader misses it.
func (w *watch) heard(message []byte) {
	u := &unpacker{b: message[1:]}
	prefix := string(u.text())
	queue := queueOf(prefix[strings.IndexByte(prefix, '{')+1 : max(strings.LastIndexByte(prefix, '}'), strings.IndexByte(prefix, '{')+1)])
	var e broker.Event
	if message[0] == 's' {
		e = broker.Event{Queue: queue, Setting: &broker.SettingName{Kind: broker.SettingKind(u.text()), Name: string(u.text())}, At: u.time()}
		if !w.f.Settings || w.f.Queue != "" && w.f.Queue != queue {
			return
		}
	} else {
		e = broker.Event{Queue: queue, ID: u.id(), Task: string(u.text()), Worker: string(u.text())}
		tenant, group := string(u.text()), string(u.text())
		e.State, e.Reason = broker.State(u.u8()), reasons[u.u8()&31]
		e.At = u.time()
		if !w.chooses(&e, tenant, group) {
			return
		}
	}
	if u.err != nil {
		return
	}
	select {
	case w.events <- e:
	default:
	}
}

func (w *watch) chooses(e *broker.Event, tenant, group string) bool {
	f := &w.f
	return !f.Settings && (f.Queue == "" || f.Queue == e.Queue) && (len(f.IDs) == 0 || slices.Contains(f.IDs, e.ID)) &&
		(len(f.States) == 0 || slices.Contains(f.States, e.State)) && (f.Task == "" || f.Task == e.Task) &&
		(f.Tenant == "" || f.Tenant == tenant) && (f.Group == "" || f.Group == group) &&
		(f.Reason == "" || f.Reason == e.Reason)
}
