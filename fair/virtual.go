package fair

import (
	"container/heap"
	"sync"
)

// Virtual is a scheduler by weighted virtual time: the busy key with the least
// service ÷ weight is served next; of equal ones, the one that has waited longest
// for its turn. A key that was idle rejoins at the current virtual time.
//
// So an item of a key that was idle, and has had no more than its share, waits
// for at most one service of each other key, however long their lines are. While
// two keys are busy, their service ÷ weight differs by no more than the largest
// cost ÷ the weight of the one + the same of the other.
//
// It is safe for concurrent use and must not be copied.
type Virtual[K comparable, T any] struct {
	mu      sync.Mutex
	clock   Clock
	weights map[K]int // those that are not 1
	keys    map[K]*share[K, T]
	busy    shares[K, T]
	idle    shares[K, T]   // whose time has not passed
	latest  Time           // the largest time of a key
	turns   uint64         // counts, to tell equal times apart
	n       int            // items
	spare   []*share[K, T] // to use again
}

// share is a key that is known: busy, or idle and ahead of its time.
type share[K comparable, T any] struct {
	key    K
	weight int
	time   Time
	turn   uint64
	at     int // its index in busy or idle
	items  fifo[T]
}

// NewVirtual returns a scheduler without keys.
func NewVirtual[K comparable, T any]() *Virtual[K, T] {
	return &Virtual[K, T]{weights: map[K]int{}, keys: map[K]*share[K, T]{}}
}

// SetWeight sets what a key gets in relation to others: 1 until it is set. It may
// change at any time, and holds from the key's next service on. An error is
// returned when weight is not 1 to MaxWeight; nothing is changed then.
func (v *Virtual[K, T]) SetWeight(key K, weight int) error {
	if err := checkWeight(weight); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.weights[key] = weight; weight == 1 {
		delete(v.weights, key)
	}
	if s := v.keys[key]; s != nil {
		s.weight = weight
	}
	return nil
}

// Add puts an item of cost 1 at the end of its key's line.
func (v *Virtual[K, T]) Add(key K, value T) { v.add(key, item[T]{value, 1}) }

// AddCost is Add for an item of another cost. An error is returned when cost is
// not 1 to MaxCost; nothing is added then.
func (v *Virtual[K, T]) AddCost(key K, value T, cost int64) error {
	if err := checkCost(cost); err != nil {
		return err
	}
	v.add(key, item[T]{value, cost})
	return nil
}

func (v *Virtual[K, T]) add(key K, it item[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.keys[key]
	if s == nil {
		s = v.meetLocked(key)
	} else if s.items.n == 0 {
		heap.Remove(&v.idle, s.at)
	}
	if s.items.n == 0 {
		s.time = v.clock.Rejoin(s.time)
		v.turns++
		s.turn = v.turns
		heap.Push(&v.busy, s)
	}
	s.items.push(it)
	v.n++
}

func (v *Virtual[K, T]) meetLocked(key K) *share[K, T] {
	var s *share[K, T]
	if n := len(v.spare); n > 0 {
		s, v.spare = v.spare[n-1], v.spare[:n-1]
	} else {
		s = new(share[K, T])
	}
	s.key, s.weight = key, 1
	if w, ok := v.weights[key]; ok {
		s.weight = w
	}
	v.keys[key] = s
	return s
}

// Next takes the item that is to be served now; ok is false when there is none.
func (v *Virtual[K, T]) Next() (value T, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n == 0 {
		return value, false
	}
	s := v.busy[0]
	it := s.items.pop()
	v.n--
	s.time = v.clock.Charge(s.time, it.cost, s.weight)
	v.latest = max(v.latest, s.time)
	if s.items.n > 0 {
		v.turns++
		s.turn = v.turns
		heap.Fix(&v.busy, 0)
	} else {
		heap.Pop(&v.busy)
		heap.Push(&v.idle, s)
	}
	v.forgetLocked()
	return it.value, true
}

// forgetLocked drops the idle keys whose time has passed: all of them, when none
// is busy.
func (v *Virtual[K, T]) forgetLocked() {
	if v.n == 0 {
		v.clock.Now = v.latest
	}
	for len(v.idle) > 0 && v.clock.Passed(v.idle[0].time) {
		s := heap.Pop(&v.idle).(*share[K, T])
		delete(v.keys, s.key)
		items := s.items
		*s = share[K, T]{items: items}
		if len(v.spare) < maxSpare {
			v.spare = append(v.spare, s)
		}
	}
	if shift := v.clock.Rebase(); shift > 0 {
		// Nobody is behind the clock: who is busy started no earlier, and who is
		// idle and behind was just dropped.
		v.latest -= shift
		for _, s := range v.keys {
			s.time -= shift
		}
	}
}

// Len returns how many items wait.
func (v *Virtual[K, T]) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n
}

// shares is a heap by time, then by turn.
type shares[K comparable, T any] []*share[K, T]

func (h shares[K, T]) Len() int { return len(h) }

func (h shares[K, T]) Less(i, j int) bool {
	if h[i].time != h[j].time {
		return h[i].time < h[j].time
	}
	return h[i].turn < h[j].turn
}

func (h shares[K, T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *shares[K, T]) Push(x any) {
	s := x.(*share[K, T])
	s.at = len(*h)
	*h = append(*h, s)
}

func (h *shares[K, T]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
