//go:build linux || darwin

package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func (h *host) Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(monotonicClock, &ts); err != nil {
		panic(fmt.Errorf("read the monotonic clock: %w", err)) // only for an unknown clock
	}
	return time.Duration(ts.Nano()) - h.offset
}

func (h *host) Open(name string, flag int) (File, error) {
	// O_NONBLOCK so that a pipe of that name cannot hang us; a regular file
	// does not care.
	flag |= unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open(name, flag, 0o600)
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := &file{fd: fd, name: name}
	if err := f.checkRegular(); err != nil {
		return nil, closeAfter(f, err)
	}
	return f, nil
}

func (h *host) Remove(name string) error {
	return pathError("unlink", name, again(func() error { return unix.Unlink(name) }))
}

func (h *host) Stat(name string) (Info, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Lstat(name, &st) }); err != nil {
		return Info{}, pathError("lstat", name, err)
	}
	kind := st.Mode & unix.S_IFMT
	return Info{Size: st.Size, Dir: kind == unix.S_IFDIR, Regular: kind == unix.S_IFREG}, nil
}

func (h *host) SyncDir(name string) error {
	d, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return closeAfter(d, err)
	}
	return d.Close()
}

func (h *host) CheckDir(name string, allow bool) error {
	name = filepath.Clean(name) // lstat would follow "link/"
	var st unix.Stat_t
	if err := again(func() error { return unix.Lstat(name, &st) }); err != nil {
		return pathError("lstat", name, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return refuseLink(name)
	default:
		return pathError("open", name, unix.ENOTDIR)
	}
	if uid := os.Geteuid(); int(st.Uid) != uid {
		return fmt.Errorf("%s belongs to user %d and this process runs as user %d: use a directory of its own: %w",
			name, st.Uid, uid, fs.ErrPermission)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s may be written by others (mode %#o): use a directory of its own, or chmod go-w this one if it is: %w",
			name, st.Mode&0o777, fs.ErrPermission)
	}
	switch err := again(func() error { return unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK|unix.X_OK, unix.AT_EACCESS) }); err {
	case nil:
	case unix.EROFS:
		return fmt.Errorf("%s is on a read-only file system: mount it for writing, or use another directory: %w", name, err)
	case unix.EACCES, unix.EPERM:
		return fmt.Errorf("%s cannot be written by this process: use another directory, or give its owner the right to write: %w", name, fs.ErrPermission)
	default:
		return pathError("access", name, err)
	}
	return h.CheckMount(name, allow)
}

func (h *host) CheckMount(name string, allow bool) error {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(name, &st) }); err != nil {
		return pathError("statfs", name, err)
	}
	return judgeMount(name, &st, allow)
}

// patiently calls fn once: here nobody who has a file open is in the way.
func patiently(fn func() error) error { return fn() }

// again calls fn until it is not interrupted by a signal; the runtime sends
// itself many.
func again(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}
