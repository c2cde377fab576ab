package filebroker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

const (
	// roomTries is how often a call for which there is no room waits for a
	// compaction: one ends the segment that is full, the next what came after.
	roomTries = 3
	// roomWait is how long it waits for one that another handle makes.
	roomWait = 30 * time.Second
	// busyTries is how often a compaction waits, 5 ms each, for the one who is
	// just preparing the next segment.
	busyTries = 2000
	busyWait  = 5 * time.Millisecond
)

// makeRoom waits for a compaction of a full disk, of this handle or another, and
// says whether there was one: a call that is no enqueue has found no room. It does
// not try again at once after one that was in vain.
func (b *handle) makeRoom(ctx context.Context) bool {
	since := b.sys.Monotonic()
	if at := b.keeper.vainAt.Load(); at != 0 && since-time.Duration(at) < fullRetry {
		return false
	}
	b.wg.Add(1)
	defer b.wg.Done()
	before := b.log.Current().Generation
	for b.sys.Monotonic()-since < roomWait {
		ok, err := b.log.TryCompactLock()
		if ok {
			if !b.log.GenerationChanged() && b.log.Current().Generation == before {
				_, err = b.compactLocked(ctx)
			}
			b.log.CompactUnlock()
		}
		if err != nil {
			b.keeper.vainAt.Store(int64(b.sys.Monotonic()))
		}
		if ok || err != nil {
			return err == nil
		}
		select {
		case <-time.After(busyWait):
		case <-ctx.Done():
			return false
		case <-b.closed:
			return false
		}
	}
	return false
}

// claimRoom prepares what there is room for again on a full disk, before anybody
// else takes it.
func (b *handle) claimRoom() {
	if b.log.Full() {
		b.report("prepare the next segment", unlessFull(b.log.Prepare()))
	}
}

// unlessFull is err, but for that the disk is full, which Health tells.
func unlessFull(err error) error {
	if errors.Is(err, journal.ErrDiskFull) || errors.Is(err, broker.ErrFull) {
		return nil
	}
	return err
}

// lendReserve gives a compaction on a full disk what RESERVE has beyond the
// checkpoint to come. giveBack is never nil.
func (b *handle) lendReserve(ctx context.Context, s *jobstate.State) (giveBack func(), err error) {
	giveBack = func() {}
	if !b.log.Full() {
		return giveBack, nil
	}
	size, err := checkpointSize(s)
	if err != nil {
		return giveBack, err
	}
	err = b.unlessBusy(ctx, func() error {
		back, err := b.log.Lend(size)
		if err == nil {
			giveBack = back
		}
		return err
	})
	return giveBack, err
}

// checkpointSize is how many bytes a state takes in a checkpoint.
func checkpointSize(s *jobstate.State) (int64, error) {
	var n written
	err := s.Encode(&n)
	return int64(n), err
}

// written counts what is written to it.
type written int64

var _ io.Writer = (*written)(nil)

func (w *written) Write(p []byte) (int, error) {
	*w += written(len(p))
	return len(p), nil
}

// unlessBusy repeats what fails since somebody is just preparing a segment.
func (b *handle) unlessBusy(ctx context.Context, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if !errors.Is(err, journal.ErrBusy) || try == busyTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.closed:
			return broker.ErrClosed
		case <-time.After(busyWait):
		}
	}
}
