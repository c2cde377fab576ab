package crash

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// Report is what a run did and what is wrong with the store after it. The
// counts of wrongs must all be zero.
type Report struct {
	Seconds     float64 `json:"seconds"`
	Kills       int     `json:"kills"`
	Stops       int     `json:"stops"`    // processes that were stopped for a while
	Enqueued    int     `json:"enqueued"` // jobs whose enqueue was acknowledged
	Claims      int     `json:"claims"`   // leases that a worker took note of
	Settled     int     `json:"settled"`  // settlements acknowledged
	Redelivered int     `json:"redelivered"`
	Refused     int     `json:"refused"` // settlements refused because the lease was lost
	Done        int     `json:"done"`
	Dead        int     `json:"dead"`
	Cancelled   int     `json:"cancelled"`
	Deleted     int     `json:"deleted"`
	Waiting     int     `json:"waiting"` // scheduled for later than the run

	Wrongs
	OK bool `json:"ok"`
	// Findings say what is wrong, the first twenty.
	Findings []string `json:"findings,omitempty"`
}

// Wrongs counts what must never be.
type Wrongs struct {
	Lost             int `json:"lost"`                // acknowledged, and gone
	AckedTwice       int `json:"acked_twice"`         // two workers were told that theirs is the ack
	RanAgainAfterAck int `json:"ran_again_after_ack"` // claimed after an acknowledged ack
	RanUnasked       int `json:"ran_unasked"`         // claimed before it was due, or after it was cancelled
	ClaimedTwice     int `json:"claimed_twice"`       // one token given to two workers
	Stuck            int `json:"stuck"`               // not ended though workers had all the time
	Damaged          int `json:"damaged"`             // payload or result is not what was given
	Unknown          int `json:"unknown"`             // there, and nobody enqueued it
	TornBatches      int `json:"torn_batches"`        // there in part
	KeyTwice         int `json:"key_twice"`           // two jobs under one key
	WrongState       int `json:"wrong_state"`         // not in the state that was acknowledged
	WrongCounter     int `json:"wrong_counter"`       // a counter differs from a recount
	Errors           int `json:"errors"`              // calls that failed, processes that died by themselves
}

// Wrong is one count of Wrongs.
type Wrong struct {
	Name  string // for people
	Count int
}

// List returns all counts, in the order of the fields.
func (w *Wrongs) List() []Wrong {
	return []Wrong{
		{"lost", w.Lost}, {"acked twice", w.AckedTwice}, {"ran again after ack", w.RanAgainAfterAck}, {"ran unasked", w.RanUnasked},
		{"claimed twice", w.ClaimedTwice}, {"stuck", w.Stuck}, {"damaged", w.Damaged}, {"unknown", w.Unknown},
		{"torn batches", w.TornBatches}, {"key twice", w.KeyTwice}, {"wrong state", w.WrongState}, {"wrong counter", w.WrongCounter},
		{"errors", w.Errors},
	}
}

// Sum is the number of all wrongs.
func (w *Wrongs) Sum() (n int) {
	for _, x := range w.List() {
		n += x.Count
	}
	return n
}

// AddError counts an error that the ledgers do not know of.
func (r *Report) AddError(text string) {
	r.wrong(&r.Errors, "%s", text)
	r.OK = false
}

// wrong counts and describes a finding.
func (r *Report) wrong(count *int, format string, args ...any) {
	*count++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// maxFindings bounds the list of what is wrong.
const maxFindings = 20

// judge compares a book with a store.
type judge struct {
	*Report
	book    *book
	there   map[broker.ID]broker.State
	recount map[place]*broker.Count
	byKey   map[string]broker.ID
}

type place struct{ queue, task string }

// Judge holds the ledgers of a directory against a store in which nothing runs
// any more.
func Judge(ctx context.Context, b broker.Broker, ledgers string) (*Report, error) {
	book, err := readBook(ledgers)
	if err != nil {
		return nil, err
	}
	j := &judge{
		Report: &Report{Claims: book.claims, Settled: book.settles, Refused: book.refused},
		book:   book, there: map[broker.ID]broker.State{}, recount: map[place]*broker.Count{}, byKey: map[string]broker.ID{},
	}
	counts, err := b.Counts(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read the counters: %w", err)
	}
	if err := j.walk(ctx, b, counts); err != nil {
		return nil, err
	}
	j.missing()
	j.batches()
	j.counters(counts)
	for _, f := range book.faults {
		j.wrong(&j.Errors, "%s", f)
	}
	j.OK = j.Sum() == 0
	return j.Report, nil
}

// walk looks at every job of the store.
func (j *judge) walk(ctx context.Context, b broker.Broker, counts []broker.Count) error {
	seen := map[string]bool{}
	for _, c := range counts {
		if seen[c.Queue] {
			continue
		}
		seen[c.Queue] = true
		for _, state := range broker.States {
			for cursor := ""; ; {
				page, err := b.List(ctx, broker.Filter{Queue: c.Queue, States: []broker.State{state}}, cursor, broker.MaxPageJobs)
				if err != nil {
					return fmt.Errorf("list queue %s, state %v: %w", c.Queue, state, err)
				}
				for i := range page.Jobs {
					j.job(&page.Jobs[i], state)
				}
				if cursor = page.Cursor; cursor == "" {
					break
				}
			}
		}
	}
	return nil
}

// job compares one job that is there with what is known of it.
func (j *judge) job(got *broker.Job, listed broker.State) {
	if first, twice := j.there[got.ID]; twice {
		j.wrong(&j.WrongState, "job %s is listed as %v and as %v", got.ID, first, listed)
		return
	}
	j.there[got.ID] = listed
	j.count(got, listed)
	h := j.book.jobs[got.ID]
	if h == nil || !h.tried {
		j.wrong(&j.Unknown, "job %s (%v) was never enqueued", got.ID, listed)
		return
	}
	if !bytes.Equal(got.Payload, payload(got.ID)) {
		j.wrong(&j.Damaged, "job %s has another payload", got.ID)
	}
	if got.State == broker.Done && !bytes.Equal(got.Result, result(got.ID, got.Token)) {
		j.wrong(&j.Damaged, "job %s has another result", got.ID)
	}
	if got.State != listed || got.Attempt > got.MaxAttempts || got.Token < h.largest() {
		j.wrong(&j.WrongState, "job %s is listed as %v: it says %v, attempt %d of %d, token %v, and a worker had %v", got.ID, listed, got.State, got.Attempt, got.MaxAttempts, got.Token, h.largest())
	}
	if got.Key != "" {
		j.key(got)
	}
	j.leases(got, h)
	j.state(got, h)
}

// key finds a second job under one key, and an answer that named another job.
func (j *judge) key(got *broker.Job) {
	key := got.Queue + "/" + got.Key
	if other, twice := j.byKey[key]; twice {
		j.wrong(&j.KeyTwice, "jobs %s and %s both have the key %s", other, got.ID, key)
	}
	j.byKey[key] = got.ID
	for id := range j.book.keys[key] {
		if id != got.ID {
			j.wrong(&j.KeyTwice, "an enqueue with the key %s was answered %s, and the job there is %s", key, id, got.ID)
		}
	}
}

// leases checks that one token was one lease, and that nothing ran that should
// not.
func (j *judge) leases(got *broker.Job, h *history) {
	seen := map[broker.Token]bool{}
	for _, c := range h.claims {
		if seen[c.token] {
			j.wrong(&j.ClaimedTwice, "token %v of job %s was given twice", c.token, got.ID)
		}
		seen[c.token] = true
	}
	if _, requeued := h.command(broker.RequeueJobs); h.kind == later && !requeued && len(h.claims) > 0 {
		j.wrong(&j.RanUnasked, "job %s ran, and it was not due", got.ID)
	}
}

// missing looks for what was acknowledged and is not there.
func (j *judge) missing() {
	for id, h := range j.book.jobs {
		if h.acked {
			j.Enqueued++
		}
		if _, there := j.there[id]; there {
			continue
		}
		if _, deleted := h.command(broker.DeleteJobs); deleted {
			j.Deleted++
		} else if h.acked {
			j.wrong(&j.Lost, "job %s (%s) was acknowledged and is gone", id, h.kind)
		}
	}
}

// batches looks for calls that took place in part.
func (j *judge) batches() {
	for _, b := range j.book.batches {
		there := 0
		for _, id := range b.ids {
			if _, ok := j.there[id]; ok {
				there++
			} else if _, deleted := j.book.jobs[id].command(broker.DeleteJobs); deleted {
				there++
			}
		}
		if b.key == "-" && there > 0 && there < len(b.ids) {
			j.wrong(&j.TornBatches, "%d of the %d jobs of a batch are there, %s among the batch", there, len(b.ids), b.ids[0])
		}
	}
}
