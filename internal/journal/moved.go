package journal

import (
	"encoding/binary"
	"fmt"
	"os"
	"sort"
)

// Moved says where the bytes of one file lie that a compaction moved into a
// payload file. It takes about three bytes for each place. It does not change
// once the payload file is finished, and is safe for concurrent use then.
type Moved struct {
	From, To FileID
	n        uint32
	marks    []mark // every so many places
	b        []byte // for each place: the gap before it, its length
	from, to uint32 // where the next place would follow
}

// mark is where a place follows: right after the one before it, or after a gap.
type mark struct {
	from, to uint32
	at       uint32 // in b
}

// markEvery is how many places lie between two marks.
const markEvery = 64

// add notes that n bytes at from were moved to to, right after those of the
// last call. Calls go forward in the file.
func (m *Moved) add(from, to, n uint32) {
	if m.n%markEvery == 0 {
		m.marks = append(m.marks, mark{m.from, to, uint32(len(m.b))})
	}
	m.b = binary.AppendUvarint(m.b, uint64(from-m.from))
	m.b = binary.AppendUvarint(m.b, uint64(n))
	m.n, m.from, m.to = m.n+1, from+n, to+n
}

// Find returns where n bytes that lay at off lie now; not ok when they were
// not moved.
func (m *Moved) Find(off, n uint32) (to uint32, ok bool) {
	i := sort.Search(len(m.marks), func(i int) bool { return m.marks[i].from > off })
	if i == 0 {
		return 0, false
	}
	k := m.marks[i-1]
	for b := m.b[k.at:]; len(b) > 0; {
		gap, g := binary.Uvarint(b)
		length, w := binary.Uvarint(b[max(g, 0):])
		if g <= 0 || w <= 0 {
			return 0, false
		}
		k.from += uint32(gap)
		if k.from > off {
			return 0, false
		}
		if k.from == off && uint32(length) == n {
			return k.to, true
		}
		k.from += uint32(length)
		k.to += uint32(length)
		b = b[g+w:]
	}
	return 0, false
}

// movedHead is what precedes the places of one file in a table: file, where
// they begin in the payload file, how many, and the bytes that they take.
const movedHead = 16

// putMoved appends the table of a payload file: its parts, then their checksum.
func putMoved(parts []*Moved, seed uint32) []byte {
	var b []byte
	for _, m := range parts {
		var h [movedHead]byte
		binary.LittleEndian.PutUint32(h[0:], uint32(m.From))
		binary.LittleEndian.PutUint32(h[4:], m.marks[0].to)
		binary.LittleEndian.PutUint32(h[8:], m.n)
		binary.LittleEndian.PutUint32(h[12:], uint32(len(m.b)))
		b = append(append(b, h[:]...), m.b...)
	}
	return binary.LittleEndian.AppendUint32(b, sumOf(seed, b))
}

// parseMoved reads a table; not ok when it is damaged.
func parseMoved(b []byte, to FileID, seed uint32) (parts []*Moved, ok bool) {
	le := binary.LittleEndian
	if len(b) < 4 || le.Uint32(b[len(b)-4:]) != sumOf(seed, b[:len(b)-4]) {
		return nil, false
	}
	for b = b[:len(b)-4]; len(b) > 0; {
		if len(b) < movedHead || uint64(len(b)-movedHead) < uint64(le.Uint32(b[12:])) {
			return nil, false
		}
		m := &Moved{From: FileID(le.Uint32(b)), To: to}
		at, n, places := le.Uint32(b[4:]), le.Uint32(b[8:]), b[movedHead:][:le.Uint32(b[12:])]
		for range n {
			gap, g := binary.Uvarint(places)
			length, w := binary.Uvarint(places[max(g, 0):])
			if g <= 0 || w <= 0 {
				return nil, false
			}
			m.add(m.from+uint32(gap), at, uint32(length))
			at += uint32(length)
			places = places[g+w:]
		}
		if len(places) > 0 || n == 0 {
			return nil, false
		}
		parts = append(parts, m)
		b = b[movedHead+le.Uint32(b[12:]):]
	}
	return parts, true
}

// ReadMoved returns what payload file n says of where its bytes came from, one
// part for each file; none when it does not say. Its error wraps
// fs.ErrNotExist when the file is gone, ErrCorrupt when it is damaged. Safe for
// concurrent use.
func (l *Log) ReadMoved(n uint64) ([]*Moved, error) {
	name := PayloadFile(n).Name()
	f, err := l.sys.Open(join(l.dir, name), os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	foot, size, err := readEnds(f, name, payloadMagic, n, l.store)
	var table []byte
	if err == nil && foot.end > 0 {
		if foot.end < sideHeader || foot.end > size-sideFooter {
			return nil, joinClose(&CorruptError{File: name, Offset: size - sideFooter, What: "the table lies outside the file"}, f)
		}
		table = make([]byte, size-sideFooter-foot.end)
		_, err = f.ReadAt(table, foot.end)
	}
	if err = joinClose(err, f); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if table == nil {
		return nil, nil
	}
	parts, ok := parseMoved(table, PayloadFile(n), l.seed)
	if !ok {
		return nil, &CorruptError{File: name, Offset: foot.end, What: "the table of what was moved"}
	}
	return parts, nil
}
