package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/internal/rare"
)

// askAgain is how often a refused Enqueue asks for another try to prepare.
const askAgain = 100 * time.Millisecond

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
	}
}

// Prepare keeps the reserve: room for the next checkpoint, and two zero-filled
// segments after the active one. When the disk has no room for it, Enqueue
// is refused in every process (Full) until a Prepare succeeds, and the error
// wraps ErrDiskFull; but there is a segment to go on in as long as RESERVE has
// the room to spare. ErrBusy, at once, when another handle is preparing. Call it
// after Open and whenever PrepareWanted fires, not under LOCK; it
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
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("prepare: %w", ErrBusy)
	}
	defer l.prepUnlock()
	err = l.prepareReserve() // first: it is what makes room for segments
	if err == nil {
		err = l.prepareSegments()
	}
	if errors.Is(err, ErrDiskFull) && l.Ahead() == 0 {
		l.setFull(true)
		err = errors.Join(err, l.lendAhead())
	}
	if end, ok := l.control.pos(ctlEnd); ok && err == nil && nearlyFull(end, l.sizeOf(end.Segment)) && l.Durable().Before(end) {
		err = l.Sync()
	}
	switch {
	case err == nil:
		if l.Full() {
			rare.Reached(rare.ReserveRefilled)
		}
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
		if err := l.createAhead(n); err != nil {
			return err
		}
		k = 0 // the log may have gone on meanwhile
	}
	l.openAhead()
	return nil
}

// createAhead makes segment n as large as suits the log, or else as there is room.
func (l *Log) createAhead(n uint64) error {
	size := l.nextSize()
	err := l.createSegment(n, nil, size)
	for size > l.smallest() && errors.Is(err, ErrDiskFull) {
		rare.Reached(rare.SegmentsSmaller)
		size = max(size/2, l.smallest())
		err = l.createSegment(n, nil, size)
	}
	return err
}

// lendAhead makes a segment for a log that has none to go on in out of RESERVE.
// PREP is held.
func (l *Log) lendAhead() error {
	if err := l.lockSoon(); err != nil {
		return err
	}
	size, err := l.lend()
	l.Unlock() // nobody else makes segments meanwhile
	if err == nil {
		err = l.createSegment(l.active()+1, nil, size)
	}
	return err
}

// Ahead is how many of the two segments after the active one are prepared.
func (l *Log) Ahead() (n int) {
	for k := uint64(1); k <= 2; k++ {
		if there, err := l.exists(SegmentFile(l.active() + k).Name()); err != nil || !there {
			break
		}
		n++
	}
	return n
}

// SealedSince reports whether there is a sealed segment that is in no checkpoint.
func (l *Log) SealedSince() bool { return l.active() > l.Current().Checkpoint+1 }

// active is the number of the segment that is written to, as far as known.
func (l *Log) active() uint64 {
	n := l.Pos().Segment
	if end, ok := l.control.pos(ctlEnd); ok {
		n = max(n, end.Segment)
	}
	return n
}
