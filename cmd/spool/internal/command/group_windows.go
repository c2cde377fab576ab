package command

import "os/exec"

func shell(line string) *exec.Cmd { return exec.Command("cmd", "/c", line) }

// Windows has neither groups nor SIGTERM: the command itself is killed.
func ownGroup(*exec.Cmd)       {}
func terminateGroup(*exec.Cmd) {}
func killGroup(cmd *exec.Cmd)  { _ = cmd.Process.Kill() } // it may be gone already
