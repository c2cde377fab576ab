package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Scan reads whole sealed segments, from and to included, apart from the
// handle's own position; safe for concurrent use. It hands out what Read does. What it does not find sound
// is a *CorruptError. fn's error ends it.
func (l *Log) Scan(from, to uint64, fn func(*Frame) error) error {
	c := chain{pos: Pos{Segment: from}, loose: true}
	var w window
	for c.pos.Segment <= to {
		n := c.pos.Segment
		f, err := l.files.get(SegmentFile(n))
		if err != nil {
			return fmt.Errorf("scan segment %d: %w", n, err)
		}
		w.on(f.File)
		s, err := walk(&w, &c, l.seed, noLimit, func(f *Frame) error {
			if f.Kind == KindHead {
				return nil
			}
			return fn(f)
		})
		l.files.put(f)
		if err == nil && s != sightFrame {
			err = l.endsHere(&c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// walk hands out the frames of the window's segment from c on, and says what
// stopped it: sightFrame is the end record.
func walk(w *window, c *chain, seed uint32, limit Pos, fn func(*Frame) error) (sight, error) {
	segment, bytes := c.pos.Segment, int64(maxOffset)
	if limit.Segment == segment {
		bytes = limit.Offset
	}
	var f Frame
	for c.pos.Segment == segment && c.pos.Before(limit) {
		next := *c
		s, err := w.look(&next, seed, bytes, &f)
		if s != sightFrame || err != nil {
			return s, err
		}
		if err := fn(&f); err != nil {
			return s, err
		}
		*c = next
	}
	return sightFrame, nil
}

// endsHere moves c, which stands where no frame is, to the next segment when
// that one's head says that the log went on there.
func (l *Log) endsHere(c *chain) error {
	h, r, s, err := l.headOf(c.pos.Segment + 1)
	if err != nil {
		return err
	}
	if s != sightFrame || h.prev != c.sum || r.prevEnd != c.end.Offset {
		return corruptAt(c.pos, "no frame, and no end of the segment")
	}
	c.pos = Pos{Segment: c.pos.Segment + 1}
	return nil
}

// headOf reads the head of segment n; a missing segment is as a blank one.
func (l *Log) headOf(n uint64) (h header, r headRecord, s sight, err error) {
	f, err := l.files.get(SegmentFile(n))
	if errors.Is(err, fs.ErrNotExist) {
		return h, r, sightZero, nil
	}
	if err != nil {
		return h, r, sightBad, fmt.Errorf("read segment %d: %w", n, err)
	}
	defer l.files.put(f)
	var b [headSize]byte
	k, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return h, r, sightBad, fmt.Errorf("read segment %d: %w", n, err)
	}
	s, err = parseHeader(b[:k], l.seed, &h)
	if s != sightFrame || err != nil {
		return h, r, s, err
	}
	if k < headSize || h.kind != KindHead || h.pos != (Pos{Segment: n}) || sumOf(l.seed, b[headerSize:]) != h.bodySum {
		return h, r, sightBad, nil
	}
	return h, parseHead(b[headerSize:]), s, nil
}
