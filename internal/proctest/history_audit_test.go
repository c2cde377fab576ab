//go:build linux

package proctest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// store is what is there once nothing runs any more.
type store struct {
	jobs   map[int][]broker.Job // by the lists of all states
	counts map[int]broker.Count // by job: each is a task of its own
}

// readStore lists every job and reads the counters.
func readStore(t *testing.T, c *spool.Client) *store {
	t.Helper()
	s := &store{jobs: map[int][]broker.Job{}, counts: map[int]broker.Count{}}
	for j, err := range c.List(t.Context(), spool.Filter{}) {
		must(t, err)
		s.jobs[historyJob(j.ID)] = append(s.jobs[historyJob(j.ID)], j)
	}
	counts, err := c.Counts(t.Context(), "")
	must(t, err)
	for _, n := range counts {
		var job int
		if _, err := fmt.Sscanf(n.Task, "j%d", &job); err != nil {
			t.Errorf("there are counters of the task %s: %v", n.Task, err)
		}
		s.counts[job] = n
	}
	return s
}

// audit compares a history with what is left in the store, in a time that grows as
// the history does. It knows nothing of the order in which operations took place
// but what their times say.
type audit struct {
	store    *store
	findings []string
	deleted  int // jobs for which somebody called for a deletion: they are held to less
}

func (a *audit) wrong(format string, args ...any) {
	a.findings = append(a.findings, fmt.Sprintf(format, args...))
}

// audit says what is wrong.
func (h *history) audit(s *store) *audit {
	a := &audit{store: s}
	byJob := h.byJob()
	for job := range s.jobs {
		if len(byJob[job]) == 0 {
			a.wrong("job %d is there, and nobody named it", job)
		}
	}
	for _, job := range sortedJobs(byJob) {
		a.job(job, byJob[job])
	}
	return a
}

// sums is what the operations of one job add up to.
type sums struct {
	ops            []*operation
	tried, acked   bool // its enqueue
	deletes        bool // somebody called for a deletion
	claims, blind  int  // leases given, and claims of which nobody knows
	largest        broker.Token
	acks           map[broker.Token]bool // accepted
	done           *operation            // the first ack that was accepted
	requeues       int
	commands       map[string]bool // somebody called for it
	settledBy      map[broker.Token]map[broker.SettleKind]bool
	attemptTooHigh bool
}

func sumsOf(ops []*operation) *sums {
	s := &sums{ops: ops, acks: map[broker.Token]bool{}, commands: map[string]bool{}, settledBy: map[broker.Token]map[broker.SettleKind]bool{}}
	for _, o := range ops {
		s.attemptTooHigh = s.attemptTooHigh || o.got.Attempt > historyMax
		switch o.verb {
		case doEnqueue:
			s.tried, s.acked = true, s.acked || !o.open()
		case doDelete:
			s.deletes = true
		case doClaim:
			switch {
			case o.open():
				s.blind++
			case o.got.OK:
				s.claims++
				s.largest = max(s.largest, o.got.Token)
			}
		case doSettle:
			s.settle(o)
		case doCancel, doRequeue:
			s.commands[o.verb] = true
			if o.verb == doRequeue && (o.open() || o.got.OK) {
				s.requeues++
			}
		}
	}
	return s
}

func (s *sums) settle(o *operation) {
	if !o.open() && !o.got.OK {
		return
	}
	if s.settledBy[o.Token] == nil {
		s.settledBy[o.Token] = map[broker.SettleKind]bool{}
	}
	s.settledBy[o.Token][o.Kind] = true
	if o.Kind == broker.Ack && !o.open() {
		if s.acks[o.Token] = true; s.done == nil || o.ret < s.done.ret {
			s.done = o
		}
	}
}

func (a *audit) job(job int, ops []*operation) {
	s, there := sumsOf(ops), a.store.jobs[job]
	switch {
	case len(there) > 1:
		a.wrong("job %d is listed %d times: %v and %v", job, len(there), there[0].State, there[1].State)
		return
	case len(there) == 1 && !s.tried:
		a.wrong("job %d is there, and nobody enqueued it", job)
	case len(there) == 0 && s.acked && !s.deletes:
		a.wrong("job %d was acknowledged and is gone", job)
	}
	if s.attemptTooHigh {
		a.wrong("job %d ran more often than it may", job)
	}
	a.count(job, there)
	a.tokens(job, ops)
	if s.deletes {
		a.deleted++
		return
	}
	if len(there) == 1 {
		a.state(job, s, &there[0])
		a.totals(job, s, &there[0])
	}
}

// tokens wants that each lease has a token of its own, larger than those of all
// leases that were given before it was asked for, and that only the last lease is
// settled.
func (a *audit) tokens(job int, ops []*operation) {
	var asked, given, ends []*operation
	for _, o := range ops {
		switch {
		case o.open() || !o.got.OK:
		case o.verb == doClaim:
			asked, given = append(asked, o), append(given, o)
		case o.verb == doSettle:
			ends = append(ends, o)
		}
	}
	byCall := func(x, y *operation) int { return cmp.Compare(x.call, y.call) }
	slices.SortFunc(asked, byCall)
	slices.SortFunc(ends, byCall)
	slices.SortFunc(given, func(x, y *operation) int { return cmp.Compare(x.ret, y.ret) })
	seen := map[broker.Token]bool{}
	for _, o := range asked {
		if seen[o.got.Token] {
			a.wrong("job %d: the token %v was given twice", job, o.got.Token)
		}
		seen[o.got.Token] = true
	}
	settled := map[broker.Token]broker.SettleKind{}
	for _, o := range ends {
		if kind := settled[o.Token]; kind != 0 && kind != o.Kind {
			a.wrong("job %d: its lease %v was settled by %v and by %v", job, o.Token, kind, o.Kind)
		}
		settled[o.Token] = o.Kind
	}
	before(asked, given, func(o *operation, largest broker.Token) {
		if o.got.Token <= largest {
			a.wrong("job %d: the token %v was given after %v", job, o.got.Token, largest)
		}
	})
	before(ends, given, func(o *operation, largest broker.Token) {
		if o.Token < largest {
			a.wrong("job %d: %v of the lease %v was accepted after the lease %v was given", job, o.Kind, o.Token, largest)
		}
	})
}

// before calls fn for each operation, which are in the order of their calls, with
// the largest token that was given before it was called.
func before(ops, given []*operation, fn func(o *operation, largest broker.Token)) {
	largest, n := broker.Token(0), 0
	for _, o := range ops {
		for ; n < len(given) && given[n].ret < o.call; n++ {
			largest = max(largest, given[n].got.Token)
		}
		fn(o, largest)
	}
}

// state wants that somebody asked for the state in which the job is, and that
// nothing happened after what is the end.
func (a *audit) state(job int, s *sums, j *broker.Job) {
	if len(s.acks) > 1 {
		a.wrong("job %d was acked %d times", job, len(s.acks))
	}
	if j.Token < s.largest || j.Attempt > j.MaxAttempts {
		a.wrong("job %d has token %v and attempt %d, and a lease had %v", job, j.Token, j.Attempt, s.largest)
	}
	if s.done != nil {
		if j.State != broker.Done || !s.acks[j.Token] {
			a.wrong("job %d was acked with %v and is %v with %v", job, s.done.Token, j.State, j.Token)
		}
		for _, o := range s.ops {
			if o.verb == doClaim && !o.open() && o.got.OK && o.call > s.done.ret {
				a.wrong("job %d was claimed after its ack", job)
			}
		}
		return
	}
	by := s.settledBy[j.Token]
	fits := true
	switch j.State {
	case broker.Done:
		fits = by[broker.Ack]
	case broker.Dead:
		fits = by[broker.Bury] || j.Attempt == historyMax && (by[broker.Nack] || j.Reason == broker.ReasonCrashed)
	case broker.Cancelled:
		fits = by[broker.Cancel] || s.commands[doCancel]
	case broker.Scheduled:
		fits = false
	}
	if !fits {
		a.wrong("job %d is %v (%s) with token %v after attempt %d, and nobody asked for that", job, j.State, j.Reason, j.Token, j.Attempt)
	}
}

// count compares the counters of a job's task with the lists.
func (a *audit) count(job int, there []broker.Job) {
	c := a.store.counts[job]
	for _, state := range broker.States {
		n := int64(0)
		if len(there) == 1 && there[0].State == state {
			n = 1
		}
		if c.Of(state) != n {
			a.wrong("job %d: the counter of %v says %d, and %d is there", job, state, c.Of(state), n)
		}
	}
	if t := c.Totals; t.Enqueued != int64(len(there))+t.Deleted {
		a.wrong("job %d: %d were enqueued and %d deleted, and %d is there", job, t.Enqueued, t.Deleted, len(there))
	}
}

// totals compares what ever happened with what somebody was told of.
func (a *audit) totals(job int, s *sums, j *broker.Job) {
	t := a.store.counts[job].Totals
	done := int64(0)
	if j.State == broker.Done {
		done = 1
	}
	if t.Claimed < int64(s.claims) || t.Claimed > int64(s.claims+s.blind) || t.Acked != done || t.Died > int64(s.requeues)+1 {
		a.wrong("job %d: the totals are %+v, and %d leases were given, of %d nobody knows, it is %v", job, t, s.claims, s.blind, j.State)
	}
}
