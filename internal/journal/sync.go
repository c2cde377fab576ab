package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spoolq/spool/internal/rare"
)

// Sync makes durable all that was published before it began. It must not be
// called by the goroutine that holds LOCK.
//
// The first error poisons the store for every process; a file whose sync
// failed is never synced again.
func (l *Log) Sync() error {
	_, err := l.SyncTo(l.published())
	return err
}

// SyncTo is Sync for who only needs the log up to want, and says whether it
// synced itself: not when the sync of another handle was for that too.
func (l *Log) SyncTo(want Pos) (own bool, err error) {
	if err := l.Poisoned(); err != nil {
		return false, err
	}
	id, ok := l.beSyncer(want)
	if ok {
		err = l.syncPublished()
		l.endSync(id)
	}
	if err == nil {
		err = l.Poisoned() // a page of ours may be among those that another sync lost
	}
	return ok, err
}

// published is the end of the log as far as this handle can know.
func (l *Log) published() Pos {
	if p, ok := l.control.pos(ctlEnd); ok {
		return later(l.Pos(), p)
	}
	return l.Pos()
}

// syncPublished syncs the active segment: each other one was synced before the
// next was begun.
func (l *Log) syncPublished() error {
	for {
		if err := l.Poisoned(); err != nil {
			return err
		}
		end := l.published()
		err := l.syncUpTo(end)
		if !errors.Is(err, fs.ErrNotExist) || l.published().Segment == end.Segment {
			return err
		}
		rare.Reached(rare.SyncFollowedTheLog)
		// It was sealed meanwhile, and dropped: the next holds what is left to sync.
	}
}

// syncUpTo syncs the segment of an end of the log that was published.
func (l *Log) syncUpTo(end Pos) error {
	segment := end.Segment
	if end.Offset == 0 {
		segment-- // the end of that one is what there is to sync
	}
	f, err := l.files.get(SegmentFile(segment))
	if end.Offset == 0 && (segment == 0 || errors.Is(err, fs.ErrNotExist)) {
		return nil // nothing yet, or all of it is in a checkpoint
	}
	if err != nil {
		return fmt.Errorf("sync segment %d: %w", segment, err)
	}
	defer l.files.put(f)
	if !f.vouched.Load() {
		err = l.vouchLate(f, end)
	} else {
		err = l.syncFile(f)
	}
	if err != nil {
		return fmt.Errorf("sync segment %d: %w", segment, err)
	}
	l.raiseDurable(end)
	return nil
}

// Durable is up to where the log is known to be durable: from the syncs of
// this handle, and from those of others as CONTROL tells. What lies behind the
// published end is garbage that looks like a position, or the start of a segment that
// is just begun: it is not believed, and at worst synced once more.
func (l *Log) Durable() Pos {
	own, _ := unpack(l.durable.Load()) // the zero Pos when never set
	if p, ok := l.control.pos(ctlDurable); ok && !l.published().Before(p) {
		return later(own, p)
	}
	return own
}

func (l *Log) raiseDurable(p Pos) {
	l.control.raise(ctlDurable, p)
	for {
		old := l.durable.Load()
		if q, ok := unpack(old); ok && !q.Before(p) {
			return
		}
		if l.durable.CompareAndSwap(old, pack(p)) {
			return
		}
	}
}

// syncFile syncs a file of the log. The first error poisons the store.
func (l *Log) syncFile(f *openFile) error {
	if f.failed.Load() {
		rare.Reached(rare.SyncNotRepeated)
		return l.Poisoned()
	}
	if err := f.Sync(); err != nil {
		rare.Reached(rare.SyncFailed)
		f.failed.Store(true)
		l.Poison(fmt.Errorf("sync %s: %w", f.id.Name(), err))
		return l.Poisoned()
	}
	return nil
}

// syncDir makes the names of the directory durable. An error poisons the store:
// a second try could succeed without having done anything.
func (l *Log) syncDir() error {
	if err := l.sys.SyncDir(l.dir); err != nil {
		err = fmt.Errorf("sync the directory: %w", err)
		if l.control == nil {
			return err // the store is being created
		}
		rare.Reached(rare.DirSyncFailed)
		l.Poison(err)
		return l.Poisoned()
	}
	return nil
}

// vouchLate is vouch without LOCK: it takes it.
func (l *Log) vouchLate(f *openFile, to Pos) error {
	if err := l.takeLock(true); err != nil {
		return err
	}
	defer l.Unlock()
	if f.vouched.Load() {
		return l.syncFile(f)
	}
	return l.vouch(f, to, Pos{})
}

// vouch makes the descriptor f worth syncing although it was opened after the
// file's first byte was written: whoever wrote may have been told of a failed
// write that the kernel will not tell again, while its cache still shows the
// lost bytes. So everything from synced up to to is synced, dropped from the
// cache and read back. What does not come back poisons the store. LOCK is held.
func (l *Log) vouch(f *openFile, to, synced Pos) error {
	if err := l.syncFile(f); err != nil {
		return err
	}
	if err := f.DropCache(); err != nil {
		return fmt.Errorf("verify segment %d: %w", f.id.Number(), err)
	}
	if err := l.reread(f, to, synced); err != nil {
		if errors.Is(err, ErrCorrupt) {
			rare.Reached(rare.LostBytesFound)
			l.Poison(fmt.Errorf("verify segment %d: %w", f.id.Number(), err))
			return l.Poisoned()
		}
		return err
	}
	rare.Reached(rare.LateDescriptorVouched)
	f.vouched.Store(true)
	l.raiseDurable(to)
	return nil
}

// reread verifies the frames of f from synced, or from its start, up to to.
func (l *Log) reread(f *openFile, to, synced Pos) error {
	segment := f.id.Number()
	c := chain{pos: Pos{Segment: segment}, loose: true}
	if synced.Segment == segment {
		c.pos = synced
	}
	var w window
	w.on(f.File)
	var frame Frame
	for c.pos.Segment == segment && c.pos.Before(to) {
		s, err := w.look(&c, l.seed, maxOffset, &frame)
		if err == nil && s != sightFrame {
			err = corruptAt(c.pos, "what was read from the cache is not on the disk")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
