package jobstate

import (
	"fmt"

	"github.com/spoolq/spool/broker"
)

// CheckBatches refuses a call in which a batch is not whole (its completion job
// and each of its members once), has more than most members, or in which an id
// is there twice, so that one of the two would not be added. It says whether the
// call makes a batch.
func CheckBatches(jobs []broker.NewJob, most int) (makes bool, err error) {
	var batches map[broker.ID]*broker.NewJob
	for i := range jobs {
		j := &jobs[i]
		if j.BatchSize == 0 {
			continue
		}
		if j.ID.IsZero() || int64(j.BatchSize) > int64(most) {
			return true, fmt.Errorf("%w: a batch of %d jobs needs an id and at most %d members", broker.ErrInvalid, j.BatchSize, most)
		}
		if batches == nil {
			batches = map[broker.ID]*broker.NewJob{}
		}
		batches[j.ID] = j
	}
	seen := map[broker.ID]map[uint32]bool{}
	for i := range jobs {
		j := &jobs[i]
		if j.Batch.IsZero() {
			continue
		}
		b := batches[j.Batch]
		if b == nil || j.BatchOrdinal >= b.BatchSize || seen[j.Batch][j.BatchOrdinal] || j.Batch == j.ID {
			return true, fmt.Errorf("%w: job %d is member %d of batch %s, which this call does not make, or has no room for", broker.ErrInvalid, i+1, j.BatchOrdinal, j.Batch)
		}
		if seen[j.Batch] == nil {
			seen[j.Batch] = map[uint32]bool{}
		}
		seen[j.Batch][j.BatchOrdinal] = true
	}
	if batches == nil {
		return false, nil
	}
	for id, b := range batches {
		if len(seen[id]) != int(b.BatchSize) {
			return true, fmt.Errorf("%w: batch %s is to have %d members, this call has %d", broker.ErrInvalid, id, b.BatchSize, len(seen[id]))
		}
		// A completion job may be a member of another batch, but not around.
		for outer, n := batches[b.Batch], 0; outer != nil; outer, n = batches[outer.Batch], n+1 {
			if outer.ID == id || n > len(batches) {
				return true, fmt.Errorf("%w: batch %s is inside itself", broker.ErrInvalid, id)
			}
		}
	}
	return true, checkIDs(jobs)
}

func checkIDs(jobs []broker.NewJob) error {
	seen := make(map[broker.ID]bool, len(jobs))
	for i := range jobs {
		if id := jobs[i].ID; !id.IsZero() && seen[id] {
			return fmt.Errorf("%w: two jobs of a call that makes a batch have the id %s", broker.ErrInvalid, id)
		}
		seen[jobs[i].ID] = true
	}
	return nil
}

// checkBatches is CheckBatches for a call to q (nil: it is not there), which
// must not have a member of a new batch: that job would not end as one.
func checkBatches(q *queue, jobs []broker.NewJob) error {
	makes, err := CheckBatches(jobs, broker.MaxBatchJobs)
	if err != nil || !makes || q == nil {
		return err
	}
	for i := range jobs {
		if j := &jobs[i]; !j.Batch.IsZero() && q.job(j.ID) != nil && q.job(j.Batch) == nil {
			return fmt.Errorf("%w: member %s of the new batch %s is there already", broker.ErrInvalid, j.ID, j.Batch)
		}
	}
	return nil
}

// waitForBatch lets a completion job wait for its members: nothing but them
// makes it ready.
func (s *State) waitForBatch(j *job) {
	j.flags |= waitsBatch
	j.because(reasonBatch)
	s.change(j).runAt = 0
	s.enter(j, broker.Scheduled)
}

// signal counts the first end of a batch's member.
func (s *State) signal(j *job) {
	x := s.extOf(j)
	if x == nil || x.batch.IsZero() || j.flags&signalled != 0 {
		return
	}
	j.flags |= signalled
	q := s.queueOf(j)
	if c := q.job(x.batch); c != nil {
		s.count(c, x.ordinal)
	} else {
		q.missed(x.batch, x.ordinal)
	}
}

// count counts that a member of c's batch is final.
func (s *State) count(c *job, n uint32) {
	if c.flags&waitsBatch == 0 {
		return
	}
	whole := s.extOf(c)
	if n >= whole.size {
		return // c was there before the batch that j was made for
	}
	if word := &whole.seen[n/64]; *word>>(n%64)&1 == 0 {
		*word |= 1 << (n % 64)
		if whole.left--; whole.left == 0 {
			s.complete = append(s.complete, c)
		}
	}
}

// completeBatches records that completion jobs are ready whose last member has
// just ended.
func (s *State) completeBatches(w *Writer) {
	done := s.complete
	s.complete = nil
	for _, c := range done {
		if c.flags&waitsBatch == 0 {
			continue // it was deleted with its last member
		}
		if s.spared != nil {
			s.spared[c] = true
		}
		s.again(w, c, s.later(waitRec{reason: reasonBatch, attempts: s.lifeOf(c).attempts, failures: s.lifeOf(c).failures}, Now{Steady: w.base}, 0))
	}
}
