package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spoolq/spool/internal/rare"
)

// Recover is CatchUp for a caller who found that no other handle lives: after
// a power cut, or of a poisoned store. LOCK and COMPACT are held, every other
// alive lock is free.
//
// The end of the log, where any subset of the sectors may be missing, is
// synced, dropped from the cache and read from the disk. Bad bytes below the
// largest SyncedUpTo are a *CorruptError, and nothing is touched; above it
// they are a torn tail, which is cut as CatchUp does. A poisoned store goes on
// in a new segment and a new generation. When it returns, everything handed
// out is durable.
//
// A handle that was itself told of a failed write or sync cannot recover: open
// another. It gets ErrPoisoned.
func (l *Log) Recover(fn func(*Frame) error) error {
	if !l.held.Load() || !l.compact.Load() {
		return ErrNotLocked
	}
	if l.broken.Load() {
		rare.Reached(rare.BrokenHandleRefused)
		return l.Poisoned()
	}
	poisoned := l.Poisoned() != nil
	defer l.win.reset()
	l.lose()
	known, _ := l.control.pos(ctlDurable)
	if end, ok := l.control.pos(ctlEnd); !ok || end.Before(known) {
		rare.Reached(rare.ControlContradictsItself)
		known = Pos{} // the page contradicts itself
	}
	if err := l.fromDisk(); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if _, err := l.forward(noLimit, true, fn); err != nil {
		return err
	}
	l.at.synced = later(l.at.synced, known)
	if err := l.trimTail(true); err != nil {
		return err
	}
	l.control.store(ctlDurable, 0)
	l.durable.Store(0)
	if err := l.settleEnd(); err != nil {
		return err
	}
	if err := l.syncEnd(); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if !poisoned {
		return nil
	}
	if err := l.leavePoison(); err != nil {
		l.lose()
		return fmt.Errorf("recover from poison: %w", err)
	}
	l.raiseDurable(l.at.pos)
	return nil
}

// fromDisk syncs and drops from the cache what may not be durable: the last
// segment that holds anything and the one before. What this handle has read
// of them is read again.
func (l *Log) fromDisk() error {
	last, err := l.lastUsed()
	if err != nil {
		return err
	}
	for n := max(last, 2) - 1; n <= last; n++ {
		f, err := l.files.get(SegmentFile(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // reading will say so, if it matters
		}
		if err != nil {
			return err
		}
		err = l.syncFile(f)
		if err == nil {
			err = f.DropCache()
		}
		if err == nil && l.at.pos.Segment == n {
			rare.Reached(rare.ReadCacheDropped)
			err = l.reread(f, l.at.pos, l.at.synced)
		}
		if err == nil {
			f.vouched.Store(true)
		}
		l.files.put(f)
		if err != nil {
			return err
		}
	}
	return nil
}

// lastUsed is the number of the last segment that the log reached.
func (l *Log) lastUsed() (uint64, error) {
	names, err := l.sys.ReadDir(l.dir)
	if err != nil {
		return 0, err
	}
	last := l.at.pos.Segment
	for _, name := range names {
		n, ok := parseNumber(name, ".log")
		if !ok || n <= last {
			continue
		}
		begun, err := l.begun(n, false)
		if err != nil {
			return 0, err
		}
		if begun {
			last = n
		}
	}
	return last, nil
}

// leavePoison ends the poison: the log goes on in a new segment, so that no
// file whose sync failed is written again, under a new generation. It can be
// interrupted at any point and done again.
func (l *Log) leavePoison() error {
	ok, err := l.tryPrep()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: %w", ErrBusy, l.Poisoned())
	}
	err = l.continueIn(l.at.pos.Segment + 1)
	l.prepUnlock()
	if err != nil {
		return err
	}
	cur := l.Current()
	cur.Generation++
	if err := l.commit(cur); err != nil {
		return err
	}
	if err := l.removeIfThere(join(l.dir, poisonName)); err != nil {
		return err
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	l.poisoned.Store(nil)
	l.control.unpoison()
	l.publish()
	rare.Reached(rare.PoisonLeft)
	l.report("recovered from poison", "end", l.at.pos.String(), "generation", cur.Generation)
	return nil
}

// continueIn replaces the blank segment n by one whose head says that the log
// ends at the position and goes on here. The head appears at once, with the
// file's name. PREP is held.
func (l *Log) continueIn(n uint64) error {
	c := l.at
	c.pos = Pos{Segment: n}
	b := make([]byte, headSize)
	r := headRecord{store: l.store, prev: c.end.Segment, prevEnd: c.end.Offset, level: FormatLevel}
	r.put(b[headerSize:])
	h := l.encode(&c, KindHead, b, l.carried())
	l.files.drop(func(id FileID) bool { return id == SegmentFile(n) })
	err := l.createSegment(n, b, l.nextSize())
	if errors.Is(err, ErrDiskFull) {
		rare.Reached(rare.PoisonLeftOnFullDisk)
		err = l.createSegment(n, b, headSize)
	}
	if err != nil {
		return err
	}
	c.take(&h)
	l.setPos(c)
	f, err := l.files.get(SegmentFile(n))
	if err != nil {
		return err
	}
	f.vouched.Store(true) // written and synced here, and nobody else lives
	l.files.put(f)
	return nil
}

// syncEnd makes the end durable, under LOCK.
func (l *Log) syncEnd() error {
	f, err := l.files.get(SegmentFile(l.at.pos.Segment))
	if err != nil {
		return l.missing(err)
	}
	defer l.files.put(f)
	if err := l.syncFile(f); err != nil {
		return err
	}
	l.raiseDurable(l.at.pos)
	return nil
}

// SkipToEnd puts the read position at the end of the log without reading what
// is in between, and returns the last frame, whose Stateful says whether one
// may append without knowing the state; its Body is valid until the next call.
// LOCK is held; CatchUp and Append may follow, and Start when the state is
// wanted after all. Not ok, and nothing changed, when CONTROL does not tell
// where the last frame is.
func (l *Log) SkipToEnd() (last Frame, ok bool, err error) {
	if !l.held.Load() {
		return Frame{}, false, ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return Frame{}, false, err
	}
	at, ok1 := l.control.pos(ctlLast)
	end, ok2 := l.control.pos(ctlEnd)
	if !ok1 || !ok2 || at.Segment != end.Segment || l.control.load(ctlFlight) != 0 {
		return Frame{}, false, nil
	}
	f, err := l.files.get(SegmentFile(at.Segment))
	if err != nil {
		return Frame{}, false, skipError(fmt.Errorf("read segment %d: %w", at.Segment, err))
	}
	defer l.files.put(f)
	l.win.on(f.File)
	l.win.reset()
	c := chain{pos: at, loose: true}
	s, err := l.win.look(&c, l.seed, end.Offset, &l.frame)
	if err != nil || s != sightFrame || c.pos != end {
		return Frame{}, false, skipError(err)
	}
	rare.Reached(rare.SkippedToTheEnd)
	l.setPos(c)
	l.lose()
	return l.frame, true, nil
}

// skipError keeps errors of the system; what is damaged or missing is for CatchUp
// to say.
func skipError(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || err == io.EOF {
		return nil
	}
	return err
}
