package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// These are part of the format.
const (
	frameMagic   = 0x316a7073 // "spj1"
	frameVersion = 1
	headerSize   = 80
	frameAlign   = 8
	headSize     = headerSize + headBody // size of a head frame
	headBody     = 40

	flagStateful = 1 << 0

	// MaxBody is the largest body of a frame, in bytes.
	MaxBody = 16 << 20
)

// FormatLevel is the level of the format that this program writes. It is part
// of the format.
const FormatLevel = 1

// Kind is the sort of a frame. It is part of the format.
type Kind uint8

const (
	KindData Kind = 1 // what a caller appended
	KindHead Kind = 2 // begins a segment
	KindEnd  Kind = 3 // seals a segment; its body is the counters
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindData:
		return "data"
	case KindHead:
		return "head"
	case KindEnd:
		return "end"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Frame is one frame of the log, as reading hands it out.
type Frame struct {
	At, Next   Pos    // where its header begins; where the next frame begins
	Seq        uint64 // 1 for the first frame of the store
	Epoch      uint32
	Wall       int64 // the writer's wall clock, nanoseconds since 1970
	SyncedUpTo Pos   // what was known durable before it was written
	Kind       Kind  // KindData or KindEnd; from Inspect and Salvage KindHead, too
	Stateful   bool
	Count      int    // records in the body
	Body       []byte // valid until fn returns; owned by the handle
	BodyAt     int64  // offset of Body[0] in the segment
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seedOf is the checksum state after the store's id.
func seedOf(id [16]byte) uint32 { return crc32.Checksum(id[:], castagnoli) }

func sumOf(seed uint32, p []byte) uint32 { return crc32.Update(seed, castagnoli, p) }

// frameSize is the size on disk of a frame with a body of n bytes.
func frameSize(n int) int64 { return int64(headerSize+n+frameAlign-1) &^ (frameAlign - 1) }

// header is a frame's header in memory.
type header struct {
	version uint8
	kind    Kind
	flags   uint16
	length  uint32
	count   uint32
	pos     Pos
	seq     uint64
	synced  Pos
	wall    int64
	epoch   uint32
	prev    uint32
	bodySum uint32
	sum     uint32
}

// put writes h into the first headerSize bytes of b and sets h.sum.
func (h *header) put(b []byte, seed uint32) {
	le := binary.LittleEndian
	b = b[:headerSize]
	le.PutUint32(b[0:], frameMagic)
	b[4], b[5] = h.version, byte(h.kind)
	le.PutUint16(b[6:], h.flags)
	le.PutUint32(b[8:], h.length)
	le.PutUint32(b[12:], h.count)
	le.PutUint64(b[16:], h.pos.Segment)
	le.PutUint64(b[24:], uint64(h.pos.Offset))
	le.PutUint64(b[32:], h.seq)
	le.PutUint64(b[40:], h.synced.Segment)
	le.PutUint64(b[48:], uint64(h.synced.Offset))
	le.PutUint64(b[56:], uint64(h.wall))
	le.PutUint32(b[64:], h.epoch)
	le.PutUint32(b[68:], h.prev)
	le.PutUint32(b[72:], h.bodySum)
	h.sum = sumOf(seed, b[:76])
	le.PutUint32(b[76:], h.sum)
}

// sight is what a look at bytes that might be a frame gives.
type sight uint8

const (
	sightFrame sight = iota // a frame
	sightZero               // zeros, or the end of the file
	sightBad                // a checksum failed
)

// parseHeader looks at the first headerSize bytes of b; fewer bytes are taken
// as if zeros followed. The error is for a header whose checksum is right but
// that this program cannot accept.
func parseHeader(b []byte, seed uint32, h *header) (sight, error) {
	if len(b) < headerSize {
		if allZero(b) {
			return sightZero, nil
		}
		return sightBad, nil
	}
	b = b[:headerSize]
	le := binary.LittleEndian
	h.sum = le.Uint32(b[76:])
	if le.Uint32(b) != frameMagic || sumOf(seed, b[:76]) != h.sum {
		if allZero(b) {
			return sightZero, nil
		}
		return sightBad, nil
	}
	h.version, h.kind = b[4], Kind(b[5])
	h.flags = le.Uint16(b[6:])
	h.length = le.Uint32(b[8:])
	h.count = le.Uint32(b[12:])
	h.pos = Pos{le.Uint64(b[16:]), int64(le.Uint64(b[24:]))}
	h.seq = le.Uint64(b[32:])
	h.synced = Pos{le.Uint64(b[40:]), int64(le.Uint64(b[48:]))}
	h.wall = int64(le.Uint64(b[56:]))
	h.epoch = le.Uint32(b[64:])
	h.prev = le.Uint32(b[68:])
	h.bodySum = le.Uint32(b[72:])
	switch {
	case h.version != frameVersion:
		return sightFrame, fmt.Errorf("%w: frame %v has version %d, this program knows %d", ErrUnsupported, h.pos, h.version, frameVersion)
	case h.kind < KindData || h.kind > KindEnd:
		return sightFrame, fmt.Errorf("%w: frame %v is of kind %d", ErrUnsupported, h.pos, uint8(h.kind))
	case h.flags&^flagStateful != 0:
		return sightFrame, fmt.Errorf("%w: frame %v has flags %#x", ErrUnsupported, h.pos, h.flags)
	case h.length > MaxBody:
		return sightFrame, corruptAt(h.pos, "body of %d bytes is over the limit of the format", h.length)
	case h.kind == KindHead && h.length != headBody:
		return sightFrame, corruptAt(h.pos, "head with a body of %d bytes", h.length)
	}
	return sightFrame, nil
}

// frame fills f from h and its body.
func (h *header) frame(f *Frame, body []byte) {
	*f = Frame{
		At: h.pos, Next: h.next(), Seq: h.seq, Epoch: h.epoch, Wall: h.wall, SyncedUpTo: h.synced, Kind: h.kind,
		Stateful: h.flags&flagStateful != 0, Count: int(h.count), Body: body, BodyAt: h.pos.Offset + headerSize,
	}
}

// next is where the frame after h begins.
func (h *header) next() Pos {
	if h.kind == KindEnd {
		return Pos{Segment: h.pos.Segment + 1}
	}
	return Pos{h.pos.Segment, h.end()}
}

// end is the offset of the first byte after h's frame.
func (h *header) end() int64 { return h.pos.Offset + frameSize(int(h.length)) }

// headRecord is the body of a head.
type headRecord struct {
	store   [16]byte
	prev    uint64 // segment before; 0 for the first
	prevEnd int64  // where that one ends
	level   uint32
}

func (r *headRecord) put(b []byte) {
	copy(b, r.store[:])
	binary.LittleEndian.PutUint64(b[16:], r.prev)
	binary.LittleEndian.PutUint64(b[24:], uint64(r.prevEnd))
	binary.LittleEndian.PutUint32(b[32:], r.level)
	binary.LittleEndian.PutUint32(b[36:], 0)
}

func parseHead(b []byte) (r headRecord) {
	copy(r.store[:], b)
	r.prev = binary.LittleEndian.Uint64(b[16:])
	r.prevEnd = int64(binary.LittleEndian.Uint64(b[24:]))
	r.level = binary.LittleEndian.Uint32(b[32:])
	return r
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
