package jobstate

import (
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// setRules puts the limits in force: every lane binds anew, what is parked is
// opened, and running jobs are counted again. Rates go on from where they were.
func (s *State) setRules(q *queue) {
	old := q.rules
	for _, r := range old {
		for _, m := range r.meters {
			m.letAll()
		}
	}
	q.rules = map[string]*rule{}
	for name, t := range q.settings {
		if name.kind != broker.LimitSetting {
			continue
		}
		r := &rule{Limit: *t.inForce().Limit, name: name.name, queue: q, meters: map[string]*meter{}}
		r.rate = rateOf(&r.Limit)
		q.rules[r.name] = r
		if o := old[r.name]; o != nil && o.Per == r.Per && r.Running == 0 {
			for value, m := range o.meters {
				if m.used(s.clock) {
					r.meter(value).rate = m.rate
				}
			}
		}
	}
	q.wakes = nil // of the old ones
	q.rev++
	for _, t := range q.order {
		bound := len(t.rules) > 0
		if t.rules = q.rulesOf(t.name); !bound && len(t.rules) == 0 {
			continue // its lanes have nothing to do with it
		}
		for _, l := range t.lanes {
			l.meters = nil // of the old rules
			l.passOn()     // and of an old gate it is not to wait at any more
		}
	}
	for j := s.firstOf(&q.lists[broker.Leased]); j != nil; j = s.nextOf(j) {
		s.counted(j, 1)
	}
}

// rulesOf returns the limits that bind a task, by name.
func (q *queue) rulesOf(task string) (rules []*rule) {
	for _, name := range slices.Sorted(maps.Keys(q.rules)) {
		if r := q.rules[name]; slices.Contains(r.Tasks, task) {
			rules = append(rules, r)
		}
	}
	return rules
}
