package filebroker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/internal/journal"
)

// fullRetry is how often room is looked for on a full disk.
const fullRetry = time.Second

// prepare keeps segments ahead of the log.
func (b *handle) prepare() {
	rung := uint64(0)
	for {
		if b.log.Poisoned() != nil {
			return
		}
		if err := b.log.Prepare(); err != nil && !errors.Is(err, journal.ErrDiskFull) {
			b.report("prepare the next segment", err)
		}
		var again <-chan time.Time
		if b.log.Full() {
			again = time.After(fullRetry)
		}
		select {
		case <-b.log.PrepareWanted():
			b.grew()
			if n := b.log.Began(); n != rung {
				rung = n
				b.ringAll() // who is idle reads on with each segment
			}
		case <-again:
		case <-b.closed:
			return
		}
	}
}

// letGoEvery is how often a handle looks whether it has files open that a
// compaction dropped.
const letGoEvery = 5 * time.Second

// letGo closes such files, which take their room on the disk until then: nothing
// else wakes a handle that only enqueues and has nothing to do. They are dropped
// a moment after CURRENT was flipped, so it looks once more the next time.
func (b *handle) letGo() {
	t := time.NewTicker(letGoEvery)
	defer t.Stop()
	done := b.log.Current().Generation
	for before := done; ; {
		select {
		case <-t.C:
		case <-b.closed:
			return
		}
		b.report("look whether files were dropped", b.keepUp())
		now := b.log.Current().Generation
		if now != done {
			b.log.LetGo()
		}
		if now == before {
			done = now
		}
		before = now
	}
}

// keepUp takes note of what CURRENT says, and of what follows from it.
func (b *handle) keepUp() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.log.GenerationChanged():
	case b.s != nil:
		b.readForwardLocked()
	default:
		_, err = b.log.Refresh()
	}
	return err
}

// ringAll lets every other handle read on.
func (b *handle) ringAll() {
	var names []string
	words := b.log.Shared()
	for i := 0; i+slotWords <= len(words); i += slotWords {
		if m := atomic.LoadUint64(&words[i]); m != 0 && m != slotName(b.member.name) {
			names = append(names, nameOf(m))
		}
	}
	b.bells.ring(b, names)
}

// probeEvery is how often a handle looks for others that ended; pollDeath is
// the same where the system does not say so.
const (
	probeEvery = 15 * time.Second
	pollDeath  = 300 * time.Millisecond
)

func (b *handle) probe() {
	every := probeEvery
	if b.bells.watcher() == nil {
		every = pollDeath
	}
	for {
		t := time.NewTimer(every/2 + rand.N(every))
		select {
		case <-t.C:
			if b.log.Poisoned() != nil {
				return
			}
			b.report("look for handles that ended", b.missed())
		case <-b.closed:
			t.Stop()
			return
		}
	}
}

// keeper is what wakes the compactor of a handle.
type keeper struct {
	segment atomic.Uint64
	wake    chan bool // whether this handle itself made the log grow
}

// grew wakes the compactor when the log has gone on in another segment.
func (b *handle) grew() {
	segment := b.log.Pos().Segment
	if b.keeper.segment.Swap(segment) != segment {
		b.keeper.poke(b.log.Began() == segment)
	}
}

// poke lets the compactor look whether there is something to do.
func (k *keeper) poke(own bool) {
	select {
	case k.wake <- own:
	default:
	}
}

// compactor compacts when it is due: it looks whenever the log has gone on in
// another segment. A handle that only reads what others write begins at once;
// one that writes itself has more to do, and waits until half as much again has
// gathered: then no other is there, or none has the time.
func (b *handle) compactor() {
	for {
		select {
		case own := <-b.keeper.wake:
			if b.log.Poisoned() != nil {
				return
			}
			patience := 1.0
			if own {
				patience = 1.5
			}
			due, err := b.due(patience)
			if due && err == nil {
				var c Compacted
				c, err = b.Compact(b.life)
				b.slg.Debug("compacted the store", "checkpoint", c.Checkpoint, "used before", c.UsedBefore, "used after", c.UsedAfter)
			}
			if b.life.Err() == nil {
				b.report("compact the store", err)
			}
		case <-b.closed:
			return
		}
	}
}

// compactIfDue lets the compactor look; it does not wait for it.
func (b *handle) compactIfDue(context.Context) error {
	b.keeper.poke(false)
	return nil
}

const (
	// compactFrom is from which size on a store is worth compacting.
	compactFrom = 32 << 20
	// liveBytes is about what a job takes in a checkpoint, beside its payload.
	liveBytes = 40
)

// due reports whether a compaction is worth its while: what is dead outweighs
// what is live, and the log has grown by an eighth since the last one, which
// could do no better then. On a full disk, where it takes a segment of the
// reserve, it has to free an eighth at least.
func (b *handle) due(patience float64) (bool, error) {
	_, used, err := b.size()
	if err != nil || b.log.LogBytes() < used/8 {
		return false, err
	}
	full := b.log.Full()
	if !full && float64(used) < patience*compactFrom {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.s == nil {
		return false, nil
	}
	if full {
		uses := b.s.Uses()
		return b.log.Unused(func(f journal.FileID) bool { return uses[uint32(f)] != nil }) >= used/8, nil
	}
	return float64(used) > 2*patience*float64(b.live()), nil
}

// live is about how much a store needs for the jobs that there are; mu is held.
func (b *handle) live() int64 {
	live := int64(b.s.Len())*liveBytes + b.s.CallBytes()
	for _, use := range b.s.Uses() {
		live += use.Bytes
	}
	return live
}
