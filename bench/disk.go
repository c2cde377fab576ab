package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	recordBytes = 256 // more than a payload and what a queue must know of its job
	zeroBytes   = 32 << 20
	ceilingTime = 80 * time.Millisecond // of one reading
)

// ceiling is what the disk alone can do: records a second, written in batches
// with one fdatasync each.
type ceiling struct {
	Grow float64 `json:"grow,omitempty"` // at the end of a growing file
	Zero float64 `json:"zero,omitempty"` // into a file of zeros
}

// disk reads ceilings in a directory.
type disk struct {
	dir  string
	zero *os.File
}

func newDisk(dir string) (*disk, error) {
	f, err := os.Create(filepath.Join(dir, "zero"))
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < zeroBytes; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			return nil, fmt.Errorf("write zeros: %w", err)
		}
	}
	return &disk{dir, f}, f.Sync()
}

// read reads both ceilings at a batch of that many records.
func (k *disk) read(batch int) (c ceiling, err error) {
	grow, err := os.Create(filepath.Join(k.dir, "grow"))
	if err != nil {
		return c, err
	}
	defer grow.Close()
	if c.Grow, err = appendFor(grow, batch, ceilingTime, 1<<62); err != nil {
		return c, err
	}
	c.Zero, err = appendFor(k.zero, batch, ceilingTime, zeroBytes)
	return c, err
}

// appendFor writes batches for d, from the start again when size is reached,
// and returns the records a second.
func appendFor(f *os.File, batch int, d time.Duration, size int64) (float64, error) {
	b := make([]byte, batch*recordBytes)
	for i := range b {
		b[i] = byte(i)*31 + 1
	}
	n, off, begun := 0, int64(0), time.Now()
	for time.Since(begun) < d {
		if off+int64(len(b)) > size {
			off = 0
		}
		if _, err := f.WriteAt(b, off); err != nil {
			return 0, fmt.Errorf("write records: %w", err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("sync records: %w", err)
		}
		off += int64(len(b))
		n += batch
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// diskUse adds up the blocks of the files below dir.
func diskUse(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return n, err
}
