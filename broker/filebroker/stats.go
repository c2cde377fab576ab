package filebroker

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Stats counts what a client did since it was opened. All of it may be read while
// the client works.
type Stats struct {
	Commits     Durations    // frames appended; how long LOCK had been held then: to catch up, decide and write
	Syncs       Durations    // fdatasync calls for answers (others can be for them too), with the wait for their turn among processes
	Loads       atomic.Int64 // how often the state was built from the log; 0 for who only enqueues
	Compactions atomic.Int64 // checkpoints written
}

// Stats returns the handle's counters.
func (b *Broker) Stats() *Stats { return &b.stats }

// shortest is the upper bound of the first bucket of Durations, and buckets how
// many there are with one; each bound is twice the one before, up to a second.
const (
	shortest = 16 * time.Microsecond
	buckets  = 17
)

// Durations counts events by how long they took. The zero value has counted none.
type Durations struct {
	n   [buckets + 1]atomic.Int64
	sum atomic.Int64
}

func (d *Durations) add(took time.Duration) {
	took = max(took, 0)
	i := bits.Len64(uint64(max(took-1, 0) / shortest))
	d.n[min(i, buckets)].Add(1)
	d.sum.Add(int64(took))
}

// Load returns how many events there were.
func (d *Durations) Load() (n int64) {
	for i := range d.n {
		n += d.n[i].Load()
	}
	return n
}

// Sum returns how long all of them took together.
func (d *Durations) Sum() time.Duration { return time.Duration(d.sum.Load()) }

// Buckets calls yield with each bound, in rising order, and how many events took
// at most that long.
func (d *Durations) Buckets(yield func(bound time.Duration, n int64) bool) {
	n, bound := int64(0), shortest
	for i := range buckets {
		n += d.n[i].Load()
		if !yield(bound, n) {
			return
		}
		bound *= 2
	}
}
