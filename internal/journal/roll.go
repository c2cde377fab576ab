package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spoolq/spool/internal/rare"
)

// mustRoll reports whether a frame of n bytes should go to the next segment.
func (l *Log) mustRoll(n int) bool {
	if l.at.last.Offset == 0 {
		return false // only a head so far
	}
	if n > loneBody || l.at.size > frameSize(loneBody) {
		return true
	}
	return l.at.pos.Offset+frameSize(n)+l.endSpace() > l.limit()
}

// rollFor begins the next segment, or decides that the active one grows: it
// may, up to twice its size, while the next is being prepared.
func (l *Log) rollFor(n int, class Class) error {
	ahead, err := l.preparedAhead()
	if err != nil {
		return fmt.Errorf("roll: %w", err)
	}
	if ahead < 2 {
		l.askPrepare(false)
	}
	if ahead >= 2 || (ahead == 1 && class == Settle) {
		return l.roll()
	}
	limit := 2 * l.limit()
	if n <= loneBody && l.at.size <= frameSize(loneBody) && l.at.pos.Offset+frameSize(n)+l.endSpace() <= limit {
		return nil
	}
	if ahead == 0 {
		made, err := l.createNext()
		switch {
		case err != nil && (class == Enqueue || !errors.Is(err, ErrDiskFull)):
			return err
		case err != nil || !made:
			rare.Reached(rare.SegmentGrewOn)
			return l.growOn(n)
		}
	}
	return l.roll()
}

// extendBy is how far a segment is extended at least, and the smallest one that
// is made as a rule.
const extendBy = 64 << 10

// extend makes sure that the active segment has room for a frame of n bytes and
// the end record after it, so that no disk is too full to write or to seal it.
func (l *Log) extend(n int) error {
	segment := l.at.pos.Segment
	need := l.at.pos.Offset + frameSize(n) + l.endSpace()
	if l.roomOf == segment && need <= l.room {
		return nil
	}
	f, err := l.files.get(SegmentFile(segment))
	if err != nil {
		return l.missing(err)
	}
	defer l.files.put(f)
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("extend segment %d: %w", segment, err)
	}
	l.room, l.roomOf = size, segment
	if need <= size {
		return nil
	}
	if l.Full() && l.covered() < l.stateBytes() {
		return fmt.Errorf("extend segment %d: %w: first there has to be room for a checkpoint", segment, ErrDiskFull)
	}
	more := max(need-size, l.smallest())
	_, err = f.WriteAt(make([]byte, more), size)
	if noSpace(err) {
		err = errors.Join(err, f.Truncate(size)) // others need what was got
	}
	if err != nil {
		return fmt.Errorf("extend segment %d: %w", segment, diskFull(err))
	}
	l.room = size + more
	return nil
}

// extendOrRoll is extend, but that a settlement goes to the next segment when one
// is prepared and there is no room to extend this one.
func (l *Log) extendOrRoll(n int, class Class) error {
	err := l.extend(n)
	if class != Settle || !errors.Is(err, ErrDiskFull) {
		return err
	}
	if ahead, aerr := l.preparedAhead(); aerr != nil || ahead == 0 {
		return errors.Join(err, aerr)
	}
	rare.Reached(rare.NextForWantOfRoom)
	if err := l.roll(); err != nil {
		return err
	}
	return l.extend(n)
}

// growOn lets the active segment grow although it is far over its size,
// because there is no room or no right to make the next one.
func (l *Log) growOn(n int) error {
	if l.at.pos.Offset+frameSize(n)+l.endSpace() > maxOffset {
		return fmt.Errorf("%w: segment %d cannot grow further", ErrDiskFull, l.at.pos.Segment)
	}
	return nil
}

// preparedAhead is how many of the next two segments exist.
func (l *Log) preparedAhead() (int, error) {
	for k := range 2 {
		f, err := l.files.get(SegmentFile(l.at.pos.Segment + uint64(k) + 1))
		if errors.Is(err, fs.ErrNotExist) {
			return k, nil
		}
		if err != nil {
			return 0, err
		}
		l.files.put(f)
	}
	return 2, nil
}

// createNext makes the next segment, a small one, under LOCK: nobody has prepared
// it. On a full disk RESERVE gives the room. Not made when somebody is about to.
func (l *Log) createNext() (bool, error) {
	ok, err := l.tryPrep()
	if err != nil || !ok {
		return false, err
	}
	defer l.prepUnlock()
	rare.Reached(rare.SegmentMadeUnderLock)
	n := l.at.pos.Segment + 1
	if there, err := l.exists(SegmentFile(n).Name()); err != nil || there {
		return there, err
	}
	err = l.createSegment(n, nil, l.smallest())
	if errors.Is(err, ErrDiskFull) {
		l.setFull(true)
		var size int64
		if size, err = l.lend(); err == nil {
			err = l.createSegment(n, nil, size)
		}
	}
	return err == nil, err
}

// Seal seals the active segment now, begins the next and returns the sealed
// number. LOCK must be held and the handle caught up. A segment that holds
// nothing but its head is sealed too. On a full disk, where there are few segments
// to go on in, it returns the last sealed one as long as that is in no checkpoint,
// and seals nothing; and without one to go on in, RESERVE gives the room. What was
// prepared larger than suits a store of needed bytes, and the rate of the log, is
// cut down.
func (l *Log) Seal(needed int64) (uint64, error) {
	if !l.mayWrite() {
		return 0, ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return 0, err
	}
	n := l.at.pos.Segment
	if l.Full() && n > l.Current().Checkpoint+1 {
		return n - 1, nil
	}
	ahead, err := l.preparedAhead()
	if err != nil {
		return 0, fmt.Errorf("seal segment %d: %w", n, err)
	}
	if ahead < 2 {
		l.askPrepare(false)
	}
	if ahead == 0 {
		made, err := l.createNext()
		if err != nil {
			return 0, fmt.Errorf("seal segment %d: %w", n, err)
		}
		if !made {
			return 0, fmt.Errorf("seal segment %d: %w", n, ErrBusy)
		}
	}
	if err := l.trimAhead(needed); err != nil {
		return 0, fmt.Errorf("seal segment %d: %w", n, err)
	}
	return n, l.roll()
}

// roll seals the active segment and writes the head of the next, which exists.
// The sync is short: Prepare and Sync have written most of the segment.
func (l *Log) roll() error {
	n := l.at.pos.Segment
	if n+1 >= maxSegment {
		return fmt.Errorf("roll: %w: segment numbers are used up", ErrUnsupported)
	}
	var counters []byte
	if l.o.Counters != nil {
		counters = l.o.Counters()
	}
	l.rollSize = max(l.rollSize, len(counters))
	f, err := l.files.get(SegmentFile(n))
	if err != nil {
		return fmt.Errorf("roll: %w", err)
	}
	defer l.files.put(f)
	// Who prepared the next segment may be about to sync its name, or have died
	// before: an end that is durable without it would be a log with a hole.
	if err := l.syncDir(); err != nil {
		return fmt.Errorf("seal segment %d: %w", n, err)
	}
	l.lose() // until the next segment is begun
	l.control.store(ctlFlight, pack(l.at.pos))
	if err := l.writeFrame(f, KindEnd, l.space(counters), l.carried()); err != nil {
		return fmt.Errorf("seal segment %d: %w", n, err)
	}
	if err := l.syncFile(f); err != nil {
		return fmt.Errorf("seal segment %d: %w", n, err)
	}
	l.raiseDurable(l.at.pos)
	end := l.at.end.Offset
	if err := l.writeHead(); err != nil {
		return err
	}
	l.trimSealed(f, end)
	l.notePeak()
	l.publish()
	l.notePeak() // whoever flipped meanwhile may not have known that this segment ended
	l.own()
	l.began.Store(l.at.pos.Segment)
	l.askPrepare(false)
	return nil
}

// trimSealed cuts a sealed segment down to what was written, or the smallest
// size: a large frame has a segment to itself, however large that was prepared.
// The cut need not be durable: what comes back is zeros.
func (l *Log) trimSealed(f *openFile, end int64) {
	end = max(end, l.o.FirstSegmentBytes)
	size, err := f.Size()
	if err == nil && size-end > max(size/8, 4<<10) {
		rare.Reached(rare.SegmentCutDown)
		err = f.Truncate(end)
	}
	if err != nil {
		l.report("cut a sealed segment down", "segment", f.id.Number(), "error", err)
	}
}

// begin writes the head of the segment that the position begins, whose
// predecessor is durable: whoever sealed that died, or created the store or
// flipped CURRENT, perhaps before the names were durable.
func (l *Log) begin() error {
	if err := l.syncDir(); err != nil {
		return fmt.Errorf("begin segment %d: %w", l.at.pos.Segment, err)
	}
	return l.writeHead()
}

// writeHead writes the head of the segment that the position begins.
func (l *Log) writeHead() error {
	f, err := l.files.get(SegmentFile(l.at.pos.Segment))
	if err != nil {
		return l.missing(err)
	}
	defer l.files.put(f)
	r := headRecord{store: l.store, prev: l.at.end.Segment, prevEnd: l.at.end.Offset, level: FormatLevel}
	var body [headBody]byte
	r.put(body[:])
	l.control.store(ctlFlight, pack(l.at.pos))
	if err := l.writeFrame(f, KindHead, l.space(body[:]), l.carried()); err != nil {
		return fmt.Errorf("begin segment %d: %w", f.id.Number(), err)
	}
	return nil
}

// askSync makes PrepareWanted fire once when the active segment is nearly full:
// Prepare syncs it, so that the sync under LOCK that seals it is short.
func (l *Log) askSync() {
	segment := l.at.pos.Segment
	if l.nearEnd != segment && nearlyFull(l.at.pos, l.limit()) {
		l.nearEnd = segment
		l.askPrepare(false)
	}
}

// nearlyFull reports whether a segment that may hold limit bytes is soon sealed.
func nearlyFull(p Pos, limit int64) bool { return p.Offset > limit/8*7 }
