package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// A compaction is what makes room on a full disk, and takes some itself, before
// it gives any back: for the checkpoint, while the last one is still there, for
// the end of a segment and the head of the next, for CURRENT. RESERVE is a file
// that keeps this room. Its size follows the state: an Enqueue that would make
// that too large for it is refused.
//
// With state the most that a checkpoint may take now, and last what the current
// one takes, RESERVE has max(state, 2·state-last) bytes, and spare. So it is made
// again out of nothing but its own room and the last checkpoint's: a compaction
// turns state bytes of it into the checkpoint, and gives back the rest and last,
// which is state and spare at least; and what it needs from then on is no more,
// since the state of a full disk only shrinks. The room of the segments that
// settlements filled is all for new ones.
//
// state is what each frame said that it adds (FrameHeader.Adds), less what turned
// out to be less: at each flip, and when a caller says so (Expect).

const (
	reserveName = "RESERVE"
	// addedFrom is where ctlAdded starts, so that nothing is below zero.
	addedFrom = 1 << 40
	// guessMost bounds what the log since the last checkpoint is taken to have
	// added when nobody knows.
	guessMost = 16 << 20
)

// spareRoom is what RESERVE has for all but the checkpoint.
func (l *Log) spareRoom() int64 { return l.o.FirstSegmentBytes }

// StateKnown reports whether the size of the state is known since the machine
// started, and not guessed. LOCK is held.
func (l *Log) StateKnown() bool { return l.control.load(ctlAdded) != 0 }

// Expect says that a checkpoint of all that this handle has read would take so
// many bytes at most. Without it only what is added counts until the next flip.
// LOCK is held and the handle caught up.
func (l *Log) Expect(bytes int64) {
	c := l.control
	if !l.StateKnown() {
		c.store(ctlBase, addedFrom)
		c.store(ctlMark, addedFrom)
		c.store(ctlAdded, addedFrom+uint64(bytes))
		return
	}
	c.raiseWord(ctlBase, c.load(ctlAdded)-uint64(bytes))
}

// stateBytes is how many bytes a checkpoint takes now at most. LOCK is held.
func (l *Log) stateBytes() int64 {
	if !l.StateKnown() {
		last := l.lastCheckpoint()
		l.Expect(last + last/8 + min(l.LogBytes()/2, guessMost))
	}
	return int64(l.control.load(ctlAdded) - l.control.load(ctlBase))
}

// added notes what a frame adds to the state. LOCK is held.
func (l *Log) added(bytes int64) {
	if n := l.control.load(ctlAdded); n > 0 {
		l.control.store(ctlAdded, n+uint64(bytes))
	}
}

// flipped notes how large the state was at the end of the segment that Seal
// returned: what its checkpoint takes.
func (l *Log) flipped(checkpoint uint64) {
	if checkpoint > 0 && checkpoint == l.sealed && l.sealMark > 0 {
		l.control.raiseWord(ctlBase, l.sealMark-uint64(l.CheckpointBytes(checkpoint)))
	}
	l.control.store(ctlCover, 0)
}

// lastCheckpoint is the size of the checkpoint that CURRENT names, which may be
// a later one than this handle knows.
func (l *Log) lastCheckpoint() int64 {
	cur := l.Current()
	if l.GenerationChanged() {
		if now, err := readCurrent(l.sys, l.dir); err == nil {
			cur = now
		}
	}
	return l.CheckpointBytes(cur.Checkpoint)
}

// Cover makes sure that RESERVE is large enough also for adds bytes more of state.
// Ask it for an Enqueue, after Reserve: its error wraps ErrDiskFull when there is
// no room for that. LOCK is held and the handle caught up.
func (l *Log) Cover(adds int64) error {
	if n := l.control.load(ctlAdded); adds == 0 || n > 0 && n+uint64(adds) <= l.control.load(ctlCover) {
		return nil
	}
	for {
		if more, err := l.growReserve(adds); err != nil || !more {
			return err
		}
	}
}

// prepareReserve makes RESERVE as large as it should be, durably: it is there after
// a power cut, too. PREP is held.
func (l *Log) prepareReserve() error {
	before := l.reserveBytes()
	for more := true; more; {
		if err := l.lockSoon(); err != nil {
			return err
		}
		var err error
		more, err = l.growReserve(0)
		l.Unlock()
		if err != nil {
			return err
		}
	}
	if l.reserveBytes() == before {
		return nil
	}
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a compaction has it; there is another Prepare after that
	}
	if err == nil {
		err = joinClose(f.Sync(), f)
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return fmt.Errorf("reserve room for a checkpoint: %w", diskFull(err))
	}
	return nil
}

// lockEvery is how often lockSoon asks for LOCK.
const lockEvery = time.Millisecond

// lockSoon takes LOCK for a moment's work that nobody waits for: it goes in between
// those who queue for it.
func (l *Log) lockSoon() error {
	for {
		if ok, err := l.TryLock(); ok || err != nil {
			return err
		}
		time.Sleep(lockEvery)
	}
}

// growReserve brings RESERVE a step closer to the size for a state of adds bytes
// more, and says whether that is not all. LOCK is held.
func (l *Log) growReserve(adds int64) (more bool, err error) {
	state, last := l.stateBytes()+adds, l.lastCheckpoint()
	need := max(state, 2*state-last) + l.spareRoom()
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return false, fmt.Errorf("reserve room for a checkpoint: %w", diskFull(err))
	}
	size, err := f.Size()
	switch {
	case err != nil:
	case size < need:
		n := min(max(need-size, min(extendBy, l.o.FirstSegmentBytes/4)), zeroChunk)
		if _, err = f.WriteAt(make([]byte, n), size); err == nil {
			size += n
		} else if noSpace(err) {
			l.setFull(true)
			l.askPrepare(true)
			err = errors.Join(err, f.Truncate(size))
		}
	case size > 2*need: // the store was large once
		if err = f.Truncate(need); err == nil {
			size = need
		}
	}
	if err = joinClose(err, f); err != nil {
		return false, fmt.Errorf("reserve room for a checkpoint: %w", diskFull(err))
	}
	room := size - l.spareRoom()
	if covered := min(room, (room+last)/2) - (state - adds); covered >= adds {
		l.control.store(ctlCover, l.control.load(ctlAdded)+uint64(covered))
	}
	return size < need, nil
}

// lend cuts RESERVE down to what a checkpoint of so many bytes takes, with some
// to spare for CURRENT: the rest is for a new segment, or for what is moved. LOCK
// is held.
func (l *Log) lend(state int64) error {
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if keep := state + l.spareRoom()/2; err == nil && size > keep {
		err = f.Truncate(keep)
	}
	l.control.store(ctlCover, 0)
	return joinClose(err, f)
}

// Lend gives a compaction on a full disk what RESERVE has beyond a checkpoint of
// so many bytes, and keeps everybody from preparing (PREP) until giveBack is
// called, once the files are dropped that make room for RESERVE again. ErrBusy
// when somebody is just preparing. COMPACT is held, LOCK is not.
func (l *Log) Lend(state int64) (giveBack func(), err error) {
	if !l.compact.Load() {
		return nil, ErrNotLocked
	}
	ok, err := l.tryPrep()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("lend what RESERVE has: %w", ErrBusy)
	}
	l.lent = true
	giveBack = func() {
		l.lent = false
		l.prepUnlock()
	}
	if err = l.lockSoon(); err == nil {
		err = l.lend(state)
		l.Unlock()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		giveBack()
		return nil, fmt.Errorf("lend what RESERVE has: %w", err)
	}
	return giveBack, nil
}

// intoReserve writes a checkpoint into the room of RESERVE. One that does not fit
// leaves it for a smaller one, and takes what room there is.
func (l *Log) intoReserve(tmp string, foot footer, write func(io.Writer) error) error {
	var n counter
	if err := write(&n); err != nil {
		return err
	}
	need := sideHeader + int64(n) + (int64(n)/maxBlock+1)*blockHeader + sideFooter
	if l.reserveBytes() < need {
		return l.fillCheckpoint(tmp, os.O_TRUNC, foot, write)
	}
	if err := l.lockSoon(); err != nil { // who has it may be about to enlarge RESERVE
		return err
	}
	l.control.store(ctlCover, 0)
	err := l.sys.Rename(join(l.dir, reserveName), tmp)
	l.Unlock()
	if err != nil {
		return err
	}
	return l.fillCheckpoint(tmp, 0, foot, write)
}

// reserveBytes is the size of RESERVE, 0 when it is not there.
func (l *Log) reserveBytes() int64 {
	info, err := l.sys.Stat(join(l.dir, reserveName))
	if err != nil {
		return 0
	}
	return info.Size
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
