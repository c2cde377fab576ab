package jobstate

import (
	stdheap "container/heap"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/limit"
)

// gate is what can refuse a lane: a limit for one value, or an ordered group.
// Lanes that it refused are parked there, and no claim looks at them until it
// lets one through. Parking is an index of this State alone: no record tells of
// it, and another process parks its own.
type gate struct {
	parked map[*task]*stand
	freed  bool   // it is in its queue's list of gates that have room again
	end    func() // called when lanes were let through; may be nil
}

// free notes that the gate has room: the next claim lets lanes through, once
// everything of this commit stands where it belongs.
func (q *queue) free(g *gate) {
	if !g.freed && len(g.parked) > 0 {
		g.freed = true
		q.freed = append(q.freed, g)
	}
}

// recall parks the lanes again that were let through and have not used it, so
// that the ones to serve first now are let through in their place: those of one
// turn, or all for nil.
func (q *queue) recall(of *picked) {
	kept := q.lent[:0]
	for _, l := range q.lent {
		g := l.from
		switch {
		case g == nil || l.n == 0 || !l.isOpen():
		case of != nil && *of != (picked{l.priority, l.tenant}):
			kept = append(kept, l)
		default:
			l.from = nil
			g.park(l)
			q.free(g)
		}
	}
	clear(q.lent[len(kept):])
	q.lent = kept
}

// letFreed lets lanes through where there is room again.
func (q *queue) letFreed() {
	for len(q.freed) > 0 {
		g := q.freed[len(q.freed)-1]
		q.freed = q.freed[:len(q.freed)-1]
		g.freed = false
		g.let()
		if g.end != nil {
			g.end()
		}
	}
}

// park puts an open lane among those that wait.
func (g *gate) park(l *lane) {
	if g.parked == nil {
		g.parked = map[*task]*stand{}
	}
	st := g.parked[l.task]
	if st == nil {
		st = &stand{queue: l.task.queue}
		g.parked[l.task] = st
	}
	l.move(st)
}

// turnAway parks an open lane that the gate refuses.
func (g *gate) turnAway(l *lane) {
	g.park(l)
	if l.from != g {
		l.passOn()
	}
	l.from = nil
}

// let opens at most one parked lane of each task, the one to serve first: the
// one unit that came free is for one of them, and whoever takes it lets the
// next one try.
func (g *gate) let() {
	for t, st := range g.parked {
		l := st.best()
		if l == nil {
			delete(g.parked, t)
			continue
		}
		g.open(l)
	}
}

// open opens a parked lane.
func (g *gate) open(l *lane) {
	l.move(&l.task.open)
	l.from = g
	l.task.queue.lent = append(l.task.queue.lent, l)
}

// letAll opens every parked lane: the rules have changed.
func (g *gate) letAll() {
	for _, st := range g.parked {
		for l := st.best(); l != nil; l = st.best() {
			g.open(l)
			l.from = nil
		}
	}
	g.parked = nil
}

// waits reports whether any lane does.
func (g *gate) waits() bool {
	for _, st := range g.parked {
		if st.best() != nil {
			return true
		}
	}
	return false
}

// rule is a limit in force.
type rule struct {
	broker.Limit
	name   string
	queue  *queue
	rate   limit.Rate        // when Running is 0
	meters map[string]*meter // by what the scope says
	swept  int
}

// meter counts one rule for one value of its scope.
type meter struct {
	gate
	rule    *rule
	value   string
	running int // unfinished leases
	rate    limit.State
	wake    int64 // when it lets a lane through; 0: not known to be waited for
	refs    int   // lanes that it binds
}

// valueOf is what a rule counts a lane by.
func (r *rule) valueOf(l *lane) string {
	switch r.Per {
	case broker.PerTenant:
		return l.tenant
	case broker.PerGroup:
		return groupOf(l)
	}
	return ""
}

func groupOf(l *lane) string {
	if l.group != "" {
		return l.group
	}
	return l.tenant
}

func (r *rule) meter(value string) *meter {
	m := r.meters[value]
	if m == nil {
		if len(r.meters) > 2*r.swept+64 {
			r.sweep()
		}
		m = &meter{rule: r, value: value}
		r.meters[value] = m
	}
	return m
}

// sweep forgets meters that say nothing any more.
func (r *rule) sweep() {
	for value, m := range r.meters {
		if m.refs == 0 && m.running == 0 && !m.used(r.queue.state.clock) {
			delete(r.meters, value)
		}
	}
	r.swept = len(r.meters)
}

// bind finds the meters of a lane, once for each set of rules.
func (l *lane) bind() []*meter {
	q := l.task.queue
	if l.bound == q.rev {
		return l.meters
	}
	l.unbind()
	l.bound = q.rev
	for _, r := range l.task.rules {
		m := r.meter(r.valueOf(l))
		m.refs++
		l.meters = append(l.meters, m)
	}
	return l.meters
}

func (l *lane) unbind() {
	for _, m := range l.meters {
		m.refs--
	}
	l.meters, l.bound = l.meters[:0], 0
}

// refuses returns the gate that keeps the head of an open lane from being
// claimed now, or nil.
func (s *State) refuses(l *lane, now Now) *gate {
	g, rate, until := l.refusing(now)
	if rate != nil {
		l.task.queue.wakeAt(rate, until)
	}
	return g
}

// refusing is refuses that changes nothing. When it is a rate that refuses, it
// does so until a time.
func (l *lane) refusing(now Now) (g *gate, rate *meter, until int64) {
	for _, m := range l.bind() {
		if m.rule.Running > 0 {
			if m.running >= m.rule.Running {
				return &m.gate, nil, 0
			}
			continue
		}
		if at := m.allowedAt(now.Steady); at > now.Steady {
			return &m.gate, m, at
		}
	}
	if l.ordered {
		if g := l.task.queue.groups[groupOf(l)]; g != nil && g.holder != nil && g.holder != l.head.j {
			return &g.gate, nil, 0
		}
	}
	return nil, nil, 0
}

// group is an ordered group: one of its jobs holds it from its first claim
// until it is final.
type group struct {
	gate
	holder *job
}

func (q *queue) groupFor(value string) *group {
	g := q.groups[value]
	if g == nil {
		g = &group{}
		g.end = func() {
			if g.holder == nil && !g.waits() && q.groups[value] == g {
				delete(q.groups, value)
			}
		}
		q.groups[value] = g
	}
	return g
}

// holds reports whether j holds its ordered group.
func (s *State) holds(j *job) bool {
	l := s.laneOf(j)
	if !l.ordered {
		return false
	}
	g := l.task.queue.groups[groupOf(l)]
	return g != nil && g.holder == j
}

// holdGroup gives an ordered group to a job at its first claim.
func (s *State) holdGroup(j *job) {
	if g := s.queueOf(j).groupFor(groupOf(s.laneOf(j))); g.holder == nil {
		g.holder = j
	}
}

// freeGroup frees the ordered group that j holds.
func (s *State) freeGroup(j *job) {
	if !s.holds(j) {
		return
	}
	q, value := s.queueOf(j), groupOf(s.laneOf(j))
	g := q.groups[value]
	g.holder = nil
	if q.free(&g.gate); !g.freed {
		delete(q.groups, value)
	}
	s.hint(q, nil)
}

// counted notes the begin (by 1) or the end (by -1) of a lease.
func (s *State) counted(j *job, by int) {
	for _, m := range s.laneOf(j).bind() {
		if m.rule.Running == 0 {
			continue
		}
		m.running += by
		if by < 0 && m.running < m.rule.Running {
			s.queueOf(j).free(&m.gate)
			s.hint(s.queueOf(j), m.rule.Tasks)
		}
	}
}

// hint tells that jobs of some tasks, or of all for nil, may have become
// claimable without a change of their own.
func (s *State) hint(q *queue, tasks []string) {
	if s.changed == nil {
		return
	}
	tell := func(t *task) {
		if t != nil && t.n[broker.Ready] > 0 {
			s.changed(Change{Queue: q.name, Task: t.name, State: broker.Ready, Hint: true})
		}
	}
	if tasks == nil {
		for _, t := range q.order {
			tell(t)
		}
	}
	for _, name := range tasks {
		tell(q.tasks[name])
	}
}

// wakes orders meters by when they let a lane through.
type wakes []wake

type wake struct {
	at int64
	m  *meter
}

// Len, Less, Swap, Push and Pop serve container/heap.
func (h wakes) Len() int           { return len(h) }
func (h wakes) Less(i, k int) bool { return h[i].at < h[k].at }
func (h wakes) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *wakes) Push(x any)        { *h = append(*h, x.(wake)) }
func (h *wakes) Pop() any {
	a := *h
	w := a[len(a)-1]
	*h = a[:len(a)-1]
	return w
}

// wakeAt lets a lane of m through at a time.
func (q *queue) wakeAt(m *meter, at int64) {
	if m.wake == 0 || at < m.wake {
		m.wake = at
		stdheap.Push(&q.wakes, wake{at, m})
	}
}

// rouse lets lanes through whose rates allow it by now.
func (q *queue) rouse(now Now) {
	for len(q.wakes) > 0 && q.wakes[0].at <= now.Steady {
		w := stdheap.Pop(&q.wakes).(wake)
		if w.m.wake == w.at {
			w.m.wake = 0
			q.free(&w.m.gate)
		}
	}
}

// nextWake is when a rate lets something through next; 0 means never.
func (q *queue) nextWake() int64 {
	for len(q.wakes) > 0 {
		w := q.wakes[0]
		if w.m.wake == w.at && w.m.waits() {
			break
		}
		if w.m.wake == w.at {
			w.m.wake = 0 // what waited has gone
		}
		stdheap.Pop(&q.wakes)
	}
	if len(q.wakes) == 0 {
		return 0
	}
	return q.wakes[0].at
}
