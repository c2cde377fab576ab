package broker

import "time"

// Filter chooses jobs. Zero fields choose all; those given are joined by "and".
type Filter struct {
	Queue         string  `json:"queue,omitempty"` // "" means every queue, where a call allows it
	IDs           []ID    `json:"ids,omitempty"`
	States        []State `json:"states,omitempty"`
	Task          string  `json:"task,omitempty"`
	Tenant        string  `json:"tenant,omitempty"`
	Group         string  `json:"group,omitempty"`
	Key           string  `json:"key,omitempty"`
	ErrorContains string  `json:"error_contains,omitempty"` // a part of Job.Error
	// OlderThan and NewerThan measure from the job's last change of state: of
	// a dead letter, from its death. 0 means any age.
	OlderThan time.Duration `json:"older_than,omitempty"`
	NewerThan time.Duration `json:"newer_than,omitempty"`
	// Settings is for Watch alone: changes of settings, of Queue, in place of
	// those of jobs. The other fields choose nothing then.
	Settings bool `json:"settings,omitempty"`
	// Reason is for Watch alone: one of the Reason constants, of the event. To
	// watch for ReasonCancelAsked alone costs a store nothing that others notice.
	Reason string `json:"reason,omitempty"`
}

// Page is a part of a list.
type Page struct {
	Jobs []Job
	// Cursor continues the list; "" means that it is at its end. A page can be
	// empty and still have a cursor, since a filter may pass over much.
	Cursor string
}

// CommandKind says what a Command does.
type CommandKind uint8

// The commands of an operator.
const (
	CancelJobs  CommandKind = 1 + iota // scheduled and ready end cancelled; leased are told
	RequeueJobs                        // dead and cancelled become ready with fresh attempts
	DeleteJobs                         // any but leased disappear
	PauseQueue                         // no job of the queue is claimed until it is resumed; it may have had none yet
	ResumeQueue
)

// Command changes many jobs, or a queue, in bounded steps: the caller repeats
// it with the Cursor of the answer until that is "". A step is one commit.
//
// Each step chooses from the jobs that are there when it begins, state by state
// (scheduled, ready, leased, then the final ones), in the order of List. So a
// job that comes meanwhile into a state that the command is not through with is
// reached by a later step, be it another client's or the completion job of a
// batch whose last member an earlier step ended. One step alone reaches neither.
type Command struct {
	Kind   CommandKind
	Filter Filter // Queue is required
	Reason string // kept with cancelled jobs; at most MaxReasonBytes
	Limit  int    // change at most this many in this step; 0 means 1000
	Cursor string
}

// Step is what one step of a Command did.
type Step struct {
	Changed int
	Cursor  string // "" means that the command is finished
}

// Count holds the kept numbers of one queue and task.
type Count struct {
	Queue  string `json:"queue"`
	Task   string `json:"task"`
	Paused bool   `json:"paused,omitempty"` // the queue is, by an operator
	// Moving says how the queue moves to or from another broker; "" means that it
	// does not rest for that.
	Moving string `json:"moving,omitempty"`

	// Jobs there now, by state.
	Scheduled int64 `json:"scheduled"`
	Ready     int64 `json:"ready"`
	Leased    int64 `json:"leased"`
	Done      int64 `json:"done"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`

	// Of the whole queue, on each of its counts: what its capacity counts, and
	// the most that it ever was.
	Depth     int64 `json:"depth"`
	HighWater int64 `json:"high_water"`
	Bytes     int64 `json:"bytes"`

	// What ever happened, also to jobs that are gone.
	Totals Totals `json:"totals"`
}

// Totals count events since the store was made. They only grow.
type Totals struct {
	Enqueued  int64 `json:"enqueued"`
	Claimed   int64 `json:"claimed"`
	Acked     int64 `json:"acked"`
	Failed    int64 `json:"failed"`  // nacks, and buries of a running job
	Expired   int64 `json:"expired"` // leases that ended without a settlement
	Died      int64 `json:"died"`    // became dead
	Cancelled int64 `json:"cancelled"`
	Deleted   int64 `json:"deleted"`
}

// Of returns the number of jobs in state s.
func (c *Count) Of(s State) int64 {
	switch s {
	case Scheduled:
		return c.Scheduled
	case Ready:
		return c.Ready
	case Leased:
		return c.Leased
	case Done:
		return c.Done
	case Dead:
		return c.Dead
	case Cancelled:
		return c.Cancelled
	}
	return 0
}

// Event says that something happened to a job, or that a setting was changed: a
// hint, for a display, or to look again. Events can be missed (a slow reader) and
// are never the only way to learn something.
type Event struct {
	Queue  string    `json:"queue"`
	ID     ID        `json:"id"`
	Task   string    `json:"task"`
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Worker string    `json:"worker,omitempty"`
	At     time.Time `json:"at"`
	// Setting names what was set, declared, removed, paused or resumed; of the
	// other fields Queue and At are given then.
	Setting *SettingName `json:"setting,omitempty"`
}

// Explanation says why a job is not running now.
type Explanation struct {
	Reason  string        `json:"reason"` // one of the Why constants
	Text    string        `json:"text"`   // one sentence for people
	Until   time.Time     `json:"until,omitzero"`
	Behind  int           `json:"behind,omitempty"`
	Worker  string        `json:"worker,omitempty"`
	Limit   string        `json:"limit,omitempty"`   // the limit's name
	Holders []Ref         `json:"holders,omitempty"` // jobs that hold it, at most 10
	After   time.Duration `json:"after,omitempty"`
}

// The reasons of an Explanation.
const (
	WhyFinal     = "final"
	WhyLeased    = "leased"
	WhyScheduled = "scheduled"
	WhyPaused    = "paused"
	WhyMoving    = "moving" // its queue moves to, or comes from, another broker
	WhyNoWorker  = "no_worker"
	WhyLimit     = "limit" // a limit on running jobs, or its ordered group
	WhyRate      = "rate"
	WhyBatch     = "batch" // a completion job that waits for members
	WhyBehind    = "behind"
	WhyNone      = "none"
)

// Health says how a store is.
type Health struct {
	Status HealthStatus `json:"status"`
	Text   string       `json:"text"` // what is wrong and what to do; "" when healthy
	// Detail is what a broker tells of itself for people, healthy or not: where
	// its server is, how fast it answers, what it holds. "" when nothing.
	Detail string `json:"detail,omitempty"`
}

// HealthStatus is a store's state.
type HealthStatus string

// The states of a store.
const (
	Healthy  HealthStatus = "healthy"
	DiskFull HealthStatus = "full"     // enqueue is refused; claims and settlements go on
	Poisoned HealthStatus = "poisoned" // a write failed: reads only, until it is reopened
	Corrupt  HealthStatus = "corrupt"
	// Unreachable: the server of the broker does not answer, or is not ready;
	// calls wait for it and are repeated.
	Unreachable HealthStatus = "unreachable"
	// Degraded: it serves, and keeps less than it did or is about to fail.
	Degraded HealthStatus = "degraded"
)
