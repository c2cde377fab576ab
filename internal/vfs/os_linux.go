package vfs

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const monotonicClock = unix.CLOCK_MONOTONIC

func syncData(fd int) error  { return unix.Fdatasync(fd) }
func dropCache(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }

// bootID reads the kernel's boot id, which all containers of a machine share.
func bootID() (id [16]byte) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id // the zero id says: unknown
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(id) {
		return id
	}
	return [16]byte(raw)
}

// monotonicOffset is what this process's time namespace adds to
// CLOCK_MONOTONIC. Without /proc or without time namespaces there is none.
func monotonicOffset() time.Duration {
	// The file tells of the namespace that children are born into. Where that
	// is another one, ours is that of a parent, as good as always the first.
	own, err1 := os.Readlink("/proc/self/ns/time")
	children, err2 := os.Readlink("/proc/self/ns/time_for_children")
	if err1 != nil || err2 != nil || own != children {
		return 0
	}
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0
	}
	return parseOffset(string(text))
}

// parseOffset finds the line "monotonic <seconds> <nanoseconds>".
func parseOffset(text string) time.Duration {
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) != 3 || w[0] != "monotonic" {
			continue
		}
		sec, err1 := strconv.ParseInt(w[1], 10, 64)
		nsec, err2 := strconv.ParseInt(w[2], 10, 64)
		if err1 == nil && err2 == nil {
			return time.Duration(sec)*time.Second + time.Duration(nsec)
		}
	}
	return 0
}

// judgeMount refuses file systems on which flock, fdatasync or a shared mapping
// does not reach every process that may hold the store, or not the disk.
func judgeMount(name string, st *unix.Statfs_t, allow bool) error {
	if kind := unfitKind(uint32(st.Type)); kind != "" && !allow {
		return refuseKind(name, kind)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return refuseReadOnly(name)
	}
	return nil
}

// unfitKind names the kind of file system by its magic number if it is one of
// those to refuse, else it returns "".
func unfitKind(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.CIFS_SUPER_MAGIC:
		return "CIFS"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "AFS"
	case 0x0bd00bd0:
		return "Lustre"
	case 0x786f4256:
		return "vboxsf"
	}
	return ""
}
