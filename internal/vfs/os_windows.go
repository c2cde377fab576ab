package vfs

// What Windows does in its own way. The tests do not run there; this file is
// compiled and vetted only. Not looked at: who may write a directory (its
// access control list).

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// bootID is the number of this boot, which Windows counts in its registry.
func bootID() (id [16]byte) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE,
		`SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`, registry.QUERY_VALUE)
	if err != nil {
		return id // the zero id says: unknown
	}
	n, _, err := k.GetIntegerValue("BootId")
	if errors.Join(err, k.Close()) != nil {
		return id
	}
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

func monotonicOffset() time.Duration { return 0 } // no time namespaces

// Monotonic counts the interrupt time outside suspend, in units of 100 ns.
func (h *host) Monotonic() time.Duration {
	var ticks uint64
	clock := windows.NewLazySystemDLL("kernelbase.dll").NewProc("QueryUnbiasedInterruptTimePrecise")
	clock.Call(uintptr(unsafe.Pointer(&ticks)))
	return time.Duration(ticks) * 100
}

func (h *host) Open(name string, flag int) (File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	access := uint32(windows.GENERIC_READ)
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	// Sharing the right to delete lets others rename and remove the open file.
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const attrs = windows.FILE_ATTRIBUTE_NORMAL | windows.FILE_FLAG_OPEN_REPARSE_POINT
	var handle windows.Handle
	err = patiently(func() (err error) {
		handle, err = windows.CreateFile(path, access, share, nil, disposition(flag), attrs, 0)
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := os.NewFile(uintptr(handle), name)
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		err = pathError("open", name, syscall.ELOOP)
	}
	if err == nil && flag&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, closeAfter(f, err)
	}
	return &file{File: f}, nil
}

// disposition translates the flags of os.OpenFile, but for O_TRUNC: what is
// opened could be a link, so it is emptied after a look at it.
func disposition(flag int) uint32 {
	switch {
	case flag&os.O_CREATE == 0:
		return windows.OPEN_EXISTING
	case flag&os.O_EXCL != 0:
		return windows.CREATE_NEW
	}
	return windows.OPEN_ALWAYS
}

func (h *host) Remove(name string) error {
	return patiently(func() error { return os.Remove(name) })
}

func (h *host) Stat(name string) (Info, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: info.Size(), Dir: info.IsDir(), Regular: info.Mode().IsRegular()}, nil
}

// SyncDir does nothing: NTFS logs changes of directories in their order, and
// the sync of a file writes the log up to its own changes.
func (h *host) SyncDir(name string) error {
	_, err := os.Lstat(name)
	return err
}

func (h *host) CheckDir(name string, allow bool) error {
	name = filepath.Clean(name)
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return refuseLink(name)
	}
	if !info.IsDir() {
		return pathError("open", name, syscall.ENOTDIR)
	}
	return h.CheckMount(name, allow)
}

func (h *host) CheckMount(name string, allow bool) error {
	full, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	path, err := windows.UTF16PtrFromString(full)
	if err != nil {
		return pathError("open", name, err)
	}
	root := make([]uint16, windows.MAX_PATH+1)
	if err := windows.GetVolumePathName(path, &root[0], uint32(len(root))); err != nil {
		return pathError("find the volume of", name, err)
	}
	if windows.GetDriveType(&root[0]) == windows.DRIVE_REMOTE && !allow {
		return refuseKind(name, "network drive")
	}
	var flags uint32
	if err := windows.GetVolumeInformation(&root[0], nil, 0, nil, nil, &flags, nil, 0); err != nil {
		return pathError("read the volume of", name, err)
	}
	if flags&windows.FILE_READ_ONLY_VOLUME != 0 {
		return refuseReadOnly(name)
	}
	return nil
}

func (h *host) Watch() (Watcher, error) {
	return nil, fmt.Errorf("watch files on Windows: %w", errors.ErrUnsupported)
}

func (h *host) Alarm() (Alarm, error) {
	return nil, fmt.Errorf("make an alarm clock on Windows: %w", errors.ErrUnsupported)
}

// patiently calls fn again, for about two seconds at most, while another program
// (a virus scanner, an indexer) has the file open in the way.
func patiently(fn func() error) error {
	for pause := time.Millisecond; ; pause *= 2 {
		err := fn()
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy || pause > time.Second {
			return err
		}
		time.Sleep(pause)
	}
}
