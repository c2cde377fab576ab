package redistest

import "syscall"

// memory is where Linux keeps files in memory. A container may have a few MiB
// of it only, and a server that has no more room stops.
func memory() (dir string, ok bool) {
	const most = 512 << 20 // what the servers of all packages hold at a time, twice
	var st syscall.Statfs_t
	dir = "/dev/shm"
	err := syscall.Statfs(dir, &st)
	return dir, err == nil && st.Bavail*uint64(st.Bsize) >= most
}
