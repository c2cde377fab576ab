package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// child is a process that plays a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// spawn starts a child and waits until it is ready.
func spawn(r role) (*child, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, "role", string(text))}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := c.hear(); err != nil || line != "ready" {
		return nil, errors.Join(fmt.Errorf("child %s is not ready: %q", r.Do, line), err, c.end())
	}
	return c, nil
}

// spawnAll starts several, or none.
func spawnAll(roles ...role) (all []*child, err error) {
	for _, r := range roles {
		c, err := spawn(r)
		if err != nil {
			return nil, errors.Join(err, endAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func (c *child) tell() error {
	_, err := io.WriteString(c.in, "go\n")
	return err
}

func (c *child) hear() (string, error) {
	if !c.out.Scan() {
		return "", errors.Join(errors.New("child ended too early"), c.out.Err())
	}
	return c.out.Text(), nil
}

func (c *child) report() (r report, err error) {
	line, err := c.hear()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("report %q: %w", line, err)
	}
	if r.Err != "" {
		return r, fmt.Errorf("child: %s", r.Err)
	}
	return r, nil
}

// end closes the child's input and waits for its end.
func (c *child) end() error {
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

func endAll(all []*child) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.end())
	}
	return errors.Join(errs...)
}
