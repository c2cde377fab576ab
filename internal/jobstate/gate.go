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
	parked map[*task]*lanes
}

// park puts an open lane among those that wait.
func (g *gate) park(l *lane) {
	if g.parked == nil {
		g.parked = map[*task]*lanes{}
	}
	h := g.parked[l.task]
	if h == nil {
		h = &lanes{}
		g.parked[l.task] = h
	}
	l.park(h)
}

// let opens at most one parked lane of each task: the one unit that came free
// is for one of them, and whoever takes it lets the next one try.
func (g *gate) let() {
	for t, h := range g.parked {
		if len(*h) == 0 {
			delete(g.parked, t)
			continue
		}
		l := (*h)[0]
		l.unpark()
		l.from = g
	}
}

// letAll opens every parked lane: the rules have changed.
func (g *gate) letAll() {
	for _, h := range g.parked {
		for len(*h) > 0 {
			(*h)[0].unpark()
		}
	}
	g.parked = nil
}

func (g *gate) waits() bool { return len(g.parked) > 0 }

// rule is a limit in force.
type rule struct {
	broker.Limit
	name   string
	state  *State
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
		if m.refs == 0 && m.running == 0 && !m.used(r.state.clock) {
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
	for _, m := range l.bind() {
		if m.rule.Running > 0 {
			if m.running >= m.rule.Running {
				return &m.gate
			}
			continue
		}
		if at := m.allowedAt(now.Steady); at > now.Steady {
			s.wakeAt(m, at)
			return &m.gate
		}
	}
	if l.ordered {
		if g := l.task.queue.groups[groupOf(l)]; g != nil && g.holder != nil && g.holder != l.head.j {
			return &g.gate
		}
	}
	return nil
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
		q.groups[value] = g
	}
	return g
}

// holds reports whether j holds its ordered group.
func (j *job) holds() bool {
	if !j.lane.ordered {
		return false
	}
	g := j.queue().groups[groupOf(j.lane)]
	return g != nil && g.holder == j
}

// holdGroup gives an ordered group to a job at its first claim.
func (j *job) holdGroup() {
	if g := j.queue().groupFor(groupOf(j.lane)); g.holder == nil {
		g.holder = j
	}
}

// freeGroup frees the ordered group that j holds.
func (s *State) freeGroup(j *job) {
	if !j.holds() {
		return
	}
	q, value := j.queue(), groupOf(j.lane)
	g := q.groups[value]
	g.holder = nil
	g.let()
	if !g.waits() {
		delete(q.groups, value)
	}
	s.hint(q, nil)
}

// counted notes the begin (by 1) or the end (by -1) of a lease.
func (s *State) counted(j *job, by int) {
	for _, m := range j.lane.bind() {
		if m.rule.Running == 0 {
			continue
		}
		m.running += by
		if by < 0 && m.running < m.rule.Running {
			m.let()
			s.hint(j.queue(), m.rule.Tasks)
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
func (s *State) wakeAt(m *meter, at int64) {
	if m.wake == 0 || at < m.wake {
		m.wake = at
		stdheap.Push(&s.wakes, wake{at, m})
	}
}

// rouse lets lanes through whose rates allow it by now.
func (s *State) rouse(now Now) {
	for len(s.wakes) > 0 && s.wakes[0].at <= now.Steady {
		w := stdheap.Pop(&s.wakes).(wake)
		if w.m.wake == w.at {
			w.m.wake = 0
			w.m.let()
		}
	}
}

// nextWake is when a rate lets something through next; 0 means never.
func (s *State) nextWake() int64 {
	for len(s.wakes) > 0 && s.wakes[0].m.wake != s.wakes[0].at {
		stdheap.Pop(&s.wakes)
	}
	if len(s.wakes) == 0 {
		return 0
	}
	return s.wakes[0].at
}
