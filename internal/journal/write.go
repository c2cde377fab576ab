package journal

import (
	"errors"
	"fmt"
	"io/fs"
)

// Class says what a frame is for, and so whether it may use the reserve.
type Class uint8

const (
	// Enqueue is new work: refused while the reserve is missing.
	Enqueue Class = iota
	// Settle is claims, settlements and compaction: may use the reserve.
	Settle
)

// FrameHeader is what a caller says of a frame besides its body.
type FrameHeader struct {
	Count    int // records in the body
	Epoch    uint32
	Stateful bool
}

// endSpace is the room in the active segment that rolling leaves free for
// the end record.
func (l *Log) endSpace() int64 { return frameSize(l.rollSize) }

// mayWrite reports whether the handle has caught up in the turn it has.
func (l *Log) mayWrite() bool { return l.held.Load() && l.ready != 0 && l.ready == l.turn.Load() }

// Reserve makes room for a frame whose body is about n bytes: it begins the
// next segment when the active one is full, or when n is over 1 MiB. LOCK must
// be held and the handle caught up. Call it before deciding anything that
// depends on where bytes will lie.
//
// It returns ErrDiskFull for an Enqueue while the reserve is missing,
// ErrPoisoned, or ErrTooLarge when n is over MaxBody.
func (l *Log) Reserve(n int, class Class) error {
	if !l.mayWrite() {
		return ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	if n > MaxBody {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	if class == Enqueue && l.Full() {
		l.askPrepare(true)
		return fmt.Errorf("%w: the reserve is missing", ErrDiskFull)
	}
	if l.mustRoll(n) {
		if err := l.rollFor(n, class); err != nil {
			return err
		}
	}
	if need := headerSize + n + frameAlign; cap(l.out) < need {
		l.out = make([]byte, 0, max(need, 2*cap(l.out), 16<<10))
	}
	return nil
}

// mustRoll reports whether a frame of n bytes should go to the next segment.
func (l *Log) mustRoll(n int) bool {
	if l.at.last.Offset == 0 {
		return false // only a head so far
	}
	if n > loneBody || l.at.size > frameSize(loneBody) {
		return true
	}
	limit := segmentSize(l.o.FirstSegmentBytes, l.at.pos.Segment)
	return l.at.pos.Offset+frameSize(n)+l.endSpace() > limit
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
	limit := 2 * segmentSize(l.o.FirstSegmentBytes, l.at.pos.Segment)
	if n <= loneBody && l.at.size <= frameSize(loneBody) && l.at.pos.Offset+frameSize(n)+l.endSpace() <= limit {
		return l.extend(n, class)
	}
	if ahead == 0 {
		made, err := l.createNext()
		switch {
		case err != nil && (class == Enqueue || !errors.Is(err, ErrDiskFull)):
			return err
		case err != nil || !made:
			return l.growOn(n)
		}
	}
	return l.roll()
}

// extend lets the active segment grow by a frame of n bytes. The room for the
// end record is taken first: without it a full disk would keep the segment from
// being sealed, and so everybody from the reserve.
func (l *Log) extend(n int, class Class) error {
	if class == Settle {
		return nil // the reserve is used up: whatever room is left is for this
	}
	f, err := l.files.get(SegmentFile(l.at.pos.Segment))
	if err != nil {
		return l.missing(err)
	}
	defer l.files.put(f)
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("extend segment %d: %w", f.id.Number(), err)
	}
	missing := l.at.pos.Offset + frameSize(n) + l.endSpace() - size
	if missing <= 0 {
		return nil
	}
	_, err = f.WriteAt(make([]byte, missing), size)
	if noSpace(err) {
		l.setFull(true)
		l.askPrepare(true)
	}
	if err != nil {
		return fmt.Errorf("extend segment %d: %w", f.id.Number(), diskFull(err))
	}
	return nil
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

// createNext makes the next segment, without bytes, under LOCK: nobody has
// prepared it. Not made when somebody is about to.
func (l *Log) createNext() (bool, error) {
	ok, err := l.tryPrep()
	if err != nil || !ok {
		return false, err
	}
	defer l.prepUnlock()
	n := l.at.pos.Segment + 1
	if there, err := l.exists(SegmentFile(n).Name()); err != nil || there {
		return there, err
	}
	if err := l.createSegment(n, nil, 0); err != nil {
		if errors.Is(err, ErrDiskFull) {
			l.setFull(true)
		}
		return false, err
	}
	return true, nil
}

// Seal seals the active segment now, begins the next and returns the sealed
// number. LOCK must be held and the handle caught up. A segment that holds
// nothing but its head is sealed too.
func (l *Log) Seal() (uint64, error) {
	if !l.mayWrite() {
		return 0, ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return 0, err
	}
	n := l.at.pos.Segment
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
	l.control.store(ctlFlight, pack(l.at.pos))
	if err := l.writeFrame(f, KindEnd, l.space(counters), l.carried()); err != nil {
		return fmt.Errorf("seal segment %d: %w", n, err)
	}
	if err := l.syncFile(f); err != nil {
		return fmt.Errorf("seal segment %d: %w", n, err)
	}
	l.raiseDurable(l.at.pos)
	if err := l.begin(); err != nil {
		return err
	}
	l.publish()
	l.askPrepare(false)
	return nil
}

// begin writes the head of the segment that the position begins, whose
// predecessor is durable. Who prepared the segment may have died before its
// name was durable, and likewise who created the store or flipped CURRENT.
func (l *Log) begin() error {
	if err := l.sys.SyncDir(l.dir); err != nil {
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

// carried is what heads and ends take over from the frame before.
func (l *Log) carried() FrameHeader {
	return FrameHeader{Epoch: l.at.epoch, Stateful: l.at.flags&flagStateful != 0}
}

// Body returns an empty buffer to append the body of the next frame to, and
// where its first byte will lie, so that places in it are known while it is
// written. Valid until Append; the buffer belongs to the handle.
func (l *Log) Body() (buf []byte, at int64, file FileID) {
	if cap(l.out) < headerSize+frameAlign {
		l.out = make([]byte, 0, 16<<10)
	}
	return l.out[headerSize:headerSize:cap(l.out)], l.at.pos.Offset + headerSize, SegmentFile(l.at.pos.Segment)
}

// space returns a buffer of header space, body and padding. It copies only a
// body that does not lie in the buffer that Body gave.
func (l *Log) space(body []byte) []byte {
	size := int(frameSize(len(body)))
	inPlace := len(body) > 0 && cap(l.out) > headerSize && &l.out[:headerSize+1][headerSize] == &body[0]
	if cap(l.out) < size {
		grown := make([]byte, size, size+size/4)
		copy(grown[headerSize:], body)
		l.out = grown
	} else if !inPlace {
		copy(l.out[:size][headerSize:], body)
	}
	b := l.out[:size]
	clear(b[headerSize+len(body):])
	return b[:headerSize+len(body)]
}

// Append writes a frame at the position, with one write, publishes its end and
// moves the position past it: it is not handed out to this handle. LOCK must
// be held and the handle caught up; Reserve comes first. It is durable after a
// Sync that returns at least next.
//
// After an error nothing was appended, and what the caller decided is void. It
// wraps ErrDiskFull when there is no room, ErrPoisoned when the store is or
// has become poisoned, ErrTooLarge over MaxBody.
func (l *Log) Append(body []byte, h FrameHeader) (next Pos, err error) {
	if !l.mayWrite() {
		return Pos{}, ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return Pos{}, err
	}
	if len(body) > MaxBody {
		return Pos{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(body))
	}
	if l.at.pos.Offset+frameSize(len(body)) > maxOffset {
		return Pos{}, fmt.Errorf("append frame: %w: the segment is full, Reserve was not asked", ErrTooLarge)
	}
	f, err := l.files.get(SegmentFile(l.at.pos.Segment))
	if err != nil {
		return Pos{}, fmt.Errorf("append frame: %w", err)
	}
	defer l.files.put(f)
	l.control.store(ctlFlight, pack(l.at.pos))
	if err := l.writeFrame(f, KindData, l.space(body), h); err != nil {
		return Pos{}, fmt.Errorf("append frame: %w", err)
	}
	l.publish()
	return l.at.pos, nil
}

// writeFrame writes a frame at the position and moves the position past it. b
// is from space. After an error the range is cut, or else the store poisoned,
// and the handle has to catch up again.
func (l *Log) writeFrame(f *openFile, kind Kind, b []byte, fh FrameHeader) error {
	h := l.encode(&l.at, kind, b, fh)
	b = b[:frameSize(int(h.length))]
	if _, err := f.WriteAt(b, h.pos.Offset); err != nil {
		l.lose()
		return l.undo(f, h.pos, int64(len(b)), err)
	}
	c := l.at
	c.take(&h)
	l.setPos(c)
	return nil
}

// encode puts the header of the frame that continues c before its body.
func (l *Log) encode(c *chain, kind Kind, b []byte, fh FrameHeader) header {
	body := b[headerSize:]
	h := header{
		version: frameVersion, kind: kind, length: uint32(len(body)), count: uint32(fh.Count), pos: c.pos,
		seq: c.seq + 1, synced: l.syncedUpTo(), wall: l.sys.Wall().UnixNano(), epoch: fh.Epoch, prev: c.sum,
		bodySum: sumOf(l.seed, body),
	}
	if fh.Stateful {
		h.flags |= flagStateful
	}
	h.put(b, l.seed)
	return h
}

// syncedUpTo is what the next frame may promise: what is known durable, which
// is never beyond the position.
func (l *Log) syncedUpTo() Pos {
	d := later(l.Durable(), l.at.synced)
	if l.at.pos.Before(d) {
		return l.at.synced
	}
	return d
}

// undo takes back the n bytes at p that a failed write may have left.
func (l *Log) undo(f *openFile, p Pos, n int64, why error) error {
	if noSpace(why) {
		l.setFull(true)
		l.askPrepare(true)
	}
	if err := l.wipe(f, p.Offset, p.Offset+n); err != nil {
		l.Poison(fmt.Errorf("write segment %d: %w; taking it back: %w", p.Segment, why, err))
		return fmt.Errorf("%w: %w", l.Poisoned(), why)
	}
	l.control.store(ctlFlight, 0)
	return diskFull(why)
}
