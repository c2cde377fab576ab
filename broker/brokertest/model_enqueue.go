package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/spoolq/spool/broker"
)

// Enqueue implements broker.Broker.
func (m *Model) Enqueue(ctx context.Context, _ broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	if err := checkJobs(m.Caps(), queue, jobs); err != nil {
		return nil, err
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	if err := m.s.checkMembers(queue, jobs); err != nil {
		return nil, err
	}
	if err := m.s.room(queue, jobs); err != nil {
		return nil, err
	}
	defer m.s.wake()
	return m.s.enqueueAll(queue, jobs), nil
}

// enqueueAll adds the jobs of one call.
func (s *store) enqueueAll(queue string, jobs []broker.NewJob) (answers []broker.Enqueued) {
	for i := range jobs {
		answers = append(answers, s.enqueue(queue, &jobs[i]))
	}
	return answers
}

func checkJobs(c broker.Caps, queue string, jobs []broker.NewJob) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if len(jobs) > c.MaxBatch {
		return fmt.Errorf("%w: %d jobs in one call, the limit is %d", broker.ErrTooLarge, len(jobs), c.MaxBatch)
	}
	size := 0
	for i := range jobs {
		if err := jobs[i].Validate(0); err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
		size += jobs[i].Size()
	}
	if size > c.MaxBytes {
		return fmt.Errorf("%w: %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, c.MaxBytes)
	}
	return checkBatches(jobs)
}

// enqueue adds one job, unless its id is known or its key is held.
func (s *store) enqueue(queue string, n *broker.NewJob) broker.Enqueued {
	id := n.ID
	if id.IsZero() {
		id = broker.NewID()
	}
	if old := s.find(broker.Ref{Queue: queue, ID: id}); old != nil {
		return broker.Enqueued{ID: id, Existing: true, Differs: !bytes.Equal(old.Payload, n.Payload)}
	}
	if k := s.held(keyName{queue, n.Task, n.Key}); k != nil {
		answer := broker.Enqueued{ID: k.id, Existing: true, Differs: !bytes.Equal(k.payload, n.Payload)}
		s.rules.repeat(s, queue, k, n)
		return answer
	}
	j := &job{
		Job: broker.Job{
			Queue: queue, ID: id, Task: n.Task, Priority: n.Priority,
			Payload: bytes.Clone(n.Payload), Headers: maps.Clone(n.Headers),
			Tenant: n.Tenant, Group: n.Group, Ordered: n.Ordered, Key: n.Key,
			MaxAttempts: n.MaxAttempts, Timeout: n.Timeout, StartWithin: n.StartWithin, Retain: n.Retain,
			EnqueuedAt: s.now(), Batch: n.Batch, BatchOrdinal: n.BatchOrdinal,
		},
		hold: n.KeyHold, keyFor: n.KeyFor,
	}
	if j.MaxAttempts == 0 {
		j.MaxAttempts = broker.DefaultMaxAttempts
	}
	s.jobs = append(s.jobs, j)
	s.takeKey(j)
	s.rules.tally(&s.total(j).Enqueued)
	if n.BatchSize > 0 {
		s.waitForMembers(j, n.BatchSize)
	} else {
		s.due(j, n, "")
	}
	return broker.Enqueued{ID: id}
}

// due makes j due when n says.
func (s *store) due(j *job, n *broker.NewJob, reason string) {
	if n.At.After(s.clock.Wall()) {
		j.RunAt, j.wall, j.place = n.At, true, s.next()
		s.enter(j, broker.Scheduled, reason)
	} else {
		s.put(j, n.Delay, reason) // an At that is past is now: nobody overtakes with it
	}
}

// repeat does to the job that holds a key what the repeat n of the key asks for.
func (s *store) repeat(queue string, k *keyRecord, n *broker.NewJob) {
	j := s.find(broker.Ref{Queue: queue, ID: k.id})
	switch {
	case n.KeyRepeat == broker.RepeatFirst,
		j == nil || j.Key != n.Key || j.Task != n.Task, // the id may have been used again
		j.State != broker.Scheduled && j.State != broker.Ready:
		return
	}
	j.Payload, j.Headers, j.Timeout = bytes.Clone(n.Payload), maps.Clone(n.Headers), n.Timeout
	k.payload = j.Payload
	j.moved = true
	if n.KeyRepeat == broker.RepeatDebounce && j.waits == nil {
		s.due(j, n, broker.ReasonReplaced)
		return
	}
	j.Reason = broker.ReasonReplaced
	s.note(j)
}

// held returns who holds a key now, or nil.
func (s *store) held(name keyName) *keyRecord {
	k := s.keys[name]
	if name.key == "" || k == nil || k.hold == broker.HoldFor && !s.now().Before(k.until) {
		return nil
	}
	return k
}

// takeKey makes j the holder of its key, if it has one and nobody else holds it.
func (s *store) takeKey(j *job) {
	name := keyName{j.Queue, j.Task, j.Key}
	if j.Key == "" || s.held(name) != nil {
		return
	}
	k := &keyRecord{id: j.ID, payload: j.Payload, hold: j.hold}
	if j.hold == broker.HoldFor {
		k.until = j.EnqueuedAt.Add(j.keyFor)
	}
	s.keys[name] = k
}

// freeKey gives back j's key, if it is still j that holds it.
func (s *store) freeKey(j *job) {
	name := keyName{j.Queue, j.Task, j.Key}
	if k := s.keys[name]; k != nil && k.id == j.ID {
		delete(s.keys, name)
	}
}

// requeue brings a dead or cancelled job back with fresh attempts. It takes its
// key again, as when it was enqueued, unless another job has it by now.
func (s *store) requeue(j *job) {
	j.Attempt, j.FinishedAt = 0, time.Time{}
	s.put(j, 0, broker.ReasonRequeued)
	if j.hold != broker.HoldFor {
		s.takeKey(j)
	}
}
