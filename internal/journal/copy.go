package journal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spoolq/spool/internal/vfs"
)

// partialName is a file in a copy that is not complete, for what is empty but for
// a blank first segment would be taken for a store that is being made.
const partialName = "PARTIAL"

// copyChunk is how much of a file is copied at once.
const copyChunk = 1 << 20

// CopyTo copies the log up to end, a read position that this handle had and that
// is durable, to an empty directory, with the checkpoint and the payload files
// that CURRENT names: what others append meanwhile is not in it. All is durable
// when nil is returned but the name of to itself; CURRENT is written last, so
// that what was cut short is no store. COMPACT is held, so that no file goes.
// step is called for each piece; its error ends it.
func (l *Log) CopyTo(to string, end Pos, step func() error) error {
	if !l.compact.Load() {
		return ErrNotLocked
	}
	return copyStore(l.sys, l.dir, to, end, step)
}

// CopyStore is Log.CopyTo of a store that is sound and that nobody uses.
func CopyStore(sys vfs.System, dir, to string, step func() error) error {
	report, err := Verify(sys, dir)
	if err != nil {
		return err
	}
	if report.Damaged() {
		return fmt.Errorf("copy the store: %w", ErrCorrupt)
	}
	return copyStore(sys, dir, to, report.End, step)
}

func copyStore(sys vfs.System, dir, to string, end Pos, step func() error) error {
	cur, err := readCurrent(sys, dir)
	if err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	names, err := sys.ReadDir(dir)
	if err == nil {
		err = writeFile(sys, join(to, partialName), nil, os.O_EXCL)
	}
	if err == nil {
		err = sys.SyncDir(to)
	}
	if err != nil {
		return fmt.Errorf("copy the store: %w", diskFull(err))
	}
	for _, name := range names {
		limit, wanted := copied(name, cur, end)
		if !wanted {
			continue
		}
		if err := copyFile(sys, join(dir, name), join(to, name), limit, step); err != nil {
			return fmt.Errorf("copy %s: %w", name, diskFull(err))
		}
	}
	if err = sys.SyncDir(to); err == nil {
		err = writeFile(sys, join(to, currentName), cur.line(), os.O_EXCL)
	}
	if err == nil {
		err = sys.Remove(join(to, partialName))
	}
	if err == nil {
		err = sys.SyncDir(to)
	}
	if err != nil {
		return fmt.Errorf("copy CURRENT: %w", diskFull(err))
	}
	return nil
}

// copied says whether a copy of the store up to end needs a file, and how much of
// it; -1 is all.
func copied(name string, cur Current, end Pos) (limit int64, wanted bool) {
	if n, ok := parseNumber(name, ".log"); ok {
		if n == end.Segment {
			return end.Offset, true
		}
		return -1, n < end.Segment
	}
	if n, ok := parseNumber(name, ".pay"); ok {
		return -1, slices.Contains(cur.Payload, n)
	}
	n, ok := parseNumber(name, ".idx")
	return -1, ok && n == cur.Checkpoint
}

// copyFile copies limit bytes of a file, all of it for -1, to a new one, and syncs
// that.
func copyFile(sys vfs.System, from, to string, limit int64, step func() error) (err error) {
	in, err := sys.Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, in) }()
	if limit < 0 {
		if limit, err = in.Size(); err != nil {
			return err
		}
	}
	out, err := sys.Open(to, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, out) }()
	buf := make([]byte, min(copyChunk, limit))
	for n := int64(0); n < limit; n += int64(len(buf)) {
		if err := step(); err != nil {
			return err
		}
		buf = buf[:min(int64(len(buf)), limit-n)]
		if k, err := in.ReadAt(buf, n); k < len(buf) {
			if err == io.EOF {
				err = &CorruptError{File: filepath.Base(from), Offset: n + int64(k), What: "the file ends before the log does"}
			}
			return err
		}
		if _, err := out.WriteAt(buf, n); err != nil {
			return err
		}
	}
	return out.Sync()
}
