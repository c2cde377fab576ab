package jobstate

import "github.com/spoolq/spool/broker"

type keyName struct{ task, key string }

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
	q.keys[name] = h
	if len(q.keys) <= 2*q.swept+64 {
		return
	}
	for name, h := range q.keys {
		if h.over(at) {
			delete(q.keys, name)
		}
	}
	q.swept = len(q.keys)
}

// freeKey frees the key that j holds, unless it is held for a time.
func (s *State) freeKey(j *job) {
	if j.ext == nil || j.ext.key == "" || j.ext.hold == broker.HoldFor {
		return
	}
	name := keyName{j.lane.task.name, j.ext.key}
	if h := j.queue().keys[name]; h != nil && h.id == j.id {
		delete(j.queue().keys, name)
	}
}

// retakeKey gives a requeued job its key again, if nobody else has it.
func (s *State) retakeKey(j *job, at int64) {
	if j.ext == nil || j.ext.key == "" || j.ext.hold == broker.HoldFor {
		return
	}
	name := keyName{j.lane.task.name, j.ext.key}
	if q := j.queue(); q.holder(name, at) == nil {
		q.holdKey(name, &heldKey{id: j.id, digest: j.ext.digest}, at)
	}
}
