package filebroker

import (
	"hash/fnv"
	"math"
	"sync/atomic"

	"github.com/spoolq/spool/broker"
)

// A filter is a set of queues and a set of tasks in one word, with false
// positives: what the workers take that are registered through a handle. Its
// slot of the shared page shows it to those who have not loaded the state. 0 is
// that of a handle without workers.
type filter uint64

const (
	queueBits   = 16
	queueHashes = 2
	taskHashes  = 3
)

// filterOf makes the filter of a worker. No names are every name.
func filterOf(w *broker.Worker) (f filter) {
	if len(w.Queues) == 0 {
		f |= 1<<queueBits - 1
	}
	for _, name := range w.Queues {
		f |= queueFilter(name)
	}
	if len(w.Tasks) == 0 {
		f |= math.MaxUint64 &^ (1<<queueBits - 1)
	}
	for _, name := range w.Tasks {
		f |= taskFilter(name)
	}
	return f
}

// admits reports whether jobs of a queue and task may be wanted.
func (f filter) admits(queue, task string) bool {
	want := queueFilter(queue) | taskFilter(task)
	return f&want == want
}

func queueFilter(name string) filter { return filterBits(name, 0, queueBits, queueHashes) }

func taskFilter(name string) filter { return filterBits(name, queueBits, 64-queueBits, taskHashes) }

// filterBits sets n of the width bits from the given one on.
func filterBits(name string, from, width uint64, n int) (f filter) {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	for v := h.Sum64(); n > 0; n-- {
		v ^= v >> 29
		v *= 0xbf58476d1ce4e5b9
		v ^= v >> 32
		f |= 1 << (from + v%width)
	}
	return f
}

// showFilter says in the shared page what this handle's workers take; mu is
// held.
func (b *handle) showFilter() {
	if s := b.slot(b.member.name, false); s != nil {
		var all filter
		for _, f := range b.taking {
			all |= f
		}
		if v := uint64(all); atomic.LoadUint64(&s[slotTaking]) != v {
			atomic.StoreUint64(&s[slotTaking], v)
		}
	}
}

// guess adds idle handles to ring for k, by one who has not loaded the state: of
// those whose workers seem to want the same, and that may want k, at most one
// per job, and as many of those without registered workers.
func (b *handle) guess(k claimable, names []string) []string {
	rung := map[filter]int{}
	words := b.log.Shared()
	for i := 0; i+slotWords <= len(words); i += slotWords {
		m, wants := atomic.LoadUint64(&words[i]), filter(atomic.LoadUint64(&words[i+slotTaking]))
		bits := idleWorkers
		if wants == 0 {
			bits = idleOthers
		}
		if m == 0 || rung[wants] == k.n || wants != 0 && !wants.admits(k.queue, k.task) {
			continue
		}
		if b.pick(nameOf(m), bits, &names) {
			rung[wants]++
		}
	}
	return names
}

// Served says whether a worker that takes jobs of a queue and task may be alive.
// It loads nothing: false is right, but for a worker that is just starting;
// true can be wrong.
func (b *Broker) Served(queue, task string) (bool, error) {
	return through(b, func(h *handle) (bool, error) { return h.Served(queue, task) })
}

// Served is Broker.Served.
func (b *handle) Served(queue, task string) (bool, error) {
	if err := b.begin(noContext); err != nil {
		return false, err
	}
	defer b.watchdog()()
	if err := b.log.Lock(); err != nil {
		return false, public(err)
	}
	defer b.log.Unlock()
	names, err := b.handles()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if name == b.member.name || !b.mayLive(name) {
			continue
		}
		s := b.slot(name, false)
		if s == nil && b.there(name+bellSuffix) {
			return true, nil // it found no room in the page: who knows
		}
		if s != nil && filter(atomic.LoadUint64(&s[slotTaking])).admits(queue, task) {
			return true, nil
		}
	}
	return false, nil
}
