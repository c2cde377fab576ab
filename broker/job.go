package broker

import "time"

// NewJob is a job to enqueue. The broker copies what it keeps: the caller owns
// Payload and Headers again when the call returns.
type NewJob struct {
	ID      ID     // zero means: the broker makes one
	Task    string // the declared sort of the job; a name, see ValidName
	Payload []byte // opaque, may be empty; nil and empty are the same
	Headers map[string]string

	Priority int32         // higher first, default 0
	Delay    time.Duration // from the broker's now; 0 means ready at once. Not with At
	At       time.Time     // wall time of the run; zero means: Delay decides

	Tenant string // who the job is for; "" is a tenant as well
	Group  string // what per-group limits count by; "" means the tenant
	// Ordered asks that jobs of one group run one at a time in their order.
	Ordered bool

	Key     string        // idempotency key, scoped to the task; "" means none
	KeyHold KeyHold       // how long the key is held
	KeyFor  time.Duration // for HoldFor

	// KeyRepeat says what a repeat of the key does to the job that holds it.
	KeyRepeat KeyRepeat

	MaxAttempts int           // runs in all; 0 means DefaultMaxAttempts
	Timeout     time.Duration // of one run, kept for the worker; 0 means none
	StartWithin time.Duration // cancelled when not started this long after it was due; 0 means never
	Retain      time.Duration // how long the finished job is kept, see Retention below

	// A batch is its completion job, which waits until each of its members had
	// its first final state (a requeue of a member changes nothing). It is
	// enqueued in one call with all its members, into one queue. None of them
	// has a Key, and none of the members of a new batch is there already: that
	// job would not end as a member.
	BatchSize    uint32 // of a completion job: how many members; 0 means that it is none
	Batch        ID     // of a member: the completion job; zero means that it is none
	BatchOrdinal uint32 // of a member: its number, from 0 to BatchSize-1

	made ID // what MakeID made
}

// MakeID gives the job an id that no job had before. A broker need not look
// whether a job of that id is there, for as long as nobody changes ID: see
// HasNewID. It may also give the job another new id, the same one when
// the call is repeated: Enqueued has the one that holds.
func (j *NewJob) MakeID() {
	j.made = NewID()
	j.ID = j.made
}

// RenewID gives a job that has a new id (see HasNewID) another one, which no job had
// before either, and which has the same Mark.
func (j *NewJob) RenewID(id ID) { j.ID, j.made = id, id }

// MakeMarkedID is MakeID for an id that ends with a mark, of which MarkMask are the
// bits that are kept: a server tells by it for which job it made an id. Ids that
// one process makes differ before it.
func (j *NewJob) MakeMarkedID(mark uint32) {
	j.made = NewID()
	j.made[13], j.made[14], j.made[15] = byte(mark>>16), byte(mark>>8), byte(mark)
	j.ID = j.made
}

// HasNewID reports whether the job's id is known to be new: MakeID made it, or
// the broker is to make it.
func (j *NewJob) HasNewID() bool { return j.ID.IsZero() || j.ID == j.made }

// ClearID takes the job's id away: the broker makes one.
func (j *NewJob) ClearID() { j.ID, j.made = ID{}, ID{} }

// KeyRepeat says what an enqueue does whose key is held by a job that waits.
// A job that runs, or is final, is never changed: it is returned as it is.
type KeyRepeat uint8

// The answers to a repeat. Each says Existing.
const (
	RepeatFirst    KeyRepeat = iota // the first job stays as it is
	RepeatReplace                   // it gets the new payload, headers and timeout; id, place and due time stay
	RepeatDebounce                  // it gets them, and the new due time: it runs once calls have stopped
)

// Retention: a done job with Retain 0 is dropped at once, unless it has a
// result, which is kept for DefaultRetain; a cancelled job is kept for
// DefaultRetain. With Retain above 0 both are kept that long. A negative
// Retain drops both at once. Dead letters stay until they are requeued or
// deleted.
const (
	DefaultRetain      = time.Hour
	DefaultMaxAttempts = 20
)

// KeyHold says how long a key refuses (or rather answers) a repeat.
type KeyHold uint8

// The holds of a key. The zero value holds until the job is final.
const (
	HoldUntilFinal   KeyHold = iota // done, dead or cancelled, or deleted
	HoldUntilStarted                // the first claim
	HoldFor                         // NewJob.KeyFor from the enqueue, whatever becomes of the job
)

// Enqueued is the answer for one job.
type Enqueued struct {
	ID ID `json:"id"`
	// Existing says that the job was there already, by its id or its key: ID
	// names the job that is there, and nothing was added.
	Existing bool `json:"existing,omitempty"`
	// Differs says that the job there has another payload.
	Differs bool `json:"differs,omitempty"`
}

// Job is what a broker knows of a job: a copy, the caller's to keep. Times are
// on the broker's clock; a zero time means not (yet).
type Job struct {
	Queue    string            `json:"queue"`
	ID       ID                `json:"id"`
	Task     string            `json:"task"`
	State    State             `json:"state"`
	Reason   string            `json:"reason,omitempty"` // one of the Reason constants; "" after enqueue
	Priority int32             `json:"priority,omitempty"`
	Tenant   string            `json:"tenant,omitempty"`
	Group    string            `json:"group,omitempty"`
	Ordered  bool              `json:"ordered,omitempty"`
	Key      string            `json:"key,omitempty"`
	Payload  []byte            `json:"payload"`
	Headers  map[string]string `json:"headers,omitempty"`

	// Attempt is the number of starts so far, less those given back by snooze
	// or release. It is counted when the job is claimed: inside the first run
	// it is 1, and a run that crashed counts.
	Attempt     int           `json:"attempt"`
	MaxAttempts int           `json:"max_attempts"`
	Timeout     time.Duration `json:"timeout,omitempty"`
	StartWithin time.Duration `json:"start_within,omitempty"`
	Retain      time.Duration `json:"retain,omitempty"`

	EnqueuedAt time.Time `json:"enqueued_at"`
	RunAt      time.Time `json:"run_at"`               // when it is or was due
	ClaimedAt  time.Time `json:"claimed_at,omitzero"`  // the last claim
	FinishedAt time.Time `json:"finished_at,omitzero"` // when it became final

	// The lease, while State is Leased. Token is the last token ever given for
	// this job, also afterwards.
	Token           Token     `json:"token,omitempty"`
	Worker          string    `json:"worker,omitempty"` // name of the worker that holds or last held it
	LeaseExpiresAt  time.Time `json:"lease_expires_at,omitzero"`
	CancelRequested bool      `json:"cancel_requested,omitempty"`

	Result    []byte `json:"result,omitempty"` // of a done job; nil means none
	HasResult bool   `json:"has_result,omitempty"`
	// Error is the last failed attempt's text: opaque bytes as they were given,
	// cut at MaxErrorBytes. Failures counts the failed attempts ever.
	Error    string `json:"error,omitempty"`
	Failures int    `json:"failures,omitempty"`

	Progress Progress `json:"progress,omitzero"`
	Log      []string `json:"log,omitempty"` // the last lines that its handler logged in this run

	Batch        ID     `json:"batch,omitzero"`
	BatchOrdinal uint32 `json:"batch_ordinal,omitempty"`
}

// Ref returns the job's name.
func (j *Job) Ref() Ref { return Ref{Queue: j.Queue, ID: j.ID} }

// Progress is what a running handler said of how far it is.
type Progress struct {
	Percent int    `json:"percent"` // 0 to 100
	Note    string `json:"note,omitempty"`
}
