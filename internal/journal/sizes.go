package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// ReadCheckpoint hands the verified content of a checkpoint to fn. Unlike
// Start it leaves the read position where it is.
func (l *Log) ReadCheckpoint(n uint64, fn func(io.Reader) error) error {
	ck, err := openCheckpoint(l.sys, l.dir, l.store, n)
	if err != nil {
		return err
	}
	return ck.read(fn)
}

// FileBytes returns the size of a segment or payload file. Its error wraps
// fs.ErrNotExist when it is not there.
func (l *Log) FileBytes(id FileID) (int64, error) {
	info, err := l.sys.Stat(join(l.dir, id.Name()))
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", id.Name(), err)
	}
	return info.Size, nil
}

// CheckpointBytes returns the size of a checkpoint, 0 when it is not there.
func (l *Log) CheckpointBytes(n uint64) int64 {
	info, err := l.sys.Stat(join(l.dir, checkpointName(n)))
	if err != nil {
		return 0
	}
	return info.Size
}

// Disk returns the size of all files of the store, and how much of that is room
// for the log to come: the rest of the active segment, the segments prepared
// ahead or just being so, and the reserve for the next checkpoint.
func (l *Log) Disk() (all, spare int64, err error) {
	names, err := l.sys.ReadDir(l.dir)
	if err != nil {
		return 0, 0, fmt.Errorf("list the store: %w", err)
	}
	pos := l.Pos()
	if end, ok := l.control.pos(ctlEnd); ok {
		pos = later(pos, end)
	}
	for _, name := range names {
		info, err := l.sys.Stat(join(l.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("list the store: %w", err)
		}
		if !info.Regular {
			continue
		}
		all += info.Size
		switch n, isSegment := parseNumber(name, ".log"); {
		case name == reserveName || strings.HasSuffix(name, ".new") || isSegment && n > pos.Segment:
			spare += info.Size
		case isSegment && n == pos.Segment:
			spare += max(0, info.Size-pos.Offset)
		}
	}
	return all, spare, nil
}

// LogBytes returns how much was written to the log since the current
// checkpoint, as far as this handle knows. Segments are counted whole.
func (l *Log) LogBytes() int64 {
	pos := l.Pos()
	if end, ok := l.control.pos(ctlEnd); ok {
		pos = later(pos, end)
	}
	return l.bytesBetween(Pos{Segment: l.Current().Checkpoint + 1}, pos)
}

// UpTo returns how much log lies between the read position and the start of
// segment n; not ok when some of it is gone.
func (l *Log) UpTo(n uint64) (bytes int64, ok bool) {
	pos := l.Pos()
	for s := pos.Segment; s < n; s++ {
		size, err := l.FileBytes(SegmentFile(s))
		if err != nil {
			return 0, false
		}
		bytes += size
	}
	return max(0, bytes-pos.Offset), true
}

// bytesBetween is how much log lies from one position to a later one, 0 for
// segments that are gone.
func (l *Log) bytesBetween(from, to Pos) int64 {
	n := to.Offset - from.Offset
	for s := from.Segment; s < to.Segment; s++ {
		n += l.sizeOf(s)
	}
	return max(0, n)
}
