package filebroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

const (
	// compactFrom is the size of the log from which on it is worth compacting.
	compactFrom = 32 << 20
	// sparse: a file of which less than this share is needed is evacuated.
	sparseShare = 0.25
	// evacuateMax bounds the bytes that one compaction moves.
	evacuateMax = 64 << 20
)

// Compacted says what a compaction did.
type Compacted struct {
	Checkpoint  uint64 `json:"checkpoint"`   // its number; 0: another process was compacting
	Jobs        int    `json:"jobs"`         // in the checkpoint
	Moved       int64  `json:"moved_bytes"`  // payloads copied out of sparse files
	Removed     int    `json:"removed"`      // files dropped
	BytesBefore int64  `json:"bytes_before"` // of the directory
	BytesAfter  int64  `json:"bytes_after"`
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
		return c, public(err)
	}
	defer b.log.CompactUnlock()
	if err := b.catchUpWithCurrent(); err != nil {
		return c, public(err)
	}
	if c.BytesBefore, err = b.log.DiskBytes(); err != nil {
		return c, public(err)
	}
	sealed, err := b.seal()
	if err != nil {
		return c, public(err)
	}
	s, err := b.stateAt(ctx, sealed)
	if err != nil {
		return c, public(err)
	}
	c.Checkpoint, c.Jobs = sealed, s.Len()
	payload, err := b.evacuate(ctx, s, sealed, &c)
	if err != nil {
		return c, public(err)
	}
	if err := b.flip(s, sealed, payload); err != nil {
		return c, public(err)
	}
	b.mu.Lock()
	b.s.Adopt(s) // before what was moved goes from where it was
	b.mu.Unlock()
	uses := s.Uses()
	if c.Removed, err = b.log.Drop(func(f journal.FileID) bool { return uses[uint32(f)] != nil }); err != nil {
		return c, public(err)
	}
	c.BytesAfter, err = b.log.DiskBytes()
	return c, public(err)
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

// sealTries is how often a compaction waits, 5 ms each, for the one who is just
// preparing the next segment.
const sealTries = 2000

// seal ends the active segment, so that a checkpoint can stand at its end.
func (b *handle) seal() (uint64, error) {
	if _, err := b.log.Sync(); err != nil {
		return 0, err
	}
	for try := 0; ; try++ {
		n, err := b.sealNow()
		if !errors.Is(err, journal.ErrBusy) || try == sealTries {
			return n, err
		}
		select {
		case <-b.closed:
			return 0, broker.ErrClosed
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (b *handle) sealNow() (uint64, error) {
	if err := b.lock(); err != nil {
		return 0, err
	}
	defer b.log.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(); err != nil {
		return 0, err
	}
	return b.log.Seal()
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

// evacuate copies what is needed out of files that hold little of it into one
// payload file, and lets the state point there. It returns the numbers of all
// payload files in use.
func (b *handle) evacuate(ctx context.Context, s *jobstate.State, sealed uint64, c *Compacted) ([]uint64, error) {
	from := map[uint32]bool{}
	var moving int64
	for file, use := range s.Uses() {
		size, err := b.log.FileBytes(journal.FileID(file))
		if err != nil {
			return nil, err
		}
		if float64(use.Bytes) < sparseShare*float64(size) && moving+use.Bytes <= evacuateMax {
			from[file] = true
			moving += use.Bytes
		}
	}
	if len(from) > 0 {
		if err := b.move(ctx, s, sealed, from, c); err != nil {
			return nil, err
		}
	}
	var payload []uint64
	for file := range s.Uses() {
		if f := journal.FileID(file); f.Payload() {
			payload = append(payload, f.Number())
		}
	}
	slices.Sort(payload)
	return payload, nil
}

func (b *handle) move(ctx context.Context, s *jobstate.State, sealed uint64, from map[uint32]bool, c *Compacted) error {
	w, err := b.log.NewPayloadFile(sealed)
	if err != nil {
		return err
	}
	var failed error
	s.Relocate(func(l jobstate.Loc) jobstate.Loc {
		if failed != nil || !from[l.File] {
			return l
		}
		p, err := b.read(l)
		if errors.Is(err, errDamaged) {
			return l // it stays where it is, and with it its file: damage is not tidied away
		}
		if err == nil {
			err = ctx.Err()
		}
		var off int64
		if err == nil {
			off, err = w.Append(p)
		}
		if err != nil {
			failed = err
			return l
		}
		c.Moved += int64(len(p))
		return jobstate.Loc{File: uint32(journal.PayloadFile(sealed)), Off: uint32(off), Len: l.Len, Sum: l.Sum}
	})
	if failed != nil {
		return errors.Join(failed, w.Discard())
	}
	return w.Finish()
}

// flip makes the checkpoint the one that CURRENT names.
func (b *handle) flip(s *jobstate.State, sealed uint64, payload []uint64) error {
	if err := b.log.WriteCheckpoint(sealed, s.Encode); err != nil {
		return err
	}
	next := b.log.Current()
	next.Checkpoint, next.First, next.Payload = sealed, sealed+1, payload
	return b.log.Flip(next)
}

// compactIfDue compacts when what is dead outweighs what is live.
func (b *handle) compactIfDue(ctx context.Context) error {
	total, err := b.log.DiskBytes()
	if err != nil {
		return public(err)
	}
	b.mu.Lock()
	var live int64
	for _, use := range b.s.Uses() {
		live += use.Bytes
	}
	live += int64(b.s.Len()) * recordBytes
	b.mu.Unlock()
	if spare := b.log.SpareBytes(); total-spare < compactFrom || total-spare < 2*live {
		return nil
	}
	_, err = b.Compact(ctx)
	return err
}

// follow notices that somebody flipped CURRENT; mu is held.
func (b *handle) follow() error {
	if !b.log.GenerationChanged() {
		return nil
	}
	return b.followNow()
}

// followNow is follow without the hint that CURRENT was flipped: who flipped
// it may have died before he gave it. A handle behind the checkpoint loads it,
// one past it takes over where moved bytes lie now. mu is held.
func (b *handle) followNow() error {
	seen := b.log.Current().Checkpoint
	cur, err := b.log.Refresh()
	if err != nil {
		if !damage(err) {
			b.broken = err // CURRENT may be taken note of, and what follows from it left undone
		}
		return err
	}
	if b.log.Pos().Segment <= cur.Checkpoint {
		return b.reload()
	}
	moved := slices.ContainsFunc(cur.Payload, func(n uint64) bool { return n > seen })
	if !moved {
		return nil
	}
	other := jobstate.New(nil, nil)
	err = b.log.ReadCheckpoint(cur.Checkpoint, other.Decode)
	if overtaken(err) {
		return b.reload() // the next compaction dropped it already
	}
	if err != nil {
		b.broken = fmt.Errorf("read checkpoint %d: %w", cur.Checkpoint, err)
		return b.broken
	}
	b.s.Adopt(other)
	return nil
}
