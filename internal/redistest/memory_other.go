//go:build !linux

package redistest

// memory says that this system has no place for files in memory.
func memory() (dir string, ok bool) { return "", false }
