package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// server is a process that a peer needs. It is private to the run: its files
// are below one directory, and it listens where nobody else looks.
type server struct {
	name    string
	program string // its path or name
	version []string
	args    func(s *server) []string
	prepare func(s *server) error // before its first start in a directory
	ready   func(s *server) error // it answers
	addr    string                // for clients
	end     syscall.Signal
	count   func(s *server) counts // nil when it says nothing of its work
	as      *syscall.Credential    // nil means who runs the benchmark

	dir string
	cmd *exec.Cmd
}

const serverPatience = 15 * time.Second

// start starts the server, on its files when it has some, and waits until it
// answers.
func (s *server) start() error {
	if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) {
		if err := s.create(); err != nil {
			return fmt.Errorf("prepare %s: %w", s.name, err)
		}
	}
	log, err := os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = s.command(s.program, s.args(s)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	for begun := time.Now(); time.Since(begun) < serverPatience; pause(context.Background(), 2*time.Millisecond) {
		if err = s.ready(s); err == nil {
			return nil
		}
	}
	text, _ := os.ReadFile(log.Name())
	return errors.Join(fmt.Errorf("%s does not answer: %w: %s", s.name, err, lastLine(string(text))), s.stop())
}

func (s *server) create() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if s.as != nil {
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if s.prepare != nil {
		return s.prepare(s)
	}
	return nil
}

// command makes a process that ends when this one does.
func (s *server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT, Credential: s.as}
	return cmd
}

// stop ends the server, if it runs.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(s.end); err != nil {
		return err
	}
	kill := time.AfterFunc(serverPatience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	var ended *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
		return err
	}
	return nil
}

// reset starts it anew with nothing in it.
func (s *server) reset() error {
	if err := errors.Join(s.stop(), os.RemoveAll(s.dir)); err != nil {
		return err
	}
	return s.start()
}

func (s *server) cpu() time.Duration {
	if s == nil || s.cmd == nil {
		return 0
	}
	return treeCPU(s.cmd.Process.Pid)
}

// counts is what the server says of its work so far.
func (s *server) counts() (c counts) {
	if s == nil || s.count == nil {
		return c
	}
	return s.count(s)
}

// versionText is what the program says of itself.
func (s *server) versionText() string {
	out, err := exec.Command(s.program, s.version...).CombinedOutput()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// find returns the path of a program: in one of the directories given, or
// where the shell would look.
func find(name string, dirs ...string) (string, error) {
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, name))
		if err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return exec.LookPath(name)
}
