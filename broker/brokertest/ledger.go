package brokertest

import (
	"context"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// ledger sees every claim and settlement that the clients of a case make, and
// fails the case when they cannot all be right: a token that did not grow, two
// valid leases of one job, a second end. Safe for concurrent use.
type ledger struct {
	f     *fixture
	mu    sync.Mutex
	jobs  map[broker.Ref]*record
	calls map[broker.Call]bool // that were made
}

// record is what the ledger knows of one job.
type record struct {
	token   broker.Token // the largest so far
	expires time.Time    // of that lease; zero when it is (being) settled
	by      *watched     // whose end ends it; nil for a remote one
	done    broker.Token // the token whose ack was accepted
}

func newLedger(f *fixture) *ledger {
	return &ledger{f: f, jobs: map[broker.Ref]*record{}, calls: map[broker.Call]bool{}}
}

// watched is a client whose calls the ledger sees.
type watched struct {
	broker.Broker
	log    *ledger
	killed bool
}

func (l *ledger) watch(b broker.Broker) *watched { return &watched{Broker: b, log: l} }

// repeats reports whether a call was made before. A repeat does nothing, so that
// there is nothing to note: what it answers is for the cases about call ids.
func (l *ledger) repeats(c broker.Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.calls[c]
	l.calls[c] = true
	return was
}

func (l *ledger) record(r broker.Ref) *record {
	if l.jobs[r] == nil {
		l.jobs[r] = &record{}
	}
	return l.jobs[r]
}

// Enqueue forgets the former life of an id that is used again.
func (w *watched) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	repeat := w.log.repeats(c)
	answers, err := w.Broker.Enqueue(ctx, c, queue, jobs)
	if repeat {
		return answers, err
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for _, a := range answers {
		w.log.added(queue, a)
	}
	return answers, err
}

func (l *ledger) added(queue string, a broker.Enqueued) {
	if !a.Existing {
		delete(l.jobs, broker.Ref{Queue: queue, ID: a.ID})
	}
}

// Claim checks each lease against what came before.
func (w *watched) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	l := w.log
	repeat := l.repeats(c)
	got, err := w.Broker.Claim(ctx, c, r)
	if repeat {
		return got, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range got.Leases {
		ref := lease.Job.Ref()
		old := l.record(ref)
		switch {
		case lease.Token <= old.token:
			l.f.Errorf("%v: token %v is not larger than the last, %v", ref, lease.Token, old.token)
		case lease.Token>>53 != 0:
			l.f.Errorf("%v: token %v is not below 2^53", ref, lease.Token)
		case old.done != 0:
			l.f.Errorf("%v: claimed after its ack with token %v was accepted", ref, old.done)
		case l.f.h.StepWall == nil && l.f.now().Before(old.expires.Add(-time.Millisecond)):
			l.f.Errorf("%v: claimed while token %v is valid until %v", ref, old.token, old.expires)
		}
		next := &record{token: lease.Token, expires: lease.ExpiresAt}
		if !r.Remote {
			next.by = w
		}
		l.jobs[ref] = next
	}
	return got, err
}

// Extend follows the leases' deadlines.
func (w *watched) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	beats, err := w.Broker.Extend(ctx, r)
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for i, beat := range beats[:min(len(beats), len(r.Leases))] {
		old := w.log.record(r.Leases[i].Ref)
		if beat.Status != broker.Lost && old.token == r.Leases[i].Token {
			old.expires = beat.ExpiresAt
		}
	}
	return beats, err
}

// Settle checks what is accepted against what was known before the call: while
// it is under way, others can go on with the jobs.
func (w *watched) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	l := w.log
	if l.repeats(c) {
		return w.Broker.Settle(ctx, c, s)
	}
	l.mu.Lock()
	before := make([]record, len(s))
	for i, t := range s {
		r := l.record(t.Ref)
		before[i] = *r
		if r.token == t.Token {
			r.expires = time.Time{} // from now on, another claim can be right
		}
	}
	l.mu.Unlock()
	answers, err := w.Broker.Settle(ctx, c, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range answers[:min(len(answers), len(s))] {
		if a.Err == nil {
			l.settled(&s[i], before[i])
		}
		for n, added := range a.FollowUps[:min(len(a.FollowUps), len(s[i].FollowUps))] {
			l.added(s[i].FollowUps[n].Queue, added)
		}
	}
	return answers, err
}

// settled checks and notes a settlement that was accepted.
func (l *ledger) settled(s *broker.Settlement, before record) {
	r := l.record(s.Ref)
	switch {
	case before.done != 0 && (before.done != s.Token || s.Kind != broker.Ack):
		l.f.Errorf("%v: %v with token %v was accepted after the ack with token %v", s.Ref, s.Kind, s.Token, before.done)
	case s.Token < before.token:
		l.f.Errorf("%v: %v with the stale token %v was accepted, the last is %v", s.Ref, s.Kind, s.Token, before.token)
	case s.Kind == broker.Ack && r.done != 0 && r.done != s.Token:
		l.f.Errorf("%v: acks with the tokens %v and %v were accepted", s.Ref, s.Token, r.done)
	case s.Kind == broker.Ack && r.token == s.Token:
		r.done = s.Token
	case s.Kind == broker.Ack && r.token > s.Token:
		l.f.Errorf("%v: claimed with token %v though its ack with token %v was accepted", s.Ref, r.token, s.Token)
	}
}

// Tick forgets the former life of an id that is used again.
func (w *watched) Tick(ctx context.Context, c broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	repeat := w.log.repeats(c)
	won, now, err = w.Broker.Tick(ctx, c, t)
	if repeat {
		return won, now, err
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for i := range t.Jobs {
		if won {
			w.log.added(t.Queue, broker.Enqueued{ID: t.Jobs[i].ID})
		}
	}
	return won, now, err
}

// Close ends the leases of this client.
func (w *watched) Close() error {
	w.free()
	err := w.Broker.Close()
	if w.killed {
		return nil
	}
	return err
}

// kill ends the process of this client, and with it its leases.
func (w *watched) kill() {
	w.killed = true
	w.free()
	w.log.f.h.Kill(w.Broker)
}

// free ends the leases of this client.
func (w *watched) free() {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.jobs {
		if r.by == w {
			r.expires = time.Time{}
		}
	}
}
