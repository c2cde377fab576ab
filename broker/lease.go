package broker

import "time"

// ClaimRequest asks for jobs to run.
type ClaimRequest struct {
	Queues []string // in order of preference; the first with a job serves first. nil means every queue
	Tasks  []string // what the caller can run, at most MaxClaimTasks; nil means any task
	Max    int      // free slots: at most this many jobs, 1 to MaxClaimJobs
	TTL    time.Duration
	// Worker is the id under which the caller is registered by Extend, or any
	// name, of at most MaxNameBytes, for a caller that is not.
	Worker string
	// Remote says that the lease outlives this process's handle on the store
	// (the caller serves it to somebody else, or another process settles it):
	// only its deadline ends it.
	Remote bool
	// Wait is how long to wait for the first job. 0 answers at once.
	Wait time.Duration
}

// DefaultLeaseTTL is what a TTL of 0 means.
const DefaultLeaseTTL = 30 * time.Second

// Claimed is what a claim took. Leases may be empty; that is no error.
type Claimed struct {
	Leases []Lease
	// More says that there may be more to take now: the claim stopped at its
	// bounds. One of them is bytes: with the job that makes its payloads and
	// headers more than MaxCallBytes, or before it.
	More bool
	// NextDue is how long until the next scheduled job of the request's queues
	// is due; 0 means that none is known.
	NextDue time.Duration
	// Asked is a moment of this process's clock before which none of the leases
	// was made, but by an earlier attempt of the same call: so a lease of which the
	// caller learns late is known to be old. Zero: when the call began.
	Asked time.Time `json:"-"`
}

// Lease is the time-bounded right to run one job.
type Lease struct {
	Job       Job
	Token     Token
	ExpiresAt time.Time // on the broker's clock
}

// Worker is a registered worker: who claims, and what it can run.
type Worker struct {
	ID          string    `json:"id"`   // unique for a start of a worker
	Name        string    `json:"name"` // chosen by people
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Queues      []string  `json:"queues"` // nil: every queue
	Tasks       []string  `json:"tasks"`  // nil: any task
	Concurrency int       `json:"concurrency"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Leases      int       `json:"leases"` // held now; filled by Workers
}

// ExtendRequest is a worker's heartbeat.
type ExtendRequest struct {
	// Worker registers the caller, or refreshes it. Its ID may be empty for a
	// caller that only extends leases.
	Worker Worker
	// Leaving removes the registration.
	Leaving bool
	Leases  []Extension
	TTL     time.Duration // each lease expires at the broker's now + TTL; 0 means DefaultLeaseTTL
}

// Extension is what a heartbeat says of one lease.
type Extension struct {
	Ref      Ref
	Token    Token
	Progress *Progress // nil: unchanged
	Log      []string  // lines to keep with the job: it keeps the last 100, and 8 KiB of them
}

// Beat answers one Extension.
type Beat struct {
	Status    BeatStatus
	ExpiresAt time.Time // when Held or CancelAsked
}

// BeatStatus says what became of a lease.
type BeatStatus uint8

// What a heartbeat can learn.
const (
	Held        BeatStatus = 1 + iota // still the caller's, and extended
	CancelAsked                       // the same, but the job is to be cancelled: stop the handler
	Lost                              // expired, claimed again, or settled: stop, settle nothing
)

// SettleKind says how a run ended.
type SettleKind uint8

// The ways to settle a lease.
const (
	Ack     SettleKind = 1 + iota // finished: done
	Nack                          // failed: again after Delay, or dead when attempts are used up
	Snooze                        // again after Delay; the attempt is given back
	Release                       // given back as it was, to its old place; the attempt is given back
	Bury                          // dead at once
	Cancel                        // cancelled
)

var settleNames = [...]string{"", "ack", "nack", "snooze", "release", "bury", "cancel"}

// String returns the verb.
func (k SettleKind) String() string {
	if int(k) < len(settleNames) {
		return settleNames[k]
	}
	return "settle(?)"
}

// Settlement ends one lease.
type Settlement struct {
	Ref    Ref
	Token  Token
	Kind   SettleKind
	Delay  time.Duration // Nack and Snooze: from the broker's now, 0 or more
	Result []byte        // Ack: kept with the job; nil means none
	Error  string        // Nack, Bury, Cancel: the cause, opaque bytes, cut at MaxErrorBytes
	// FollowUps are enqueued in the commit that records this settlement, and
	// only if it is accepted (Ack alone takes them).
	FollowUps []FollowUp
}

// FollowUp is a job enqueued by another's ack.
type FollowUp struct {
	Queue string
	Job   NewJob
}

// Settled answers one Settlement.
type Settled struct {
	State     State      // where the job is now
	FollowUps []Enqueued // in the order of the settlement's
	// Err is ErrLeaseLost or ErrNotFound when this settlement was refused, nil
	// when it (or the same one before) took place. Others of the same call are
	// not affected.
	Err error
}
