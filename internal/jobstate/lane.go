package jobstate

// laneKey names a lane within a task of a queue.
type laneKey struct {
	priority      int32
	tenant, group string
	ordered       bool
}

// lane holds the ready jobs of one queue, task, priority, tenant and group, by
// place. Its jobs are claimable or blocked together: while it has any, it stands
// among the open lanes of its task, or among those that a gate refused.
type lane struct {
	laneKey
	task    *task
	stand   *stand   // nil when it is empty
	entrant *entrant // its tenant's place there
	pos     int      // in the entrant's heap
	load    *load    // what its tenant has in the queue
	fifo    []item   // in order; what comes in order is appended here
	off     int      // of the first of fifo
	late    heap     // what came out of order: expired, released, retried jobs
	first   item     // the job that holds the lane's ordered group, when it is ready
	n       int      // ready jobs in it
	refs    int      // jobs in any state that belong to it
	head    item     // the first live one, when n > 0

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
	switch {
	case l.n > 1 && !it.before(&l.head):
	case l.n > 1 && l.head.j == l.first.j: // which goes before it all the same
		l.head.at, l.head.seq = it.at, it.seq
		l.moved()
	default:
		l.head = it
		if l.stand != nil && !l.isOpen() {
			l.move(&l.task.open) // it may go before what was let through
		} else {
			l.moved()
		}
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

// moved puts the lane where its head belongs: nowhere when it is empty, among
// the open lanes of its task when it was.
func (l *lane) moved() {
	switch {
	case l.n == 0 && l.stand != nil:
		l.stand.leave(l)
		l.passOn()
	case l.n > 0 && l.stand == nil:
		l.task.open.enter(l)
	case l.n > 0:
		l.stand.moved(l)
	}
}

// isOpen reports whether a claim looks at the lane.
func (l *lane) isOpen() bool { return l.stand == &l.task.open }

// move takes a lane from where it stands to another stand.
func (l *lane) move(to *stand) {
	l.stand.leave(l)
	to.enter(l)
}

// passOn lets the next lane through that waits where l came through without
// using it.
func (l *lane) passOn() {
	if g := l.from; g != nil {
		l.from = nil
		l.task.queue.free(g)
	}
}

// lanes is a heap of lanes of one priority and tenant, by their heads.
type lanes []*lane

func (h lanes) Len() int           { return len(h) }
func (h lanes) Less(i, k int) bool { return h[i].head.before(&h[k].head) }
func (h lanes) Swap(i, k int)      { h[i], h[k] = h[k], h[i]; h[i].pos, h[k].pos = i, k }

// Push and Pop serve container/heap.
func (h *lanes) Push(x any) { l := x.(*lane); l.pos = len(*h); *h = append(*h, l) }
func (h *lanes) Pop() any {
	a := *h
	l := a[len(a)-1]
	a[len(a)-1] = nil
	*h = a[:len(a)-1]
	return l
}
