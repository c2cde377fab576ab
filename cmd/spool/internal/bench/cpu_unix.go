//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time that this process has used; 0 when that cannot be
// had.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
