package spool

import (
	"errors"

	"github.com/spoolq/spool/broker"
)

// The nouns that users share with package broker.
type (
	// ID names a job: a UUID of version 7 made by the client.
	ID = broker.ID
	// Token is a lease's fencing token: for one job it only grows.
	Token = broker.Token
	// State is where a job is in its life.
	State = broker.State
	// Job is what the store knows of a job: a copy, the caller's to keep.
	Job = broker.Job
	// Filter chooses jobs; zero fields choose all.
	Filter = broker.Filter
	// Enqueued is the answer to the enqueue of one job.
	Enqueued = broker.Enqueued
	// FullError is the ErrFull of a queue's capacity, found with errors.As: what
	// is full, and after how long to try again.
	FullError = broker.FullError
)

// The six states of a job.
const (
	Scheduled = broker.Scheduled // has a future run-at: a delay, At, a retry or a snooze
	Ready     = broker.Ready     // may be claimed
	Leased    = broker.Leased    // claimed; a worker has the right to run it until the lease ends
	Done      = broker.Done      // final: acked
	Dead      = broker.Dead      // final: out of attempts or buried; a dead letter
	Cancelled = broker.Cancelled // final: cancelled, dropped, or not started in time
)

// Errors of the store, tested with errors.Is.
var (
	// ErrInvalid is returned when a request can never be right: a bad name, a
	// negative delay, options that contradict each other, arguments that the
	// codec cannot encode.
	ErrInvalid = broker.ErrInvalid
	// ErrTooLarge is returned when a payload, a result or a call is over its
	// limit in bytes, before anything is written.
	ErrTooLarge = broker.ErrTooLarge
	// ErrNotFound is returned when the store has no such job (any more).
	ErrNotFound = broker.ErrNotFound
	// ErrLeaseLost is returned when a settlement or an extension carries a
	// token that is not the job's current one. It is also the cause of a
	// handler's context when the worker has learnt that the job is no longer
	// its own: whatever the handler returns, nothing is settled.
	ErrLeaseLost = broker.ErrLeaseLost
	// ErrFull is returned when there is no room for new jobs. Settlements go on.
	ErrFull = broker.ErrFull
	// ErrConflict is returned when a setting changed since the caller saw it.
	ErrConflict = broker.ErrConflict
	// ErrPoisoned is returned when a write or a sync of the store failed: reads
	// go on, writes do not until the store is reopened.
	ErrPoisoned = broker.ErrPoisoned
	// ErrCorrupt is returned when the store is damaged below what it had
	// promised to keep.
	ErrCorrupt = broker.ErrCorrupt
	// ErrUnsupported is returned when the store, the file system or a broker
	// cannot do what is asked.
	ErrUnsupported = broker.ErrUnsupported
	// ErrClosed is returned when the client or its broker was closed.
	ErrClosed = broker.ErrClosed
	// ErrUnknown is returned when a reply was lost and could not be had again:
	// the call may have taken place.
	ErrUnknown = broker.ErrUnknown
)

// Causes of a handler's context, as context.Cause returns them; ErrLeaseLost
// and context.DeadlineExceeded (the job's timeout) are the others.
var (
	// ErrShutdown is the cause when the worker's shutdown timeout is over. A
	// handler that then returns an error gives its job back: it goes to its old
	// place, and the attempt does not count.
	ErrShutdown = errors.New("spool: worker is shutting down")
	// ErrCancelled is the cause when the job was cancelled while it ran. A
	// handler that then returns an error ends the job cancelled. It is returned
	// by Lease.Extend for the same reason.
	ErrCancelled = errors.New("spool: job is cancelled")
)
