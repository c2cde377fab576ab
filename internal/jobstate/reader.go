package jobstate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// ErrRecord is returned when a body does not hold records as this version
// writes them, or they contradict the state.
var ErrRecord = errors.New("jobstate: bad record")

// ErrNewer is returned when a newer version of the program wrote what this one does
// not know: it must not touch the store.
var ErrNewer = errors.New("a newer version of the program wrote the store, and this one does not know all that is in it")

// reader takes records apart. After the first short or odd field err is set
// and everything reads as zero.
type reader struct {
	b    []byte // rest of the record
	rest []byte // after the record
	all  int    // length of the body
	file uint32
	at   uint32
	base int64
	wall int64
	strs [15][]byte
	nstr int
	err  error
}

func newReader(body []byte, file uint32, at int64) (*reader, error) {
	if len(body) < 16 {
		return nil, fmt.Errorf("%w: body of %d bytes", ErrRecord, len(body))
	}
	return &reader{
		rest: body[16:], all: len(body), file: file, at: uint32(at),
		base: int64(binary.LittleEndian.Uint64(body)), wall: int64(binary.LittleEndian.Uint64(body[8:])),
	}, nil
}

// next moves to the next record.
func (r *reader) next() (t recordType, ok bool) {
	if len(r.rest) == 0 || r.err != nil {
		return 0, false
	}
	if len(r.rest) < 4 {
		r.bad("record header")
		return 0, false
	}
	n := int(r.rest[1]) | int(r.rest[2])<<8 | int(r.rest[3])<<16
	if n > len(r.rest)-4 {
		r.bad("record length")
		return 0, false
	}
	t = recordType(r.rest[0])
	r.b, r.rest = r.rest[4:4+n], r.rest[4+n:]
	return t, true
}

// newer refuses a record of a type that this version does not know. Its frame has a
// right checksum: it is no damage.
func (r *reader) newer(t recordType) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: records of type %d", ErrNewer, t)
	}
	r.b = nil
}

func (r *reader) bad(what string) {
	if r.err == nil {
		rare.Reached(rare.RecordRefused)
		r.err = fmt.Errorf("%w: %s at byte %d of the body", ErrRecord, what, r.all-len(r.rest)-len(r.b))
	}
	r.b = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) time() int64 { return r.base + r.int() }

func (r *reader) byte() byte { return r.take(1)[0] }

var zeros [16]byte

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad("end of record")
		return zeros[:min(n, len(zeros))]
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) id() broker.ID { return broker.ID(r.take(16)) }

// count reads the number of things that take at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.bad("count")
		return 0
	}
	return int(n)
}

// str returns a string's bytes, valid as long as the body.
func (r *reader) str() []byte {
	k := int(r.byte())
	switch {
	case r.err != nil:
		return nil
	case k >= 1 && k <= r.nstr:
		return r.strs[k-1]
	case k != 0 && k != 16:
		r.bad("string number")
		return nil
	}
	s := r.text()
	if k == 0 && r.err == nil {
		if r.nstr == len(r.strs) {
			r.bad("too many strings")
			return nil
		}
		r.strs[r.nstr] = s
		r.nstr++
	}
	return s
}

func (r *reader) text() []byte {
	n := r.count(1)
	if r.err != nil {
		return nil
	}
	return r.take(n)
}

func (r *reader) texts() []string {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = string(r.str())
	}
	return list
}

// blob passes over bytes and returns where they lie.
func (r *reader) blob() Loc {
	head := r.take(8)
	n, sum := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	if uint64(n) > uint64(len(r.b)) {
		r.bad("bytes")
		return Loc{}
	}
	off := r.all - len(r.rest) - len(r.b)
	r.take(int(n))
	return Loc{File: r.file, Off: r.at + uint32(off), Len: n, Sum: sum}
}
