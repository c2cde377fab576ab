package jobstate

import (
	"cmp"

	"github.com/spoolq/spool/broker"
)

// job is what the state keeps of one job. Times are nanoseconds since 1970.
type job struct {
	id   broker.ID
	body Loc
	lane *lane

	seq        uint64 // rises with each enqueue; breaks ties of place
	order      uint64 // rises along the list of its state; of this State alone, never written
	place      int64  // where it stands in its lane
	runAt      int64  // when it is due
	enqueuedAt int64
	changedAt  int64 // last change of state
	claimedAt  int64 // last claim

	ver         uint32 // rises with each change of position; makes old items stale
	epoch       uint32 // of the last claim
	claims      uint32 // ever; with epoch the token
	attempts    uint32
	maxAttempts uint32
	failures    uint32

	ended  broker.SettleKind // how its last lease was settled; 0: not, it expired
	state  broker.State      // Scheduled and Ready are both "waiting" in the records
	reason reason
	flags  jobFlags

	prev, next *job // in the list of its queue and state
	lease      *lease
	ext        *extra // what few jobs have; nil for most
}

type jobFlags uint8

const (
	byWall      jobFlags = 1 << iota // runAt is wall time (At), else the broker's steady time
	cancelAsked                      // its worker is told to stop
	ordered
	hasResult
	waitsBatch // a completion job: waits for its members
	signalled  // a member: its first final state was counted
	scheduled  // waits, or waited, for its due time: a new State finds out anew whether it is due
)

// extra is what few jobs have.
type extra struct {
	key         string
	hold        broker.KeyHold
	keyFor      int64
	digest      [16]byte // of the payload, for the key
	batch       broker.ID
	ordinal     uint32
	size        uint32   // of the batch, for a completion job
	seen        []uint64 // which of its members were counted, a bit each
	left        uint32   // how many were not
	retain      int64    // as NewJob.Retain
	startWithin int64
	keepUntil   int64 // of a final job; 0: for ever
	result      Loc
	err         Loc
	worker      string // of the last claim, once the lease is over
	progress    broker.Progress
	log         []string
	lease       *lease // only while a checkpoint is written or read
}

// empty reports whether x says nothing.
func (x *extra) empty() bool {
	return x == nil || x.key == "" && x.hold == 0 && x.keyFor == 0 && x.batch.IsZero() && x.size == 0 && x.retain == 0 && x.startWithin == 0 &&
		x.keepUntil == 0 && x.result.Zero() && x.err.Zero() && x.worker == "" && x.progress == broker.Progress{} && len(x.log) == 0
}

// lease is the current claim of a job.
type lease struct {
	expires int64
	worker  string
	member  *member // nil: its deadline alone ends it
	locked  bool    // member is a lock of this lease's own: the deadline waits for it
}

func bySeq(a, b *job) int { return cmp.Compare(a.seq, b.seq) }

func (j *job) queue() *queue { return j.lane.task.queue }

func (j *job) token() broker.Token {
	return broker.Token(uint64(j.epoch)<<32 | uint64(j.claims))
}

func (j *job) more() *extra {
	if j.ext == nil {
		j.ext = &extra{}
	}
	return j.ext
}

// list is a list of the jobs of one queue and state in the order in which they
// entered it.
type list struct {
	first, last *job
	n           int
}

func (l *list) push(j *job) {
	j.prev, j.next = l.last, nil
	if l.last == nil {
		l.first = j
	} else {
		l.last.next = j
	}
	l.last = j
	l.n++
}

func (l *list) remove(j *job) {
	if j.prev == nil {
		l.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.prev, j.next = nil, nil
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
	reasonEnd
)

var reasons = [reasonEnd]string{
	"", broker.ReasonAcked, broker.ReasonRetry, broker.ReasonSnoozed, broker.ReasonReleased, broker.ReasonExpired,
	broker.ReasonAttempts, broker.ReasonCrashed, broker.ReasonBuried, broker.ReasonDamaged, broker.ReasonCancelled,
	broker.ReasonDropped, broker.ReasonNotStarted, broker.ReasonRequeued, broker.ReasonReplaced,
	broker.ReasonWorkerDied, broker.ReasonCancelAsked, broker.ReasonBatch,
}
