//go:build linux

package proctest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spoolq/spool/broker"
)

// life is a job as the sequential specification has it.
type life struct {
	state   broker.State // 0: it is not there
	token   broker.Token // the last one given
	before  broker.Token // the last one given to the job that had its id before
	vague   bool         // the last one is larger, and nobody was told of it
	attempt int
	ended   broker.SettleKind // how the last lease was settled
	asked   bool              // its cancel was asked for
	owner   string            // the process with which the lease ends; "" for none
	grant   int               // the operation that set the lease's deadline
}

// end is how a lease ends without a settlement.
func (l life) end() life {
	switch {
	case l.asked:
		l.state = broker.Cancelled
	case l.attempt >= historyMax:
		l.state = broker.Dead
	default:
		l.state = broker.Ready
	}
	l.asked = false
	return l
}

// settle is what becomes of a leased job.
func (l life) settle(kind broker.SettleKind) life {
	switch {
	case kind == broker.Ack:
		l.state = broker.Done
	case kind == broker.Cancel || l.asked:
		l.state = broker.Cancelled
	case kind == broker.Bury || kind == broker.Nack && l.attempt >= historyMax:
		l.state = broker.Dead
	default:
		l.state = broker.Ready
	}
	if l.state == broker.Ready && kind != broker.Nack {
		l.attempt--
	}
	l.ended, l.asked = kind, false
	return l
}

// holds reports whether a token is that of the lease of now.
func (l life) holds(token broker.Token) bool {
	return l.state == broker.Leased && !l.vague && l.token == token
}

// The ends of leases, which nobody calls for.
const (
	leaseIsOver = "lease is over"
	processDies = "process dies"
)

// move is an operation with the number by which it may set a deadline.
type move struct {
	*operation
	n     int
	grant int // of leaseIsOver
}

// next is the specification: whether a job may answer so, and what it is then. What
// nobody was answered may have been answered in any way.
func (l life) next(m *move) (bool, life) {
	got, blind := m.got, m.open()
	switch m.verb {
	case doEnqueue:
		if l.state != 0 {
			return blind || !got.OK, l
		}
		return blind || got.OK, life{state: broker.Ready, before: l.before}
	case doClaim:
		return l.claim(m)
	case doSettle:
		return l.settled(m)
	case doExtend:
		if !l.holds(m.Token) {
			return blind || !got.OK, l
		}
		ok := blind || got.OK && got.Asked == l.asked
		l.grant = m.n
		return ok, l
	case doGet:
		return l.look(m)
	case leaseIsOver:
		if l.state == broker.Leased && l.grant == m.grant {
			l = l.end()
		}
		return true, l
	case processDies:
		if l.state == broker.Leased && l.owner == m.process {
			l = l.end()
		}
		return true, l
	}
	then, changed := l.command(m.verb)
	return blind || got.OK == changed, then
}

func (l life) claim(m *move) (bool, life) {
	got := m.got
	if l.state != broker.Ready {
		return m.open() || !got.OK, l
	}
	if !m.open() && (!got.OK || got.Token <= max(l.token, l.before) || got.Attempt != l.attempt+1) {
		return false, l
	}
	l.state, l.ended, l.grant, l.owner = broker.Leased, 0, m.n, ""
	l.attempt++
	if !m.remote {
		l.owner = m.process
	}
	if l.vague = m.open(); !l.vague {
		l.token = got.Token
	}
	return true, l
}

func (l life) settled(m *move) (bool, life) {
	got, blind := m.got, m.open()
	switch {
	case l.state == 0:
		return blind || !got.OK && !got.Lost, l
	case l.holds(m.Token):
		l = l.settle(m.Kind)
		return blind || got.OK && got.State == l.state, l
	case l.state != broker.Leased && !l.vague && l.token == m.Token && l.ended == m.Kind: // it is repeated
		return blind || got.OK && got.State == l.state, l
	default:
		return blind || got.Lost, l
	}
}

func (l life) look(m *move) (bool, life) {
	got := m.got
	if m.open() || l.state == 0 {
		return m.open() || !got.OK, l
	}
	if l.vague && got.Token > l.token {
		l.token, l.vague = got.Token, false
	}
	return got.State == l.state && got.Token == l.token && got.Attempt == l.attempt && got.Asked == l.asked && !l.vague, l
}

// command is what an operator's command makes of a job.
func (l life) command(verb string) (then life, changed bool) {
	waits := l.state == broker.Ready
	switch {
	case verb == doCancel && waits:
		l.state = broker.Cancelled
	case verb == doCancel && l.state == broker.Leased && !l.asked:
		l.asked = true
	case verb == doRequeue && (l.state == broker.Dead || l.state == broker.Cancelled):
		l.state, l.attempt, l.ended = broker.Ready, 0, 0
	case verb == doDelete && l.state != 0 && l.state != broker.Leased:
		l = life{before: max(l.token, l.before)}
	default:
		return l, false
	}
	return l, true
}

// moves are the operations of one job, and the ends of its leases that nobody
// called for: none before the lease's deadline, or its process's end.
func (h *history) moves(ops []*operation) (all []porcupine.Operation) {
	dying := map[string]time.Duration{} // until when the end of a process ends the job's lease, if ever
	for n, o := range ops {
		grants := (o.verb == doClaim || o.verb == doExtend) && (o.open() || o.got.OK)
		if at := after(o.call, o.ttl); grants && at < ended(ops, o.ret) {
			all = append(all, step(&move{&operation{part: o.part, verb: leaseIsOver, process: o.process, call: at, ret: ended(ops, o.ret)}, 0, n + 1}))
		}
		if _, ends := h.ends[o.process]; ends && o.verb == doClaim && grants && !o.remote {
			dying[o.process] = max(dying[o.process], o.ret, h.ends[o.process])
		}
		all = append(all, step(&move{o, n + 1, 0}))
	}
	for process, last := range dying {
		all = append(all, step(&move{&operation{part: ops[0].part, verb: processDies, process: process, call: h.ends[process], ret: ended(ops, last)}, 0, 0}))
	}
	return all
}

func after(at, span time.Duration) time.Duration {
	if at > math.MaxInt64-span {
		return math.MaxInt64
	}
	return at + span
}

// ended is a moment by which every lease is over that was given by a moment: a
// later call was given the next one.
func ended(ops []*operation, given time.Duration) time.Duration {
	until := time.Duration(math.MaxInt64)
	for _, o := range ops {
		if o.verb == doClaim && !o.open() && o.got.OK && o.call > given {
			until = min(until, o.ret)
		}
	}
	return until
}

func step(m *move) porcupine.Operation {
	return porcupine.Operation{Input: m, Call: int64(m.call), Return: int64(m.ret)}
}

var jobModel = porcupine.Model{
	Init:  func() any { return life{} },
	Step:  func(state, input, _ any) (bool, any) { return state.(life).next(input.(*move)) },
	Equal: func(a, b any) bool { return a == b },
}

// notLinearizable says which jobs have a history that no order of their operations
// explains, or none was found in time.
func (h *history) notLinearizable(timeout time.Duration) (wrong []string) {
	byJob := h.byJob()
	for _, job := range sortedJobs(byJob) {
		switch porcupine.CheckOperationsTimeout(jobModel, h.moves(byJob[job]), timeout) {
		case porcupine.Illegal:
			wrong = append(wrong, fmt.Sprintf("job %d: no order explains\n%s", job, tell(byJob[job])))
		case porcupine.Unknown:
			wrong = append(wrong, fmt.Sprintf("job %d: no answer within %v for %d operations", job, timeout, len(byJob[job])))
		}
	}
	return wrong
}

func sortedJobs(byJob map[int][]*operation) (jobs []int) {
	for job := range byJob {
		jobs = append(jobs, job)
	}
	slices.Sort(jobs)
	return jobs
}

// tell shows the operations of a job in the order of their calls.
func tell(ops []*operation) string {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b *operation) int { return cmp.Compare(a.call, b.call) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "\t%v to %v %s: %s", o.call, o.ret, o.process, o.verb)
		if o.verb == doSettle || o.verb == doExtend {
			fmt.Fprintf(&b, " %v %v", o.Kind, o.Token)
		}
		if o.open() {
			fmt.Fprintf(&b, ": nobody was answered\n")
		} else {
			fmt.Fprintf(&b, ": %+v\n", o.got)
		}
	}
	return b.String()
}

// linearizable fails the test unless every job's history is.
func (h *history) linearizable(t *testing.T, timeout time.Duration) {
	t.Helper()
	for i, text := range h.notLinearizable(timeout) {
		if i == 3 {
			t.Error("and others")
			return
		}
		t.Error(text)
	}
}
