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
	self    uint32 // its number
	task    *task
	stand   *stand   // nil when it is empty
	entrant *entrant // its tenant's place there
	pos     int      // in the entrant's heap
	load    *load    // what its tenant has in the queue
	prevOf  *lane    // among the lanes of load
	nextOf  *lane
	fifo    fifo     // what came in order
	late    heap     // what came out of order: expired, released, retried jobs
	first   *job     // the job that holds the lane's ordered group, when it is ready
	n       int      // ready jobs in it
	refs    int      // jobs in any state that belong to it
	head    standing // the first, when n > 0

	from *gate // that let it through, while it has not used that

	meters []*meter // of the limits that bind it
	bound  uint64   // the queue's rev that meters belong to
}

// standing is a job at a spot: its own as a rule.
type standing struct {
	spot
	j *job
}

func (l *lane) state() *State { return l.task.queue.state }

func (l *lane) push(j *job) {
	l.n++
	if !l.fifo.add(j) {
		l.late.push(l.state().item(j, j.place))
	}
	switch at := spotOf(j); {
	case l.n > 1 && !at.before(l.head.spot):
	case l.n > 1 && l.head.j == l.first: // which goes before it all the same
		l.head.spot = at
		l.moved()
	default:
		l.head = standing{at, j}
		if l.stand != nil && !l.isOpen() {
			l.move(&l.task.open) // it may go before what was let through
		} else {
			l.moved()
		}
	}
}

// pushFirst adds the job that holds the lane's ordered group: it goes before
// all others of the lane, since none of them can run before it is final.
func (l *lane) pushFirst(j *job) {
	l.n++
	l.first = j
	l.next()
}

// gone takes out a job that is not ready any more. Its ver has changed.
func (l *lane) gone(j *job) {
	l.n--
	l.fifo.remove(j)
	l.late.trim(l.state(), l.n)
	if l.first == j {
		l.first = nil
	}
	if l.head.j == j || l.first != nil { // which may stand where j did
		l.next()
	}
}

// next finds the head.
func (l *lane) next() {
	s := l.state()
	l.head = standing{}
	if j := l.fifo.first(s); j != nil {
		l.head = standing{spotOf(j), j}
	}
	if it := l.late.top(s); it != nil {
		if at := (spot{it.at, it.seq}); l.head.j == nil || at.before(l.head.spot) {
			l.head = standing{at, s.jobs.at(it.ref)}
		}
	}
	if j := l.first; j != nil { // at its own spot, or at that of the first that waits for it
		if at := spotOf(j); l.head.j == nil || at.before(l.head.spot) {
			l.head.spot = at
		}
		l.head.j = j
	}
	l.moved()
}

// appendReady adds the lane's ready jobs to a list, in no order.
func (l *lane) appendReady(list []*job) []*job {
	s := l.state()
	for _, b := range l.fifo.blocks {
		for _, r := range b.refs {
			if r != 0 {
				list = append(list, s.jobs.at(r))
			}
		}
	}
	for _, it := range l.late {
		if s.live(&it) {
			list = append(list, s.jobs.at(it.ref))
		}
	}
	if l.first != nil {
		list = append(list, l.first)
	}
	return list
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
func (h lanes) Less(i, k int) bool { return h[i].head.before(h[k].head.spot) }
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
