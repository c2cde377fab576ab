package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// SpareBytes returns how much of DiskBytes is room for the log to come: the
// rest of the active segment and the segments prepared ahead.
func (l *Log) SpareBytes() int64 {
	pos, spare := l.Pos(), int64(0)
	for n := pos.Segment; ; n++ {
		size, err := l.FileBytes(SegmentFile(n))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return spare
		}
		spare += size
	}
	return max(0, spare-pos.Offset)
}
