package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spoolq/spool/internal/vfs"
)

// recordBytes is what a raw record has: more than a payload and what a queue
// must know of its job.
const (
	recordBytes  = 256
	rawFileBytes = 32 << 20
)

// disk reads what the disk alone can do: records written one after the other
// into a file of zeros, and a sync of the data after each batch.
type disk struct {
	file vfs.File
	off  int64
}

// newDisk makes the file of zeros.
func newDisk(dir string) (*disk, error) {
	f, err := vfs.OS().Open(filepath.Join(dir, "raw"), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	d := &disk{file: f}
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < rawFileBytes; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			return nil, fmt.Errorf("write zeros: %w", err)
		}
	}
	return d, f.Sync()
}

// perSecond writes batches of records for d, and returns the records a second.
func (k *disk) perSecond(batch int, d time.Duration) (float64, error) {
	b := make([]byte, batch*recordBytes)
	for i := range b {
		b[i] = byte(i)*31 + 1
	}
	begun, n := time.Now(), 0
	for time.Since(begun) < d {
		if k.off+int64(len(b)) > rawFileBytes {
			k.off = 0
		}
		if _, err := k.file.WriteAt(b, k.off); err != nil {
			return 0, fmt.Errorf("write records: %w", err)
		}
		if err := k.file.Sync(); err != nil {
			return 0, fmt.Errorf("sync records: %w", err)
		}
		k.off += int64(len(b))
		n += batch
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}
