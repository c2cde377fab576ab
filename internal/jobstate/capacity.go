package jobstate

import (
	"fmt"
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
	var total need
	tenants := map[string]need{}
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
	if all != nil {
		if err := all.check(queue, nil, q.load, total); err != nil {
			return err
		}
	}
	for tenant, n := range tenants {
		l := load{}
		if have := q.loads[tenant]; have != nil {
			l = *have
		}
		if each != nil {
			if err := each.check(queue, &tenant, l, n); err != nil {
				return err
			}
		}
	}
	if each != nil {
		for tenant, n := range tenants {
			for l := q.loads[tenant]; l != nil && each.over(*l, n) && s.dropOldest(w, q, &tenant); {
			}
		}
	}
	for all != nil && all.over(q.load, total) && s.dropOldest(w, q, nil) {
	}
	return nil
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
	if !j.ID.IsZero() && (n.q.jobs[j.ID] != nil || n.ids[j.ID]) {
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
	if c.DropOldest {
		l.jobs, l.bytes = l.jobs-l.ready, l.bytes-l.readyBytes
		if !c.over(l, n) {
			return nil
		}
	}
	e := &broker.FullError{Queue: queue, RetryAfter: retryAfter}
	who := "queue " + queue
	if tenant != nil {
		e.Tenant = *tenant
		who = fmt.Sprintf("tenant %q of queue %s", *tenant, queue)
	}
	e.Text = fmt.Sprintf("%s has %d jobs of %d bytes, its capacity is %d jobs, %d bytes (0: any)", who, l.jobs, l.bytes, c.Jobs, c.Bytes)
	return e
}

// dropOldest cancels the ready job (but none that an earlier drop of this call
// has just made ready) of the lowest priority that waits longest, if there is
// one.
func (s *State) dropOldest(w *Writer, q *queue, tenant *string) bool {
	var worst *lane
	for _, t := range q.order {
		for _, l := range t.lanes {
			if l.n == 0 || tenant != nil && l.tenant != *tenant || l.head.j.reason == reasonBatch && l.head.j.changedAt == w.base {
				continue
			}
			if worst == nil || l.priority < worst.priority || l.priority == worst.priority && l.head.before(&worst.head) {
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
