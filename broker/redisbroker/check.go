package redisbroker

import (
	"fmt"

	"github.com/spoolq/spool/broker"
)

// checkJobs refuses a call that can never be right.
func checkJobs(queue string, jobs []broker.NewJob) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if len(jobs) > maxBatch {
		return fmt.Errorf("%w: %d jobs in one call, the limit is %d", broker.ErrTooLarge, len(jobs), maxBatch)
	}
	size := 0
	for i := range jobs {
		if err := jobs[i].Validate(0); err != nil {
			if len(jobs) > 1 {
				err = fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
			}
			return err
		}
		size += jobs[i].Size()
	}
	if size > broker.MaxCallBytes {
		return fmt.Errorf("%w: %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, broker.MaxCallBytes)
	}
	return checkBatches(jobs)
}

// checkBatches refuses a call in which a batch is not whole: its completion job
// and each of its members once.
func checkBatches(jobs []broker.NewJob) error {
	batches := map[broker.ID]*broker.NewJob{}
	for i := range jobs {
		if j := &jobs[i]; j.BatchSize > 0 {
			if j.ID.IsZero() || j.BatchSize > broker.MaxBatchJobs {
				return fmt.Errorf("%w: a batch of %d jobs needs an id and at most %d members", broker.ErrInvalid, j.BatchSize, maxBatch-1)
			}
			batches[j.ID] = j
		}
	}
	seen := map[broker.ID]map[uint32]bool{}
	for i := range jobs {
		j := &jobs[i]
		if j.Batch.IsZero() {
			continue
		}
		b := batches[j.Batch]
		if b == nil || j.BatchOrdinal >= b.BatchSize || seen[j.Batch][j.BatchOrdinal] || j.Batch == j.ID {
			return fmt.Errorf("%w: job %d is member %d of batch %s, which this call does not make, or has no room for", broker.ErrInvalid, i+1, j.BatchOrdinal, j.Batch)
		}
		if seen[j.Batch] == nil {
			seen[j.Batch] = map[uint32]bool{}
		}
		seen[j.Batch][j.BatchOrdinal] = true
	}
	for id, b := range batches {
		if len(seen[id]) != int(b.BatchSize) {
			return fmt.Errorf("%w: batch %s is to have %d members, this call has %d", broker.ErrInvalid, id, b.BatchSize, len(seen[id]))
		}
		// A completion job may be a member of another batch, but not around.
		for outer, n := batches[b.Batch], 0; outer != nil; outer, n = batches[outer.Batch], n+1 {
			if outer.ID == id || n > len(batches) {
				return fmt.Errorf("%w: batch %s is inside itself", broker.ErrInvalid, id)
			}
		}
	}
	return checkIDs(jobs, len(batches) > 0)
}

// checkIDs refuses a call that makes a batch and has an id twice: one of the two
// would not be added.
func checkIDs(jobs []broker.NewJob, batches bool) error {
	if !batches {
		return nil
	}
	seen := make(map[broker.ID]bool, len(jobs))
	for i := range jobs {
		if id := jobs[i].ID; !id.IsZero() && seen[id] {
			return fmt.Errorf("%w: two jobs of a call that makes a batch have the id %s", broker.ErrInvalid, id)
		}
		seen[jobs[i].ID] = true
	}
	return nil
}
