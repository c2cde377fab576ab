package journal

import (
	"errors"
	"fmt"
	"syscall"
)

// Sentinel errors, tested with errors.Is.
var (
	// ErrCorrupt is returned, as a *CorruptError, when bytes that were durable
	// are damaged or missing. Nothing was changed.
	ErrCorrupt = errors.New("journal: corrupt")
	// ErrUnsupported is returned when a newer program wrote the store, or the
	// file system cannot hold one.
	ErrUnsupported = errors.New("journal: not supported")
	// ErrPoisoned is returned when a write or a sync failed, here or in another
	// process: nobody writes any more until a Recover.
	ErrPoisoned = errors.New("journal: poisoned")
	// ErrNotStore is returned when the directory holds something else, or a
	// store whose CURRENT is missing or garbled, which is ErrCorrupt too.
	ErrNotStore = errors.New("journal: not a store")
	// ErrDiskFull is returned when there is no room: for an Enqueue while the
	// reserve is missing, for anything when the reserve is used up. Nothing
	// was written.
	ErrDiskFull = errors.New("journal: disk full")
	// ErrBehind is returned when a compaction dropped the segment at the read
	// position: call Refresh and Start, and load again.
	ErrBehind = errors.New("journal: position was compacted away")
	// ErrTooLarge is returned when a body is over MaxBody. Nothing was written.
	ErrTooLarge = errors.New("journal: frame too large")
	// ErrClosed is returned when the handle was closed, or is used after a fork.
	ErrClosed = errors.New("journal: closed")
	// ErrBusy is returned when another process is preparing a segment that is
	// needed at once: try again.
	ErrBusy = errors.New("journal: busy")
	// ErrNotLocked is returned when a call needs a lock that the handle does
	// not hold, or has not caught up under it.
	ErrNotLocked = errors.New("journal: lock not held")
)

// CorruptError says where the store is damaged. errors.Is(err, ErrCorrupt) holds.
type CorruptError struct {
	File   string // name in the directory
	Offset int64
	What   string
}

// Error names the file, the place and the damage.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal: corrupt: %s at offset %d: %s", e.File, e.Offset, e.What)
}

// Is makes errors.Is(err, ErrCorrupt) hold.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func corruptAt(p Pos, what string, args ...any) error {
	return &CorruptError{File: SegmentFile(p.Segment).Name(), Offset: p.Offset, What: fmt.Sprintf(what, args...)}
}

// noSpace reports whether err is the system's word for a full disk.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// diskFull marks err with ErrDiskFull when it is one.
func diskFull(err error) error {
	if noSpace(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
