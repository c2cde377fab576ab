package vfs

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What futex(2) is asked for. Not the private sort: the word is in memory that
// processes share.
const (
	futexWait = 0
	futexWake = 1
)

func (h *host) WaitWord(w *atomic.Uint32, old uint32, d time.Duration) error {
	ts := unix.NsecToTimespec(int64(max(d, 0)))
	_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(old), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch e {
	case 0, syscall.EAGAIN, syscall.EINTR:
		return nil
	case syscall.ETIMEDOUT:
		return os.ErrDeadlineExceeded
	}
	return os.NewSyscallError("futex", e)
}

func (h *host) WakeWord(w *atomic.Uint32) {
	const all = 1<<31 - 1
	// It fails for no word in mapped memory.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, all, 0, 0, 0)
}
