package jobstate

import (
	"cmp"
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
		for tenant, n := range tenants {
			some, err := each.victims(q, tenant, n)
			if err != nil {
				return err
			}
			for _, j := range some {
				rest.drop(j)
			}
			victims = append(victims, some...)
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
	for all != nil && all.over(q.load, total) && s.dropOldest(w, q) {
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

// victims chooses the jobs of a tenant that go so that n fits into its
// capacity: of the lowest priority first, and of those the longest waiting.
func (c *capacity) victims(q *queue, tenant string, n need) (some []*job, err error) {
	l := load{}
	if have := q.loads[tenant]; have != nil {
		l = *have
	}
	if err := c.check(q.name, &tenant, l, n); err != nil || !c.over(l, n) {
		return nil, err
	}
	var ready []*job
	s := q.state
	for j := s.firstOf(&q.lists[broker.Ready]); j != nil; j = s.nextOf(j) {
		if s.laneOf(j).tenant == tenant {
			ready = append(ready, j)
		}
	}
	slices.SortFunc(ready, func(a, b *job) int {
		x, y := s.placeOf(a), s.placeOf(b)
		return cmp.Or(cmp.Compare(s.laneOf(a).priority, s.laneOf(b).priority), cmp.Compare(x.at, y.at), cmp.Compare(x.seq, y.seq), cmp.Compare(x.own, y.own))
	})
	for _, j := range ready {
		if !c.over(l, n) {
			break
		}
		l.drop(j)
		some = append(some, j)
	}
	return some, nil
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

// dropOldest cancels the ready job (but none that an earlier drop of this call
// has just made ready) of the lowest priority that waits longest, if there is
// one.
func (s *State) dropOldest(w *Writer, q *queue) bool {
	var worst *lane
	for _, t := range q.order {
		for _, l := range t.lanes {
			if l.n == 0 || s.spared[l.head.j] {
				continue
			}
			if worst == nil || l.priority < worst.priority || l.priority == worst.priority && l.head.before(worst.head.spot) {
				worst = l
			}
		}
	}
	if worst == nil {
		return false
	}
	s.final(w, worst.head.j, finalRec{state: broker.Cancelled, reason: reasonDropped})
	return true
}
