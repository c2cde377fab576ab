package jobstate

import (
	"cmp"
	stdheap "container/heap"
	"maps"
	"slices"

	"github.com/spoolq/spool/fair"
)

// Tenants of one queue and priority share by weighted virtual time (package
// fair): a claim serves the claimable tenant with the least service ÷ weight,
// where the service of one that was away counts as what the queue has reached
// meanwhile.

// share is the service that a tenant has had at one priority of a queue.
type share struct {
	turn    *turn
	service fair.Time
	refs    int // entrants that count on it
}

// turn is how far the virtual time of a priority of a queue is: the service at
// which the last job of it was claimed, or, once nothing waited there any more
// (see picker.rest), the largest that a tenant has had.
type turn struct {
	fair.Clock
	shares map[string]*share
	swept  int
	most   fair.Time // the largest service of a tenant
	busy   int       // lanes with ready jobs
	lanes  int       // of its priority
}

// serve sets the service that a tenant has had.
func (t *turn) serve(s *share, service fair.Time) {
	s.service = service
	t.most = max(t.most, service)
}

// ended notes that a lane of a priority is gone. A turn that has none, and
// nothing to remember, is as if it were new.
func (q *queue) ended(priority int32) {
	t := q.turnOf(priority)
	if t.lanes--; t.lanes > 0 || !t.Passed(t.most) {
		return
	}
	t.Now, t.most, t.swept = 0, 0, 0
	if len(t.shares) > 1 {
		t.shares = map[string]*share{}
	}
	for _, s := range t.shares { // a queue without tenants uses its one again
		s.service = 0
	}
}

// behind reports whether the tenant has had no more than its turn: such tenants
// are served by the places of their jobs.
func (s *share) behind() bool { return s.turn.Passed(s.service) }

// effective is the service that a claim compares.
func (s *share) effective() fair.Time { return s.turn.Rejoin(s.service) }

func (q *queue) turnOf(priority int32) *turn {
	t := q.turns[priority]
	if t == nil {
		if len(q.turns) > 2*q.sweptTurns+64 { // priorities come and go without end
			maps.DeleteFunc(q.turns, func(_ int32, o *turn) bool { return o.lanes == 0 && o.Now == 0 && o.most == 0 })
			q.sweptTurns = len(q.turns)
		}
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

// stand is a set of lanes of one task out of which the best can be taken: the
// open ones, or those that wait at a gate.
type stand struct {
	queue  *queue
	levels []*level // highest priority first
}

// level is one priority of a stand, with its lanes by tenant. An entrant is in
// one of two heaps, and changes sides late, when it comes to the top.
type level struct {
	priority int32
	entrants map[string]*entrant
	behind   entrants // by the heads of their lanes
	ahead    entrants // by service
	ages     *ages    // with ageing: all of these again; nil until it is asked for
}

// entrant is a tenant at a level.
type entrant struct {
	level  *level
	tenant string
	share  *share
	lanes  lanes
	at     fair.Time // its service when it was put into ahead; it only grows
	heap   *entrants // nil while it has no lane
	pos    int
	age    int64 // in the level's ages
	agePos int   // there, from 1; 0 while it has no lane
}

// enter adds a lane that is not empty and stands nowhere.
func (st *stand) enter(l *lane) {
	v := st.level(l.priority)
	e := v.entrants[l.tenant]
	if e == nil {
		e = &entrant{level: v, tenant: l.tenant, share: st.queue.turnOf(l.priority).shareOf(l.tenant)}
		e.share.refs++
		v.entrants[l.tenant] = e
	}
	l.stand, l.entrant = st, e
	e.share.turn.busy++
	stdheap.Push(&e.lanes, l)
	e.moved()
}

// leave takes a lane out. The entrant stays where lanes come and go, among the
// open ones, until the lane ends.
func (st *stand) leave(l *lane) {
	e := l.entrant
	stdheap.Remove(&e.lanes, l.pos)
	l.stand, l.entrant = nil, nil
	e.share.turn.busy--
	e.moved()
	if st != &l.task.open {
		st.forget(l.priority, l.tenant)
	}
}

// forget drops the entrant of a lane that ended, if no other needs it.
func (st *stand) forget(priority int32, tenant string) {
	v := st.level(priority)
	if e := v.entrants[tenant]; e != nil && len(e.lanes) == 0 {
		e.share.refs--
		delete(v.entrants, tenant)
	}
	if len(v.entrants) == 0 {
		st.levels = slices.DeleteFunc(st.levels, func(o *level) bool { return o == v })
	}
}

// moved puts a lane right whose head changed.
func (st *stand) moved(l *lane) {
	stdheap.Fix(&l.entrant.lanes, l.pos)
	l.entrant.moved()
}

// level returns the level of a priority, made when there is none.
func (st *stand) level(priority int32) *level {
	i, ok := slices.BinarySearchFunc(st.levels, priority, func(v *level, p int32) int { return -cmp.Compare(v.priority, p) })
	if ok {
		return st.levels[i]
	}
	v := &level{priority: priority, entrants: map[string]*entrant{}, ahead: entrants{byService: true}}
	st.levels = slices.Insert(st.levels, i, v)
	return v
}

// best returns the lane that a claim serves first, or nil: one of the highest
// priority, or, in a queue with ageing, the one of all that was due first with
// its priority counted in.
func (st *stand) best() *lane {
	if st.queue.ageing != 0 {
		return st.oldest()
	}
	for _, v := range st.levels {
		if l := v.best(); l != nil {
			return l
		}
	}
	return nil
}

// moved puts the entrant where it belongs after its open lanes, or its share,
// changed.
func (e *entrant) moved() {
	if e.level.ages != nil {
		e.level.ages.moved(e)
	}
	var to *entrants
	switch {
	case len(e.lanes) == 0:
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

// best returns the lane that a claim serves first at this level, or nil.
func (v *level) best() *lane {
	for {
		switch b, a := v.behind.top(), v.ahead.top(); {
		case b != nil && !b.share.behind():
			b.moved()
		case a != nil && (a.share.behind() || a.at != a.share.service):
			a.moved()
		case b != nil:
			return b.lanes[0]
		case a != nil:
			return a.lanes[0]
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
	return a.lanes[0].head.before(b.lanes[0].head.spot)
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

// before says whether l is served before m, another lane of the queue.
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
	return l.head.before(m.head.spot)
}

// charge adds the service of a job to the lane's tenant.
func (l *lane) charge() {
	s := l.entrant.share
	s.turn.serve(s, s.turn.Charge(s.effective(), 1, l.task.queue.weights[l.tenant]))
	l.entrant.moved()
}

// shared reports whether several tenants share a priority, so that serving one
// changes the order of all lanes.
func (q *queue) shared(priority int32) bool { return len(q.turnOf(priority).shares) > 1 }
