package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const (
	defaultFirstSegment = 1 << 20
	maxFirstSegment     = 8 << 20 // a segment can grow to twice 16 times that
	loneBody            = 1 << 20 // a larger body gets a segment of its own
	zeroChunk           = 1 << 20
	// syncPiece is after how many bytes a large file is synced while it is
	// written: who syncs a frame then never waits for all of it.
	syncPiece = 16 << 20
)

// parseNumber is the number in a file name such as 000013.log.
func parseNumber(name, ext string) (uint64, bool) {
	s, ok := strings.CutSuffix(name, ext)
	if !ok || len(s) < 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 || fmt.Sprintf("%06d%s", n, ext) != name {
		return 0, false
	}
	return n, true
}

func (l *Log) exists(name string) (bool, error) {
	info, err := l.sys.Stat(join(l.dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Regular:
		return false, fmt.Errorf("%w: %s is not a regular file", ErrNotStore, name)
	}
	return true, nil
}

// createSegment makes a segment of size bytes under its final name: head, then
// zeros; durable with its directory entry. PREP is held, or the store is being
// created; so nobody else makes or uses segment n meanwhile.
func (l *Log) createSegment(n uint64, head []byte, size int64) error {
	name := SegmentFile(n).Name()
	tmp := strings.TrimSuffix(name, ".log") + ".new"
	err := l.makeFile(tmp, head, size)
	if err == nil {
		err = l.sys.Rename(join(l.dir, tmp), join(l.dir, name))
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return fmt.Errorf("prepare segment %d: %w", n, diskFull(err))
	}
	return nil
}

// makeFile writes and syncs a file that is head and then zeros up to size. On a
// full disk nothing of it stays.
func (l *Log) makeFile(name string, head []byte, size int64) error {
	path := join(l.dir, name)
	f, err := l.sys.Open(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if len(head) > 0 {
		_, err = f.WriteAt(head, 0)
	}
	for off := int64(len(head)); off < size && err == nil; off += zeroChunk {
		_, err = f.WriteAt(zeros[:min(zeroChunk, size-off)], off)
		if err == nil && (off+zeroChunk)/syncPiece > off/syncPiece {
			err = f.Sync()
		}
	}
	if err == nil {
		err = f.Sync()
	}
	err = joinClose(err, f)
	if noSpace(err) {
		err = errors.Join(err, l.sys.Remove(path))
	}
	return err
}
