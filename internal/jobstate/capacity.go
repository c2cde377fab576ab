package jobstate

import (
	"cmp"
	stdheap "container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// retryAfter is the guess that a full queue answers with.
const retryAfter = time.Second

// need is what a call would add.
type need struct{ jobs, bytes int64 }

// makeRoom refuses jobs for which the queue's or their tenant's capacity has no
// room, or cancels older ones for them, if that is what the capacity says.
func (s *State) makeRoom(w *Writer, now Now, queue string, jobs []broker.NewJob) error {
	q := s.queues[queue]
	if q == nil {
		return nil
	}
	all, each := q.capacity(""), q.capacity(broker.TenantCapacity)
	if all == nil && each == nil {
		return nil
	}
	total, tenants := q.needs(now, jobs)
	var victims []*job
	rest := q.load
	if each != nil {
		var err error
		if victims, err = each.victims(q, tenants); err != nil {
			return err
		}
		for _, j := range victims {
			rest.drop(j)
		}
	}
	if all != nil {
		if err := all.check(queue, nil, rest, total); err != nil {
			return err
		}
	}
	for _, j := range victims {
		s.final(w, j, finalRec{state: broker.Cancelled, reason: reasonDropped})
	}
	s.spared = map[*job]bool{}
	defer func() { s.spared = nil }()
	if all != nil && all.over(q.load, total) {
		s.dropOldest(w, q, all, total)
	}
	return nil
}

// needs adds up what a call would add, in all and by tenant.
func (q *queue) needs(now Now, jobs []broker.NewJob) (total need, tenants map[string]need) {
	tenants = map[string]need{}
	fresh := newcomers{q, now, map[broker.ID]bool{}, map[keyName]bool{}}
	for i := range jobs {
		j := &jobs[i]
		if !fresh.adds(j) {
			continue
		}
		bytes := int64(len(appendBody(nil, j)))
		total.jobs, total.bytes = total.jobs+1, total.bytes+bytes
		t := tenants[j.Tenant]
		tenants[j.Tenant] = need{t.jobs + 1, t.bytes + bytes}
	}
	return total, tenants
}

// drop takes a ready job off.
func (l *load) drop(j *job) {
	bytes := int64(j.body.Len)
	l.jobs, l.bytes, l.ready, l.readyBytes = l.jobs-1, l.bytes-bytes, l.ready-1, l.readyBytes-bytes
}

// victims chooses the jobs that go so that what a call adds fits into the
// capacity of each tenant: of the lowest priority first, and of those the
// longest waiting.
func (c *capacity) victims(q *queue, tenants map[string]need) (victims []*job, err error) {
	loads := map[string]load{} // of tenants that are over
	for tenant, n := range tenants {
		l := load{}
		if have := q.loads[tenant]; have != nil {
			l = *have
		}
		if err := c.check(q.name, &tenant, l, n); err != nil {
			return nil, err
		}
		if c.over(l, n) {
			loads[tenant] = l
		}
	}
	for tenant, l := range loads {
		var ready []*job
		for o := l.lanes; o != nil; o = o.nextOf {
			ready = o.appendReady(ready)
		}
		slices.SortFunc(ready, q.state.dropsBefore)
		for _, j := range ready {
			if !c.over(l, tenants[tenant]) {
				break
			}
			l.drop(j)
			victims = append(victims, j)
		}
	}
	return victims, nil
}

// dropsBefore orders ready jobs by which is dropped first.
func (s *State) dropsBefore(a, b *job) int {
	x, y := s.placeOf(a), s.placeOf(b)
	return cmp.Or(cmp.Compare(s.laneOf(a).priority, s.laneOf(b).priority), cmp.Compare(x.at, y.at), cmp.Compare(x.seq, y.seq), cmp.Compare(x.own, y.own))
}

// placeOf is where a ready job stands among all. One that holds its ordered
// group has the spot of its lane's first, just before that: own 0 before 1.
func (s *State) placeOf(j *job) (at struct {
	spot
	own int
}) {
	if l := s.laneOf(j); l.head.j == j {
		at.spot = l.head.spot
		return at
	}
	at.spot, at.own = spotOf(j), 1
	return at
}

// newcomers finds out which jobs of a call will be added, going through them in
// order.
type newcomers struct {
	q    *queue
	now  Now
	ids  map[broker.ID]bool
	keys map[keyName]bool
}

// adds reports whether an enqueue of j would add it.
func (n *newcomers) adds(j *broker.NewJob) bool {
	key := keyName{j.Task, j.Key}
	if !j.ID.IsZero() && (n.q.job(j.ID) != nil || n.ids[j.ID]) {
		return false
	}
	if j.Key != "" && (n.q.holder(key, n.now.Steady) != nil || n.keys[key]) {
		return false
	}
	n.ids[j.ID] = true
	if j.Key != "" {
		n.keys[key] = true
	}
	return true
}

type capacity struct{ broker.Capacity }

func (q *queue) capacity(name string) *capacity {
	if t := q.settings[settingName{broker.CapacitySetting, name}]; t != nil {
		return &capacity{*t.inForce().Capacity}
	}
	return nil
}

// over reports whether n does not fit; nothing always fits.
func (c *capacity) over(l load, n need) bool {
	if n.jobs == 0 {
		return false
	}
	return c.Jobs > 0 && l.jobs+n.jobs > c.Jobs || c.Bytes > 0 && l.bytes+n.bytes > c.Bytes
}

// check refuses what cannot be made room for.
func (c *capacity) check(queue string, tenant *string, l load, n need) error {
	if !c.over(l, n) {
		return nil
	}
	have := l
	if c.DropOldest {
		l.jobs, l.bytes = l.jobs-l.ready, l.bytes-l.readyBytes
		if !c.over(l, n) {
			return nil
		}
	}
	e := &broker.FullError{Queue: queue, RetryAfter: retryAfter}
	if c.over(load{}, n) { // however much goes
		e.RetryAfter = 0
	}
	who := "queue " + queue
	if tenant != nil {
		e.Tenant = *tenant
		who = fmt.Sprintf("tenant %q of queue %s", *tenant, queue)
	}
	e.Text = who + " " + c.fullText(have, n)
	if e.RetryAfter == 0 {
		e.Text += "; so many never fit: enqueue fewer in one call, or raise the capacity"
	}
	return e
}

// fullText says what does not fit, in the numbers that the capacity bounds.
func (c *capacity) fullText(l load, n need) string {
	var parts []string
	if c.Jobs > 0 {
		parts = append(parts, fmt.Sprintf("has %d jobs, its capacity is %d, and this would add %d", l.jobs, c.Jobs, n.jobs))
	}
	if c.Bytes > 0 {
		parts = append(parts, fmt.Sprintf("has %d bytes, its capacity is %d, and this would add %d", l.bytes, c.Bytes, n.bytes))
	}
	return strings.Join(parts, "; ")
}

// dropOldest cancels ready jobs (but none that an earlier drop of this call has
// just made ready) until there is room: of the lowest priority first, and of
// those the longest waiting.
func (s *State) dropOldest(w *Writer, q *queue, c *capacity, n need) {
	var lanes dropOrder
	for _, t := range q.order {
		for _, l := range t.lanes {
			if s.droppable(l) {
				lanes = append(lanes, l)
			}
		}
	}
	stdheap.Init(&lanes)
	for c.over(q.load, n) && len(lanes) > 0 {
		l := lanes[0]
		s.final(w, l.head.j, finalRec{state: broker.Cancelled, reason: reasonDropped})
		if s.droppable(l) {
			stdheap.Fix(&lanes, 0)
		} else {
			stdheap.Pop(&lanes)
		}
	}
}

// droppable reports whether the first job of a lane may be dropped.
func (s *State) droppable(l *lane) bool { return l.n > 0 && !s.spared[l.head.j] }

// dropsBefore orders lanes by which has the job that is dropped first.
func (l *lane) dropsBefore(m *lane) int {
	a, b := l.head, m.head
	return cmp.Or(cmp.Compare(l.priority, m.priority), cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
}

// dropOrder is a heap of lanes, the one to drop from first on top.
type dropOrder []*lane

// Len, Less, Swap, Push and Pop serve container/heap.
func (h dropOrder) Len() int           { return len(h) }
func (h dropOrder) Less(i, k int) bool { return h[i].dropsBefore(h[k]) < 0 }
func (h dropOrder) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *dropOrder) Push(x any)        { *h = append(*h, x.(*lane)) }
func (h *dropOrder) Pop() any {
	a := *h
	l := a[len(a)-1]
	*h = a[:len(a)-1]
	return l
}
