package jobstate

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// Tests of this file notice faults that the others do not: see internal/mutants.

// TestAStaleSettlementIsNoRepeatOfALaterOne: a job that one worker lost and another
// acked was not acked by the first.
func TestAStaleSettlementIsNoRepeatOfALaterOne(t *testing.T) {
	h := newHistory(t, 1)
	h.enqueued(broker.NewJob{Task: "t", Retain: time.Hour})
	var runs []Ticket
	for range 2 {
		h.commit(func() {
			h.s.Upkeep(&h.w, h.now, 10, nil)
			got, _ := h.s.Claim(&h.w, h.now, Claim{Queue: "q", Max: 1, TTL: time.Second, Worker: "w"})
			runs = append(runs, got...)
		})
		h.now.Steady += int64(time.Minute)
	}
	if len(runs) != 2 {
		t.Fatalf("claimed %d times", len(runs))
	}
	ack := func(run Ticket) (answer broker.Settled) {
		h.commit(func() {
			answer = h.s.Settle(&h.w, h.now, &broker.Settlement{Ref: run.Job.Ref(), Token: run.Job.Token, Kind: broker.Ack})
		})
		return answer
	}
	if answer := ack(runs[1]); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if answer := ack(runs[0]); !errors.Is(answer.Err, broker.ErrLeaseLost) {
		t.Errorf("the stale ack of a job that is done is answered %+v", answer)
	}
	if answer := ack(runs[1]); answer.Err != nil || answer.State != broker.Done {
		t.Errorf("the repeated ack is answered %+v", answer)
	}
}

func TestACountOfMoreThanThereIsIsRefused(t *testing.T) {
	r := &reader{b: append(binary.AppendUvarint(nil, 1<<40), make([]byte, 32)...)}
	if n := r.count(16); n != 0 || !errors.Is(r.err, ErrRecord) {
		t.Errorf("read as %d, %v", n, r.err)
	}
	r = &reader{b: append(binary.AppendUvarint(nil, 2), make([]byte, 32)...)}
	if n := r.count(16); n != 2 || r.err != nil {
		t.Errorf("as many as there are are read as %d, %v", n, r.err)
	}
}
