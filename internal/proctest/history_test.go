//go:build linux

package proctest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// A history is what several processes asked of one store and were answered, with
// the times on the clock that all of them share. Each job of it is a task of its
// own, so that a claim which names tasks names jobs, and one that finds nothing
// says something of each of them.

// historyMax is the number of attempts of each job of a history.
const historyMax = 3

// historyID is the id of a job of a history.
func historyID(job int) (id broker.ID) {
	id[0], id[6], id[8] = 1, 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(job))
	return id
}

func historyJob(id broker.ID) int { return int(binary.BigEndian.Uint32(id[12:])) }

// The verbs of a history: those of the contract, and the end of a handle.
const (
	doEnqueue = "enqueue"
	doClaim   = "claim"
	doExtend  = "extend"
	doSettle  = "settle"
	doGet     = "get"
	doCancel  = "cancel"
	doRequeue = "requeue"
	doDelete  = "delete"
	doClose   = "close"
)

// record is a line of a ledger: a call, before it is made, or its return.
type record struct {
	Call   int           // numbers the calls of one process
	At     time.Duration // a moment before the call, or after its return
	Verb   string        `json:",omitempty"` // of a call; "" for a return
	TTL    time.Duration `json:",omitempty"`
	Remote bool          `json:",omitempty"`
	Parts  []part        `json:",omitempty"`
}

// part is one job's part in a call: what is asked, or what was answered.
type part struct {
	Job     int
	Token   broker.Token      `json:",omitzero"` // of a lease that is used, was given, or is the job's last
	Kind    broker.SettleKind `json:",omitzero"`
	OK      bool              `json:",omitempty"` // added, leased, still held, settled, found, changed
	State   broker.State      `json:",omitzero"`
	Attempt int               `json:",omitempty"`
	Asked   bool              `json:",omitempty"` // a cancel was asked for
	Lost    bool              `json:",omitempty"` // the settlement was refused, and the job is there
}

// operation is a part with its answer.
type operation struct {
	part
	verb      string
	process   string        // its ledger
	call, ret time.Duration // ret is math.MaxInt64 where nobody was answered
	ttl       time.Duration
	remote    bool
	got       part
}

// open reports whether nobody knows what came of it.
func (o *operation) open() bool { return o.ret == math.MaxInt64 }

// history is what the ledgers of a run say.
type history struct {
	ops  []*operation
	ends map[string]time.Duration // when each process was killed, or began to close its handle
}

// readHistory reads every ledger of a directory. killed says when processes were
// killed.
func readHistory(t *testing.T, dir string, killed map[string]time.Duration) *history {
	t.Helper()
	h := &history{ends: map[string]time.Duration{}}
	calls := map[string]map[int][]*operation{}
	eachLine(t, dir, func(ledger string, line []byte) {
		var r record
		must(t, json.Unmarshal(line, &r))
		if calls[ledger] == nil {
			calls[ledger] = map[int][]*operation{}
		}
		switch {
		case r.Verb == doClose:
			h.ends[ledger] = r.At
		case r.Verb != "":
			calls[ledger][r.Call] = h.begin(ledger, &r)
		default:
			h.answer(calls[ledger][r.Call], &r)
		}
	})
	for ledger, at := range killed {
		h.ends[ledger] = at
	}
	h.ops = known(h.ops)
	return h
}

// begin notes a call.
func (h *history) begin(ledger string, r *record) (list []*operation) {
	for _, p := range r.Parts {
		o := &operation{part: p, verb: r.Verb, process: ledger, call: r.At, ret: math.MaxInt64, ttl: r.TTL, remote: r.Remote}
		h.ops, list = append(h.ops, o), append(list, o)
	}
	return list
}

// answer notes the return of a call. Of a job that a claim's answer does not speak
// of it says nothing.
func (h *history) answer(list []*operation, r *record) {
	for _, o := range list {
		o.verb += nothingSaid
		for _, p := range r.Parts {
			if p.Job == o.Job {
				o.got, o.ret, o.verb = p, r.At, o.verb[:len(o.verb)-len(nothingSaid)]
				break
			}
		}
	}
}

// nothingSaid marks an operation of which an answer says that it did nothing, and
// not what it saw.
const nothingSaid = "?"

// known leaves out what did nothing and saw nothing.
func known(ops []*operation) (kept []*operation) {
	for _, o := range ops {
		if o.verb[len(o.verb)-1:] != nothingSaid {
			kept = append(kept, o)
		}
	}
	return kept
}

// byJob sorts the operations by the jobs that they are of, each in the order of
// the calls as the ledgers have them.
func (h *history) byJob() map[int][]*operation {
	all := map[int][]*operation{}
	for _, o := range h.ops {
		all[o.Job] = append(all[o.Job], o)
	}
	return all
}

// final looks at every job that was named, as the last operations of the history.
func (h *history) final(t *testing.T, c *spool.Client) {
	t.Helper()
	const page = 500
	named := map[int]bool{}
	var refs []broker.Ref
	for _, o := range h.ops {
		if !named[o.Job] {
			named[o.Job] = true
			refs = append(refs, broker.Ref{Queue: historyQueue, ID: historyID(o.Job)})
		}
	}
	for len(refs) > 0 {
		n := min(page, len(refs))
		call := now()
		jobs, err := c.Broker().Get(t.Context(), refs[:n])
		must(t, err)
		for i, p := range seen(jobs) {
			job := historyJob(refs[i].ID)
			p.Job = job
			h.ops = append(h.ops, &operation{part: part{Job: job}, verb: doGet, process: "the test", call: call, ret: now(), got: p})
		}
		refs = refs[n:]
	}
}

// historyQueue is the queue of all jobs of a history.
const historyQueue = "q"

// seen is what jobs look like in an answer.
func seen(jobs []broker.Job) (parts []part) {
	for i := range jobs {
		j := &jobs[i]
		p := part{Job: historyJob(j.ID), OK: j.State != 0, State: j.State, Attempt: j.Attempt, Token: j.Token, Asked: j.CancelRequested}
		if p.State == broker.Scheduled { // a job that is due is ready without any call
			p.State = broker.Ready
		}
		parts = append(parts, p)
	}
	return parts
}

// settledAs is the answer to one settlement.
func settledAs(job int, s *broker.Settled) part {
	p := part{Job: job, OK: s.Err == nil, Lost: errors.Is(s.Err, broker.ErrLeaseLost)}
	if p.OK {
		p.State = s.State
	}
	return p
}
