package journal

import (
	"errors"
	"fmt"

	"github.com/spoolq/spool/internal/rare"
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
	Adds     int64 // by how many bytes a checkpoint becomes larger at most, see SetState; not written
}

// maxKept is how large a buffer is kept for the next frame.
const maxKept = 4 << 20

// endSpace is the room in the active segment that rolling leaves free for
// the end record.
func (l *Log) endSpace() int64 { return frameSize(l.rollSize) }

// mayWrite reports whether the handle has caught up in the turn it has.
func (l *Log) mayWrite() bool { return l.held.Load() && l.ready != 0 && l.ready == l.turn.Load() }

// Reserve makes room for a frame whose body is about n bytes: it begins the
// next segment when the active one is full, or when n is over 1 MiB; and for an
// Enqueue, of which a checkpoint becomes larger by adds bytes at most, it makes
// sure that one will fit even on a full disk. LOCK must be held and the handle
// caught up. Call it before deciding anything that depends on where bytes will
// lie.
//
// It returns ErrDiskFull, with how much room is missing, for an Enqueue while the
// reserve is; and for a Settle that has no place until a Prepare or a compaction
// makes one. It returns ErrPoisoned, or ErrTooLarge when n is over MaxBody.
func (l *Log) Reserve(n int, class Class, adds int64) error {
	if !l.mayWrite() {
		return ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	if n > MaxBody {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	err := l.place(n, class, adds)
	if errors.Is(err, ErrDiskFull) {
		l.setFull(true)
		l.askPrepare(true)
		if class == Enqueue {
			rare.Reached(rare.EnqueueRefused)
			return l.refusal(adds)
		}
	}
	if err != nil {
		return err
	}
	l.askSync()
	if need := headerSize + n + frameAlign; cap(l.out) < need {
		l.out = make([]byte, 0, max(need, 2*cap(l.out), 16<<10))
	}
	return nil
}

// place finds the segment for a frame, and makes sure that it has the room.
func (l *Log) place(n int, class Class, adds int64) error {
	if class == Enqueue {
		if l.Full() {
			return ErrDiskFull
		}
		if err := l.cover(adds); err != nil {
			return err
		}
	}
	if l.mustRoll(n) {
		if err := l.rollFor(n, class); err != nil {
			return err
		}
	}
	return l.extendOrRoll(n, class)
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
	l.addState(h.Adds)
	l.control.store(ctlFlight, pack(l.at.pos))
	if err := l.writeFrame(f, KindData, l.space(body), h); err != nil {
		return Pos{}, fmt.Errorf("append frame: %w", err)
	}
	l.publish()
	if cap(l.out) > maxKept {
		l.out = nil
	}
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
		rare.Reached(rare.WriteNotTakenBack)
		l.Poison(fmt.Errorf("write segment %d: %w; taking it back: %w", p.Segment, why, err))
		return fmt.Errorf("%w: %w", l.Poisoned(), why)
	}
	rare.Reached(rare.WriteTakenBack)
	l.control.store(ctlFlight, 0)
	return diskFull(why)
}
