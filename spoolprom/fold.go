package spoolprom

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// pair is a task of a queue.
type pair struct{ queue, task string }

func (p pair) compare(q pair) int {
	return cmp.Or(cmp.Compare(p.queue, q.queue), cmp.Compare(p.task, q.task))
}

// fold keeps the number of distinct pairs bounded: those that came first keep
// their names, the rest are one task, Other. Which is which does not change while
// a pair is there, and what a pair under Other had counted stays counted when it
// goes: no counter falls.
type fold struct {
	max    int
	kept   map[pair]bool
	folded map[pair]broker.Totals // as they were last
	gone   map[pair]broker.Totals // of folded pairs that are no more, by the name that they went under
}

func newFold(n int) *fold {
	return &fold{max: n, kept: map[pair]bool{}, folded: map[pair]broker.Totals{}, gone: map[pair]broker.Totals{}}
}

// apply returns counts in which no more than the bound of pairs have their own
// name, sorted, and how many pairs and queues have not.
func (f *fold) apply(counts []broker.Count) (out []broker.Count, tasks, queues int) {
	f.forget(counts)
	for i := range counts {
		if p := of(&counts[i]); !f.kept[p] {
			f.admit(p, counts[i].Totals)
		}
	}
	own := f.queues()
	sums := map[pair]*broker.Count{}
	foldedQueues := map[string]bool{}
	for i := range counts {
		c := counts[i]
		real := of(&c)
		p := f.name(real, own)
		c.Queue, c.Task = p.queue, p.task
		if p != real {
			tasks++
		}
		if p.queue != real.queue {
			c.Paused, c.HighWater = false, 0
			if foldedQueues[real.queue] { // the same numbers stand on each of its counts
				c.Depth, c.Bytes = 0, 0
			}
			foldedQueues[real.queue] = true
		}
		if sum := sums[p]; sum != nil {
			add(sum, &c, p.queue != real.queue)
		} else {
			sums[p] = &c
		}
	}
	for p, t := range f.gone {
		if sum := sums[p]; sum != nil {
			addTotals(&sum.Totals, t)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(sums), pair.compare) {
		out = append(out, *sums[p])
	}
	return out, tasks, len(foldedQueues)
}

func of(c *broker.Count) pair { return pair{c.Queue, c.Task} }

// forget drops pairs that are no more.
func (f *fold) forget(counts []broker.Count) {
	there := make(map[pair]bool, len(counts))
	for i := range counts {
		there[of(&counts[i])] = true
	}
	own := f.queues()
	for p, last := range f.folded {
		if !there[p] {
			sum := f.gone[f.name(p, own)]
			addTotals(&sum, last)
			f.gone[f.name(p, own)] = sum
			delete(f.folded, p)
		}
	}
	maps.DeleteFunc(f.kept, func(p pair, _ bool) bool { return !there[p] })
}

// admit gives p its own name while there is room. One that has been folded stays
// so, and a name that Other has is always folded.
func (f *fold) admit(p pair, t broker.Totals) {
	_, before := f.folded[p]
	if before || len(f.kept) >= f.max || p.task == Other || p.queue == Other {
		f.folded[p] = t
		return
	}
	f.kept[p] = true
}

// queues are those with a pair of its own name.
func (f *fold) queues() map[string]bool {
	own := map[string]bool{}
	for p := range f.kept {
		own[p.queue] = true
	}
	return own
}

// name is what p goes by.
func (f *fold) name(p pair, own map[string]bool) pair {
	switch {
	case f.kept[p]:
		return p
	case own[p.queue]:
		return pair{p.queue, Other}
	}
	return pair{Other, Other}
}

// add adds c to sum; of two counts of one queue the numbers of the queue are the
// same.
func add(sum, c *broker.Count, otherQueue bool) {
	sum.Scheduled += c.Scheduled
	sum.Ready += c.Ready
	sum.Leased += c.Leased
	sum.Done += c.Done
	sum.Dead += c.Dead
	sum.Cancelled += c.Cancelled
	if otherQueue {
		sum.Depth += c.Depth
		sum.Bytes += c.Bytes
	}
	addTotals(&sum.Totals, c.Totals)
}

func addTotals(sum *broker.Totals, t broker.Totals) {
	sum.Enqueued += t.Enqueued
	sum.Claimed += t.Claimed
	sum.Acked += t.Acked
	sum.Failed += t.Failed
	sum.Expired += t.Expired
	sum.Died += t.Died
	sum.Cancelled += t.Cancelled
	sum.Deleted += t.Deleted
}
