package jobstate

import (
	"encoding/binary"

	"github.com/spoolq/spool/broker"
)

// Writer collects the records of one frame's body. The zero Writer has to be
// Reset before use.
type Writer struct {
	buf  []byte
	file uint32
	at   uint32 // place in file of buf[0]
	base int64
	n    int
	from int // start of the record being written
	strs [15]string
	nstr int
}

// Reset starts a new body in buf, which the Writer appends to. The first byte
// of the body will lie at offset at of file. now is the time of the decisions
// to come.
func (w *Writer) Reset(buf []byte, file uint32, at int64, now Now) {
	w.buf, w.file, w.at, w.base, w.n, w.nstr = buf[:0], file, uint32(at), now.Steady, 0, 0
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(now.Steady))
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(now.Wall))
}

// Body returns the bytes so far. They are the Writer's until the next Reset.
func (w *Writer) Body() []byte { return w.buf }

// Count returns the number of records so far.
func (w *Writer) Count() int { return w.n }

func (w *Writer) begin(t recordType) {
	w.from = len(w.buf)
	w.buf = append(w.buf, byte(t), 0, 0, 0)
}

func (w *Writer) end() {
	n := len(w.buf) - w.from - 4
	w.buf[w.from+1], w.buf[w.from+2], w.buf[w.from+3] = byte(n), byte(n>>8), byte(n>>16)
	w.n++
}

func (w *Writer) uint(v uint64)       { w.buf = binary.AppendUvarint(w.buf, v) }
func (w *Writer) int(v int64)         { w.buf = binary.AppendVarint(w.buf, v) }
func (w *Writer) byte(v byte)         { w.buf = append(w.buf, v) }
func (w *Writer) time(t int64)        { w.int(t - w.base) }
func (w *Writer) id(id broker.ID)     { w.buf = append(w.buf, id[:]...) }
func (w *Writer) raw(b []byte)        { w.buf = append(w.buf, b...) }
func (w *Writer) ids(ids []broker.ID) { w.uint(uint64(len(ids))); w.eachID(ids) }

func (w *Writer) eachID(ids []broker.ID) {
	for _, id := range ids {
		w.id(id)
	}
}

// str writes a string, by number when this frame had it before.
func (w *Writer) str(s string) {
	for i := range w.nstr {
		if w.strs[i] == s {
			w.byte(byte(i + 1))
			return
		}
	}
	if w.nstr < len(w.strs) {
		w.strs[w.nstr] = s
		w.nstr++
		w.byte(0)
	} else {
		w.byte(16)
	}
	w.text(s)
}

// text writes a string that is not worth remembering.
func (w *Writer) text(s string) {
	w.uint(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

func (w *Writer) texts(list []string) {
	w.uint(uint64(len(list)))
	for _, s := range list {
		w.str(s)
	}
}

// blob writes bytes that will be read back by their Loc: their length, their
// checksum, and what fill appends.
func (w *Writer) blob(fill func(b []byte) []byte) Loc {
	w.buf = append(w.buf, 0, 0, 0, 0, 0, 0, 0, 0)
	from := len(w.buf)
	w.buf = fill(w.buf)
	b := w.buf[from:]
	l := Loc{File: w.file, Off: w.at + uint32(from), Len: uint32(len(b)), Sum: Checksum(b)}
	binary.LittleEndian.PutUint32(w.buf[from-8:], l.Len)
	binary.LittleEndian.PutUint32(w.buf[from-4:], l.Sum)
	return l
}

func (w *Writer) blobOf(b []byte) Loc {
	return w.blob(func(to []byte) []byte { return append(to, b...) })
}
