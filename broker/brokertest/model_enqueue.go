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
	defer m.s.wake()
	var answers []broker.Enqueued
	for i := range jobs {
		answers = append(answers, m.s.enqueue(queue, &jobs[i]))
	}
	return answers, nil
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
	return nil
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
		return broker.Enqueued{ID: k.id, Existing: true, Differs: !bytes.Equal(k.payload, n.Payload)}
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
	if n.At.After(s.clock.Wall()) {
		j.RunAt, j.wall, j.place = n.At, true, s.next()
		s.enter(j, broker.Scheduled, "")
	} else {
		s.put(j, n.Delay, "") // an At that is past is now: nobody overtakes with it
	}
	return broker.Enqueued{ID: id}
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
