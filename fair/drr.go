package fair

import (
	"fmt"
	"math"
	"sync"
)

// MaxQuantum is the largest quantum of a DRR.
const MaxQuantum = 1 << 30

// DRR is a deficit round robin scheduler. In each round, each busy key's credit
// grows by quantum × weight, and it is served until its next item costs more than
// the credit. What is left stays for the next round; when the key runs out of
// items, its credit is dropped.
//
// So an item at the head of its key is served within ceil(cost ÷ (quantum ×
// weight)) rounds, and while two keys are busy, their service ÷ weight differs by
// no more than quantum + the largest cost ÷ each weight. With a quantum of at
// least the largest cost, each round serves each busy key.
//
// It is safe for concurrent use and must not be copied.
type DRR[K comparable, T any] struct {
	quantum int64

	mu      sync.Mutex
	weights map[K]int64 // those that are not 1
	keys    map[K]*turn[K, T]
	// The busy keys in a ring: the one whose turn it is, and the last one.
	current, last *turn[K, T]
	n             int           // items
	spare         []*turn[K, T] // to use again
}

// turn is a busy key.
type turn[K comparable, T any] struct {
	key    K
	weight int64
	credit int64
	begun  bool // it had its quantum in this round
	items  fifo[T]
	next   *turn[K, T]
}

// maxSpare is how many records of keys are kept for reuse.
const maxSpare = 64

// NewDRR returns a scheduler whose keys earn quantum × weight in each round. An
// error is returned when quantum is not 1 to MaxQuantum.
func NewDRR[K comparable, T any](quantum int) (*DRR[K, T], error) {
	if quantum < 1 || quantum > MaxQuantum {
		return nil, fmt.Errorf("quantum is %d, allowed are 1 to %d", quantum, MaxQuantum)
	}
	return &DRR[K, T]{quantum: int64(quantum), weights: map[K]int64{}, keys: map[K]*turn[K, T]{}}, nil
}

// SetWeight sets what a key gets in relation to others: 1 until it is set. It may
// change at any time, and holds from the key's next turn on. An error is returned
// when weight is not 1 to MaxWeight; nothing is changed then.
func (d *DRR[K, T]) SetWeight(key K, weight int) error {
	if err := checkWeight(weight); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.weights[key] = int64(weight); weight == 1 {
		delete(d.weights, key)
	}
	if t := d.keys[key]; t != nil {
		t.weight = int64(weight)
	}
	return nil
}

// Add puts an item of cost 1 at the end of its key's line.
func (d *DRR[K, T]) Add(key K, value T) { d.add(key, item[T]{value, 1}) }

// AddCost is Add for an item of another cost. An error is returned when cost is
// not 1 to MaxCost; nothing is added then.
func (d *DRR[K, T]) AddCost(key K, value T, cost int64) error {
	if err := checkCost(cost); err != nil {
		return err
	}
	d.add(key, item[T]{value, cost})
	return nil
}

func (d *DRR[K, T]) add(key K, it item[T]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.keys[key]
	if t == nil {
		t = d.joinLocked(key)
	}
	t.items.push(it)
	d.n++
}

// joinLocked puts a key that was not busy at the end of the round.
func (d *DRR[K, T]) joinLocked(key K) *turn[K, T] {
	var t *turn[K, T]
	if n := len(d.spare); n > 0 {
		t, d.spare = d.spare[n-1], d.spare[:n-1]
	} else {
		t = new(turn[K, T])
	}
	t.key, t.weight = key, 1
	if w, ok := d.weights[key]; ok {
		t.weight = w
	}
	d.keys[key] = t
	if d.current == nil {
		d.current = t
	} else {
		d.last.next = t
	}
	d.last = t
	return t
}

// Next takes the item that is to be served now; ok is false when there is none.
func (d *DRR[K, T]) Next() (value T, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == 0 {
		return value, false
	}
	for passed := 0; ; passed++ {
		if passed == len(d.keys) {
			d.skipLocked()
			passed = 0
		}
		t := d.current
		if !t.begun {
			t.begun = true
			t.credit += d.quantum * t.weight
		}
		if cost := t.items.peek(); cost <= t.credit {
			t.credit -= cost
			return d.serveLocked(t), true
		}
		d.passLocked(t)
	}
}

// passLocked ends a turn: the key goes to the end of the round.
func (d *DRR[K, T]) passLocked(t *turn[K, T]) {
	t.begun = false
	if t == d.last {
		return
	}
	d.current, t.next = t.next, nil
	d.last.next, d.last = t, t
}

func (d *DRR[K, T]) serveLocked(t *turn[K, T]) T {
	it := t.items.pop()
	d.n--
	if t.items.n == 0 {
		d.current = t.next
		if d.current == nil {
			d.last = nil
		}
		delete(d.keys, t.key)
		items := t.items
		*t = turn[K, T]{items: items}
		if len(d.spare) < maxSpare {
			d.spare = append(d.spare, t)
		}
	}
	return it.value
}

// skipLocked lets the rounds pass in which no key could be served: it comes after
// a whole round of that kind, and leaves one to go.
func (d *DRR[K, T]) skipLocked() {
	rounds := int64(math.MaxInt64)
	for t := d.current; t != nil; t = t.next {
		earns := d.quantum * t.weight
		rounds = min(rounds, (t.items.peek()-t.credit+earns-1)/earns)
	}
	for t := d.current; t != nil; t = t.next {
		t.credit += (rounds - 1) * d.quantum * t.weight
	}
}

// Len returns how many items wait.
func (d *DRR[K, T]) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}
