package jobstate

import (
	"cmp"

	"github.com/spoolq/spool/broker"
)

type keyName struct{ task, key string }

func compareKeys(a, b keyName) int {
	return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.key, b.key))
}

// heldKey says which job holds a key.
type heldKey struct {
	id     broker.ID
	digest [16]byte // of its payload
	until  int64    // HoldFor: the end; else 0: freed by the job
}

// over reports whether h holds no more at a time.
func (h *heldKey) over(at int64) bool { return h.until != 0 && h.until <= at }

// holder returns who holds a key at a time, or nil.
func (q *queue) holder(name keyName, at int64) *heldKey {
	if h := q.keys[name]; h != nil && !h.over(at) {
		return h
	}
	return nil
}

// holdKey gives a key to its job. Keys that were held for a time and are free
// by now are swept out when there are twice as many as after the last sweep.
func (q *queue) holdKey(name keyName, h *heldKey, at int64) {
	q.setKey(name, h)
	if len(q.keys) <= 2*q.swept+64 {
		return
	}
	for name, h := range q.keys {
		if h.over(at) {
			q.dropKey(name)
		}
	}
	q.swept = len(q.keys)
}

// keyOf returns the key that j was given, "" for none.
func (s *State) keyOf(j *job) string {
	if x := s.extOf(j); x != nil {
		return x.key
	}
	return ""
}

// freeKey frees the key that j holds, unless it is held for a time.
func (s *State) freeKey(j *job) {
	x := s.extOf(j)
	if x == nil || x.key == "" || x.hold == broker.HoldFor {
		return
	}
	name := keyName{s.taskOf(j).name, x.key}
	if q := s.queueOf(j); q.keys[name] != nil && q.keys[name].id == j.id {
		q.dropKey(name)
	}
}

// retakeKey gives a requeued job its key again, if nobody else has it.
func (s *State) retakeKey(j *job, at int64) {
	x := s.extOf(j)
	if x == nil || x.key == "" || x.hold == broker.HoldFor {
		return
	}
	name := keyName{s.taskOf(j).name, x.key}
	if q := s.queueOf(j); q.holder(name, at) == nil {
		q.holdKey(name, &heldKey{id: j.id, digest: x.digest}, at)
	}
}
