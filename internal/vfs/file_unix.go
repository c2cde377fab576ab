//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// file is an open file. It holds the bare descriptor, because os.File.WriteAt
// hides how much a failed write wrote, and counts who uses it, so that a
// descriptor number is never used after it was closed.
type file struct {
	fd    int
	name  string // as opened, for errors
	users atomic.Int64
	mu    sync.Mutex
	maps  [][]byte
}

// closing is added to users by Close.
const closing = int64(1) << 32

// enter counts one more user of the descriptor, unless it is closed.
func (f *file) enter(op string) error {
	if f.users.Add(1) >= closing {
		f.leave()
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

// leave undoes enter. The last to leave a closing file closes the descriptor.
func (f *file) leave() {
	if f.users.Add(-1) == closing {
		// A second closing keeps this from happening twice. Close has already
		// answered, so there is nobody left to tell of an error.
		if f.users.CompareAndSwap(closing, 2*closing) {
			_ = f.release()
		}
	}
}

// Close answers at once, even while another goroutine waits in Lock; the
// descriptor is then closed when that goroutine is done.
func (f *file) Close() error {
	for {
		n := f.users.Load()
		if n >= closing {
			return pathError("close", f.name, fs.ErrClosed)
		}
		if n == 0 && f.users.CompareAndSwap(0, 2*closing) {
			return f.release()
		}
		if n > 0 && f.users.CompareAndSwap(n, n+closing+1) { // one user more: us, while we unlock
			err := f.unlockRaw()
			f.leave()
			return err
		}
	}
}

// release gives back what the file holds. It unlocks first: a child that
// inherited the descriptor between fork and exec would else keep the lock.
func (f *file) release() error {
	err := f.unlockRaw()
	f.mu.Lock()
	maps := f.maps
	f.maps = nil
	f.mu.Unlock()
	for _, m := range maps {
		if e := unix.Munmap(m); err == nil {
			err = pathError("munmap", f.name, e)
		}
	}
	// close is never repeated after EINTR: the descriptor is gone by then.
	if e := unix.Close(f.fd); err == nil && e != unix.EINTR {
		err = pathError("close", f.name, e)
	}
	return err
}

func (f *file) checkRegular() error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return pathError("fstat", f.name, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return pathError("open", f.name, unix.EISDIR)
	}
	return fmt.Errorf("open %s: not a regular file: %w", f.name, unix.EINVAL)
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	defer f.leave()
	for n := 0; ; {
		if n == len(p) {
			return n, nil
		}
		m, err := unix.Pread(f.fd, p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, pathError("read", f.name, err)
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.enter("write"); err != nil {
		return 0, err
	}
	defer f.leave()
	for n := 0; ; {
		if n == len(p) {
			return n, nil
		}
		m, err := unix.Pwrite(f.fd, p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, pathError("write", f.name, err)
		case m == 0:
			return n, pathError("write", f.name, io.ErrShortWrite)
		default:
			n += m
		}
	}
}

func (f *file) Truncate(size int64) error {
	return f.call("truncate", func() error { return unix.Ftruncate(f.fd, size) })
}

func (f *file) Size() (int64, error) {
	var st unix.Stat_t
	err := f.call("fstat", func() error { return unix.Fstat(f.fd, &st) })
	return st.Size, err
}

func (f *file) Sync() error      { return f.call("sync", func() error { return syncData(f.fd) }) }
func (f *file) DropCache() error { return f.call("fadvise", func() error { return dropCache(f.fd) }) }

func (f *file) Lock() error {
	return f.call("lock", func() error {
		err := unix.Flock(f.fd, unix.LOCK_EX)
		if err == nil && f.users.Load() >= closing {
			return fs.ErrClosed // while we waited; leave frees the lock
		}
		return err
	})
}

func (f *file) TryLock() (bool, error) {
	taken := false
	err := f.call("lock", func() error {
		err := unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB)
		taken = err == nil
		if err == unix.EWOULDBLOCK {
			return nil
		}
		return err
	})
	return taken, err
}

func (f *file) Unlock() error {
	return f.call("unlock", func() error { return unix.Flock(f.fd, unix.LOCK_UN) })
}

func (f *file) unlockRaw() error {
	return pathError("unlock", f.name, again(func() error { return unix.Flock(f.fd, unix.LOCK_UN) }))
}

func (f *file) Map(n int) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n <= 0 || n%4096 != 0 || size < int64(n) {
		return nil, fmt.Errorf("map %d of the %d bytes of %s: %w", n, size, f.name, unix.EINVAL)
	}
	var m []byte
	err = f.call("mmap", func() (err error) {
		m, err = unix.Mmap(f.fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			f.mu.Lock()
			f.maps = append(f.maps, m)
			f.mu.Unlock()
		}
		return err
	})
	return m, err
}

func (f *file) SameAs(name string) (bool, error) {
	var mine, theirs unix.Stat_t
	if err := f.call("fstat", func() error { return unix.Fstat(f.fd, &mine) }); err != nil {
		return false, err
	}
	err := again(func() error { return unix.Lstat(name, &theirs) })
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, pathError("lstat", name, err)
	}
	return mine.Dev == theirs.Dev && mine.Ino == theirs.Ino, nil
}

// call runs one system call on the descriptor, again after EINTR.
func (f *file) call(op string, fn func() error) error {
	if err := f.enter(op); err != nil {
		return err
	}
	defer f.leave()
	return pathError(op, f.name, again(fn))
}

// Inherit returns a file for a child process (exec.Cmd.ExtraFiles) that keeps
// f's lock held for as long as the child, or a child of its own, has it open.
// The caller closes it once the child was started. Its error wraps
// errors.ErrUnsupported when f is no file of the operating system.
func Inherit(f File) (*os.File, error) {
	own, ok := f.(*file)
	if !ok {
		return nil, fmt.Errorf("inherit a lock: %w", errors.ErrUnsupported)
	}
	var fd int
	err := own.call("dup", func() (err error) {
		fd, err = unix.FcntlInt(uintptr(own.fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), own.name), nil
}
