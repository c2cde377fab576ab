package jobstate

import (
	"bytes"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// An enqueue asks the state four things: whether a capacity has room, whether
// the id is known, whether the key is held, and which place was the last. Where
// nothing has a capacity, ids are new and there are no keys, applying its record
// answers the last, and so it can be written by one who does not know the state.

// Binds reports whether something binds every enqueue, so that none may be made
// without the state: some queue, or its tenants, has a capacity.
func (s *State) Binds() bool { return s.capacities > 0 }

// count is 1 for a setting that is there.
func count(t *broker.Setting) int {
	if t == nil {
		return 0
	}
	return 1
}

// Offset returns the broker's clock less the machine's monotonic clock; not ok
// when the current epoch was not opened in that boot of the machine.
func (s *State) Offset(boot [16]byte) (offset int64, ok bool) { return s.offset, s.boot == boot }

// Stateless reports whether jobs can be enqueued by EnqueueStateless: none has a
// key, and each has an id of its own that no job had before.
func Stateless(jobs []broker.NewJob) bool {
	last := broker.ID{}
	for i := range jobs {
		j := &jobs[i]
		if j.Key != "" || !j.HasNewID() {
			return false
		}
		if j.ID.IsZero() {
			continue
		}
		if bytes.Compare(last[:], j.ID[:]) >= 0 {
			return false // new ids rise; this job may be in the call twice
		}
		last = j.ID
	}
	return true
}

// EnqueueStateless writes what State.Enqueue would write for jobs of which
// Stateless holds, in a store of which Binds does not. All or none: an error
// means that nothing was written.
func EnqueueStateless(w *Writer, now Now, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	var unknown State
	if err := unknown.checkAll(queue, jobs); err != nil {
		return nil, err
	}
	rare.Reached(rare.EnqueuedWithoutState)
	answers := make([]broker.Enqueued, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		r := enqueueRec{id: j.ID, at: w.base}
		if r.id.IsZero() {
			r.id = broker.NewID()
		}
		unknown.fill(&r, now, j)
		r.write(w, queue, j)
		answers[i].ID = r.id
	}
	return answers, nil
}
