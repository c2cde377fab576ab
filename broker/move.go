package broker

import (
	"context"
	"fmt"
	"time"
)

// Mover is implemented by a broker whose queues can be moved to another broker,
// and from there to it. A move is a record of one queue at each of two brokers,
// and goes on in numbered batches:
//
//	BeginMove at both      the queue rests at both: no claim, no tick
//	TakeMoved n at one     up to so many jobs leave the queue, and are on their way
//	PutMoved n at the other   they are there, once, however often this is repeated
//	TakeMoved n+1          says that n has arrived; it is forgotten, and so on
//	EndMove at both        the queue works at the other, and rests here
//
// So a job belongs to one side at every moment: to the first until TakeMoved
// is committed, to the second from then on, though nobody sees it there before
// PutMoved. Whoever drives a move may be killed at any place: Moves says at
// both sides how far it is, and the next one repeats the last step.
//
// While a queue leaves, its leases are extended, settled and expire as ever,
// and jobs are enqueued as ever; they leave once nobody runs them. What an
// operator or a producer does to a job is done at the side to which it belongs.
//
// No call holds more than MaxMoveJobs jobs. All methods are safe for
// concurrent use; their errors leave everything as it was.
type Mover interface {
	// Moves returns the records of moves, sorted by queue; "" means every queue.
	Moves(ctx context.Context, queue string) ([]Move, error)

	// BeginMove begins a move, or goes on with it. Errors: ErrConflict when
	// another move of the queue is under way, or this one is, and its runner was
	// heard of less than its TTL ago.
	BeginMove(ctx context.Context, c Call, r MoveBegin) (Move, error)

	// TakeMoved takes batch r.Batch out of the queue. With the number of the
	// last batch it returns that batch again; with the next number the last
	// batch is forgotten: the caller says that it has arrived. An answer with
	// the number before r.Batch says that there was nothing to take. What it
	// returns is durable. Errors: ErrConflict for any other number, another
	// runner, or a queue that does not leave by this move; ErrNotFound when
	// there is no record.
	TakeMoved(ctx context.Context, c Call, r MoveTake) (MoveBatch, error)

	// PutMoved adds what another broker's TakeMoved returned. A batch that has
	// arrived before changes nothing. When it returns nil everything is durable.
	// A job whose id is known is not added; one whose key another job holds
	// ends cancelled with ReasonDuplicate if it never ran, as a repeat of the
	// key would have added nothing. Errors: ErrConflict when it is not
	// the next batch, or the queue does not arrive by this move; ErrNotFound
	// when there is no record; ErrInvalid.
	PutMoved(ctx context.Context, c Call, r MovePut) (MovePutAnswer, error)

	// EndMove ends a move at one side, whichever this is, once the last batch
	// has arrived. Errors: as TakeMoved.
	EndMove(ctx context.Context, c Call, r MoveEnd) error
}

// Sizes of a move.
const (
	MaxMoveJobs  = 256             // jobs, keys, signals and settings of one batch, each
	MaxMoveBytes = 4 << 20         // payloads, results and error texts of one batch, unless one job has more
	MoveTTL      = 3 * time.Second // how long a runner is waited for that is not heard of
)

// MoveState says how far a move is at one side.
type MoveState uint8

// The states of a move.
const (
	Leaving  MoveState = 1 + iota // the queue's jobs leave; it rests
	Left                          // they have left; what comes rests, and may follow
	Arriving                      // jobs arrive; the queue rests
	Arrived                       // the queue works
)

var moveStateNames = [...]string{"", "leaving", "left", "arriving", "arrived"}

// String returns the state's name, as JSON and the CLI write it.
func (s MoveState) String() string {
	if int(s) < len(moveStateNames) {
		return moveStateNames[s]
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler.
func (s MoveState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Rests reports whether a queue with a move in this state gives out no jobs.
func (s MoveState) Rests() bool { return s == Leaving || s == Left || s == Arriving }

// Move is the record of a move at one side.
type Move struct {
	ID    ID        `json:"id"`
	Queue string    `json:"queue"`
	State MoveState `json:"state"`
	Peer  string    `json:"peer"`  // the other side, in words for people
	Batch uint64    `json:"batch"` // the last that was taken, or put
	// OnWay says that Batch has left and may not have arrived yet.
	OnWay bool  `json:"on_way,omitempty"`
	Jobs  int64 `json:"jobs"` // that have left, or arrived
	// Turned is the move that this one takes back: zero for none.
	Turned ID `json:"turned,omitzero"`
	// Now is the broker's clock, Seq the number of its last enqueue, First the
	// smallest number that a job of the queue has: what the other side has to know
	// to keep times and places. A broker whose numbers have gaps may give a First
	// that few jobs are older than: they are placed in the order in which they come.
	Now   time.Time `json:"-"`
	First uint64    `json:"-"`
	Seq   uint64    `json:"-"`
}

// MoveBegin begins a move at one side.
type MoveBegin struct {
	ID    ID // of the move, the same at both sides; NewID makes one
	Queue string
	State MoveState // Leaving or Arriving
	Peer  string    // the other side, at most MaxReasonBytes
	// Runner is who drives the move, for Leaving; another one is refused until
	// this one was not heard of for TTL; 0 means MoveTTL.
	Runner ID
	TTL    time.Duration
	// Turn is a move of the queue that this one takes back: its record is
	// replaced. Zero means none. TurnBatch is its last batch, which has arrived.
	Turn      ID
	TurnBatch uint64
	// For Arriving: the last batch that was taken at the other side, all of which
	// have arrived, and what BeginMove of the other side returned.
	Batch uint64
	Now   time.Time
	First uint64
	Seq   uint64
}

// MoveTake takes a batch.
type MoveTake struct {
	ID     ID
	Queue  string
	Runner ID
	TTL    time.Duration // 0 means MoveTTL
	Batch  uint64        // the number of the batch
	Max    int           // jobs; 0 means MaxMoveJobs
}

// MovePut puts a batch.
type MovePut struct {
	ID    ID
	Queue string
	Batch MoveBatch // the broker may keep its bytes
}

// MovePutAnswer says what became of a batch.
type MovePutAnswer struct {
	Known      int // jobs of it that were there already, by their ids
	Duplicates int // that ended, since another job holds their key
}

// MoveEnd ends a move at one side.
type MoveEnd struct {
	ID    ID
	Queue string
	Batch uint64 // the last one: it has arrived
	// Forget drops the record of a move of which nothing was taken or put, or
	// that has ended: the queue works here again.
	Forget bool
}

// MoveBatch is what leaves a queue at once. Times are on the clock of the
// broker that it leaves, of which Now is the present, unless they say otherwise.
type MoveBatch struct {
	Number   uint64
	Now      time.Time
	Jobs     []MovedJob
	Keys     []MovedKey // held for a duration, by jobs that are gone
	Signals  []MovedSignal
	Settings []MovedSetting
	Starts   []MovedStart
	Paused   bool // an operator has paused the queue

	Left   int64 // jobs of the queue that are still there, leased ones included
	Leased int64
	// Done says that there is nothing left to take, now.
	Done bool
}

// Empty reports whether b holds nothing.
func (b *MoveBatch) Empty() bool {
	return len(b.Jobs)+len(b.Keys)+len(b.Signals)+len(b.Settings)+len(b.Starts) == 0 && !b.Paused
}

// MovedJob is a job on its way: all that makes it the same job at the other
// side. It is never leased.
type MovedJob struct {
	Job              // payload, headers, result, error text and log included
	Place  time.Time // where it stands among jobs of its lane
	Seq    uint64    // and among those of one place: the number of its enqueue
	ByWall bool      // Place and RunAt are wall time
	// Later says that the job waits for RunAt, or did so last: whether it is
	// scheduled or ready is for the clock to say.
	Later     bool
	ChangedAt time.Time  // when it entered its state
	Ended     SettleKind // how its last lease was settled; 0: not
	KeepUntil time.Time  // of a final job; zero: for ever

	KeyHold   KeyHold
	KeyFor    time.Duration
	KeyDigest [16]byte  // the first bytes of the payload's SHA-256
	KeyHeld   bool      // it holds its key
	KeyUntil  time.Time // until then, or zero: as KeyHold says

	HoldsGroup bool     // it holds its ordered group
	Signalled  bool     // a member: its first final state was counted
	BatchSize  uint32   // of a completion job
	Waits      bool     // a completion job: not all its members are final
	Seen       []uint64 // of them, a bit each
}

// MovedKey is a key that is held for a duration.
type MovedKey struct {
	Task, Key string
	ID        ID // of the job, which is gone
	Digest    [16]byte
	Until     time.Time
}

// MovedSignal says that a member of a batch is final whose completion job has
// left before.
type MovedSignal struct {
	Batch   ID
	Ordinal uint32
}

// MovedSetting is a setting in both its layers, with the revisions of each. Of
// a schedule Due is the cursor, in wall time, and Paused an operator's.
type MovedSetting struct {
	Kind     SettingKind
	Name     string
	Declared *Setting `json:",omitempty"`
	Operator *Setting `json:",omitempty"`
	Due      time.Time
	Paused   bool
}

// MovedStart is the last start of a program that declared settings.
type MovedStart struct {
	Owner string
	ID    ID
	At    time.Time
}

// Validate checks everything about b that needs no store. Its error wraps
// ErrInvalid.
func (b *MoveBegin) Validate() error {
	if err := ValidName(b.Queue); err != nil {
		return fmt.Errorf("%w: queue name %w", ErrInvalid, err)
	}
	switch {
	case b.ID.IsZero() || b.State != Leaving && b.State != Arriving:
		return fmt.Errorf("%w: a move begins with an id, leaving or arriving", ErrInvalid)
	case b.State == Arriving && b.Now.IsZero():
		return fmt.Errorf("%w: a move arrives from a broker that said what its clock is", ErrInvalid)
	case b.State == Leaving && b.Runner.IsZero():
		return fmt.Errorf("%w: nobody is said to run the move", ErrInvalid)
	case b.TTL < 0 || b.TTL > time.Minute:
		return fmt.Errorf("%w: a runner that is waited for %v, allowed are 0 to a minute", ErrInvalid, b.TTL)
	}
	return within("peer", len(b.Peer), MaxReasonBytes)
}
