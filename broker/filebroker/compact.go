package filebroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

// Compacted says what a compaction did.
type Compacted struct {
	Checkpoint  uint64 `json:"checkpoint"`   // its number; 0: another process was compacting
	By          int    `json:"by,omitempty"` // pid of that process, 0 when it did not say
	Jobs        int    `json:"jobs"`         // in the checkpoint
	Moved       int64  `json:"moved_bytes"`  // payloads copied out of sparse files
	Removed     int    `json:"removed"`      // files dropped
	BytesBefore int64  `json:"bytes_before"` // of the directory
	BytesAfter  int64  `json:"bytes_after"`
	UsedBefore  int64  `json:"used_bytes_before"` // of these, without the room that is kept ready for what comes
	UsedAfter   int64  `json:"used_bytes_after"`
}

// Compact is Broker.Compact.
func (b *handle) Compact(ctx context.Context) (c Compacted, err error) {
	if err := b.want(ctx); err != nil {
		return c, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	b.wg.Add(1)
	defer b.wg.Done()
	ok, err := b.log.TryCompactLock()
	if err != nil || !ok {
		rare.Reached(rare.CompactionBusy)
		c.By, _, _ = b.log.Compactor()
		return c, public(err)
	}
	defer b.log.CompactUnlock()
	defer b.showCompaction()()
	if c.BytesBefore, c.UsedBefore, err = b.size(); err != nil {
		return c, public(err)
	}
	if b.log.Full() {
		err = b.discard() // one that was interrupted may have left the room it took
	}
	for more := true; more && err == nil; {
		more, err = b.compactOnce(ctx, &c)
		b.claimRoom()
	}
	if err == nil {
		c.BytesAfter, c.UsedAfter, err = b.size()
	}
	return c, public(err)
}

// size is that of the directory, and how much of it is used: the rest is room
// for the log to come.
func (b *handle) size() (all, used int64, err error) {
	all, spare, err := b.log.Disk()
	return all, max(0, all-spare), err
}

// compactOnce makes one checkpoint, and says whether there is more to move than
// one step does. COMPACT is held. Nothing that takes long happens under LOCK
// or mu.
func (b *handle) compactOnce(ctx context.Context, c *Compacted) (more bool, err error) {
	if err := b.catchUpWithCurrent(); err != nil {
		return false, err
	}
	sealed, err := b.seal(ctx)
	if err != nil {
		return false, err
	}
	b.ringAll() // who is idle reads on while the log up to here is still there
	s, err := b.stateAt(ctx, sealed)
	if err != nil {
		return false, err
	}
	c.Checkpoint, c.Jobs = sealed, s.Len()
	giveBack, err := b.lendReserve(ctx, s)
	defer func() { giveBack() }()
	if err != nil {
		return false, err
	}
	moved, more, err := b.evacuate(ctx, s, sealed)
	if err == nil {
		err = b.flip(ctx, s, sealed)
	}
	if errors.Is(err, journal.ErrDiskFull) {
		// What holds nothing any more goes, and makes room to move the rest later.
		moved, more = evacuated{}, false
		s, err = b.flipUnmoved(ctx, sealed)
	}
	if err != nil {
		return false, err
	}
	b.stats.Compactions.Add(1)
	c.Moved += moved.bytes
	b.mu.Lock()
	b.learn(moved.parts) // before what was moved goes from where it was
	b.mu.Unlock()
	uses := s.Uses()
	removed, err := b.log.Drop(func(f journal.FileID) bool { return uses[uint32(f)] != nil })
	c.Removed += removed
	return more && moved.bytes > 0, err
}

// flipUnmoved is flip on a disk without room for what was to be moved: it gives
// back what the attempt took, and leaves everything where it was.
func (b *handle) flipUnmoved(ctx context.Context, sealed uint64) (*jobstate.State, error) {
	rare.Reached(rare.FlippedUnmoved)
	if err := b.discard(); err != nil {
		return nil, err
	}
	s, err := b.stateAt(ctx, sealed)
	if err == nil {
		err = b.flip(ctx, s, sealed)
	}
	if errors.Is(err, journal.ErrDiskFull) {
		err = errors.Join(err, b.discard())
	}
	return s, err
}

// discard removes what a compaction wrote that CURRENT does not name.
func (b *handle) discard() error {
	_, err := b.log.Drop(func(f journal.FileID) bool { return !f.Payload() })
	return err
}

// payloadFiles are the numbers of the payload files in use, in order.
func payloadFiles(uses map[uint32]*jobstate.Use) (numbers []uint64) {
	for file := range uses {
		if f := journal.FileID(file); f.Payload() {
			numbers = append(numbers, f.Number())
		}
	}
	slices.Sort(numbers)
	return numbers
}

// catchUpWithCurrent follows the last compaction, whoever made it; COMPACT is
// held, so there is no other meanwhile.
func (b *handle) catchUpWithCurrent() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		if err := b.followNow(); err != nil {
			return err
		}
	}
	b.readForwardLocked()
	return nil
}

// seal ends the active segment, so that a checkpoint can stand at its end.
func (b *handle) seal(ctx context.Context) (n uint64, err error) {
	if err := b.log.Sync(); err != nil {
		return 0, err
	}
	if b.log.Ahead() == 0 { // so that it is not made under LOCK
		if err := unlessFull(b.prepareNow(ctx)); err != nil {
			return 0, err
		}
	}
	err = b.unlessBusy(ctx, func() error {
		n, err = b.sealNow(ctx)
		return err
	})
	return n, err
}

func (b *handle) sealNow(ctx context.Context) (uint64, error) {
	if err := b.lockWithin(ctx); err != nil {
		return 0, err
	}
	defer b.log.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(); err != nil {
		return 0, err
	}
	return b.log.Seal(b.live())
}

// lockWithin is lock for a caller who leaves on his context. The goroutine that
// waits stays until it has its turn, and gives it back.
func (b *handle) lockWithin(ctx context.Context) error {
	got := make(chan error)
	b.background(func() {
		err := b.lock()
		select {
		case got <- err:
		case <-ctx.Done():
			if err == nil {
				b.log.Unlock()
			}
		}
	})
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		rare.Reached(rare.CompactionLeft)
		return ctx.Err()
	}
}

// stateAt builds the state at the end of a sealed segment from the previous
// checkpoint and the sealed segments, outside the lock.
func (b *handle) stateAt(ctx context.Context, sealed uint64) (*jobstate.State, error) {
	s := jobstate.New(nil, nil)
	cur := b.log.Current()
	if cur.Checkpoint > 0 {
		if err := b.log.ReadCheckpoint(cur.Checkpoint, s.Decode); err != nil {
			return nil, fmt.Errorf("read checkpoint %d: %w", cur.Checkpoint, err)
		}
	}
	err := b.log.Scan(cur.Checkpoint+1, sealed, func(f *journal.Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.Kind != journal.KindData {
			return nil
		}
		return s.Apply(f.Body, uint32(journal.SegmentFile(f.At.Segment)), f.BodyAt)
	})
	return s, err
}

// flip writes the checkpoint of a sealed segment, and makes it the one that
// CURRENT names.
func (b *handle) flip(ctx context.Context, s *jobstate.State, sealed uint64) error {
	err := b.unlessBusy(ctx, func() error { return b.log.WriteCheckpoint(sealed, s.Encode) })
	if err != nil {
		return err
	}
	next := b.log.Current()
	next.Checkpoint, next.First, next.Payload = sealed, sealed+1, payloadFiles(s.Uses())
	return b.log.Flip(next)
}

// showEvery is how often who compacts says that it goes on.
const showEvery = 200 * time.Millisecond

// showCompaction says that who holds COMPACT goes on, until it is stopped. A process
// that was stopped says nothing: then nobody else can compact, and the store grows.
func (b *handle) showCompaction() (stop func()) {
	b.log.CompactGoesOn()
	quit := make(chan struct{})
	var shows sync.WaitGroup
	shows.Go(func() {
		t := time.NewTicker(showEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				b.log.CompactGoesOn()
			case <-quit:
				return
			}
		}
	})
	return func() { close(quit); shows.Wait() }
}
