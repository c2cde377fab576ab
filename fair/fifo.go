package fair

// item is what waits, and what serving it costs.
type item[T any] struct {
	value T
	cost  int64
}

// fifo is a queue in a ring that grows as needed. The zero fifo is empty.
type fifo[T any] struct {
	ring  []item[T] // its length is a power of 2, or 0
	first int
	n     int
}

// keepRing is the largest ring that an empty fifo keeps, in items.
const keepRing = 1024

func (q *fifo[T]) push(it item[T]) {
	if q.n == len(q.ring) {
		ring := make([]item[T], max(4, 2*q.n))
		k := copy(ring, q.ring[q.first:])
		copy(ring[k:], q.ring[:q.first])
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.n)&(len(q.ring)-1)] = it
	q.n++
}

// peek returns the cost of the first item.
func (q *fifo[T]) peek() int64 { return q.ring[q.first].cost }

func (q *fifo[T]) pop() item[T] {
	it := q.ring[q.first]
	q.ring[q.first] = item[T]{}
	q.first = (q.first + 1) & (len(q.ring) - 1)
	if q.n--; q.n == 0 && len(q.ring) > keepRing {
		*q = fifo[T]{}
	}
	return it
}
