package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

const (
	// roomWait is how long a settlement or claim waits for room on a full disk: for
	// a compaction, and for others to let go of what it dropped.
	roomWait = 10 * time.Second
	// roomPoll is how often it looks.
	roomPoll = 10 * time.Millisecond
	// lookWait is how long an enqueue that was refused waits for a look whether there
	// is room by now.
	lookWait = 2 * time.Second
	// busyWait is how often what needs PREP asks for it, and busyTries how many times.
	busyWait  = 5 * time.Millisecond
	busyTries = 2000
)

// room is what the calls of a handle share that find none on the disk.
type room struct {
	wanted atomic.Bool // a call waits for a compaction
	vain   atomic.Bool // one gave up a moment ago

	mu    sync.Mutex // held while an enqueue looks for room
	looks atomic.Int64
	found bool // by the last look
}

// noRoom says whether a call was refused since the disk is full, and not halfway.
func noRoom(o *op, err error) bool { return errors.Is(err, journal.ErrDiskFull) && !o.decided }

// again is submit for a call that was refused.
func (b *handle) again(ctx context.Context, o *op) error {
	o.state.Store(opWaiting)
	o.err = nil
	return b.submit(ctx, o)
}

// enqueueAgain looks whether there is room by now for an enqueue that was refused:
// nobody may have looked since it was made.
func (b *handle) enqueueAgain(ctx context.Context, o *op, err error) error {
	if b.findRoom(ctx) {
		rare.Reached(rare.RoomFound)
		err = b.again(ctx, o)
	}
	if noRoom(o, err) {
		err = fmt.Errorf("%w: free as much, or let \"spool compact\" give back what finished jobs take", err)
	}
	return err
}

// findRoom prepares what there is room for, and says whether that is enough for
// enqueues. Calls share a look that began after they did.
func (b *handle) findRoom(ctx context.Context) bool {
	before := b.room.looks.Load()
	b.room.mu.Lock()
	defer b.room.mu.Unlock()
	if b.room.looks.Load() == before {
		b.room.looks.Add(1)
		wait, cancel := context.WithTimeout(ctx, lookWait)
		defer cancel()
		b.room.found = b.prepareNow(wait) == nil
	}
	return b.room.found
}

// prepareNow is Prepare, which may wait for others and for the disk, for a caller
// who leaves on his context.
func (b *handle) prepareNow(ctx context.Context) error {
	done := make(chan error, 1)
	b.background(func() { done <- b.unlessBusy(ctx, b.log.Prepare) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitForRoom repeats a call that is no enqueue and was refused, until a compaction
// has made room for it. At the last it takes whatever is left. After one that
// waited in vain others do not, for a moment.
func (b *handle) waitForRoom(ctx context.Context, o *op, err error) error {
	if b.room.vain.Load() {
		o.scrapes = true
		return b.again(ctx, o)
	}
	poll, end := time.NewTicker(roomPoll), time.NewTimer(roomWait)
	defer poll.Stop()
	defer end.Stop()
	for noRoom(o, err) && !o.scrapes {
		rare.Reached(rare.RoomAwaited)
		b.room.wanted.Store(true)
		b.keeper.poke(false)
		select {
		case <-poll.C:
		case <-end.C:
			o.scrapes = true
		case <-ctx.Done():
			return ctx.Err()
		case <-b.closed:
			return broker.ErrClosed
		}
		err = b.again(ctx, o)
	}
	if noRoom(o, err) {
		rare.Reached(rare.RoomAwaitedInVain)
		b.room.vain.Store(true)
		time.AfterFunc(fullRetry, func() { b.room.vain.Store(false) })
	}
	return err
}

// claimRoom prepares what there is room for again on a full disk, before anybody
// else takes it.
func (b *handle) claimRoom() {
	if b.log.Full() {
		b.report("prepare the next segment", unlessFull(b.log.Prepare()))
	}
}

// unlessFull is err, but for that the disk is full, which Health tells, or that
// another handle is just preparing.
func unlessFull(err error) error {
	if errors.Is(err, journal.ErrDiskFull) || errors.Is(err, journal.ErrBusy) {
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
	var size written
	if err := s.Encode(&size); err != nil {
		return giveBack, err
	}
	err = b.unlessBusy(ctx, func() error {
		back, err := b.log.Lend(int64(size))
		if err == nil {
			giveBack = back
		}
		return err
	})
	return giveBack, err
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
