package jobstate

import stdheap "container/heap"

// ages is a heap of the entrants of a level that have a lane, by when the head
// of their first lane was due.
type ages []*entrant

// oldest is best with ageing: each level offers the entrant whose head was due
// first, and of those that are alike the one to serve first.
func (st *stand) oldest() (best *lane) {
	for _, v := range st.levels {
		if v.ages == nil {
			v.ages = &ages{}
			for _, e := range v.entrants {
				v.ages.moved(e)
			}
		}
		if len(*v.ages) > 0 {
			best = v.ages.best(0, (*v.ages)[0].lanes[0].aged(), best)
		}
	}
	return best
}

// best returns the lane to serve first among best and those from position i on
// that are as old as age: they stand together at the top.
func (h *ages) best(i int, age int64, best *lane) *lane {
	if i >= len(*h) {
		return best
	}
	l := (*h)[i].lanes[0]
	if l.aged() != age {
		return best
	}
	if best == nil || l.before(best) {
		best = l
	}
	return h.best(2*i+2, age, h.best(2*i+1, age, best))
}

// moved puts an entrant right whose first lane, or the head of that, changed.
func (h *ages) moved(e *entrant) {
	switch {
	case len(e.lanes) == 0 && e.agePos > 0:
		stdheap.Remove(h, e.agePos-1)
	case len(e.lanes) == 0:
	case e.agePos > 0:
		e.age = e.lanes[0].due()
		stdheap.Fix(h, e.agePos-1)
	default:
		e.age = e.lanes[0].due()
		stdheap.Push(h, e)
	}
}

// Len, Less, Swap, Push and Pop serve container/heap.
func (h *ages) Len() int           { return len(*h) }
func (h *ages) Less(i, k int) bool { return (*h)[i].age < (*h)[k].age }
func (h *ages) Swap(i, k int) {
	a := *h
	a[i], a[k] = a[k], a[i]
	a[i].agePos, a[k].agePos = i+1, k+1
}
func (h *ages) Push(x any) { e := x.(*entrant); *h = append(*h, e); e.agePos = len(*h) }
func (h *ages) Pop() any {
	n := len(*h) - 1
	e := (*h)[n]
	(*h)[n] = nil
	*h, e.agePos = (*h)[:n], 0
	return e
}

// due is when the lane's head was due, or, if it is a group's holder, the first
// that waits for it.
func (l *lane) due() int64 {
	at := l.state().runAt(l.head.j)
	if l.first == l.head.j {
		at = min(at, l.head.at)
	}
	return at
}

// aged is what orders the lane's head in a queue with ageing: when it was due,
// set back by priority × step.
func (l *lane) aged() int64 {
	return satSub(l.due(), satMul(int64(l.priority), int64(l.task.queue.ageing)))
}
