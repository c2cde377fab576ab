package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// A compaction is what makes room on a full disk, and takes some itself, before
// it gives any back: for the checkpoint, while the last one is still there, for
// CURRENT, for what it moves. RESERVE is a file that keeps this room. Its size
// follows the state: an Enqueue that would make that too large for it is refused.
//
// With state the most that a checkpoint may take now, and last what the current
// one takes, RESERVE has max(state, 2·state-last) bytes, and spare. So it is made
// again out of nothing but its own room and the last checkpoint's: a compaction
// turns state bytes of it into the checkpoint, and gives back the rest and last,
// which is state and spare at least; and what it needs from then on is no more,
// since the state of a full disk only shrinks. The room of the segments that
// settlements filled is all for new ones. Where there is none to go on in, spare
// becomes one (see lend), so that there always is.
//
// While the disk is full nobody takes room but who prepares (PREP): first for
// RESERVE, then for segments. RESERVE grows under LOCK or PREP, and all else is done
// to it under both.

const (
	reserveName  = "RESERVE"
	enlargeLeast = 4 << 10 // a block
	stateCheck   = 0x5354415445424954
	peakBits     = 40
	mostPeak     = 1 << peakBits // no state is as large
)

// spareRoom is what RESERVE has for all but the checkpoint.
func (l *Log) spareRoom() int64 { return l.o.FirstSegmentBytes }

// smallest is the size of a segment that is worth going on in: where there is no
// room for that, there is none.
func (l *Log) smallest() int64 { return max(headSize, min(extendBy, l.o.FirstSegmentBytes/4)) }

// StateKnown reports whether anybody said how large the state is since the machine
// started. LOCK is held.
func (l *Log) StateKnown() bool {
	_, ok := l.state()
	return ok
}

func (l *Log) state() (bytes int64, ok bool) {
	n := l.control.load(ctlState)
	return int64(n), n^stateCheck == l.control.load(ctlStateCheck)
}

// SetState says that a checkpoint of all that this handle has read, and of what it
// is about to append, takes so many bytes at most. Who does not know says by how
// much a frame adds to it (FrameHeader.Adds). LOCK is held and the handle caught up.
func (l *Log) SetState(bytes int64) {
	l.control.store(ctlState, uint64(bytes))
	l.control.store(ctlStateCheck, uint64(bytes)^stateCheck)
}

// stateBytes is how many bytes a checkpoint takes now at most, also one that stands
// at the end of a segment that is sealed already, when the state was larger: where
// nobody said, somewhat more than the last. LOCK or PREP is held.
func (l *Log) stateBytes() int64 {
	n, ok := l.state()
	if !ok {
		n = l.lastCheckpoint()
		n += n / 8
	}
	return max(n, unpackPeak(l.control.load(ctlPeak)))
}

// notePeak keeps in mind how large the state was when a segment ended.
func (l *Log) notePeak() {
	n, ok := l.state()
	for ok {
		old := l.control.load(ctlPeak)
		if unpackPeak(old) >= n || l.control.swap(ctlPeak, old, packPeak(n)) {
			return
		}
	}
}

// packPeak makes one word of a peak and its check, which is in the upper bits: what
// takes garbage for a peak fills the disk with RESERVE.
func packPeak(n int64) uint64 {
	v := uint64(min(max(n, 0), mostPeak-1))
	return v | (v^stateCheck)*0x9e3779b97f4a7c15>>peakBits<<peakBits
}

// unpackPeak is the peak of a word, 0 when it is none.
func unpackPeak(word uint64) int64 {
	n := int64(word & (mostPeak - 1))
	if word != packPeak(n) {
		return 0
	}
	return n
}

// forgetPeak does so once all that is sealed is in a checkpoint.
func (l *Log) forgetPeak(checkpoint uint64) {
	if peak := l.control.load(ctlPeak); l.active() <= checkpoint+1 {
		l.control.swap(ctlPeak, peak, 0)
	}
}

// addState notes what a frame adds to the state. LOCK is held.
func (l *Log) addState(bytes int64) {
	if n, ok := l.state(); ok && bytes != 0 {
		l.SetState(n + bytes)
	}
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

// needs is how large RESERVE has to be for a state of so many bytes, and covers
// how large a state is for which it is large enough.
func (l *Log) needs(state, last int64) int64 { return max(state, 2*state-last) + l.spareRoom() }

func (l *Log) covers(size, last int64) int64 {
	room := size - l.spareRoom()
	return min(room, (room+last)/2)
}

// covered is how large a state may be for RESERVE as it is; 0 when that is not known.
func (l *Log) covered() int64 { return int64(l.control.load(ctlCover)) }

// cover makes sure that RESERVE is large enough also for adds bytes more of state.
// Its error wraps ErrDiskFull when there is no room for that. LOCK is held.
func (l *Log) cover(adds int64) error {
	if l.covered() > 0 && l.stateBytes()+adds <= l.covered() {
		return nil
	}
	for {
		if more, err := l.growReserve(adds); err != nil || !more {
			return err
		}
	}
}

// prepareReserve makes RESERVE as large as it should be, and for some more jobs, so
// that a disk which is not full takes some; durably: it is there after a power cut,
// too. PREP is held.
func (l *Log) prepareReserve() error {
	before := l.reserveBytes()
	for more := true; more; {
		var err error
		if more, err = l.growReserve(l.smallest()); err != nil {
			return err
		}
	}
	if size := l.reserveBytes(); size == before {
		return l.shrinkReserve(size)
	}
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR)
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

// growReserve brings RESERVE a step closer to the size for a state of adds bytes
// more, and says whether that is not all. LOCK or PREP is held: two who append zeros
// do not disturb each other.
func (l *Log) growReserve(adds int64) (more bool, err error) {
	generation, last := l.control.load(ctlGeneration), l.lastCheckpoint()
	need := l.needs(l.stateBytes()+adds, last)
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return false, fmt.Errorf("reserve room for a checkpoint: %w", diskFull(err))
	}
	size, err := f.Size()
	if err == nil && size < need {
		var n int64
		n, err = enlarge(f, size, min(max(need-size, l.smallest(), size/8), zeroChunk))
		size += n
	}
	l.control.store(ctlCover, uint64(max(l.covers(size, last), 0)))
	if l.control.load(ctlGeneration) != generation {
		l.control.store(ctlCover, 0) // last is another one
	}
	if err = joinClose(err, f); err != nil {
		return false, fmt.Errorf("reserve room for a checkpoint: %w", diskFull(err))
	}
	return size < need, nil
}

// shrinkReserve cuts RESERVE down when the store was larger once; on a full disk for
// any segment that it has room for. It leaves that for later when somebody has LOCK.
// PREP is held.
func (l *Log) shrinkReserve(size int64) error {
	if need := l.needs(l.stateBytes()+l.smallest(), l.lastCheckpoint()); size <= 2*need && !(l.Full() && size > need+l.smallest()) {
		return nil
	}
	ok, err := l.TryLock()
	if err != nil || !ok {
		return err
	}
	defer l.Unlock()
	_, err = l.shorten(l.needs(l.stateBytes()+l.smallest(), l.lastCheckpoint()), maxOffset)
	return err
}

// zeros are written where room is to be kept.
var zeros [zeroChunk]byte

// enlarge appends n zeros to a file of size bytes: on a full disk as many as there
// is room for, which it returns with an error.
func enlarge(f vfs.File, size, n int64) (done int64, err error) {
	for step := n; done < n; step = min(step, n-done) {
		_, err = f.WriteAt(zeros[:step], size+done)
		if err == nil {
			done += step
			continue
		}
		if step /= 2; !noSpace(err) || step < enlargeLeast {
			return done, err
		}
	}
	return done, nil
}

// shorten cuts RESERVE down to keep bytes, and a little to spare for CURRENT, but by
// no more than most bytes, and says by how many. LOCK and PREP are held.
func (l *Log) shorten(keep, most int64) (gave int64, err error) {
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	size, err := f.Size()
	gave = min(size-keep-l.smallest()/4, most)
	if gave &^= 4095; err == nil && gave > 0 {
		l.control.store(ctlCover, 0)
		rare.Reached(rare.ReserveCutDown)
		err = f.Truncate(size - gave)
	}
	return max(gave, 0), joinClose(err, f)
}

// lockEvery is how often lockSoon asks for LOCK.
const lockEvery = time.Millisecond

// lockSoon takes LOCK for a moment's work in the background: it asks for it now and
// then, since one goroutine of a process waits for it at a time (see Lock).
func (l *Log) lockSoon() error {
	for {
		if ok, err := l.TryLock(); ok || err != nil {
			return err
		}
		time.Sleep(lockEvery)
	}
}

// lend takes the room for a segment out of what RESERVE has beside the next
// checkpoint, for a log that has none to go on in. LOCK and PREP are held.
func (l *Log) lend() (size int64, err error) {
	rare.Reached(rare.ReserveLent)
	size, err = l.shorten(l.stateBytes(), l.spareRoom()/2)
	if err == nil && size < l.smallest() {
		rare.Reached(rare.ReserveEmpty)
		err = fmt.Errorf("%w: RESERVE has nothing to spare", ErrDiskFull)
	}
	return size, err
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
		_, err = l.shorten(state+l.spareRoom()/4, maxOffset)
		l.Unlock()
	}
	if err != nil {
		giveBack()
		return nil, fmt.Errorf("lend what RESERVE has: %w", err)
	}
	return giveBack, nil
}

// intoReserve writes a checkpoint into the room of RESERVE. One that does not fit
// leaves it for a smaller one, and takes what room there is. ErrBusy when somebody
// is just preparing.
func (l *Log) intoReserve(tmp string, foot footer, write func(io.Writer) error) error {
	var n counter
	if err := write(&n); err != nil {
		return err
	}
	need := sideHeader + int64(n) + (int64(n)/blockBytes+1)*blockHeader + sideFooter
	if l.reserveBytes() < need {
		rare.Reached(rare.ReserveTooSmall)
		return l.fillCheckpoint(tmp, os.O_TRUNC, foot, write)
	}
	if !l.lent {
		if ok, err := l.tryPrep(); err != nil || !ok {
			return errors.Join(err, ErrBusy)
		}
		defer l.prepUnlock()
	}
	if err := l.lockSoon(); err != nil { // who enlarges RESERVE has one of the two
		return err
	}
	l.control.store(ctlCover, 0)
	err := l.sys.Rename(join(l.dir, reserveName), tmp)
	l.Unlock()
	if err != nil {
		return err
	}
	rare.Reached(rare.ReserveUsed)
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

// missingRoom is how much the disk has to have at least for Enqueues: for RESERVE
// and the two segments ahead. LOCK is held.
func (l *Log) missingRoom(adds int64) int64 {
	n := max(0, l.needs(l.stateBytes()+adds+l.smallest(), l.lastCheckpoint())-l.reserveBytes())
	return n + int64(2-l.Ahead())*l.smallest()
}

// refusal is the error of an Enqueue for which there is no room. LOCK is held.
func (l *Log) refusal(adds int64) error {
	return fmt.Errorf("%w: %s needs %d bytes more of room", ErrDiskFull, l.dir, l.missingRoom(adds))
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
