package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// TestAChaoticRunOnARightBroker runs the roles as goroutines, and expects the
// judge to find nothing.
func TestAChaoticRunOnARightBroker(t *testing.T) {
	store := membroker.New(membroker.Config{})
	dir := t.TempDir()
	plan := func(role, name string) Plan {
		return Plan{Role: role, Name: name, Ledgers: dir, Queues: []string{"a", "b"}, Chaos: true, PerSecond: 300, Lanes: 3, TTL: 400 * time.Millisecond, WorkHigh: time.Millisecond}
	}
	start := func(ctx context.Context, p Plan) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, store, p) }()
		return ended
	}
	producing, stopProducing := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer stopProducing()
	working, stopWorking := context.WithCancel(t.Context())
	defer stopWorking()
	producers := []<-chan error{start(producing, plan(Producer, "p1")), start(producing, plan(Producer, "p2"))}
	workers := []<-chan error{start(working, plan(Worker, "w1")), start(working, plan(Worker, "w2"))}
	for _, p := range producers {
		if err := <-p; err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Drain(ctx, store, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	stopWorking()
	for _, w := range workers {
		if err := <-w; err != nil {
			t.Fatal(err)
		}
	}
	r, err := Judge(t.Context(), store, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.Enqueued < 100 || r.Done == 0 || r.Dead == 0 || r.Cancelled == 0 || r.Deleted == 0 || r.Waiting == 0 || r.Claims == 0 {
		t.Errorf("%+v", *r)
	}
	tally := NewTally(dir)
	if err := tally.Read(); err != nil {
		t.Fatal(err)
	}
	if tally.Enqueued == 0 || tally.Claims != r.Claims || tally.Settled != r.Settled {
		t.Errorf("the tally says %d enqueued, %d claims, %d settled; the judge %d, %d, %d", tally.Enqueued, tally.Claims, tally.Settled, r.Enqueued, r.Claims, r.Settled)
	}
}

// script makes a store and a ledger that may not fit it.
type script struct {
	t      *testing.T
	broker broker.Broker
	lines  []string
}

func (s *script) note(verb string, fields ...any) {
	line := verb + " 1"
	for _, f := range fields {
		line += fmt.Sprintf(" %v", f)
	}
	s.lines = append(s.lines, line+"\n")
}

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// enqueue puts a job there and notes it.
func (s *script) enqueue(k kind, change func(*broker.NewJob)) broker.ID {
	s.t.Helper()
	j := (&producer{}).job(k)
	id := j.ID
	if change != nil {
		change(&j)
	}
	_, err := s.broker.Enqueue(s.t.Context(), broker.NewCall(), "q", []broker.NewJob{j})
	s.must(err)
	s.noteEnqueue(id, k)
	return id
}

func (s *script) noteEnqueue(id broker.ID, k kind) {
	s.note(tryEnqueue, id, id, k, "-")
	s.note(ackEnqueue, id, id)
}

func (s *script) claim() broker.Lease {
	s.t.Helper()
	c, err := s.broker.Claim(s.t.Context(), broker.NewCall(), broker.ClaimRequest{Max: 1})
	s.must(err)
	if len(c.Leases) != 1 {
		s.t.Fatal("nothing to claim")
	}
	l := c.Leases[0]
	s.note(claimed, l.Job.ID, l.Token, l.Job.Attempt, 1)
	return l
}

func (s *script) settle(l broker.Lease, k broker.SettleKind, res []byte) {
	s.t.Helper()
	a, err := s.broker.Settle(s.t.Context(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: k, Result: res}})
	s.must(err)
	s.must(a[0].Err)
	s.note(trySettle, l.Job.ID, l.Token, k)
	s.note(ackSettle, l.Job.ID, l.Token, k, a[0].State)
}

func (s *script) judge() *Report {
	s.t.Helper()
	dir := s.t.TempDir()
	s.must(os.WriteFile(filepath.Join(dir, "p-1.ledger"), []byte(strings.Join(s.lines, "")+"e 1 cut"), 0o600))
	r, err := Judge(s.t.Context(), s.broker, dir)
	s.must(err)
	return r
}

// TestTheJudgeFindsEachWrong shows the judge a store with one thing wrong.
func TestTheJudgeFindsEachWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*script)
		want Wrongs
	}{
		{"nothing is wrong", func(s *script) {
			s.enqueue(plain, nil)
			l := s.claim()
			s.settle(l, broker.Ack, result(l.Job.ID, l.Token))
		}, Wrongs{}},
		{"a job is gone", func(s *script) { s.noteEnqueue(broker.NewID(), plain) }, Wrongs{Lost: 1}},
		{"a job of nobody", func(s *script) {
			s.enqueue(later, nil)
			s.lines = nil
		}, Wrongs{Unknown: 1}},
		{"a job never runs", func(s *script) { s.enqueue(plain, nil) }, Wrongs{Stuck: 1}},
		{"another payload", func(s *script) {
			s.enqueue(later, func(j *broker.NewJob) { j.Payload = []byte("other") })
		}, Wrongs{Damaged: 1}},
		{"another result", func(s *script) {
			s.enqueue(plain, nil)
			s.settle(s.claim(), broker.Ack, []byte("other"))
		}, Wrongs{Damaged: 1}},
		{"two acks", func(s *script) {
			id := s.enqueue(plain, nil)
			l := s.claim()
			s.settle(l, broker.Ack, result(id, l.Token))
			s.note(ackSettle, id, l.Token-1, broker.Ack, broker.Done)
		}, Wrongs{AckedTwice: 1}},
		{"a run after the ack", func(s *script) {
			id := s.enqueue(plain, nil)
			s.note(claimed, id, 1, 1, 1)
			s.note(trySettle, id, 1, broker.Ack)
			s.note(ackSettle, id, 1, broker.Ack, broker.Done)
			l := s.claim()
			l.Job.ID = id
			s.settleQuietly(l)
		}, Wrongs{RanAgainAfterAck: 1, WrongCounter: 1}}, // the store counts one claim, the ledger two
		{"one token for two", func(s *script) {
			s.enqueue(plain, nil)
			l := s.claim()
			s.note(claimed, l.Job.ID, l.Token, 1, 1)
			s.settle(l, broker.Ack, result(l.Job.ID, l.Token))
		}, Wrongs{ClaimedTwice: 1, WrongCounter: 1}}, // here, too
		{"a run before it is due", func(s *script) {
			id := s.enqueue(later, func(j *broker.NewJob) { j.Delay = 0 })
			l := s.claim()
			s.settle(l, broker.Ack, result(id, l.Token))
		}, Wrongs{RanUnasked: 1}},
		{"half a batch", func(s *script) {
			id, gone := s.enqueue(later, nil), broker.NewID()
			s.lines = nil
			s.note(tryEnqueue, 1, id, later, "-")
			s.note(tryEnqueue, 1, gone, later, "-")
		}, Wrongs{TornBatches: 1}},
		{"two jobs under a key", func(s *script) {
			s.enqueue(later, func(j *broker.NewJob) { j.Task, j.Key = "one", "k" })
			s.enqueue(later, func(j *broker.NewJob) { j.Task, j.Key = "two", "k" })
		}, Wrongs{KeyTwice: 1}},
		{"a key answered with another job", func(s *script) {
			id := s.enqueue(later, func(j *broker.NewJob) { j.Key = "k" })
			s.note(tryEnqueue, 9, id, keyed, "q/k")
			s.note(ackEnqueue, 9, broker.NewID())
		}, Wrongs{KeyTwice: 1, Lost: 1, Stuck: 1}}, // the answered job is not there, and a keyed one would have run
		{"a settlement undone", func(s *script) {
			s.enqueue(plain, nil)
			l := s.claim()
			s.settle(l, broker.Ack, result(l.Job.ID, l.Token))
			s.lines[len(s.lines)-1] = strings.ReplaceAll(s.lines[len(s.lines)-1], "ack done", "bury dead")
		}, Wrongs{WrongState: 1}},
		{"an end that nobody asked for", func(s *script) {
			s.enqueue(plain, nil)
			l := s.claim()
			s.settle(l, broker.Bury, nil)
			s.lines = s.lines[:len(s.lines)-2]
		}, Wrongs{WrongState: 1}},
		{"a cancelled job waits", func(s *script) {
			id := s.enqueue(later, nil)
			s.note(tryCommand, id, broker.CancelJobs)
			s.note(ackCommand, id, broker.CancelJobs, 1)
		}, Wrongs{WrongState: 1}},
		{"a deleted job is there", func(s *script) {
			id := s.enqueue(later, nil)
			s.note(tryCommand, id, broker.DeleteJobs)
			s.note(ackCommand, id, broker.DeleteJobs, 1)
		}, Wrongs{WrongState: 1}},
		{"a counter lies", func(s *script) {
			s.enqueue(later, nil)
			s.broker = wrongCounts{s.broker}
		}, Wrongs{WrongCounter: 2}}, // the state and the total
		{"a call failed", func(s *script) { s.note(fault, "claim: no disk") }, Wrongs{Errors: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{t: t, broker: membroker.New(membroker.Config{})}
			c.do(s)
			r := s.judge()
			if r.Wrongs != c.want || r.OK != (c.want == Wrongs{}) {
				t.Errorf("got %+v\nwant %+v\nfindings: %q", r.Wrongs, c.want, r.Findings)
			}
		})
	}
}

// settleQuietly acks and notes only that it was called for.
func (s *script) settleQuietly(l broker.Lease) {
	s.t.Helper()
	s.settle(l, broker.Ack, result(l.Job.ID, l.Token))
	s.lines = s.lines[:len(s.lines)-1]
}

// wrongCounts says that one more job waits than does.
type wrongCounts struct{ broker.Broker }

func (w wrongCounts) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	counts, err := w.Broker.Counts(ctx, queue)
	for i := range counts {
		counts[i].Scheduled++
		counts[i].Totals.Enqueued++
	}
	return counts, err
}

func TestEveryWrongIsSummed(t *testing.T) {
	var w Wrongs
	v := reflect.ValueOf(&w).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(1)
	}
	if w.Sum() != v.NumField() {
		t.Errorf("the sum of %d wrongs is %d", v.NumField(), w.Sum())
	}
}
