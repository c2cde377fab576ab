package jobstate

import (
	"cmp"
	stdheap "container/heap"
	"slices"
)

// Tenants of one queue and priority share by weighted virtual time, as
// start-time fair queueing has it (Goyal, Vin, Cheng 1996): a claim serves the
// claimable tenant with the least service, where the service of one that was
// away counts as what the queue has reached meanwhile. Serving a job adds
// serviceUnit divided by the tenant's weight.

// serviceUnit is the service of one job at weight 1: divisible by most weights,
// and good for 2^33 jobs at weight 1.
const serviceUnit = 1 << 30

// share is the service that a tenant has had at one priority of a queue.
type share struct {
	turn    *turn
	service int64
	refs    int // entrants that count on it
}

// turn is how far the virtual time of a priority of a queue is: the service at
// which the last job of it was claimed.
type turn struct {
	at     int64
	shares map[string]*share
	swept  int
}

// behind reports whether the tenant has had no more than its turn: such tenants
// are served by the places of their jobs.
func (s *share) behind() bool { return s.service <= s.turn.at }

// effective is the service that a claim compares.
func (s *share) effective() int64 { return max(s.service, s.turn.at) }

func (q *queue) turnOf(priority int32) *turn {
	t := q.turns[priority]
	if t == nil {
		t = &turn{shares: map[string]*share{}}
		q.turns[priority] = t
	}
	return t
}

// shareOf returns the tenant's share. Shares that say nothing any more are
// swept out when there are twice as many as after the last sweep.
func (t *turn) shareOf(tenant string) *share {
	s := t.shares[tenant]
	if s == nil {
		if len(t.shares) > 2*t.swept+64 {
			for name, o := range t.shares {
				if o.refs == 0 && o.behind() {
					delete(t.shares, name)
				}
			}
			t.swept = len(t.shares)
		}
		s = &share{turn: t}
		t.shares[tenant] = s
	}
	return s
}

// level is one priority of a task, with its open lanes by tenant. An entrant
// is in one of two heaps, and changes sides late, when it comes to the top.
type level struct {
	priority int32
	task     *task
	entrants map[string]*entrant
	behind   entrants // by the heads of their lanes
	ahead    entrants // by service
}

// entrant is a tenant at a level of a task.
type entrant struct {
	level  *level
	tenant string
	share  *share
	open   lanes
	refs   int       // lanes that belong to it
	at     int64     // its service when it was put into ahead; it only grows
	heap   *entrants // nil while no lane is open
	pos    int
}

// levelOf returns the task's level of a priority, made when there is none.
func (t *task) levelOf(priority int32) *level {
	i, ok := slices.BinarySearchFunc(t.levels, priority, func(v *level, p int32) int { return -cmp.Compare(v.priority, p) })
	if ok {
		return t.levels[i]
	}
	v := &level{priority: priority, task: t, entrants: map[string]*entrant{}, ahead: entrants{byService: true}}
	t.levels = slices.Insert(t.levels, i, v)
	return v
}

// enter makes l's tenant an entrant of its level.
func (t *task) enter(l *lane) {
	v := t.levelOf(l.priority)
	e := v.entrants[l.tenant]
	if e == nil {
		e = &entrant{level: v, tenant: l.tenant, share: t.queue.turnOf(l.priority).shareOf(l.tenant)}
		e.share.refs++
		v.entrants[l.tenant] = e
	}
	e.refs++
	l.entrant = e
}

// exit undoes enter when a lane ends.
func (t *task) exit(l *lane) {
	e, v := l.entrant, l.entrant.level
	if e.refs--; e.refs > 0 {
		return
	}
	e.share.refs--
	delete(v.entrants, e.tenant)
	if len(v.entrants) == 0 {
		t.levels = slices.DeleteFunc(t.levels, func(o *level) bool { return o == v })
	}
}

// moved puts the entrant where it belongs after its open lanes, or its share,
// changed.
func (e *entrant) moved() {
	var to *entrants
	switch {
	case len(e.open) == 0:
	case e.share.behind():
		to = &e.level.behind
	default:
		to = &e.level.ahead
	}
	e.at = e.share.service
	if e.heap == to {
		if to != nil {
			stdheap.Fix(to, e.pos)
		}
		return
	}
	if e.heap != nil {
		stdheap.Remove(e.heap, e.pos)
	}
	if e.heap = to; to != nil {
		stdheap.Push(to, e)
	}
}

// best returns the open lane that a claim serves first at this level, or nil.
func (v *level) best() *lane {
	for {
		switch b, a := v.behind.top(), v.ahead.top(); {
		case b != nil && !b.share.behind():
			b.moved()
		case a != nil && (a.share.behind() || a.at != a.share.service):
			a.moved()
		case b != nil:
			return b.open[0]
		case a != nil:
			return a.open[0]
		default:
			return nil
		}
	}
}

// entrants is a heap of entrants, the one to serve first on top.
type entrants struct {
	list      []*entrant
	byService bool
}

func (h *entrants) top() *entrant {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

// Len, Less, Swap, Push and Pop serve container/heap.
func (h *entrants) Len() int { return len(h.list) }
func (h *entrants) Less(i, k int) bool {
	a, b := h.list[i], h.list[k]
	if h.byService && a.at != b.at {
		return a.at < b.at
	}
	return a.open[0].head.before(&b.open[0].head)
}

func (h *entrants) Swap(i, k int) {
	h.list[i], h.list[k] = h.list[k], h.list[i]
	h.list[i].pos, h.list[k].pos = i, k
}

func (h *entrants) Push(x any) {
	e := x.(*entrant)
	e.pos = len(h.list)
	h.list = append(h.list, e)
}

func (h *entrants) Pop() any {
	n := len(h.list) - 1
	e := h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	return e
}

// best returns the lane of the task that a claim serves first, or nil. Without
// ageing that is one of the highest priority; with it, priorities compete by
// the places of what they would serve, set back by priority × step.
func (t *task) best() *lane {
	var best *lane
	for _, v := range t.levels {
		l := v.best()
		if l == nil {
			continue
		}
		if t.queue.ageing == 0 {
			return l
		}
		if best == nil || l.aged() < best.aged() {
			best = l
		}
	}
	return best
}

// aged is the place of the lane's head in a queue with ageing.
func (l *lane) aged() int64 {
	step := int64(l.task.queue.ageing)
	return satSub(l.head.at, satMul(int64(l.priority), step))
}

// before says whether l is served before m, a lane of another task of the
// queue.
func (l *lane) before(m *lane) bool {
	if l.task.queue.ageing != 0 {
		if a, b := l.aged(), m.aged(); a != b {
			return a < b
		}
	}
	if l.priority != m.priority {
		return l.priority > m.priority
	}
	if a, b := l.entrant.share.effective(), m.entrant.share.effective(); a != b {
		return a < b
	}
	return l.head.before(&m.head)
}

// charge adds the service of a job to the lane's tenant.
func (l *lane) charge() {
	s := l.entrant.share
	start := s.effective()
	s.service = satAdd(start, serviceUnit/l.task.queue.weightOf(l.tenant))
	s.turn.at = start
	l.entrant.moved()
}

func (q *queue) weightOf(tenant string) int64 {
	if w := q.weights[tenant]; w > 0 {
		return int64(w)
	}
	return 1
}
