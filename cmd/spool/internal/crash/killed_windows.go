package crash

import "os/exec"

// killed says whether a process ended as Process.Kill ends it, with status 1.
func killed(cmd *exec.Cmd) bool { return cmd.ProcessState.ExitCode() == 1 }
