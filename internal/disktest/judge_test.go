//go:build linux && (amd64 || arm64)

package disktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// outcome is what is known of a change: the process may have ended before it knew.
type outcome int

const (
	none     outcome = iota // it was not tried, or refused by an error that says that nothing changed
	possible                // the process died in the call, or the store was poisoned by it
	made                    // it was acknowledged
)

// fate is what is known of one job.
type fate struct {
	ref      broker.Ref
	size     int
	with     []broker.ID // the jobs of its call, and of a follow-up the one that it follows
	enqueued outcome
	acked    outcome
	token    broker.Token // the largest that anybody was given
	by       broker.Token // of the ack; of a job that follows, of the ack that it follows
}

// ledger is what processes told, by job.
type ledger struct {
	jobs   map[broker.ID]*fate
	faults []error
	opened bool // somebody was told that the store is there
}

func newLedger() *ledger { return &ledger{jobs: map[broker.ID]*fate{}} }

func (l *ledger) wrong(format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf(format, args...))
}

// take takes in what one process told, in its order.
func (l *ledger) take(events []event) { l.takeUntil(events, math.MaxInt64) }

// takeUntil is take when nobody heard what was told later.
func (l *ledger) takeUntil(events []event, last time.Duration) {
	poisoned := false
	for i, e := range events {
		end := outcomeOf(events, i, last)
		switch {
		case !e.Begun && e.Took > mending:
			l.wrong("%s took %v", e.Call, e.Took)
		case !e.Begun && e.Call == "open" && e.Err == "":
			l.opened = true
		case e.Call == "garbage":
			l.wrong("a process wrote %q", e.Err)
		case e.Call == "mend" && e.Err != "":
			l.wrong("%s: %s", e.By, e.Err)
		case e.Call == "enqueue" && e.Begun:
			for _, id := range e.IDs {
				l.jobs[id] = &fate{ref: broker.Ref{Queue: e.Queue, ID: id}, size: e.Number, with: e.IDs, enqueued: end}
			}
		case e.Call == "claim":
			l.claimed(&e)
		case e.Call == "ack" && e.Begun:
			f := l.job(e.IDs[0])
			if end > f.acked {
				f.acked, f.by = end, e.Tokens[0]
			}
			l.jobs[e.Follow] = &fate{ref: broker.Ref{Queue: "after", ID: e.Follow}, size: 10, with: e.IDs, enqueued: end, by: e.Tokens[0]}
		case e.is("poisoned"):
			poisoned = true
		case e.is("lease lost") && !poisoned: // else every client has given up what it held
			l.wrong("%s lost the lease of job %v: %s", e.By, e.IDs, e.Err)
		}
	}
}

// outcomeOf finds the end of the call that begins at the i-th event.
func outcomeOf(events []event, i int, last time.Duration) outcome {
	b := events[i]
	for _, e := range events[i+1:] {
		if e.Begun || e.Call != b.Call || e.By != b.By || !slices.Equal(e.IDs, b.IDs) {
			continue
		}
		switch {
		case e.At > last:
			return possible
		case e.Err == "":
			return made
		case e.is("poisoned") || e.is("unknown"):
			return possible
		}
		return none
	}
	return possible
}

func (l *ledger) job(id broker.ID) *fate {
	f := l.jobs[id]
	if f == nil {
		l.wrong("job %v was handed out, and nobody enqueued it", id)
		f = &fate{ref: broker.Ref{ID: id}}
		l.jobs[id] = f
	}
	return f
}

func (l *ledger) claimed(e *event) {
	for i, id := range e.IDs {
		f := l.job(id)
		if e.Tokens[i] <= f.token {
			l.wrong("job %v was handed out with token %v after %v", id, e.Tokens[i], f.token)
		}
		if f.acked == made {
			l.wrong("job %v was handed out after its ack", id)
		}
		f.token = max(f.token, e.Tokens[i])
	}
}

// judge opens what is left of the store: it is sound, all that was acknowledged is
// there, nothing else is, and it works: every job is worked off, with larger tokens.
func (l *ledger) judge(p plan) error {
	if err := l.sound(p.Store); err != nil {
		return err
	}
	begun := time.Now()
	sys := p.on()
	b, err := openOn(p, sys)
	if err != nil {
		return errors.Join(append(l.faults, fmt.Errorf("open: %w", err))...)
	}
	defer b.Close()
	l.opened = true
	l.compare(b)
	for _, q := range []string{"held", "q", "after", "mended", "new"} {
		if q == "new" {
			l.add(b, q)
		}
		l.drain(b, q)
		if r, ok := sys.(*rebooted); ok && l.left(b, q) > 0 {
			// A life sign whose name had not reached the disk is gone: who held the
			// job is not known to be dead, and its lease ends by its deadline.
			r.ahead.Add(int64(2 * time.Hour))
			l.drain(b, q)
		}
		if n := l.left(b, q); n > 0 {
			l.wrong("%d jobs of queue %s cannot be worked off", n, q)
		}
	}
	if took := time.Since(begun); took > 2*mending {
		l.wrong("looking at the store took %v", took)
	}
	if err := b.Close(); err != nil {
		l.wrong("close: %w", err)
	}
	return l.sound(p.Store)
}

// sound wants that the store is not damaged, and returns all that was wrong so far.
func (l *ledger) sound(dir string) error {
	if !l.opened {
		return errors.Join(l.faults...) // it may be half made
	}
	v, err := filebroker.Verify(dir)
	if err != nil || !v.OK {
		l.wrong("verify: %w, %+v", err, v.Findings)
	}
	return errors.Join(l.faults...)
}

// compare wants each job where its outcome says that it is.
func (l *ledger) compare(b *filebroker.Broker) {
	there := map[broker.ID]broker.Job{}
	counts, err := b.Counts(context.Background(), "")
	if err != nil {
		l.wrong("count: %w", err)
	}
	for _, f := range l.jobs {
		got, err := b.Get(context.Background(), []broker.Ref{f.ref})
		if err != nil {
			l.wrong("get: %w", err)
			return
		}
		if got[0].State != 0 {
			there[f.ref.ID] = got[0]
		}
	}
	n := int64(0)
	for _, c := range counts {
		for _, s := range []broker.State{broker.Scheduled, broker.Ready, broker.Leased, broker.Done, broker.Dead, broker.Cancelled} {
			n += c.Of(s)
		}
	}
	if n != int64(len(there)) {
		l.wrong("the store has %d jobs, of which %d were enqueued", n, len(there))
	}
	for _, f := range l.jobs {
		l.place(f, there)
	}
}

// place judges one job.
func (l *ledger) place(f *fate, there map[broker.ID]broker.Job) {
	j, is := there[f.ref.ID]
	switch {
	case f.enqueued == made && !is:
		l.wrong("job %v was acknowledged, and is not there", f.ref)
	case f.enqueued == none && is:
		l.wrong("job %v was refused, and is there", f.ref)
	}
	follows := !slices.Contains(f.with, f.ref.ID)
	for _, id := range f.with {
		other, known := there[id]
		if !follows && known != is {
			l.wrong("of the jobs of one call %v is there (%v), and %v (%v)", f.ref.ID, is, id, known)
		}
		if follows && f.enqueued != none && is != (other.State == broker.Done && other.Token == f.by) {
			l.wrong("job %v, which follows, is there (%v), and %v is %v", f.ref.ID, is, id, other.State)
		}
	}
	if !is {
		return
	}
	if !bytes.Equal(j.Payload, payload(f.ref.ID, f.size)) {
		l.wrong("job %v has another payload", f.ref)
	}
	done := j.State == broker.Done
	switch {
	case f.acked == made && (!done || j.Token != f.by || !bytes.Equal(j.Result, f.ref.ID[:])):
		l.wrong("job %v was acked with token %v, and is %v with token %v and result %x", f.ref, f.by, j.State, j.Token, j.Result)
	case f.acked == none && done:
		l.wrong("job %v is done, and nobody acked it", f.ref)
	case !done && j.State.Final():
		l.wrong("job %v is %v (%s)", f.ref, j.State, j.Reason)
	case done:
		f.acked = made
	}
}

// add enqueues a job, as somebody would who comes later.
func (l *ledger) add(b *filebroker.Broker, queue string) {
	var j broker.NewJob
	j.MakeID()
	j.Task = "t"
	if _, err := b.Enqueue(context.Background(), broker.NewCall(), queue, []broker.NewJob{j}); err != nil {
		l.wrong("enqueue: %w", err)
	}
	l.jobs[j.ID] = &fate{ref: broker.Ref{Queue: queue, ID: j.ID}, enqueued: made}
}

// drain works off a queue: whoever held a job is dead.
func (l *ledger) drain(b *filebroker.Broker, queue string) {
	for {
		got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 100, TTL: time.Hour, Worker: "judge"})
		if err != nil {
			l.wrong("claim: %w", err)
			return
		}
		if len(got.Leases) == 0 {
			return
		}
		var list []broker.Settlement
		e := event{}
		for _, x := range got.Leases {
			e.IDs, e.Tokens = append(e.IDs, x.Job.ID), append(e.Tokens, x.Token)
			list = append(list, broker.Settlement{Ref: x.Job.Ref(), Token: x.Token, Kind: broker.Ack})
		}
		l.claimed(&e)
		settled, err := b.Settle(context.Background(), broker.NewCall(), list)
		for _, s := range settled {
			err = errors.Join(err, s.Err)
		}
		if err != nil {
			l.wrong("settle: %w", err)
			return
		}
	}
}

// left is how many jobs of a queue are not final.
func (l *ledger) left(b *filebroker.Broker, queue string) (n int64) {
	counts, err := b.Counts(context.Background(), queue)
	if err != nil {
		l.wrong("count: %w", err)
	}
	for _, c := range counts {
		n += c.Ready + c.Leased + c.Scheduled
	}
	return n
}
