package jobstate

import (
	"cmp"

	"github.com/spoolq/spool/broker"
)

// job is what the state keeps of every job: with its place in the index and in
// its lane about 100 bytes, and no pointer, so that the garbage collector
// passes over a million that wait. What most waiting jobs have not is in life
// and extra. Times are nanoseconds since 1970.
type job struct {
	id   broker.ID
	body Loc

	place      int64 // where it stands in its lane
	enqueuedAt int64
	seqLow     uint32
	seqHigh    uint16
	status     uint8 // state and reason
	flags      jobFlags

	self       ref    // its own number
	lane       uint32 // number of its lane
	life       uint32 // number of its life; with noLifeBit it has none, and the rest is maxAttempts
	order      uint32 // rises along the list of its state; of this State alone, never written
	prev, next ref    // in the list of its queue and state
}

// seq rises with each enqueue; it breaks ties of place. 48 bits are kept: with
// a million enqueues a second it is nine years before a tie is broken wrongly.
func (j *job) seq() uint64 { return uint64(j.seqHigh)<<32 | uint64(j.seqLow) }

func (j *job) setSeq(n uint64) { j.seqLow, j.seqHigh = uint32(n), uint16(n>>32) }

const statusBits = 5 // of status for the reason

// state is the job's state. Scheduled and Ready are both "waiting" in the
// records.
func (j *job) state() broker.State { return broker.State(j.status >> statusBits) }
func (j *job) reason() reason      { return reason(j.status & (1<<statusBits - 1)) }

func (j *job) become(state broker.State) { j.status = uint8(state)<<statusBits | uint8(j.reason()) }
func (j *job) because(why reason)        { j.status = uint8(j.state())<<statusBits | uint8(why) }

type jobFlags uint8

const (
	byWall      jobFlags = 1 << iota // its due time is wall time (At), else the broker's steady time
	cancelAsked                      // its worker is told to stop
	ordered
	hasResult
	waitsBatch // a completion job: waits for its members
	signalled  // a member: its first final state was counted
	scheduled  // waits, or waited, for its due time: a new State finds out anew whether it is due
)

// ref numbers a job's entry; 0 names none. An entry is used again for another
// job when its own is forgotten.
type ref uint32

const (
	chunkBits = 10
	chunkJobs = 1 << chunkBits
)

// entries holds the jobs of a State. They never move.
type entries struct {
	chunks []*[chunkJobs]job
	used   ref // the first used refs are or were given out
	free   ref // unused ones among them, linked by next
}

func (e *entries) at(r ref) *job { return &e.chunks[r>>chunkBits][r%chunkJobs] }

// take returns an unused entry.
func (e *entries) take() *job {
	if e.free != 0 {
		j := e.at(e.free)
		e.free = j.next
		j.next = 0
		return j
	}
	e.used++ // 0 is nobody's
	if int(e.used>>chunkBits) >= len(e.chunks) {
		e.chunks = append(e.chunks, new([chunkJobs]job))
	}
	j := e.at(e.used)
	j.self = e.used
	return j
}

// give takes an entry back.
func (e *entries) give(j *job) {
	*j = job{self: j.self, next: e.free}
	e.free = j.self
}

func bySeq(a, b *job) int { return cmp.Compare(a.seq(), b.seq()) }

func (s *State) laneOf(j *job) *lane   { return s.lanes[j.lane] }
func (s *State) taskOf(j *job) *task   { return s.lanes[j.lane].task }
func (s *State) queueOf(j *job) *queue { return s.lanes[j.lane].task.queue }

// list is a list of the jobs of one queue and state in the order in which they
// entered it.
type list struct {
	first, last ref
	n           int
	order       uint32 // of the last that entered
}

func (s *State) firstOf(l *list) *job { return s.jobOrNil(l.first) }
func (s *State) nextOf(j *job) *job   { return s.jobOrNil(j.next) }

func (s *State) jobOrNil(r ref) *job {
	if r == 0 {
		return nil
	}
	return s.jobs.at(r)
}

func (l *list) push(s *State, j *job) {
	if l.order++; l.order == 0 {
		l.renumber(s)
	}
	j.order = l.order
	j.prev, j.next = l.last, 0
	if l.last == 0 {
		l.first = j.self
	} else {
		s.jobs.at(l.last).next = j.self
	}
	l.last = j.self
	l.n++
}

// renumber makes room for more orders: there are 2^32.
func (l *list) renumber(s *State) {
	for j := s.firstOf(l); j != nil; j = s.nextOf(j) {
		l.order++
		j.order = l.order
	}
	l.order++
	s.mark++ // cursors of the old numbering name another one now
}

func (l *list) remove(s *State, j *job) {
	if j.prev == 0 {
		l.first = j.next
	} else {
		s.jobs.at(j.prev).next = j.next
	}
	if j.next == 0 {
		l.last = j.prev
	} else {
		s.jobs.at(j.next).prev = j.prev
	}
	j.prev, j.next = 0, 0
	l.n--
}

// reason is the number of a broker.Reason constant (part of the format).
type reason uint8

const (
	reasonNone reason = iota
	reasonAcked
	reasonRetry
	reasonSnoozed
	reasonReleased
	reasonExpired
	reasonAttempts
	reasonCrashed
	reasonBuried
	reasonDamaged
	reasonCancelled
	reasonDropped
	reasonNotStarted
	reasonRequeued
	reasonReplaced
	reasonWorkerDied
	reasonCancelAsked
	reasonBatch
	reasonDuplicate
	reasonEnd
)

var reasons = [reasonEnd]string{
	"", broker.ReasonAcked, broker.ReasonRetry, broker.ReasonSnoozed, broker.ReasonReleased, broker.ReasonExpired,
	broker.ReasonAttempts, broker.ReasonCrashed, broker.ReasonBuried, broker.ReasonDamaged, broker.ReasonCancelled,
	broker.ReasonDropped, broker.ReasonNotStarted, broker.ReasonRequeued, broker.ReasonReplaced,
	broker.ReasonWorkerDied, broker.ReasonCancelAsked, broker.ReasonBatch, broker.ReasonDuplicate,
}
