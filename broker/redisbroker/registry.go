package redisbroker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// registered is a worker that was registered through this client.
type registered struct {
	broker.Worker
	at time.Time // when its queues were told
}

// catalogue is what the registry says.
type catalogue struct {
	watched time.Duration // somebody watches for so long
	queues  []string      // sorted
	workers []broker.Worker
	entries [][]byte // of the workers, as they are stored
}

// Operations of lua/registry.lua.
const (
	addQueue = 1 + iota
	readAll
	addWorker
	dropWorker
	watchAll
	dropPart
)

// ask makes a change of the registry and reads it.
func (b *Broker) ask(ctx context.Context, what byte, name string, entry []byte, last time.Duration) (c catalogue, err error) {
	p := newPacker(broker.ID{}).u8(what).str(name).text(entry).u64(last.Milliseconds())
	u, err := b.call(ctx, b.s.registry, registry, p)
	if err != nil {
		return c, err
	}
	c.watched = time.Duration(u.uint(8)) * time.Millisecond
	for range u.count() {
		c.queues = append(c.queues, u.str())
	}
	slices.Sort(c.queues)
	for range u.count() {
		u.str() // the id, which the entry has, too
		entry := u.text()
		var w broker.Worker
		if len(entry) < 16 || json.Unmarshal(entry[16:], &w) != nil {
			continue // of another version
		}
		c.workers, c.entries = append(c.workers, w), append(c.entries, entry)
	}
	return c, u.err
}

// list is what the registry said of queues.
type list struct {
	queues []string  // sorted; nobody changes it
	at     time.Time // zero when it is known to be old
	news   int       // how often a new one was heard of
}

// listLast is for how long a client that hears nothing of new queues takes its
// list of them for complete.
const listLast = time.Second

// queues returns the names of all queues, sorted.
func (b *Broker) queues(ctx context.Context) ([]string, error) {
	places, err := b.places(ctx)
	return queuesAmong(places), err
}

// places returns the names of all queues, and of the parts of those that are spread.
func (b *Broker) places(ctx context.Context) ([]string, error) {
	b.mu.Lock()
	at, news := time.Now(), b.listed.news
	b.mu.Unlock()
	c, err := b.ask(ctx, readAll, "", nil, 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && news == b.listed.news {
		b.listed.queues, b.listed.at = queuesAmong(c.queues), at
	}
	return c.queues, err
}

// recent returns what queues returned a short time ago; nil when it has to be
// read again.
func (b *Broker) recent() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.listed.at) > listLast {
		return nil
	}
	return b.listed.queues
}

// outdate makes the list of queues be read again: there is a new one.
func (b *Broker) outdate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed.at = time.Time{}
	b.listed.news++
}

// only returns queue, or all queues for "".
func (b *Broker) only(ctx context.Context, queue string) ([]string, error) {
	if queue != "" {
		return []string{queue}, nil
	}
	return b.queues(ctx)
}

// knownFor is how long a queue is taken to be in the registry: a failover can lose
// it there.
const knownFor = time.Minute

// ensure makes a queue that is not there: it is registered first, so that nobody
// overlooks it, and told who works for it and whether somebody watches.
func (b *Broker) ensure(ctx context.Context, queue string) error {
	b.mu.Lock()
	known, ok := b.known[queue]
	b.mu.Unlock()
	if ok && time.Since(known) < knownFor {
		return nil
	}
	c, err := b.ask(ctx, addQueue, queue, nil, 0)
	if err != nil {
		return err
	}
	if isPart(queue) {
		if err := b.open(ctx, queue); err != nil {
			return err
		}
	}
	p := newPacker(broker.ID{}).u64(workerLast.Milliseconds()).u64(c.watched.Microseconds())
	var list packer
	n := 0
	for i := range c.workers {
		if w := &c.workers[i]; len(w.Queues) == 0 || slices.Contains(w.Queues, queueOf(queue)) {
			list = list.str(w.ID).u8(0).text(entryOf(w, broker.ID(c.entries[i][:16])))
			n++
		}
	}
	if _, err := b.call(ctx, b.s.worker, queue, append(p.u32(n), list...)); err != nil {
		return err
	}
	b.outdate()
	b.mu.Lock()
	b.known[queue] = time.Now()
	b.mu.Unlock()
	return nil
}

// workerLast is how long a worker is registered that sends no heartbeat.
const workerLast = time.Minute

// entryOf is what a queue knows of a worker.
func entryOf(w *broker.Worker, client broker.ID) []byte {
	p := newPacker(client).flag(len(w.Tasks) == 0).u16(len(w.Tasks))
	for _, task := range w.Tasks {
		p = p.str(task)
	}
	return p
}

// register registers a worker, or refreshes it.
func (b *Broker) register(ctx context.Context, w broker.Worker, ttl time.Duration) error {
	last := max(workerLast, 3*ttl)
	b.mu.Lock()
	old := b.workers[w.ID]
	b.mu.Unlock()
	if w.StartedAt.IsZero() {
		if w.StartedAt = old.StartedAt; w.StartedAt.IsZero() {
			w.StartedAt = time.Now().UTC()
		}
	}
	w.Leases = 0
	text, err := json.Marshal(&w)
	if err != nil {
		return err
	}
	c, err := b.ask(ctx, addWorker, w.ID, append(b.client[:], text...), last)
	if err != nil {
		return err
	}
	if old.same(&w) && time.Since(old.at) < last/4 {
		return nil // its queues know, and will for a while
	}
	p := newPacker(broker.ID{}).u64(last.Milliseconds()).u64(0).u32(1).str(w.ID).u8(0).text(entryOf(&w, b.client))
	for _, q := range c.queues { // who makes another will ask the registry
		var err error
		if len(w.Queues) == 0 || slices.Contains(w.Queues, queueOf(q)) {
			_, err = b.call(ctx, b.s.worker, q, p)
		} else { // it may have listened to it, through whichever client
			err = b.unregister(ctx, q, w.ID, nil)
		}
		if err != nil && !nowhere(err) {
			return err
		}
	}
	b.mu.Lock()
	b.workers[w.ID] = registered{w, time.Now()}
	b.mu.Unlock()
	return nil
}

// same reports whether two registrations say the same to a queue.
func (r *registered) same(w *broker.Worker) bool {
	return r.ID == w.ID && slices.Equal(r.Queues, w.Queues) && slices.Equal(r.Tasks, w.Tasks)
}

// unregister takes a worker off a queue, if client registered it (nil: anyone).
func (b *Broker) unregister(ctx context.Context, queue, id string, client []byte) error {
	p := newPacker(broker.ID{}).u64(0).u64(0).u32(1).str(id).u8(1).text(client)
	_, err := b.call(ctx, b.s.worker, queue, p)
	return err
}

// leave removes a worker's registration.
func (b *Broker) leave(ctx context.Context, id string, client []byte) error {
	c, err := b.ask(ctx, dropWorker, id, client, 0)
	for _, q := range c.queues {
		if e := b.unregister(ctx, q, id, client); !nowhere(e) {
			err = errors.Join(err, e)
		}
	}
	b.mu.Lock()
	delete(b.workers, id)
	b.mu.Unlock()
	return err
}

// leaveAll removes what was registered through this client.
func (b *Broker) leaveAll(ctx context.Context) {
	b.mu.Lock()
	var ids []string
	for id := range b.workers {
		ids = append(ids, id)
	}
	b.mu.Unlock()
	for _, id := range ids {
		_ = b.leave(ctx, id, b.client[:]) // else its registration runs out
	}
}

// Workers implements broker.Inspector.
func (b *Broker) Workers(ctx context.Context, queue string) ([]broker.Worker, error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	c, err := b.ask(ctx, readAll, "", nil, 0)
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, q := range c.queues {
		u, err := b.call(ctx, b.s.held, q, newPacker(broker.ID{}).u32(0))
		if nowhere(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		for range u.count() {
			held[u.str()] += int(u.uint(4))
		}
		if u.err != nil {
			return nil, u.err
		}
	}
	var all []broker.Worker
	for _, w := range c.workers {
		if queue == "" || len(w.Queues) == 0 || slices.Contains(w.Queues, queue) {
			w.Leases = held[w.ID]
			all = append(all, w)
		}
	}
	slices.SortFunc(all, byName)
	return all, nil
}
