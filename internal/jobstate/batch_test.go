package jobstate

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// enqueued adds jobs in a frame of its own.
func (h *history) enqueued(jobs ...broker.NewJob) {
	h.t.Helper()
	h.commit(func() {
		if _, err := h.s.Enqueue(&h.w, h.now, "q", jobs); err != nil {
			h.t.Fatal(err)
		}
	})
}

// cancelled ends a job that waits.
func (h *history) cancelled(id broker.ID) {
	h.commit(func() { h.s.Cancel(&h.w, "q", []broker.ID{id}, "stop") })
}

// replayed gives the state that the frames make.
func (h *history) replayed() *State {
	h.t.Helper()
	s := New(nil, nil)
	for i, f := range h.frames {
		if err := s.Apply(f, uint32(i+1), 64); err != nil {
			h.t.Fatalf("frame %d: %v", i, err)
		}
	}
	return s
}

// A completion job that was there already keeps its size: members of a larger
// batch of its name have numbers that it has no room for.
func TestMemberWithoutRoomInItsBatchIsNone(t *testing.T) {
	h := newHistory(t, 1)
	whole, first := broker.NewID(), broker.NewID()
	h.enqueued(broker.NewJob{ID: whole, Task: "c", BatchSize: 1}, broker.NewJob{ID: first, Task: "m", Batch: whole})
	jobs := []broker.NewJob{{ID: whole, Task: "c", BatchSize: 1000}}
	for n := range uint32(1000) {
		jobs = append(jobs, broker.NewJob{ID: broker.NewID(), Task: "m", Batch: whole, BatchOrdinal: n})
	}
	h.enqueued(jobs...)
	for _, ordinal := range []int{1, 63, 64, 999} {
		h.cancelled(jobs[ordinal+1].ID)
	}
	c := h.s.queues["q"].job(whole)
	if c.flags&waitsBatch == 0 {
		t.Fatal("the batch is complete, though none of its members has ended")
	}
	if !bytes.Equal(encode(t, h.s), encode(t, h.replayed())) {
		t.Fatal("the replayed state differs")
	}
	h.cancelled(first)
	if c.state() != broker.Ready {
		t.Fatalf("with its member ended, the completion job is %v", c.state())
	}
	if !bytes.Equal(encode(t, h.s), encode(t, h.replayed())) {
		t.Fatal("the replayed state differs")
	}
}

// A log that an earlier program wrote may have such a follow-up.
func TestLogWithMemberOutsideItsBatchIsRead(t *testing.T) {
	h := newHistory(t, 2)
	whole, stray := broker.NewID(), broker.NewID()
	h.enqueued(broker.NewJob{ID: whole, Task: "c", BatchSize: 1}, broker.NewJob{ID: broker.NewID(), Task: "m", Batch: whole})
	h.commit(func() {
		h.s.enqueue(&h.w, h.now, "q", &broker.NewJob{ID: stray, Task: "f", Batch: whole, BatchOrdinal: 1 << 31})
	})
	h.cancelled(stray)
	if !bytes.Equal(encode(t, h.s), encode(t, h.replayed())) {
		t.Fatal("the replayed state differs")
	}
}

func TestFollowUpsAreNoBatch(t *testing.T) {
	for name, j := range map[string]broker.NewJob{
		"a member":              {Task: "t", Batch: broker.NewID(), BatchOrdinal: 1000},
		"a completion job":      {ID: broker.NewID(), Task: "t", BatchSize: 1},
		"a huge completion job": {ID: broker.NewID(), Task: "t", BatchSize: 1<<32 - 1},
		"a bad job":             {Task: "t", Timeout: -time.Second},
	} {
		st := broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: "q", Job: j}}}
		if err := CheckSettle([]broker.Settlement{st}); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
