package vfs

// The tests do not run on Windows; this file is compiled and vetted only.

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// file is an open file. ReadAt, WriteAt, Truncate and Sync are those of
// os.File. Calls on one handle wait for each other, also for a Lock.
type file struct {
	*os.File
	mu    sync.Mutex
	held  bool
	views []uintptr
}

// The lock is one byte far past the data, because Windows keeps others from
// reading what is locked.
const lockHigh = 1 << 30

func (f *file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *file) DropCache() error { return nil }

func (f *file) Lock() error {
	_, err := f.lock(0)
	return err
}

func (f *file) TryLock() (bool, error) {
	return f.lock(windows.LOCKFILE_FAIL_IMMEDIATELY)
}

// lock keeps in held what this handle has: Windows would let it wait for
// itself.
func (f *file) lock(how uint32) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held {
		return true, nil
	}
	err := f.control(func(h windows.Handle) error {
		at := windows.Overlapped{OffsetHigh: lockHigh}
		return windows.LockFileEx(h, windows.LOCKFILE_EXCLUSIVE_LOCK|how, 0, 1, 0, &at)
	})
	if how != 0 && errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	f.held = err == nil
	return f.held, pathError("lock", f.Name(), err)
}

func (f *file) Unlock() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held {
		return nil
	}
	err := f.control(func(h windows.Handle) error {
		at := windows.Overlapped{OffsetHigh: lockHigh}
		return windows.UnlockFileEx(h, 0, 1, 0, &at)
	})
	f.held = err != nil
	return pathError("unlock", f.Name(), err)
}

func (f *file) Map(n int) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n <= 0 || n%4096 != 0 || size < int64(n) {
		return nil, fmt.Errorf("map %d of the %d bytes of %s: %w", n, size, f.Name(), windows.ERROR_INVALID_PARAMETER)
	}
	var view uintptr
	err = f.control(func(h windows.Handle) error {
		section, err := windows.CreateFileMapping(h, nil, windows.PAGE_READWRITE, 0, uint32(n), nil)
		if err != nil {
			return err
		}
		view, err = windows.MapViewOfFile(section, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE, 0, 0, uintptr(n))
		return errors.Join(err, windows.CloseHandle(section)) // the view keeps the section
	})
	if err != nil {
		return nil, pathError("map", f.Name(), err)
	}
	f.mu.Lock()
	f.views = append(f.views, view)
	f.mu.Unlock()
	// The address is not the garbage collector's, which a conversion of the
	// variable itself says without tripping vet.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&view)), n), nil
}

func (f *file) SameAs(name string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	theirs, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, theirs), nil
}

func (f *file) Close() error {
	f.mu.Lock()
	views := f.views
	f.views = nil
	f.mu.Unlock()
	errs := []error{f.Unlock()}
	for _, v := range views {
		errs = append(errs, windows.UnmapViewOfFile(v))
	}
	return errors.Join(append(errs, f.File.Close())...)
}

// control calls fn with the handle, which stays open meanwhile.
func (f *file) control(fn func(windows.Handle) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = fn(windows.Handle(fd)) }); err != nil {
		return err
	}
	return inner
}

// Inherit is not to be had: a lock belongs to one process.
func Inherit(File) (*os.File, error) {
	return nil, fmt.Errorf("inherit a lock: %w", errors.ErrUnsupported)
}
