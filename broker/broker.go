package broker

import (
	"context"
	"time"
)

// Broker is an implementation of the contract. All methods are safe for
// concurrent use.
//
// Every mutating call carries a call id, the same over its retries; a broker
// where a reply can be lost remembers the answer for Caps.Retry, from whichever
// client it came: a repeat returns it (for a claim, those of its leases that are
// still valid) and changes nothing. An error other than ErrUnknown means that
// the call changed nothing: it is not remembered, and the call is judged anew when
// it is made again. Whether an answer is remembered of a call that changed nothing
// (a claim that found no job) is open: nobody is the worse for it. When a context ends before the call was decided, the
// call changes nothing and returns the context's error; once it is decided, the
// call returns its outcome.
type Broker interface {
	Inspector

	// Caps says what this broker can do. It is fixed when it is opened.
	Caps() Caps

	// Enqueue adds jobs to one queue, all or none. When it returns nil every
	// job is durable (Caps.Durability says against what). The answers are in
	// the order of jobs. A job whose id is known, or whose key is held, is not
	// added again: its answer says Existing, and that answer is as durable as
	// any. A queue comes into being with its first job.
	//
	// Errors: ErrInvalid (validation is the caller's, see NewJob.Validate; a
	// broker checks names and what would damage its store), ErrTooLarge,
	// ErrFull, ErrPoisoned, ErrClosed.
	Enqueue(ctx context.Context, c Call, queue string, jobs []NewJob) ([]Enqueued, error)

	// Claim takes up to r.Max ready jobs and leases them to the caller. It
	// never takes a job ahead of a free slot, a job of a task that is not
	// named, or a job of a paused queue. It waits up to r.Wait for the first.
	// Each lease's token is larger than any before for its job, and its
	// attempt is counted. A claim may be forgotten by a power cut (the job is
	// claimed again); it is never forgotten by the death of a process.
	Claim(ctx context.Context, c Call, r ClaimRequest) (Claimed, error)

	// Extend is a worker's heartbeat: it registers the worker, pushes each
	// lease's expiry to now + TTL, and says which leases are lost or to be
	// cancelled. Answers are in the order of r.Leases. It never returns an
	// error because of one lease. Errors: see ExtendRequest.Validate.
	Extend(ctx context.Context, r ExtendRequest) ([]Beat, error)

	// Settle ends leases. Each settlement is judged alone; the call is one
	// commit. The same settlement repeated with its token gives the same
	// answer as long as the job is kept. When it returns nil, what the answers
	// say is durable. A call has at most Caps.MaxBatch settlements and follow-ups,
	// and Caps.MaxBytes of them, error texts as they are cut: ErrTooLarge.
	Settle(ctx context.Context, c Call, s []Settlement) ([]Settled, error)

	// Await waits until at least one of the jobs is final, or wait is over,
	// and returns those that are, as durable as any answer. A job that is not
	// known (any more) is returned with State 0.
	Await(ctx context.Context, refs []Ref, wait time.Duration) ([]Job, error)

	// Apply does one bounded step of a command.
	Apply(ctx context.Context, c Call, cmd Command) (Step, error)

	// Configure changes the settings of one queue, all or none. Errors:
	// ErrInvalid for a setting that can never be right; ErrConflict when a
	// Revision given is not the current one, a schedule to be paused or resumed
	// is not there, or a later start of the owner has declared.
	Configure(ctx context.Context, c Call, queue string, change Change) error

	// Tick moves a schedule's cursor from t.Due to t.Next and enqueues t.Jobs
	// in the same commit, if the cursor is at t.Due (zero for one that was
	// never set) and the broker's wall clock is not before it. Of any number of
	// callers with one Due one wins. now is the broker's wall clock in any
	// case. A paused schedule is never won.
	Tick(ctx context.Context, c Call, t Tick) (won bool, now time.Time, err error)

	// Maintain does one bounded step of upkeep for every queue: expires
	// leases, drops what its retention no longer keeps, compacts. It says
	// after how long it wants to be called again. Any number of clients may
	// call it; one of them is enough.
	Maintain(ctx context.Context) (after time.Duration, err error)

	// Close gives back what this handle holds: its waiting calls return
	// ErrClosed, and leases that were not Remote expire at once. It is
	// idempotent.
	Close() error
}

// Inspector is the reading half of a broker. What it returns includes
// everything that was acknowledged to anyone before the call began.
type Inspector interface {
	// Get returns the jobs in the order of refs; an unknown one has State 0.
	Get(ctx context.Context, refs []Ref) ([]Job, error)

	// List returns up to n jobs (1 to MaxPageJobs) of f.Queue that are in
	// f.States[0] (exactly one state), in the order in which they entered it,
	// after cursor ("" is the start). Payloads and results are included.
	List(ctx context.Context, f Filter, cursor string, n int) (Page, error)

	// Counts returns the kept numbers by queue and task, sorted; "" means every
	// queue. It costs the number of tasks, not of jobs.
	Counts(ctx context.Context, queue string) ([]Count, error)

	// Settings returns the settings in force of a queue ("" for all), sorted by
	// queue, kind and name.
	Settings(ctx context.Context, queue string) ([]QueueSetting, error)

	// Workers returns the registered workers whose process lives; queue ""
	// means all, else those that listen to it.
	Workers(ctx context.Context, queue string) ([]Worker, error)

	// Explain says why the job is not running now. WhyNone is said of a job that
	// a live worker which takes its task would take next; of any other ready job
	// that no limit holds back, WhyBehind. Behind leaves out what a limit holds
	// back and what no live worker takes; where tenants take turns, or with
	// ageing, it is a guess of at least 1.
	Explain(ctx context.Context, r Ref) (Explanation, error)

	// Watch returns events of jobs that f chooses (queue, ids, states, task,
	// tenant, group, reason), or of settings, from now on, from every client. That a
	// setting changed is told within a second. The channel is closed when ctx
	// ends or the broker is closed, and when what it knows of other clients is
	// lost: then watch again. A slow reader misses events.
	Watch(ctx context.Context, f Filter) (<-chan Event, error)

	// Health says how the store is. Its error is for when not even that can be
	// found out.
	Health(ctx context.Context) (Health, error)
}

// Tx is a user's open transaction on the store that a broker lives in. No
// broker here offers one yet; it keeps the place of Client.In.
type Tx interface{ SpoolTx() }

// Caps says what a broker can do and promise.
type Caps struct {
	Broker     string        // its name: "file", "memory"
	Durability string        // what an acknowledged call survives, in words for people
	OneCommit  bool          // a call for several queues is one commit
	MaxBatch   int           // jobs in one call
	MaxBytes   int           // bytes in one call
	Retry      time.Duration // how long a repeated call id is recognised; 0: replies cannot be lost
	// HandleLeases says that a lease that is not Remote ends when the process
	// that claimed it ends.
	HandleLeases bool
}
