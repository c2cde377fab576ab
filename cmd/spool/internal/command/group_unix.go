//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

func shell(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", line) }

// ownGroup makes the command the leader of a process group of its own, so that
// a signal reaches all that it starts, and a Ctrl-C in the terminal does not:
// the worker decides when a job stops.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// The errors are of no use: the group may be gone already.
func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
