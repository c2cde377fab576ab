package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes a server end with the test's process, however that ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
