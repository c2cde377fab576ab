package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// openFile is an open segment or payload file.
type openFile struct {
	vfs.File
	id FileID
	// vouched: this descriptor was open before the first byte of the file was
	// written, or the file was verified from the disk since. Only then does a
	// sync of it prove anything.
	vouched atomic.Bool
	failed  atomic.Bool // a sync failed: never sync it again
	refs    int         // under fileCache.mu
	dropped bool        // under fileCache.mu: close when refs is 0
}

// fileCache keeps files open. Safe for concurrent use.
type fileCache struct {
	sys vfs.System
	dir string

	mu     sync.Mutex
	open   map[FileID]*openFile
	closed bool
}

// maxOpenFiles is how many files a handle keeps open before it closes some
// that nobody is using.
const maxOpenFiles = 128

// get returns the file, opening it when needed. Every get needs a put.
func (c *fileCache) get(id FileID) (*openFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if f := c.open[id]; f != nil {
		f.refs++
		return f, nil
	}
	flag := os.O_RDWR
	if id.Payload() {
		flag = os.O_RDONLY
	}
	file, err := c.sys.Open(filepath.Join(c.dir, id.Name()), flag)
	if err != nil {
		return nil, err
	}
	f := &openFile{File: file, id: id, refs: 1}
	if !id.Payload() {
		var first [headerSize]byte
		n, err := file.ReadAt(first[:], 0)
		if err != nil && err != io.EOF {
			return nil, joinClose(err, file)
		}
		f.vouched.Store(allZero(first[:n]))
	}
	if len(c.open) >= maxOpenFiles {
		c.evict()
	}
	c.open[id] = f
	return f, nil
}

// evict closes some files that nobody holds. The newest segments stay: their
// descriptors vouch for what is written.
func (c *fileCache) evict() {
	rare.Reached(rare.FilesEvicted)
	var newest FileID
	for id := range c.open {
		if !id.Payload() && id > newest {
			newest = id
		}
	}
	for id, f := range c.open {
		if f.refs > 0 || (!id.Payload() && id+4 > newest) {
			continue
		}
		f.Close() // only read from by now; nothing is lost
		delete(c.open, id)
		if len(c.open) <= maxOpenFiles/2 {
			return
		}
	}
}

func (c *fileCache) put(f *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.refs--
	if f.refs == 0 && f.dropped {
		f.Close() // the file is gone; nothing depends on it
	}
}

// drop forgets the files that gone says were unlinked or replaced.
func (c *fileCache) drop(gone func(FileID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, f := range c.open {
		if !gone(id) {
			continue
		}
		delete(c.open, id)
		f.dropped = true
		if f.refs == 0 {
			f.Close() // as in put
		}
	}
}

func (c *fileCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for id, f := range c.open {
		delete(c.open, id)
		f.dropped = true
		if f.refs == 0 {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// ReadAt fills p from a segment or a payload file. An error wraps
// fs.ErrNotExist when a compaction removed the file: Refresh, and look up the
// place anew. Safe for concurrent use.
func (l *Log) ReadAt(id FileID, p []byte, off int64) error {
	f, err := l.files.get(id)
	if err != nil {
		return fmt.Errorf("read %s: %w", id.Name(), err)
	}
	defer l.files.put(f)
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return &CorruptError{File: id.Name(), Offset: off + int64(n), What: "the file ends before the bytes that were asked for"}
	}
	return fmt.Errorf("read %s: %w", id.Name(), err)
}

func join(dir, name string) string { return filepath.Join(dir, name) }

// joinClose closes f after err or success.
func joinClose(err error, f io.Closer) error {
	if cerr := f.Close(); err == nil {
		return cerr
	}
	return err
}

// readAll reads a small file whole; one over limit bytes is refused.
func readAll(f vfs.File, limit int64) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes long", ErrNotStore, size)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// writeFile writes and syncs a whole file; the directory entry is not synced.
func writeFile(sys vfs.System, name string, b []byte, flag int) error {
	f, err := sys.Open(name, os.O_RDWR|os.O_CREATE|flag)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	return joinClose(err, f)
}
