package journal

import (
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	reserveName = "RESERVE"
	reserveNew  = "RESERVE.new"
	// askAgain is how often a refused Enqueue asks for another try to prepare.
	askAgain = 100 * time.Millisecond
)

// PrepareWanted fires when segments should be prepared: after a roll, and now
// and then while the disk is full and work is refused. Answer with Prepare.
func (l *Log) PrepareWanted() <-chan struct{} { return l.prepare }

// askPrepare makes PrepareWanted fire. sparingly is for the many askers of a
// full disk.
func (l *Log) askPrepare(sparingly bool) {
	if sparingly {
		now, last := int64(l.sys.Monotonic()), l.lastAsk.Load()
		if last != 0 && now-last < int64(askAgain) || !l.lastAsk.CompareAndSwap(last, now) {
			return
		}
	}
	select {
	case l.prepare <- struct{}{}:
	default:
	}
}

// tryPrep takes PREP without waiting.
func (l *Log) tryPrep() (bool, error) {
	if !l.prepMu.TryLock() {
		return false, nil
	}
	ok, err := l.prepLock.TryLock()
	if err != nil || !ok {
		l.prepMu.Unlock()
		if err != nil {
			err = fmt.Errorf("take PREP: %w", err)
		}
		return false, err
	}
	return true, nil
}

func (l *Log) prepUnlock() {
	if err := l.prepLock.Unlock(); err != nil {
		l.Poison(fmt.Errorf("free PREP: %w", err))
	}
	l.prepMu.Unlock()
}

func (l *Log) setFull(full bool) {
	var v uint64
	if full {
		v = flagSet
	}
	if l.control.load(ctlFull) != v {
		l.control.store(ctlFull, v)
		l.report("reserve", "full", full)
	}
}

// Prepare keeps the reserve: two zero-filled segments after the active one,
// and room for the next checkpoint. When the disk has no room for it, Enqueue
// is refused in every process (Full) until a Prepare succeeds, and the error
// wraps ErrDiskFull. It returns nil at once when another handle is preparing.
// Call it after Open and whenever PrepareWanted fires, not under LOCK; it
// writes up to twice the size of a segment, and syncs an active segment that
// is nearly full, so that sealing it takes no long sync under LOCK.
func (l *Log) Prepare() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	ok, err := l.tryPrep()
	if err != nil || !ok {
		return err
	}
	defer l.prepUnlock()
	end, _ := l.control.pos(ctlEnd)
	idle := end == l.lastEnd
	l.lastEnd = end
	if !l.Full() {
		err = l.prepareReserve(false)
	}
	if err == nil || errors.Is(err, ErrDiskFull) {
		err = errors.Join(err, l.prepareSegments())
	}
	if l.Full() && (err == nil || idle && errors.Is(err, ErrDiskFull)) {
		// A checkpoint makes room for segments; settlements go first.
		err = errors.Join(err, l.prepareReserve(true))
	}
	if end, ok := l.control.pos(ctlEnd); ok && err == nil && nearlyFull(end, l.sizeOf(end.Segment)) && l.Durable().Before(end) {
		err = l.Sync()
	}
	switch {
	case err == nil:
		l.setFull(false)
	case errors.Is(err, ErrDiskFull):
		l.setFull(true)
	}
	return err
}

func (l *Log) prepareSegments() error {
	for k := uint64(1); k <= 2; k++ {
		n := l.active() + k
		there, err := l.exists(SegmentFile(n).Name())
		if err != nil {
			return fmt.Errorf("prepare segment %d: %w", n, err)
		}
		if there {
			continue
		}
		want, least := l.nextSizes()
		err = l.createSegment(n, nil, want)
		if want > least && errors.Is(err, ErrDiskFull) {
			err = l.createSegment(n, nil, least)
		}
		if err != nil {
			return err
		}
		k = 0 // the log may have gone on meanwhile
	}
	l.openAhead()
	return nil
}

// active is the number of the segment that is written to, as far as known.
func (l *Log) active() uint64 {
	n := l.Pos().Segment
	if end, ok := l.control.pos(ctlEnd); ok {
		n = max(n, end.Segment)
	}
	return n
}

// Expect tells every handle about how many bytes the next checkpoint may have:
// RESERVE is to hold that. Where nobody does, it holds a quarter of the log since
// the last one, within reason.
func (l *Log) Expect(bytes int64) { l.control.store(ctlExpect, uint64(max(bytes, 1))) }

// reserveMost bounds RESERVE when nobody knows how large a checkpoint would be.
const reserveMost = 16 << 20

// reserveSize is the size that the next checkpoint may have, with room for more
// unless it is to be tight.
func (l *Log) reserveSize(tight bool) int64 {
	last, since, want := l.CheckpointBytes(l.Current().Checkpoint), l.LogBytes(), l.o.FirstSegmentBytes
	expect := max(last+last/8, min(last+since/4, reserveMost))
	if told := l.control.load(ctlExpect); told > 0 {
		expect = int64(min(told, uint64(last+since))) // it holds no more than these do
	}
	if tight {
		return max(expect, min(extendBy, want))
	}
	for want < expect {
		want *= 2
	}
	return want
}

// ReserveBytes is how much room there is for a checkpoint on a full disk.
func (l *Log) ReserveBytes() int64 {
	info, err := l.sys.Stat(join(l.dir, reserveName))
	if err != nil {
		return 0
	}
	return info.Size
}

// prepareReserve keeps RESERVE at the size that the next checkpoint may have; a
// tight one leaves what room there is on a full disk to settlements.
func (l *Log) prepareReserve(tight bool) error {
	want := l.reserveSize(tight)
	// One that is far too large goes: the store was large once.
	if info, err := l.sys.Stat(join(l.dir, reserveName)); err == nil && info.Regular && info.Size >= want && info.Size <= 2*want {
		return nil
	}
	err := l.makeFile(reserveNew, nil, want)
	if err == nil {
		err = l.sys.Rename(join(l.dir, reserveNew), join(l.dir, reserveName))
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return fmt.Errorf("reserve room for a checkpoint: %w", diskFull(err))
	}
	return nil
}

// lend takes a little room from RESERVE: for the end of a segment and the head of
// the next.
func (l *Log) lend() error {
	f, err := l.sys.Open(join(l.dir, reserveName), os.O_RDWR)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = f.Truncate(max(0, size-min(extendBy, size/4)))
	}
	return joinClose(err, f)
}
