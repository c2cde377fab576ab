//go:build unix

package crash

import (
	"os/exec"
	"syscall"
)

// killed says whether a process ended by SIGKILL.
func killed(cmd *exec.Cmd) bool {
	st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && st.Signaled() && st.Signal() == syscall.SIGKILL
}
