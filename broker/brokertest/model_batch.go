package brokertest

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// checkBatches wants each batch of a call to be whole, and none inside itself.
func checkBatches(jobs []broker.NewJob) error {
	type member struct {
		batch   broker.ID
		ordinal uint32
	}
	size, inside, there, n := map[broker.ID]uint32{}, map[broker.ID]broker.ID{}, map[member]bool{}, map[broker.ID]uint32{}
	for i := range jobs {
		if jobs[i].BatchSize > 0 {
			size[jobs[i].ID], inside[jobs[i].ID] = jobs[i].BatchSize, jobs[i].Batch
		}
	}
	for i := range jobs {
		b, ordinal := jobs[i].Batch, jobs[i].BatchOrdinal
		switch {
		case b.IsZero():
			continue
		case ordinal >= size[b]:
			return fmt.Errorf("%w: job %d is member %d of a batch of %d", broker.ErrInvalid, i, ordinal, size[b])
		case there[member{b, ordinal}]:
			return fmt.Errorf("%w: two members of batch %v have the number %d", broker.ErrInvalid, b, ordinal)
		}
		there[member{b, ordinal}] = true
		n[b]++
	}
	for b := range size {
		if n[b] != size[b] {
			return fmt.Errorf("%w: batch %v has %d members, not %d", broker.ErrInvalid, b, n[b], size[b])
		}
		for up, depth := inside[b], 0; !up.IsZero(); up, depth = inside[up], depth+1 {
			if up == b || depth > len(jobs) {
				return fmt.Errorf("%w: batch %v inside itself", broker.ErrInvalid, b)
			}
		}
	}
	return nil
}

// checkMembers wants that each member of a new batch is new: another job would
// not end as a member.
func (s *store) checkMembers(queue string, jobs []broker.NewJob) error {
	batches, ids := false, map[broker.ID]int{}
	for i := range jobs {
		batches = batches || jobs[i].BatchSize > 0
		ids[jobs[i].ID]++
	}
	for i := range jobs {
		known := func(id broker.ID) bool { return s.find(broker.Ref{Queue: queue, ID: id}) != nil }
		n := &jobs[i]
		if batches && !n.ID.IsZero() && ids[n.ID] > 1 || !n.Batch.IsZero() && known(n.ID) && !known(n.Batch) {
			return fmt.Errorf("%w: job %d of the call, or its batch, would not be added", broker.ErrInvalid, i)
		}
	}
	return nil
}

// waitForMembers makes j, which is new, a completion job that waits.
func (s *store) waitForMembers(j *job, members uint32) {
	j.waits = map[uint32]bool{}
	for ordinal := range members {
		j.waits[ordinal] = true
	}
	j.RunAt = time.Time{}
	s.enter(j, broker.Scheduled, broker.ReasonBatch)
}

// ended tells the batch of j, if it has one, that j is final or gone.
func (s *store) ended(j *job) {
	c := s.find(broker.Ref{Queue: j.Queue, ID: j.Batch})
	if j.Batch.IsZero() || c == nil || c.waits == nil {
		return
	}
	if delete(c.waits, j.BatchOrdinal); len(c.waits) == 0 {
		s.put(c, 0, broker.ReasonBatch)
	}
}
