package filebroker

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
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
		b.report("prepare the next segment", unlessFull(b.log.Prepare()))
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
// compaction dropped, whether one may make room on a full disk, whether the store is
// poisoned, and what people should know of.
const letGoEvery = time.Second

// letGo closes such files, which take their room on the disk until then: nothing
// else wakes a handle that only enqueues and has nothing to do. They are dropped
// a moment after CURRENT was flipped, so it looks once more the next time.
func (b *handle) letGo(poisoned func(*handle, error)) {
	t := time.NewTicker(letGoEvery)
	defer t.Stop()
	done := b.log.Current().Generation
	var said notices
	for before := done; ; {
		select {
		case <-t.C:
		case <-b.closed:
			return
		}
		if err := b.log.Poisoned(); err != nil {
			poisoned(b, err)
			continue
		}
		b.report("look whether files were dropped", b.keepUp())
		said.look(b)
		if b.log.Full() {
			b.keeper.poke(false)
		}
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
	vain    vain
}

// vain is when a compaction of a full disk failed or was of little use, and how many
// jobs there were. It belongs to compactor.
type vain struct {
	at     time.Duration // monotonic; 0: none was
	jobs   int
	failed bool
}

const (
	// vainFor is how long none is tried again after one that was of little use,
	// unless a quarter of the jobs go meanwhile, or the log grows by an eighth.
	vainFor = time.Minute
	// failedFor is the same after one that failed.
	failedFor = 3 * time.Second
)

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
			whole := !b.log.SealedSince()
			if due && err == nil {
				var c Compacted
				c, err = b.Compact(b.life)
				b.noteUse(&c, whole, err)
				b.slg.Debug("compacted the store", "checkpoint", c.Checkpoint, "used before", c.UsedBefore, "used after", c.UsedAfter)
			}
			if b.life.Err() == nil {
				b.report("compact the store", unlessFull(err))
			}
		case <-b.closed:
			return
		}
	}
}

// noteUse keeps in mind whether a compaction was of use on a full disk. One that
// took only what was sealed before, not the whole log, is followed by another.
func (b *handle) noteUse(c *Compacted, whole bool, err error) {
	b.keeper.vain = vain{}
	switch {
	case !b.log.Full():
	case err != nil || whole && c.UsedAfter > c.UsedBefore-c.UsedBefore/8:
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.s != nil {
			b.keeper.vain = vain{max(b.sys.Monotonic(), 1), b.s.Len(), err != nil}
		}
	case !whole && c.Checkpoint > 0:
		b.keeper.poke(false)
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
// could do no better then.
func (b *handle) due(patience float64) (bool, error) {
	_, used, err := b.size()
	if err != nil {
		return false, err
	}
	full := b.log.Full()
	if !full && (float64(used) < patience*compactFrom || b.log.LogBytes() < used/8) {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.s == nil:
		return false, nil
	case full:
		return b.dueOnFull(used), nil
	}
	return float64(used) > 2*patience*float64(b.live()), nil
}

// dueOnFull is due on a full disk: when settlements went on in another segment, or
// find no place at all, and while an eighth is dead. mu is held.
func (b *handle) dueOnFull(used int64) bool {
	v := b.keeper.vain
	since := b.sys.Monotonic() - v.at
	wanted := b.room.wanted.Swap(false)
	switch {
	case v.at == 0:
	case v.failed && since < failedFor:
		return false
	case wanted && since < fullRetry:
		return false
	case !wanted && !v.failed && since < vainFor && 4*b.s.Len() >= 3*v.jobs && b.log.LogBytes() < used/8:
		return false
	}
	return wanted || b.log.SealedSince() && b.log.Ahead() < 2 || used-b.live() >= used/8
}

// live is about how much a store needs for the jobs that there are; mu is held.
func (b *handle) live() int64 {
	live := int64(b.s.Len())*liveBytes + b.s.CallBytes()
	for _, use := range b.s.Uses() {
		live += use.Bytes
	}
	return live
}
