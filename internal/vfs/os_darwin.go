package vfs

// What macOS does in its own way. The tests do not run there; this file is
// compiled and vetted only.

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// monotonicClock stands still in suspend, which CLOCK_MONOTONIC of macOS does not.
const monotonicClock = unix.CLOCK_UPTIME_RAW

// syncData asks for F_FULLFSYNC, as os.File.Sync does: fsync alone leaves the
// data in the drive's cache.
func syncData(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

func dropCache(int) error { return nil }

func bootID() (id [16]byte) {
	text, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return id // the zero id says: unknown
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != len(id) {
		return id
	}
	return [16]byte(raw)
}

func monotonicOffset() time.Duration { return 0 } // no time namespaces

func judgeMount(name string, st *unix.Statfs_t, allow bool) error {
	kind := unix.ByteSliceToString(st.Fstypename[:])
	remote := st.Flags&unix.MNT_LOCAL == 0
	if (remote || strings.Contains(kind, "fuse")) && !allow {
		return refuseKind(name, kind)
	}
	if st.Flags&unix.MNT_RDONLY != 0 {
		return refuseReadOnly(name)
	}
	return nil
}

func (h *host) Watch() (Watcher, error) {
	return nil, fmt.Errorf("watch files on macOS: %w", errors.ErrUnsupported)
}

func (h *host) Alarm() (Alarm, error) {
	return nil, fmt.Errorf("make an alarm clock on macOS: %w", errors.ErrUnsupported)
}
