package jobstate

import stdheap "container/heap"

// laneKey names a lane within a task of a queue.
type laneKey struct {
	priority      int32
	tenant, group string
}

// lane holds the ready jobs of one queue, task, priority, tenant and group, by
// place. Its jobs are claimable or blocked together.
type lane struct {
	laneKey
	task *task
	fifo []item // in order; what comes in order is appended here
	off  int    // of the first of fifo
	late heap   // what came out of order: expired, released, retried jobs
	n    int    // ready jobs in it
	refs int    // jobs in any state that belong to it
	head item   // the first live one, when n > 0
	pos  int    // in task.open, -1 when not there
}

func (l *lane) push(it item) {
	l.n++
	if k := len(l.fifo); k == l.off || l.fifo[k-1].before(&it) {
		l.fifo = append(l.fifo, it)
	} else {
		l.late.push(it)
	}
	if l.n == 1 || it.before(&l.head) {
		l.head = it
		l.moved()
	}
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

// moved puts the lane where its head belongs among the open lanes of its task.
func (l *lane) moved() {
	open := &l.task.open
	switch {
	case l.n == 0 && l.pos >= 0:
		stdheap.Remove(open, l.pos)
	case l.n > 0 && l.pos < 0:
		stdheap.Push(open, l)
	case l.n > 0:
		stdheap.Fix(open, l.pos)
	}
}

// before says whether l's head is claimed before m's.
func (l *lane) before(m *lane) bool {
	return l.priority > m.priority || l.priority == m.priority && l.head.before(&m.head)
}

// lanes is a heap of open lanes, the one to claim from first.
type lanes []*lane

func (h lanes) Len() int           { return len(h) }
func (h lanes) Less(i, k int) bool { return h[i].before(h[k]) }
func (h lanes) Swap(i, k int)      { h[i], h[k] = h[k], h[i]; h[i].pos, h[k].pos = i, k }

// Push and Pop serve container/heap.
func (h *lanes) Push(x any) { l := x.(*lane); l.pos = len(*h); *h = append(*h, l) }
func (h *lanes) Pop() any {
	a := *h
	l := a[len(a)-1]
	a[len(a)-1] = nil
	*h, l.pos = a[:len(a)-1], -1
	return l
}
