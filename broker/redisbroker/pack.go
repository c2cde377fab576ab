package redisbroker

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// Calls and answers are packed: numbers with the most significant byte first,
// strings behind their length. The scripts say what stands where.

// packer builds a call. Its methods return it longer.
type packer []byte

func newPacker(id broker.ID) packer     { return append(make(packer, 0, 256), id[:]...) }
func (p packer) u8(n byte) packer       { return append(p, n) }
func (p packer) u16(n int) packer       { return binary.BigEndian.AppendUint16(p, uint16(n)) }
func (p packer) u32(n int) packer       { return binary.BigEndian.AppendUint32(p, uint32(n)) }
func (p packer) u48(n uint64) packer    { return append(p, binary.BigEndian.AppendUint64(nil, n)[2:]...) }
func (p packer) u64(n int64) packer     { return binary.BigEndian.AppendUint64(p, uint64(n)) }
func (p packer) f64(n float64) packer   { return binary.BigEndian.AppendUint64(p, math.Float64bits(n)) }
func (p packer) id(id broker.ID) packer { return append(p, id[:]...) }
func (p packer) str(s string) packer    { return append(p.u16(len(s)), s...) }
func (p packer) text(b []byte) packer   { return append(p.u32(len(b)), b...) }

func (p packer) flag(on bool) packer {
	if on {
		return append(p, 1)
	}
	return append(p, 0)
}

// errPacked is what a broken answer leads to.
var errPacked = errors.New("redis: an answer is shorter than it says: another version of spool has written there")

// unpacker reads an answer. After an error it gives zero values.
type unpacker struct {
	b   []byte
	err error
}

func (u *unpacker) take(n int) []byte {
	if u.err != nil || n < 0 || n > len(u.b) {
		u.err = errPacked
		return make([]byte, min(max(n, 0), 64))
	}
	part := u.b[:n:n]
	u.b = u.b[n:]
	return part
}

func (u *unpacker) u8() byte { return u.take(1)[0] }

func (u *unpacker) uint(n int) (v uint64) {
	for _, b := range u.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (u *unpacker) id() broker.ID   { return broker.ID(u.take(16)) }
func (u *unpacker) str() string     { return string(u.take(int(u.uint(2)))) }
func (u *unpacker) text() []byte    { return u.take(int(u.uint(4))) }
func (u *unpacker) count() int      { return min(int(u.uint(4)), len(u.b)) }
func (u *unpacker) time() time.Time { return instant(u.uint(8)) }

// instant makes a time of microseconds since 1970; 0 is the zero time.
func instant(us uint64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us)).UTC()
}

// micros is a duration in microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// job packs a job as lua/add.lua reads it.
func (p packer) job(n *broker.NewJob) packer {
	id, fresh := n.ID, n.HasNewID()
	if id.IsZero() {
		id = broker.NewID()
	}
	p = p.id(id).flag(fresh).u32(int(int64(n.Priority) + 1<<31))
	switch {
	case !n.At.IsZero():
		at := n.At.UnixMicro()
		if n.At.Nanosecond()%1000 > 0 {
			at++
		}
		p = p.u8(2).u64(at)
	case n.Delay > 0:
		p = p.u8(1).u64(micros(n.Delay))
	default:
		p = p.u8(0).u64(0)
	}
	most := cmp.Or(n.MaxAttempts, broker.DefaultMaxAttempts)
	var digest [sha256.Size]byte
	if n.Key != "" {
		digest = sha256.Sum256(n.Payload)
	}
	p = p.u32(most).flag(n.Ordered).u8(byte(n.KeyHold)).u8(byte(n.KeyRepeat)).u64(micros(n.KeyFor))
	p = p.id(n.Batch).u32(int(n.BatchOrdinal)).u32(int(n.BatchSize)).u32(storedBytes(n)).u64(micros(n.StartWithin))
	p = p.str(n.Task).str(n.Tenant).str(n.Group).str(n.Key).id(broker.ID(digest[:16]))
	p = p.ext(n, digest[:16])
	return p.body(n)
}

// isPlain reports whether a job is ready at once and has nothing but a new id, a
// task and a body.
func isPlain(n *broker.NewJob) bool {
	return n.HasNewID() && n.Priority == 0 && n.Delay == 0 && n.At.IsZero() && n.Tenant == "" && n.Group == "" && !n.Ordered && n.Key == "" &&
		n.StartWithin == 0 && n.Retain == 0 && n.BatchSize == 0 && n.Batch.IsZero()
}

// plain packs a plain job as lua/enqueue.lua reads it: with the end of its header.
func (p packer) plain(n *broker.NewJob) packer {
	most := cmp.Or(n.MaxAttempts, broker.DefaultMaxAttempts)
	p = p.id(n.ID).str(n.Task)
	at := len(p)
	p = p.u32(0).u32(most).u32(0).u32(0).u32(storedBytes(n))
	p = p.body(n)
	// The body's own length goes: what stands before it is counted, too.
	head := at + 4 + 16
	p = append(p[:head], p[head+4:]...)
	binary.BigEndian.PutUint32(p[at:], uint32(len(p)-at-4))
	return p
}

// storedBytes is what a capacity counts of a job.
func storedBytes(n *broker.NewJob) int {
	size := len(n.Payload)
	for name, value := range n.Headers {
		size += len(name) + len(value)
	}
	return size
}

// The parts of ext: what few jobs have. See lua/job.lua.
const (
	extKey = 1 << iota
	extBatch
	extSize
	extRetain
	extStart
)

func (p packer) ext(n *broker.NewJob, digest []byte) packer {
	var x packer
	var mask byte
	add := func(on bool, bit byte, part func(packer) packer) {
		if on {
			mask |= bit
			x = part(x)
		}
	}
	add(n.Key != "", extKey, func(x packer) packer {
		return append(x.u8(byte(n.KeyHold)).u64(micros(n.KeyFor)), digest...).str(n.Key)
	})
	add(!n.Batch.IsZero(), extBatch, func(x packer) packer { return x.id(n.Batch).u32(int(n.BatchOrdinal)) })
	add(n.BatchSize > 0, extSize, func(x packer) packer { return x.u32(int(n.BatchSize)) })
	add(n.Retain != 0, extRetain, func(x packer) packer { return x.u64(int64(n.Retain)) })
	add(n.StartWithin > 0, extStart, func(x packer) packer { return x.u64(int64(n.StartWithin)) })
	if mask == 0 {
		return p.u16(0)
	}
	return append(p.u16(len(x)+1).u8(mask), x...)
}

// body packs what the scripts do not read: 0 and the payload; or 1, timeout ns,
// size, number of headers (all 4 bytes but the timeout), length of them, headers,
// payload.
func (p packer) body(n *broker.NewJob) packer {
	if n.Timeout == 0 && len(n.Headers) == 0 {
		return append(p.u32(len(n.Payload)+1).u8(0), n.Payload...)
	}
	names := make([]string, 0, len(n.Headers))
	for name := range n.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var h packer
	for _, name := range names {
		h = h.str(name).str(n.Headers[name])
	}
	p = p.u32(17 + len(h) + len(n.Payload)).u8(1).u64(int64(n.Timeout)).u32(len(names)).u32(len(h))
	return append(append(p, h...), n.Payload...)
}
