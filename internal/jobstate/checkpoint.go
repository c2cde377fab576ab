package jobstate

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"
)

// The format of a checkpoint (part of the format; little-endian):
//
//	uint32 version, epoch; 16 bytes boot; int64 offset; uint64 seq; int64 lastPlace, clock, fresh
//	queues   uint32 n × (name, uint8 paused, uint32 n × (task, 8 × int64 totals), flow)
//	jobs     for each queue: uint32 n × entry, by seq (entry.go)
//	keys     uint32 n × (queue, task, key, id, digest, int64 until)
//	members  uint32 n × (name, uint8 holds the epoch)
//	workers  uint32 n × (id, name, host, pid, member, queues, tasks, concurrency, startedAt)
//	moves    from version 3 on (movestore.go)
//	calls    from version 4 on (callstore.go)
//
// A string is a uvarint k: 0 introduces a new one (uvarint length, bytes),
// which becomes the next in number; from 1 on it is the k-th of those. The
// number of bytes and their checksum are the concern of who stores them.
const checkpointVersion = 2

// encoder writes a checkpoint.
type encoder struct {
	w    io.Writer
	b    []byte
	strs map[string]uint64
	err  error
}

func (e *encoder) u8(v byte)     { e.b = append(e.b, v) }
func (e *encoder) u32(v uint32)  { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64)  { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *encoder) i64(v int64)   { e.u64(uint64(v)) }
func (e *encoder) raw(b []byte)  { e.b = append(e.b, b...) }
func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }

// str writes a string that is likely to come again.
func (e *encoder) str(s string) {
	if k, ok := e.strs[s]; ok {
		e.uint(k)
		return
	}
	e.strs[s] = uint64(len(e.strs) + 1)
	e.uint(0)
	e.text(s)
}

// text writes a string that is not.
func (e *encoder) text(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strings(list []string) {
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.str(s)
	}
}

// flush hands what there is to the writer, once it is worth a call.
func (e *encoder) flush(least int) {
	if len(e.b) < least || e.err != nil {
		return
	}
	_, e.err = e.w.Write(e.b)
	e.b = e.b[:0]
}

// formatVersion is the lowest version that has room for what there is: an
// older program reads what it knows.
func (s *State) formatVersion() uint32 {
	switch {
	case s.remembers():
		return checkpointWithCalls
	case len(s.moves()) > 0:
		return checkpointWithMoves
	}
	return checkpointVersion
}

// Encode writes the state. The same state gives the same bytes, whichever way
// it came about.
func (s *State) Encode(w io.Writer) error {
	e := &encoder{w: w, strs: map[string]uint64{}}
	version := s.formatVersion()
	e.u32(version)
	e.u32(s.epoch)
	e.raw(s.boot[:])
	e.i64(s.offset)
	e.u64(s.seq)
	e.i64(s.lastPlace)
	e.i64(s.clock)
	e.i64(s.fresh)
	s.encodeQueues(e)
	for _, name := range s.Queues() {
		s.encodeJobs(e, s.queues[name])
	}
	s.encodeKeys(e)
	s.encodeMembers(e)
	if version >= checkpointWithMoves {
		s.encodeMoves(e)
	}
	if version >= checkpointWithCalls {
		s.encodeCalls(e)
	}
	e.flush(0)
	return e.err
}

func (s *State) encodeQueues(e *encoder) {
	e.u32(uint32(len(s.queues)))
	for _, name := range s.Queues() {
		q := s.queues[name]
		e.str(name)
		e.u8(b2u(q.paused))
		e.u32(uint32(len(q.order)))
		for _, t := range q.order {
			e.str(t.name)
			for _, n := range totals(t) {
				e.i64(*n)
			}
		}
		s.encodeFlow(e, q)
	}
}

func b2u(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (s *State) encodeKeys(e *encoder) {
	n := 0
	for _, q := range s.queues {
		for _, h := range q.keys {
			if !h.over(s.clock) {
				n++
			}
		}
	}
	e.u32(uint32(n))
	for _, name := range s.Queues() {
		q := s.queues[name]
		sorted := slices.SortedFunc(maps.Keys(q.keys), compareKeys)
		for _, k := range sorted {
			h := q.holder(k, s.clock)
			if h == nil {
				continue
			}
			e.str(name)
			e.str(k.task)
			e.text(k.key)
			e.raw(h.id[:])
			e.raw(h.digest[:])
			e.i64(h.until)
			e.flush(1 << 16)
		}
	}
}

func (s *State) encodeMembers(e *encoder) {
	e.u32(uint32(len(s.members)))
	for _, name := range s.Members() {
		e.text(name)
		e.u8(b2u(s.holders[s.members[name]]))
	}
	e.u32(uint32(len(s.workers)))
	for _, id := range slices.Sorted(maps.Keys(s.workers)) {
		w := s.workers[id]
		e.text(id)
		e.text(w.Name)
		e.text(w.Host)
		e.u32(uint32(w.PID))
		member := ""
		if w.member != nil {
			member = w.member.name
		}
		e.text(member)
		e.strings(w.Queues)
		e.strings(w.Tasks)
		e.u32(uint32(w.Concurrency))
		e.i64(w.StartedAt.UnixNano()) // never the zero time: a registration is a record
	}
}

// totals lists a task's totals in the order of the format.
func totals(t *task) [8]*int64 {
	n := &t.totals
	return [8]*int64{&n.Enqueued, &n.Claimed, &n.Acked, &n.Failed, &n.Expired, &n.Died, &n.Cancelled, &n.Deleted}
}
