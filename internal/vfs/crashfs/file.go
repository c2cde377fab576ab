package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/spoolq/spool/internal/vfs"
)

// file is an open file of one process. Its fields are under the machine's
// lock.
type file struct {
	p        *Process
	node     *inode
	path     string
	seq      int // orders the files of a process
	reads    bool
	writes   bool
	closed   bool
	failures int // failed Syncs of the inode that this file knows of
	maps     [][]byte
}

var _ vfs.File = (*file)(nil)

// do is Process.do for an operation on an open file.
func (f *file) do(op Op, fn func() error) error {
	op.Path = f.path
	return f.p.do(op, f.unlessClosed(fn))
}

func (f *file) unlessClosed(fn func() error) func() error {
	return func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return fn()
	}
}

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	atEnd := false
	err = f.do(Op{Kind: OpReadAt, Offset: off, Length: len(b)}, func() error {
		switch {
		case !f.reads:
			return syscall.EBADF
		case off < 0:
			return syscall.EINVAL
		}
		n = int(max(0, min(int64(len(b)), f.node.size-off)))
		f.node.read(b[:n], off)
		atEnd = n < len(b)
		return nil
	})
	if err == nil && atEnd {
		err = io.EOF
	}
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (n int, err error) {
	op := Op{Kind: OpWriteAt, Path: f.path, Offset: off, Length: len(b)}
	injected := f.p.admit(op)
	var short ShortWrite
	isShort := errors.As(injected, &short)
	if injected != nil && !isShort {
		return 0, wrap(op, f.p.suffer(injected))
	}
	if isShort {
		b = b[:min(max(short.N, 0), len(b))]
	}
	n, err = f.write(b, off)
	if injected != nil && err == nil {
		err = f.p.suffer(injected)
	}
	return n, wrap(op, err)
}

func (f *file) write(b []byte, off int64) (n int, err error) {
	m := f.p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.gone(f.p)
	switch {
	case err != nil:
		return 0, err
	case f.closed:
		return 0, fs.ErrClosed
	case !f.writes:
		return 0, syscall.EBADF
	case off < 0:
		return 0, syscall.EINVAL
	}
	n, err = m.write(f.node, b, off)
	if n > 0 {
		f.node.written()
	}
	return n, err
}

func (f *file) Truncate(size int64) error {
	return f.do(Op{Kind: OpTruncate, Offset: size}, func() error {
		if !f.writes || size < 0 {
			return syscall.EINVAL
		}
		f.p.m.truncate(f.node, size)
		f.node.written()
		return nil
	})
}

func (f *file) Size() (size int64, err error) {
	err = f.do(Op{Kind: OpSize}, func() error {
		size = f.node.size
		return nil
	})
	return size, err
}

func (f *file) Sync() error {
	return f.p.doOrLose(Op{Kind: OpSync, Path: f.path}, f.unlessClosed(func() error {
		if f.failures < f.node.failures { // each file that was open hears of it once
			f.failures = f.node.failures
			return syscall.EIO
		}
		if !f.p.m.cfg.IgnoreSync {
			f.node.sync()
		}
		return nil
	}), func() {
		f.node.failSync()
		f.failures = f.node.failures
	})
}

func (f *file) DropCache() error {
	return f.do(Op{Kind: OpDropCache}, func() error {
		f.node.drop()
		return nil
	})
}

func (f *file) Lock() error {
	return f.do(Op{Kind: OpLock}, func() error {
		for f.node.lock != nil && f.node.lock != f {
			f.p.m.wake.Wait()
			if err := f.p.m.gone(f.p); err != nil {
				return err
			}
			if f.closed {
				return fs.ErrClosed
			}
		}
		f.node.lock = f
		return nil
	})
}

func (f *file) TryLock() (ok bool, err error) {
	err = f.do(Op{Kind: OpTryLock}, func() error {
		ok = f.node.lock == nil || f.node.lock == f
		if ok {
			f.node.lock = f
		}
		return nil
	})
	return ok, err
}

func (f *file) Unlock() error {
	return f.do(Op{Kind: OpUnlock}, func() error {
		f.unlock()
		return nil
	})
}

func (f *file) unlock() {
	if f.node.lock == f {
		f.node.lock = nil
		f.p.m.wake.Broadcast()
	}
}

func (f *file) Map(n int) (b []byte, err error) {
	err = f.do(Op{Kind: OpMap, Length: n}, func() (err error) {
		switch {
		case !f.reads || !f.writes:
			return syscall.EACCES
		case n <= 0 || n%pageSize != 0 || f.node.size < int64(n):
			return syscall.EINVAL
		}
		if err := f.p.m.mapShared(f.node, n); err != nil {
			return err
		}
		if b, err = f.node.shared.alias(n); err != nil {
			return err
		}
		f.node.maps++
		f.maps = append(f.maps, b)
		f.p.aliases.add(b)
		return nil
	})
	return b, err
}

// unmap ends the memory maps of the file, each by end.
func (f *file) unmap(end func([]byte)) {
	for _, b := range f.maps {
		end(b)
		f.node.maps--
		if f.node.maps == 0 {
			f.node.freeze()
		}
	}
	f.maps = nil
}

func (f *file) SameAs(name string) (same bool, err error) {
	err = f.do(Op{Kind: OpSameAs}, func() error {
		n, err := f.p.m.find(name)
		if err == syscall.ENOENT {
			return nil
		}
		same = n == f.node
		return err
	})
	return same, err
}

func (f *file) Close() error {
	op := Op{Kind: OpClose, Path: f.path}
	injected := f.p.admit(op)
	if injected != nil {
		injected = f.p.suffer(injected)
	}
	m := f.p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.gone(f.p)
	switch {
	case err != nil:
	case f.closed:
		err = fs.ErrClosed
	default:
		f.unlock()
		f.unmap(f.p.aliases.free)
		f.drop()
		m.wake.Broadcast() // a Lock of this file may be waiting
		err = injected
	}
	return wrap(op, err)
}

// drop closes the file and leaves its lock alone.
func (f *file) drop() {
	f.closed = true
	delete(f.p.files, f)
	f.node.opens--
	if f.writes {
		f.node.closed()
	}
	f.p.m.release(f.node)
}
