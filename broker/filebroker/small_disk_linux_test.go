package filebroker

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of so many bytes; without the right to do so it
// is a plain directory, where the test holds but proves less.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes))
	if err != nil && os.Geteuid() == 0 {
		t.Logf("no small disk: %v", err)
	}
	if err == nil {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	return dir
}
