package journal

import "fmt"

// Pos is a place in the log. The zero value is before everything. Positions
// survive compaction: segment numbers are never reused.
type Pos struct {
	Segment uint64
	Offset  int64 // bytes from the start of the segment
}

// Before reports whether p lies before q.
func (p Pos) Before(q Pos) bool {
	if p.Segment != q.Segment {
		return p.Segment < q.Segment
	}
	return p.Offset < q.Offset
}

// String is "segment:offset".
func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Segment, p.Offset) }

func later(p, q Pos) Pos {
	if p.Before(q) {
		return q
	}
	return p
}

// FileID says in which file bytes lie: a segment, or with the top bit set a
// payload file. The zero value is no file.
type FileID uint32

const payloadBit FileID = 1 << 31

// SegmentFile is the FileID of segment n.
func SegmentFile(n uint64) FileID { return FileID(n) }

// PayloadFile is the FileID of payload file n.
func PayloadFile(n uint64) FileID { return FileID(n) | payloadBit }

// Payload reports whether f is a payload file, not a segment.
func (f FileID) Payload() bool { return f&payloadBit != 0 }

// Number is the number of the segment or of the payload file.
func (f FileID) Number() uint64 { return uint64(f &^ payloadBit) }

// Name is the file's name in the directory.
func (f FileID) Name() string {
	if f.Payload() {
		return fmt.Sprintf("%06d.pay", f.Number())
	}
	return fmt.Sprintf("%06d.log", f.Number())
}

// A position packed into one word can be read and written atomically by
// processes that share CONTROL: 26 bits of segment, 27 of offset/8, 11 of
// check, so that garbage is told from a position. 0 is unknown.
const (
	maxSegment    = 1<<26 - 1
	maxOffset     = 8 * (1<<27 - 1)
	packCheckBits = 11
)

func pack(p Pos) uint64 {
	v := p.Segment<<27 | uint64(p.Offset)/8
	return v<<packCheckBits | packCheck(v)
}

func unpack(w uint64) (Pos, bool) {
	v := w >> packCheckBits
	if w == 0 || w&(1<<packCheckBits-1) != packCheck(v) {
		return Pos{}, false
	}
	return Pos{Segment: v >> 27, Offset: int64(v&(1<<27-1)) * 8}, true
}

func packCheck(v uint64) uint64 {
	h := (v + 1) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h >> (64 - packCheckBits)
}
