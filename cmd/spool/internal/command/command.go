// Package command runs a shell command for one job: the payload on its
// standard input, its output kept within bounds, and the whole process group
// stopped when the job must stop.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Bounds of what is kept of a command's output.
const (
	MaxStdout = 1 << 20 // the result: what goes beyond is dropped, and Result says so
	MaxTail   = 4 << 10 // the end of the standard error
)

// outputDelay is how long a finished command's children may hold its output
// open before it counts as finished anyway.
const outputDelay = 2 * time.Second

// Command is a shell command to run once.
type Command struct {
	Shell string   // run by sh -c (cmd /c on Windows)
	Stdin []byte   // may be empty
	Env   []string // added to this process's environment, as NAME=value
	// Inherit are files that the command and its children keep open, as long
	// as any of them lives: a lock on one of them lasts that long. Run closes
	// this process's own.
	Inherit []*os.File
	// Grace says how long the process group has between SIGTERM and SIGKILL,
	// given the cause that ended Run's context.
	Grace func(cause error) time.Duration
	// Stderr receives the standard error as it comes; nil means nobody does.
	Stderr io.Writer
}

// Result is how a command ended.
type Result struct {
	Code      int    // exit status; -1 when a signal ended it
	Signal    string // the signal's name, when one ended it
	Stdout    []byte // at most MaxStdout bytes
	StdoutCut bool   // it wrote more than that
	Tail      []byte // the last MaxTail bytes of its standard error
}

// Run runs the command and waits for it and, where it can, for everything that
// it left in its process group. When ctx ends, the group gets SIGTERM and,
// its grace later, SIGKILL; Run returns once the command is gone. Its error is for
// a command that could not be started at all, or whose output could not be
// read; any exit status is a Result.
func (c *Command) Run(ctx context.Context) (*Result, error) {
	stdout, tail := &head{max: MaxStdout}, &Tail{Max: MaxTail}
	cmd := shell(c.Shell)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Stdout = stdout
	cmd.Stderr = tail
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(tail, c.Stderr)
	}
	cmd.ExtraFiles = c.Inherit
	cmd.WaitDelay = outputDelay
	ownGroup(cmd)
	err := cmd.Start()
	for _, f := range c.Inherit {
		_ = f.Close() // nothing was written to it
	}
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		c.stopGroup(ctx, cmd, done)
	}()
	err = cmd.Wait()
	close(done)
	<-stopped
	r := &Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.kept, StdoutCut: stdout.cut, Tail: tail.Bytes()}
	if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		r.Signal = st.Signal().String()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, syscall.EPIPE) {
		return r, fmt.Errorf("wait for the command: %w", err)
	}
	return r, nil
}

// stopGroup waits until the command is done or ctx ends, and then stops the
// process group, which exists until the command is waited for.
func (c *Command) stopGroup(ctx context.Context, cmd *exec.Cmd, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	terminateGroup(cmd)
	timer := time.NewTimer(c.Grace(context.Cause(ctx)))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	killGroup(cmd) // also after the command's own end: what it started goes with it
	<-done
}

// head keeps the first max bytes of what is written to it.
type head struct {
	kept []byte
	max  int
	cut  bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.max-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.cut = h.cut || n < len(p)
	return len(p), nil
}

// Tail is a writer that keeps the last Max bytes of what is written to it.
// Writes never fail. Not safe for concurrent use.
type Tail struct {
	Max  int // above 0
	kept []byte
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.Max):]...)
	if over := len(t.kept) - t.Max; over > t.Max { // move seldom
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// Bytes returns what is kept. The slice is valid until the next Write.
func (t *Tail) Bytes() []byte { return t.kept[max(0, len(t.kept)-t.Max):] }
