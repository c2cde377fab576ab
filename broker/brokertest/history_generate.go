package brokertest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spoolq/spool/broker"
)

// generator makes the steps of a history.
type generator struct {
	*rand.Rand
	delays time.Duration // given so far
	theme  theme
}

// theme is what a history is about, so that its steps meet.
type theme int

const (
	aboutJobs theme = iota // no settings
	aboutLimits
	aboutTurns // weights and ageing
	aboutStock // capacities and retention
	aboutTicks
	aboutAll
	themes
)

func pick[V any](g *generator, from ...V) V { return from[g.IntN(len(from))] }

func (g *generator) client() int { return g.IntN(historyClients) }

// slot is most often one of the first queue, where a history is about what the
// jobs of one queue do to each other.
func (g *generator) slot() slot {
	s := slot(g.IntN(historySlots))
	if (g.crowded() || g.theme == aboutTicks) && g.IntN(3) > 0 {
		s -= s % slot(len(historyQueues))
	}
	return s
}

// delay is at least some microseconds, and no two are equal: which of two jobs
// that fall due at one moment comes first is left open.
func (g *generator) delay(n int) time.Duration {
	g.delays++
	return g.units(n) + g.delays*time.Microsecond
}

// units is a time of whole units.
func (g *generator) units(n int) time.Duration { return time.Duration(g.IntN(n)) * historyUnit }

func (g *generator) step() step {
	switch n := g.IntN(100); {
	case n < 22:
		return g.enqueue()
	case n < 38:
		return g.claim()
	case n < 53:
		return g.settle()
	case n < 56:
		return g.extend()
	case n < 63:
		return g.command()
	case n < 70:
		return passStep(historyUnit/2 + g.units(6))
	case n < 72:
		return passStep(pick(g, time.Second, time.Minute, 2*time.Hour))
	case n < 75:
		return g.reopen()
	case n < 77:
		return wallStep(pick(g, -2*time.Hour, -time.Hour, -3*historyUnit, 2*historyUnit, time.Minute, time.Hour, 3*time.Hour))
	case n < 79:
		return explainStep{g.client(), []slot{g.slot(), g.slot()}}
	case n < 83:
		return g.batch()
	case g.theme == aboutJobs:
		return g.claim()
	case n < 88 || n < 93 && g.theme != aboutTicks:
		return g.configure()
	case g.theme == aboutLimits || g.theme == aboutTurns:
		return g.claim()
	case g.theme == aboutStock:
		return g.enqueue()
	}
	return g.tick()
}

func (g *generator) reopen() step {
	s := reopenStep{client: g.IntN(historyClients+2) - 2, kill: g.IntN(2) == 0}
	if s.client < 0 {
		s.restart, s.client = s.client < everyClient, everyClient
	}
	return s
}

// plain makes a job of the kind that brokers have short ways for.
func (g *generator) plain(s slot) broker.NewJob {
	n := slotJobs()[s]
	n.Task, n.Payload, n.MaxAttempts = pick(g, "t", "t", "u"), pick(g, nil, []byte("x"), []byte("y")), pick(g, 0, 1, 2)
	return n
}

func (g *generator) job(s slot) broker.NewJob {
	n := g.plain(s)
	n.Priority, n.Tenant = pick[int32](g, 0, 0, 0, 1, -1), pick(g, historyTenants...)
	n.Group, n.Ordered = pick(g, historyGroups...), g.IntN(4) == 0
	n.Key, n.Retain = pick(g, historyKeys...), pick(g, 0, 0, -1, time.Second, 5*historyUnit)
	switch g.theme {
	case aboutLimits:
		n.Ordered = g.IntN(2) == 0
	case aboutTurns:
		n.Tenant, n.Key, n.Ordered = pick(g, "", "x", "y"), "", false
	case aboutStock:
		n.Priority = pick[int32](g, -1, 0, 1)
	}
	if g.crowded() && g.IntN(3) > 0 { // its slot is soon free again
		n.Key, n.Retain, n.MaxAttempts = "", -1, 0
	}
	if n.Key != "" {
		n.KeyHold = pick(g, broker.HoldUntilFinal, broker.HoldUntilStarted, broker.HoldFor)
		if n.KeyHold == broker.HoldFor {
			n.KeyFor = historyUnit + g.units(5)
		}
		n.KeyRepeat = pick(g, broker.RepeatFirst, broker.RepeatReplace, broker.RepeatDebounce)
	}
	if g.IntN(4) == 0 {
		n.Delay = g.delay(5)
	}
	if g.IntN(8) == 0 {
		n.StartWithin = historyUnit + g.units(4)
	}
	return n
}

func (g *generator) enqueue() step {
	first := g.slot()
	if g.IntN(2) == 0 {
		return enqueueStep{client: g.client(), slots: []slot{first}, jobs: []broker.NewJob{g.plain(first)}, quiet: g.IntN(4) > 0}
	}
	s := enqueueStep{client: g.client(), slots: []slot{first}, at: g.IntN(4) == 0}
	more := 3
	if g.crowded() {
		more = 6
	}
	for range g.IntN(more) {
		next := (first + slot(g.IntN(7)*len(historyQueues))) % historySlots
		if next.ref().Queue == first.ref().Queue {
			s.slots = append(s.slots, next)
		}
	}
	for _, one := range s.slots {
		s.jobs = append(s.jobs, g.job(one))
	}
	return s
}

// crowded reports whether a history is about jobs that wait for each other: it
// adds more than it claims.
func (g *generator) crowded() bool {
	return g.theme == aboutLimits || g.theme == aboutTurns || g.theme == aboutStock
}

func (g *generator) claim() step {
	s := claimStep{g.client(), broker.ClaimRequest{
		Queues: pick(g, nil, historyQueues[:1], historyQueues[1:], []string{"b", "a"}, []string{"none", "a", "b"}),
		Tasks:  pick(g, nil, nil, historyTasks[:1], historyTasks[1:]),
		Max:    1 + g.IntN(4), TTL: pick(g, 0, historyUnit+g.units(5), time.Second),
		Worker: pick(g, historyWorkers[:]...), Remote: g.IntN(4) == 0,
	}}
	if g.crowded() && s.r.Max > 1 {
		s.r.Max, s.r.Tasks = s.r.Max-1, nil
	}
	return s
}

// run is most often the last lease of a slot.
func (g *generator) run() run { return run{g.slot(), pick(g, 0, 0, 0, 0, 0, 0, 1, 9)} }

func (g *generator) settle() step {
	s := settleStep{client: g.client()}
	for range 1 + g.IntN(8) {
		o := settlement{run: g.run(), s: broker.Settlement{
			Kind:   pick(g, broker.Ack, broker.Ack, broker.Ack, broker.Nack, broker.Nack, broker.Snooze, broker.Release, broker.Bury, broker.Cancel),
			Result: pick(g, nil, nil, []byte("r"), []byte{}), Error: pick(g, "", "e1", "e2"),
		}}
		switch o.s.Kind {
		case broker.Nack, broker.Snooze:
			o.s.Delay = pick(g, 0, g.delay(4))
		case broker.Ack:
			if g.IntN(4) == 0 {
				next := g.slot()
				o.s.FollowUps = []broker.FollowUp{{Queue: next.ref().Queue, Job: g.job(next)}}
			}
		}
		s.of = append(s.of, o)
	}
	return s
}

func (g *generator) extend() step {
	s := extendStep{client: g.client(), ttl: historyUnit + g.units(6)}
	for range g.IntN(4) {
		s.runs = append(s.runs, g.run())
	}
	if g.IntN(2) == 0 {
		s.worker = broker.Worker{ID: historyWorkers[s.client], Queues: pick(g, nil, historyQueues[:1]), Tasks: pick(g, nil, historyTasks[:1])}
		s.leaving = g.IntN(4) == 0
	}
	if g.IntN(2) == 0 {
		s.progress = &broker.Progress{Percent: g.IntN(101), Note: fmt.Sprint("note ", g.IntN(3))}
	}
	if g.IntN(3) == 0 {
		s.log = []string{fmt.Sprint("line ", g.IntN(9)), "and another"}
	}
	return s
}

// command makes a command. A requeue is of one job, because the order in which
// one command brings back several is left open.
func (g *generator) command() step {
	c := broker.Command{Kind: pick(g, broker.CancelJobs, broker.CancelJobs, broker.RequeueJobs, broker.RequeueJobs, broker.DeleteJobs, broker.PauseQueue, broker.ResumeQueue, broker.ResumeQueue)}
	c.Reason = pick(g, "", "by ada")
	first := g.slot()
	c.Filter.Queue = first.ref().Queue
	switch c.Kind {
	case broker.PauseQueue, broker.ResumeQueue:
		return commandStep{g.client(), c}
	case broker.RequeueJobs:
		c.Filter.IDs = []broker.ID{first.ref().ID}
	default:
		c.Limit = pick(g, 0, 1, 2)
		if g.IntN(2) == 0 {
			c.Filter.IDs = []broker.ID{first.ref().ID, g.slot().ref().ID}
		}
		if g.IntN(4) == 0 {
			c.Filter.Task = pick(g, historyTasks...)
		}
		if g.IntN(4) == 0 {
			c.Filter.States = []broker.State{pick(g, broker.States[:]...)}
		}
		if g.IntN(4) == 0 {
			c.Filter.ErrorContains = pick(g, "e", "1", "ada")
			c.Limit = 0 // whether a step counts what it passes over is left open
		}
		if g.IntN(6) == 0 {
			c.Filter.OlderThan = historyUnit + historyUnit/4
		}
		if g.IntN(6) == 0 {
			c.Filter.NewerThan, c.Filter.Tenant = historyUnit+historyUnit/4, "x"
		}
	}
	return commandStep{g.client(), c}
}
