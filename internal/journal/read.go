package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spoolq/spool/internal/rare"
)

// noLimit is a position after every other.
var noLimit = Pos{Segment: maxSegment + 1}

// Read hands out the frames from the read position to the published end,
// without the lock: data frames, and the end records of other handles, whose
// body is the counters. A bad frame there means "not yet": Read stops before it
// and CatchUp will say what it is. When fn fails, Read returns its error, and
// the frame is handed out again next time.
func (l *Log) Read(fn func(*Frame) error) error {
	end, ok := l.control.pos(ctlEnd)
	if !ok || !l.at.pos.Before(end) {
		return nil
	}
	defer l.win.reset()
	l.refused = nil
	_, err := l.forward(end, true, fn)
	if l.refused == nil && errors.Is(err, ErrCorrupt) {
		return nil
	}
	return err
}

// Behind is how many bytes lie between the read position and the published
// end: a hint, 0 when unknown.
func (l *Log) Behind() int64 {
	end, ok := l.control.pos(ctlEnd)
	pos := l.Pos()
	if !ok || !pos.Before(end) {
		return 0
	}
	n := end.Offset - pos.Offset
	for s := pos.Segment; s < end.Segment && s < pos.Segment+64; s++ {
		size, err := l.FileBytes(SegmentFile(s))
		if err != nil {
			size = l.o.FirstSegmentBytes // dropped meanwhile
		}
		n += size
	}
	return max(n, frameAlign)
}

// forward reads from the position up to limit, and says what it saw there.
// across tells it to look whether the next segment's head ends this segment,
// where a frame is missing.
func (l *Log) forward(limit Pos, across bool, fn func(*Frame) error) (sight, error) {
	for l.at.pos.Before(limit) {
		f, err := l.files.get(SegmentFile(l.at.pos.Segment))
		if err != nil {
			return sightZero, l.missing(err)
		}
		s, moved, err := l.forwardIn(f, limit, across, fn)
		l.files.put(f)
		if err != nil || !moved {
			return s, err
		}
	}
	return sightZero, nil
}

// forwardIn is forward within the segment of file f; moved says that the log
// goes on in the next one.
func (l *Log) forwardIn(f *openFile, limit Pos, across bool, fn func(*Frame) error) (s sight, moved bool, err error) {
	l.win.on(f.File)
	segment, bytes := l.at.pos.Segment, int64(maxOffset)
	if limit.Segment == segment {
		bytes = limit.Offset
	}
	for l.at.pos.Before(limit) {
		c := l.at
		s, err = l.win.look(&c, l.seed, bytes, &l.frame)
		if err != nil {
			return s, false, err
		}
		if s != sightFrame {
			if across {
				moved, err = l.cross()
			}
			return s, moved, err
		}
		if err := l.hand(fn); err != nil {
			return s, false, err
		}
		l.setPos(c)
		if c.pos.Segment != segment {
			return s, true, nil
		}
	}
	return sightZero, false, nil
}

// hand gives the frame that was read to the caller: heads are not for him.
func (l *Log) hand(fn func(*Frame) error) error {
	l.refused = nil
	if l.frame.Kind == KindEnd {
		l.rollSize = max(l.rollSize, len(l.frame.Body))
	}
	if l.frame.Kind != KindHead {
		l.refused = fn(&l.frame)
	}
	return l.refused
}

// cross moves to the next segment when its head says that the log ends here
// and goes on there, without an end record: so it is after a recovery.
func (l *Log) cross() (bool, error) {
	if l.at.pos.Offset == 0 || l.at.loose {
		return false, nil
	}
	next := l.at
	next.pos = Pos{Segment: l.at.pos.Segment + 1}
	f, err := l.files.get(SegmentFile(next.pos.Segment))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read segment %d: %w", next.pos.Segment, err)
	}
	defer l.files.put(f)
	var w window
	w.on(f.File)
	var frame Frame
	c := next
	s, err := w.look(&c, l.seed, headSize, &frame)
	switch {
	case err != nil:
		return false, err
	case s == sightZero:
		return false, nil
	case s == sightBad:
		begun, err := begunFile(f.File, l.seed, next.pos.Segment, minRead)
		if begun {
			err = corruptAt(l.at.pos, "no frame, but the log was begun in segment %d", next.pos.Segment)
		}
		return false, err
	}
	rare.Reached(rare.CrossedWithoutEnd)
	l.setPos(next)
	return true, nil
}

// missing turns a missing segment into what it means.
func (l *Log) missing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read segment %d: %w", l.at.pos.Segment, err)
	}
	if cur, cerr := readCurrent(l.sys, l.dir); cerr == nil && l.at.pos.Segment <= cur.Checkpoint {
		rare.Reached(rare.FellBehind)
		return ErrBehind
	}
	rare.Reached(rare.SegmentMissing)
	return corruptAt(l.at.pos, "the segment is missing")
}

// CatchUp hands out the frames from the read position to the true end of the
// log, which it finds in the file. LOCK must be held. Bad bytes at the end are
// what a dead writer left: they are cut, kept in a torn- file, and reported. A
// segment that was opened late is first synced and read back from the disk.
//
// Damage below what was durable is a *CorruptError; a poisoned store gives
// ErrPoisoned. When fn fails, CatchUp returns its error, and the frame is
// handed out again next time.
func (l *Log) CatchUp(fn func(*Frame) error) error {
	if !l.held.Load() {
		return ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	if l.proven() {
		l.own()
		return nil
	}
	defer l.win.reset()
	published, known := l.control.pos(ctlEnd)
	flight := l.control.load(ctlFlight) != 0
	across := !l.caught || flight || !known || published.Segment != l.at.pos.Segment
	l.lose()
	l.win.step = int(min(max(published.Offset-l.at.pos.Offset+headerSize, minRead), maxRead))
	s, err := l.forward(noLimit, across, fn)
	if err != nil {
		return err
	}
	if known && l.at.pos.Before(published) && l.reaches(published) {
		rare.Reached(rare.EndLost)
		return corruptAt(l.at.pos, "no frame, but the log was written up to %v since the machine started", published)
	}
	if s == sightBad || flight {
		if err := l.trimTail(false); err != nil {
			return err
		}
	}
	return l.settleEnd()
}

// reaches says whether CONTROL's word about the last frame bears out its word about
// the end of the log, which is behind the read position: of words that hold garbage one
// in two thousand looks like a position. It does when the last frame has not been read;
// once it was, its end is the end. LOCK is held.
func (l *Log) reaches(end Pos) bool {
	last, ok := l.control.pos(ctlLast)
	return ok && last.Segment == end.Segment && last.Before(end) && !last.Before(l.at.pos)
}

// Last says what the last frame before the read position says, be it by a
// checkpoint: its epoch, and whether one may append only who knows the state.
func (l *Log) Last() (epoch uint32, stateful bool) {
	return l.at.epoch, l.at.flags&flagStateful != 0
}

// skipFrom is how far the end may be ahead for Advance to read up to it.
const skipFrom = 64 << 10

// Advance is CatchUp for one who wants to append and needs no frame: what lies
// far ahead is skipped. It reads a bounded part of the log. LOCK is held. Not
// ok, and nothing done, when CONTROL does not tell where the end is, or somebody
// died writing: Start and CatchUp find it.
func (l *Log) Advance() (ok bool, err error) {
	if !l.held.Load() {
		return false, ErrNotLocked
	}
	if _, known := l.control.pos(ctlEnd); !known || l.control.load(ctlFlight) != 0 {
		return false, l.Poisoned()
	}
	none := func(*Frame) error { return nil }
	if l.Behind() <= skipFrom {
		err = l.CatchUp(none)
		if !errors.Is(err, ErrBehind) && !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	if _, ok, err := l.SkipToEnd(); err != nil || !ok {
		return false, err
	}
	err = l.CatchUp(none)
	return err == nil, err
}

// settleEnd makes the position, which is the end of the log, the end that
// everybody sees: with a head when a segment begins there, and vouched for.
func (l *Log) settleEnd() error {
	if l.at.pos.Offset == 0 {
		if err := l.finishRoll(); err != nil {
			return err
		}
	}
	f, err := l.files.get(SegmentFile(l.at.pos.Segment))
	if err != nil {
		return l.missing(err)
	}
	defer l.files.put(f)
	if !f.vouched.Load() {
		if err := l.vouch(f, l.at.pos, l.at.synced); err != nil {
			return err
		}
	}
	l.publish()
	l.own()
	if l.aheadOf != l.at.pos.Segment {
		l.aheadOf = l.at.pos.Segment
		l.openAhead()
	}
	return nil
}

// finishRoll begins the segment at the position, as the one who sealed the
// segment before it would have, had it lived: that one has to be durable first.
func (l *Log) finishRoll() error {
	if n := l.at.end.Segment; n > 0 {
		f, err := l.files.get(SegmentFile(n))
		switch {
		case errors.Is(err, fs.ErrNotExist) && n <= l.Current().Checkpoint:
			// The checkpoint holds it, durably.
		case err != nil:
			return fmt.Errorf("sync segment %d: %w", n, err)
		default:
			rare.Reached(rare.RollFinished)
			defer l.files.put(f)
			if f.vouched.Load() {
				err = l.syncFile(f)
			} else {
				err = l.vouch(f, l.at.pos, l.at.synced)
			}
			if err != nil {
				return fmt.Errorf("sync segment %d: %w", n, err)
			}
		}
	}
	l.raiseDurable(l.at.pos)
	return l.begin()
}

// publish tells everybody where the log ends, and that no write is under way.
func (l *Log) publish() {
	c := l.control
	c.store(ctlLast, pack(l.at.last))
	c.store(ctlEnd, pack(l.at.pos))
	c.store(ctlFlight, 0)
}

// openAhead opens the segments that will follow while they are still blank,
// so that their descriptors vouch for all of them. What cannot be opened now
// is verified when it is opened later.
func (l *Log) openAhead() {
	active := l.Pos().Segment
	for n := active + 1; n <= active+2; n++ {
		f, err := l.files.get(SegmentFile(n))
		if err != nil {
			return
		}
		l.files.put(f)
	}
}
