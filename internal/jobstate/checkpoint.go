package jobstate

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// The format of a checkpoint (part of the format; little-endian):
//
//	uint32 version, epoch; 16 bytes boot; int64 offset; uint64 seq; int64 lastPlace, clock, fresh
//	strings  uint32 n × (uint32 length, bytes); everything below names them by number
//	queues   uint32 n × (name, uint8 paused, uint32 n × (task, 8 × int64 totals), flow)
//	jobs     uint32 n × entry of entryBytes, by queue and seq
//	extras   uint32 n × (…), numbered from 1 by the entries
//	keys     uint32 n × (queue, task, key, id, digest, int64 until)
//	members  uint32 n × (name, uint8 holds the epoch)
//	workers  uint32 n × (id, name, host, pid, member+1, queues, tasks, concurrency, startedAt)
//
// The number of bytes and their checksum are the concern of who stores them.
// Version 1, of before the first release, had no pauses of schedules and
// no starts.
const checkpointVersion = 2

const entryBytes = 16 + 16 + 8*4 + 5*8 + 8 + 5*4 + 4 + 4 + 8

// encoder writes a checkpoint.
type encoder struct {
	w    *bufio.Writer
	b    []byte
	strs map[string]uint32
	list []string
}

func (e *encoder) u8(v byte)    { e.b = append(e.b, v) }
func (e *encoder) u32(v uint32) { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *encoder) i64(v int64)  { e.u64(uint64(v)) }
func (e *encoder) loc(l Loc)    { e.u32(l.File); e.u32(l.Off); e.u32(l.Len); e.u32(l.Sum) }
func (e *encoder) raw(b []byte) { e.b = append(e.b, b...) }

func (e *encoder) str(s string) {
	n, ok := e.strs[s]
	if !ok {
		n = uint32(len(e.list))
		e.strs[s] = n
		e.list = append(e.list, s)
	}
	e.u32(n)
}

func (e *encoder) strings(list []string) {
	e.u32(uint32(len(list)))
	for _, s := range list {
		e.str(s)
	}
}

// Encode writes the state. The same state gives the same bytes, whichever way
// it came about.
func (s *State) Encode(w io.Writer) error {
	body := encoder{strs: map[string]uint32{}}
	s.encodeQueues(&body)
	extras := s.encodeJobs(&body)
	body.u32(uint32(len(extras)))
	for _, x := range extras {
		body.extra(x)
	}
	s.encodeKeys(&body)
	s.encodeMembers(&body)

	head := encoder{w: bufio.NewWriterSize(w, 1<<16)}
	head.u32(checkpointVersion)
	head.u32(s.epoch)
	head.raw(s.boot[:])
	head.i64(s.offset)
	head.u64(s.seq)
	head.i64(s.lastPlace)
	head.i64(s.clock)
	head.i64(s.fresh)
	head.u32(uint32(len(body.list)))
	for _, t := range body.list {
		head.u32(uint32(len(t)))
		head.raw([]byte(t))
	}
	for _, b := range [][]byte{head.b, body.b} {
		if _, err := head.w.Write(b); err != nil {
			return err
		}
	}
	return head.w.Flush()
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

func (s *State) encodeJobs(e *encoder) (extras []*extra) {
	n := 0
	for _, q := range s.queues {
		n += len(q.jobs)
	}
	e.u32(uint32(n))
	e.b = slices.Grow(e.b, n*entryBytes)
	for _, name := range s.Queues() {
		q := s.queues[name]
		for _, j := range q.inOrder() {
			x := uint32(0)
			if ext := j.withLease(); ext != nil {
				extras = append(extras, ext)
				x = uint32(len(extras))
			}
			e.entry(name, j, x)
		}
	}
	return extras
}

// withLease returns what few jobs have, with the lease of a leased job in it.
func (j *job) withLease() *extra {
	if j.lease == nil {
		if j.ext.empty() {
			return nil
		}
		return j.ext
	}
	x := extra{}
	if j.ext != nil {
		x = *j.ext
	}
	x.lease = j.lease
	return &x
}

func (e *encoder) entry(queue string, j *job, ext uint32) {
	l := j.lane
	e.raw(j.id[:])
	e.loc(j.body)
	e.str(queue)
	e.str(l.task.name)
	e.u32(uint32(l.priority))
	e.u32(ext)
	e.str(l.tenant)
	e.str(l.group)
	e.u32(0) // room
	e.u32(0)
	for _, t := range [...]int64{j.place, j.runAt, j.enqueuedAt, j.changedAt, j.claimedAt} {
		e.i64(t)
	}
	e.u64(j.seq)
	for _, n := range [...]uint32{j.epoch, j.claims, j.attempts, j.maxAttempts, j.failures} {
		e.u32(n)
	}
	state := j.state
	if state == broker.Ready && j.flags&scheduled != 0 {
		state = broker.Scheduled // whether it is due is for the reader to find out
	}
	e.u8(byte(state))
	e.u8(byte(j.reason))
	e.u8(byte(j.flags))
	e.u8(byte(j.ended))
	e.u32(0)
	e.u64(0)
}

func (e *encoder) extra(x *extra) {
	e.str(x.key)
	e.u8(byte(x.hold))
	e.i64(x.keyFor)
	e.raw(x.digest[:])
	e.raw(x.batch[:])
	e.u32(x.ordinal)
	e.u32(x.size)
	e.u32(x.left)
	for _, word := range x.seen {
		e.u64(word)
	}
	for _, t := range [...]int64{x.retain, x.startWithin, x.keepUntil} {
		e.i64(t)
	}
	e.loc(x.result)
	e.loc(x.err)
	e.str(x.worker)
	e.u8(byte(x.progress.Percent))
	e.str(x.progress.Note)
	e.strings(x.log)
	e.u8(b2u(x.lease != nil))
	if x.lease != nil {
		e.u8(b2u(x.lease.locked))
		e.i64(x.lease.expires)
		e.str(x.lease.worker)
		if x.lease.member != nil {
			e.str(x.lease.member.name)
		} else {
			e.str("")
		}
	}
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
		sorted := slices.SortedFunc(maps.Keys(q.keys), func(a, b keyName) int {
			return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.key, b.key))
		})
		for _, k := range sorted {
			h := q.holder(k, s.clock)
			if h == nil {
				continue
			}
			e.str(name)
			e.str(k.task)
			e.str(k.key)
			e.raw(h.id[:])
			e.raw(h.digest[:])
			e.i64(h.until)
		}
	}
}

func (s *State) encodeMembers(e *encoder) {
	e.u32(uint32(len(s.members)))
	for _, name := range s.Members() {
		e.str(name)
		e.u8(b2u(s.holders[s.members[name]]))
	}
	e.u32(uint32(len(s.workers)))
	for _, id := range slices.Sorted(maps.Keys(s.workers)) {
		w := s.workers[id]
		e.str(id)
		e.str(w.Name)
		e.str(w.Host)
		e.u32(uint32(w.PID))
		member := ""
		if w.member != nil {
			member = w.member.name
		}
		e.str(member)
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
