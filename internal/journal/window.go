package journal

import (
	"fmt"
	"io"

	"github.com/spoolq/spool/internal/vfs"
)

const (
	minRead = 4 << 10
	maxRead = 1 << 20
)

// window is a buffer over a file that is read forward in growing chunks.
type window struct {
	file vfs.File
	buf  []byte // bytes from at on
	at   int64
	step int // size of the next read
}

// reset forgets what was read: it may have changed since. The memory of an
// unusually large frame is given back.
func (w *window) reset() {
	w.buf, w.step = w.buf[:0], minRead
	if cap(w.buf) > 2*maxRead {
		w.buf = nil
	}
}

// on points the window at file f, forgetting what was read of another.
func (w *window) on(f vfs.File) {
	if w.file != f {
		w.file = f
		w.reset()
	}
}

// peek returns n bytes at off, fewer only at the end of the file. No read goes
// beyond limit, except for these n bytes. The bytes are valid until the next
// peek.
func (w *window) peek(off int64, n int, limit int64) ([]byte, error) {
	if off >= w.at && off+int64(n) <= w.at+int64(len(w.buf)) {
		return w.buf[off-w.at:][:n], nil
	}
	if off >= w.at && off < w.at+int64(len(w.buf)) {
		w.buf = w.buf[:copy(w.buf, w.buf[off-w.at:])]
	} else {
		w.buf = w.buf[:0]
	}
	w.at = off
	w.step = max(w.step, minRead)
	want := int(min(int64(w.step), max(0, limit-off)))
	w.step = min(2*w.step, maxRead)
	want = max(want, n)
	if cap(w.buf) < want {
		grown := make([]byte, len(w.buf), max(want, 2*cap(w.buf)))
		copy(grown, w.buf)
		w.buf = grown
	}
	have := len(w.buf)
	if have < want {
		k, err := w.file.ReadAt(w.buf[have:want], off+int64(have))
		w.buf = w.buf[:have+k]
		if err != nil && err != io.EOF {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	return w.buf[:min(n, len(w.buf))], nil
}

// look reads the frame that chain c expects next from the window's file into
// f, and moves c past it. Only sightFrame changes c. The error is for what a
// right checksum covers and this program cannot accept, and for failed reads.
func (w *window) look(c *chain, seed uint32, limit int64, f *Frame) (sight, error) {
	b, err := w.peek(c.pos.Offset, headerSize, limit)
	if err != nil {
		return sightBad, fmt.Errorf("read frame %v: %w", c.pos, err)
	}
	var h header
	s, err := parseHeader(b, seed, &h)
	if s != sightFrame || err != nil {
		return s, err
	}
	if err := c.check(&h); err != nil {
		return s, err
	}
	size, padded := headerSize+int(h.length), int(frameSize(int(h.length)))
	b, err = w.peek(c.pos.Offset, padded, limit)
	if err != nil {
		return sightBad, fmt.Errorf("read frame %v: %w", c.pos, err)
	}
	if len(b) < padded || sumOf(seed, b[headerSize:size]) != h.bodySum || !allZero(b[size:]) {
		return sightBad, nil
	}
	if h.kind == KindHead {
		if err := c.checkHead(parseHead(b[headerSize:])); err != nil {
			return s, err
		}
	}
	h.frame(f, b[headerSize:size:size])
	c.take(&h)
	return s, nil
}

// check reports whether h continues the chain.
func (c *chain) check(h *header) error {
	switch {
	case h.pos != c.pos:
		return corruptAt(c.pos, "a frame of place %v", h.pos)
	case (h.kind == KindHead) != (h.pos.Offset == 0):
		return corruptAt(c.pos, "a frame of kind %v", h.kind)
	case c.loose:
		return nil
	case h.seq != c.seq+1:
		return corruptAt(c.pos, "frame %d follows frame %d", h.seq, c.seq)
	case h.prev != c.sum:
		return corruptAt(c.pos, "the frame continues another one than frame %d", c.seq)
	}
	return nil
}

// checkHead reports whether a segment's head continues the chain.
func (c *chain) checkHead(r headRecord) error {
	if r.level > FormatLevel {
		return fmt.Errorf("%w: segment %d has level %d, this program knows up to %d", ErrUnsupported, c.pos.Segment, r.level, FormatLevel)
	}
	if !c.loose && (r.prev != c.end.Segment || r.prevEnd != c.end.Offset) {
		return corruptAt(c.pos, "the segment continues %v, but the log so far ends at %v", Pos{r.prev, r.prevEnd}, c.end)
	}
	return nil
}

// take moves the chain past h.
func (c *chain) take(h *header) {
	*c = chain{
		pos: h.next(), end: Pos{h.pos.Segment, h.end()}, last: h.pos, seq: h.seq, sum: h.sum,
		size: frameSize(int(h.length)), synced: later(c.synced, h.synced), flags: h.flags, epoch: h.epoch,
	}
}

// firstNonzero is the offset of the first byte from off on that is not zero,
// or -1.
func firstNonzero(f vfs.File, off int64) (int64, error) {
	first := int64(-1)
	err := eachChunk(f, off, func(at int64, b []byte) bool {
		if allZero(b) {
			return true
		}
		for i, c := range b {
			if c != 0 {
				first = at + int64(i)
				return false
			}
		}
		return true
	})
	return first, err
}

// eachChunk hands the file's bytes from off on to fn, until it returns false.
// Chunks start at off plus multiples of 256 KiB.
func eachChunk(f vfs.File, off int64, fn func(at int64, b []byte) bool) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			return err
		}
		if n == 0 || !fn(off, buf[:n]) || n < len(buf) {
			return nil
		}
		off += int64(n)
	}
}
