package spool

import "slices"

// queueChoice is the order in which a worker asks its queues: strict, or by
// smooth weighted turns. It belongs to the claim loop.
type queueChoice struct {
	names    []string // nil means every queue
	limits   map[string]int
	weighted bool
	weights  []queueWeight
}

type queueWeight struct {
	name   string
	weight int
	credit int
}

func newQueueChoice(queues []QueueConfig) queueChoice {
	c := queueChoice{limits: map[string]int{}}
	for _, q := range queues {
		c.names = append(c.names, q.Name)
		c.weights = append(c.weights, queueWeight{name: q.Name, weight: max(q.Weight, 1)})
		c.weighted = c.weighted || q.Weight > 0
		if q.Concurrency > 0 {
			c.limits[q.Name] = q.Concurrency
		}
	}
	return c
}

// order returns the queues for the next claim, which the caller must not
// change. With weights, a queue of weight w of a total t comes first in w of t
// orders, evenly spread; behind it stand those that have waited most.
func (c *queueChoice) order() []string {
	if !c.weighted {
		return c.names
	}
	total := 0
	for i := range c.weights {
		c.weights[i].credit += c.weights[i].weight
		total += c.weights[i].weight
	}
	slices.SortStableFunc(c.weights, func(a, b queueWeight) int { return b.credit - a.credit })
	c.weights[0].credit -= total
	names := make([]string, len(c.weights))
	for i, w := range c.weights {
		names[i] = w.name
	}
	return names
}

// ask is one claim to make: of these queues (nil means all), up to max jobs.
type ask struct {
	queues []string
	max    int
}

// plan splits an order of queues into asks, so that no queue gets more jobs than
// its own limit leaves: a limited queue is asked alone. free is what the worker
// has left, running what of each limited queue runs. wait is the one ask for
// all of them that can wait for a job, and full says that a queue is missing in
// it since its limit is reached.
func (c *queueChoice) plan(order []string, free int, running map[string]int) (asks []ask, wait ask, full bool) {
	if len(c.limits) == 0 {
		return []ask{{order, free}}, ask{order, free}, false
	}
	wait.max = free
	for _, q := range order {
		limit, limited := c.limits[q]
		n := min(free, limit-running[q])
		switch {
		case limited && n <= 0:
			full = true
			continue
		case limited:
			asks = append(asks, ask{[]string{q}, n})
			wait.max = min(wait.max, n)
		case len(asks) > 0 && c.limits[asks[len(asks)-1].queues[0]] == 0:
			last := &asks[len(asks)-1]
			last.queues = append(last.queues, q)
		default:
			asks = append(asks, ask{[]string{q}, free})
		}
		wait.queues = append(wait.queues, q)
	}
	return asks, wait, full
}
