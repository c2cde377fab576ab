//go:build unix

package crash

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// killed says whether a process ended by SIGKILL.
func killed(cmd *exec.Cmd) bool {
	st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && st.Signaled() && st.Signal() == syscall.SIGKILL
}

// freeze stops a process. goOn lets it go on; nil when it had ended.
func freeze(p *os.Process) (goOn func(), err error) {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		return nil, err
	}
	return func() { _ = p.Signal(syscall.SIGCONT) }, nil // it may have been killed since
}
