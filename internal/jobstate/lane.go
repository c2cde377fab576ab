package jobstate

import stdheap "container/heap"

// laneKey names a lane within a task of a queue.
type laneKey struct {
	priority      int32
	tenant, group string
	ordered       bool
}

// lane holds the ready jobs of one queue, task, priority, tenant and group, by
// place. Its jobs are claimable or blocked together: it is open, in the heap of
// its entrant, or parked, in that of the gate which refused it.
type lane struct {
	laneKey
	task    *task
	entrant *entrant // the tenant's place in its task
	load    *load    // what its tenant has in the queue
	fifo    []item   // in order; what comes in order is appended here
	off     int      // of the first of fifo
	late    heap     // what came out of order: expired, released, retried jobs
	first   item     // the job that holds the lane's ordered group, when it is ready
	n       int      // ready jobs in it
	refs    int      // jobs in any state that belong to it
	head    item     // the first live one, when n > 0

	heap *lanes // the one that it is in; nil when n is 0
	pos  int
	from *gate // that let it through, while it has not used that

	meters []*meter // of the limits that bind it
	bound  uint64   // the queue's rev that meters belong to
}

func (l *lane) push(it item) {
	l.n++
	if k := len(l.fifo); k == l.off || l.fifo[k-1].before(&it) {
		l.fifo = append(l.fifo, it)
	} else {
		l.late.push(it)
	}
	if l.n == 1 || it.before(&l.head) && l.head.j != l.first.j {
		l.head = it
		l.moved()
	}
}

// pushFirst adds the job that holds the lane's ordered group: it goes before
// all others of the lane, since none of them can run before it is final.
func (l *lane) pushFirst(it item) {
	l.n++
	l.first = it
	l.next()
}

// gone is called after a ready job of the lane changed its ver.
func (l *lane) gone(j *job) {
	l.n--
	if l.head.j == j {
		l.next()
	} else if stale := len(l.fifo) - l.off + len(l.late) - l.n; stale > l.n+64 {
		l.trim()
	}
}

// next finds the first live item.
func (l *lane) next() {
	for l.off < len(l.fifo) && !l.fifo[l.off].live() {
		l.fifo[l.off] = item{}
		l.off++
	}
	if l.off == len(l.fifo) {
		l.fifo, l.off = l.fifo[:0], 0
	} else if l.off > 4096 && l.off > len(l.fifo)/2 {
		k := copy(l.fifo, l.fifo[l.off:])
		clear(l.fifo[k:])
		l.fifo, l.off = l.fifo[:k], 0
	}
	late := l.late.top()
	switch {
	case l.off < len(l.fifo) && (late == nil || l.fifo[l.off].before(late)):
		l.head = l.fifo[l.off]
	case late != nil:
		l.head = *late
	default:
		l.head = item{}
	}
	if l.first.j != nil && l.first.live() {
		if l.head.j == nil || l.first.before(&l.head) {
			l.head = l.first
		} else { // at the place of the first that waits for it
			at, seq := l.head.at, l.head.seq
			l.head = l.first
			l.head.at, l.head.seq = at, seq
		}
	} else {
		l.first = item{}
	}
	l.moved()
}

func (l *lane) trim() {
	kept := l.fifo[:0]
	for _, it := range l.fifo[l.off:] {
		if it.live() {
			kept = append(kept, it)
		}
	}
	clear(l.fifo[len(kept):])
	l.fifo, l.off = kept, 0
	l.late.trim(0)
}

// moved puts the lane where its head belongs: out of its heap when it is
// empty, among the open lanes of its entrant when it was.
func (l *lane) moved() {
	switch {
	case l.n == 0 && l.heap != nil:
		l.leaveHeap()
		l.passOn()
	case l.n > 0 && l.heap == nil:
		l.open()
	case l.n > 0:
		stdheap.Fix(l.heap, l.pos)
		if l.heap == &l.entrant.open {
			l.entrant.moved()
		}
	}
}

// open puts the lane among those that a claim looks at.
func (l *lane) open() {
	l.heap = &l.entrant.open
	stdheap.Push(l.heap, l)
	l.entrant.moved()
}

// leaveHeap takes the lane out of the heap that it is in.
func (l *lane) leaveHeap() {
	h := l.heap
	stdheap.Remove(h, l.pos)
	l.heap = nil
	if h == &l.entrant.open {
		l.entrant.moved()
	}
}

// park puts the lane, which was open, among those that wait for a gate.
func (l *lane) park(h *lanes) {
	l.leaveHeap()
	l.heap = h
	stdheap.Push(h, l)
}

// unpark opens a parked lane.
func (l *lane) unpark() {
	stdheap.Remove(l.heap, l.pos)
	l.open()
}

// passOn lets the next lane through that waits where l came through without
// using it.
func (l *lane) passOn() {
	if g := l.from; g != nil {
		l.from = nil
		g.let()
	}
}

// lanes is a heap of lanes by their heads. Lanes of one entrant or parked at one
// gate have the same priority order among them: higher first, then by place.
type lanes []*lane

func (h lanes) Len() int { return len(h) }
func (h lanes) Less(i, k int) bool {
	a, b := h[i], h[k]
	return a.priority > b.priority || a.priority == b.priority && a.head.before(&b.head)
}
func (h lanes) Swap(i, k int) { h[i], h[k] = h[k], h[i]; h[i].pos, h[k].pos = i, k }

// Push and Pop serve container/heap.
func (h *lanes) Push(x any) { l := x.(*lane); l.pos = len(*h); *h = append(*h, l) }
func (h *lanes) Pop() any {
	a := *h
	l := a[len(a)-1]
	a[len(a)-1] = nil
	*h, l.pos = a[:len(a)-1], -1
	return l
}
