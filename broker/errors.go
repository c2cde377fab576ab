package broker

import (
	"errors"
	"fmt"
	"time"
)

// Sentinel errors, tested with errors.Is. A broker wraps them with what it was
// doing. Unless an error says otherwise, the call changed nothing.
var (
	// ErrInvalid is returned when a request can never be right: a bad name, a
	// negative delay, options that contradict each other.
	ErrInvalid = errors.New("spool: invalid")
	// ErrMisplaced is an ErrInvalid: it is returned when a queue is spread over several
	// places, and the id that was chosen for a job is not of the one where its key,
	// ordered group or batch is. Without the id, or with one that MakeID made, the
	// broker makes one that is.
	ErrMisplaced = fmt.Errorf("%w: the id does not fit", ErrInvalid)
	// ErrTooLarge is returned when a payload, a result or a call is over its
	// limit in bytes. It is returned before anything is written.
	ErrTooLarge = errors.New("spool: too large")
	// ErrNotFound is returned when no job has that queue and id: it never
	// existed, was deleted, or finished and was dropped by its retention.
	ErrNotFound = errors.New("spool: job not found")
	// ErrLeaseLost is returned when a settlement or an extension carries a
	// token that is not the job's current one: the lease expired, the job was
	// claimed again, or it is final.
	ErrLeaseLost = errors.New("spool: lease lost")
	// ErrFull is returned when a queue's capacity or the disk has no room for
	// new jobs. Settlements go on.
	ErrFull = errors.New("spool: full")
	// ErrConflict is returned when a setting changed since the caller saw it.
	ErrConflict = errors.New("spool: changed meanwhile")
	// ErrPoisoned is returned when a write or a sync of the store failed:
	// nothing in flight was acknowledged, no process writes any more, reads go
	// on. Its text says what failed; the store has to be reopened.
	ErrPoisoned = errors.New("spool: store is poisoned")
	// ErrCorrupt is returned when the store is damaged below what it had
	// promised to keep. Nothing is changed; `spool verify` says where.
	ErrCorrupt = errors.New("spool: store is corrupt")
	// ErrUnsupported is returned when the store, the file system or a broker
	// cannot do what is asked: a newer format, a network file system.
	ErrUnsupported = errors.New("spool: not supported")
	// ErrClosed is returned when the broker or client was closed.
	ErrClosed = errors.New("spool: closed")
	// ErrUnknown is returned when a reply was lost and could not be had again:
	// the call may have taken place.
	ErrUnknown = errors.New("spool: outcome unknown")
)

// FullError is the ErrFull of a queue's capacity. errors.As finds it.
type FullError struct {
	Queue  string
	Tenant string // of a tenant's capacity; "" for the queue's
	// RetryAfter is a guess of when there may be room; 0 means never, since the
	// call has more than the capacity by itself.
	RetryAfter time.Duration
	Text       string // what is full, by how much
}

// Error says what is full.
func (e *FullError) Error() string {
	if e.RetryAfter == 0 {
		return fmt.Sprintf("%v: %s", ErrFull, e.Text)
	}
	return fmt.Sprintf("%v: %s; try again after %v", ErrFull, e.Text, e.RetryAfter)
}

// Is makes errors.Is(err, ErrFull) hold.
func (e *FullError) Is(target error) bool { return target == ErrFull }
