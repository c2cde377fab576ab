package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs"
)

// TestAnInterruptIsToldAsOne: whatever a command was doing, Ctrl-C ends it soon,
// with exit code 130, and with one line that says so.
func TestAnInterruptIsToldAsOne(t *testing.T) {
	cases := []struct {
		name   string
		args   []string
		stdin  string // what it reads before it is interrupted
		begins string // what it says then
		says   string
	}{
		{"enqueue --lines", []string{"enqueue", "task", "--lines"}, strings.Repeat("{}\n", 200_000), "", "jobs enqueued, up to line"},
		{"bench of goroutines", []string{"bench", "enqueue_64", "--scale=20"}, "", "measuring enqueue_64", ""},
		{"bench of processes", []string{"bench", "through_4x4", "--scale=20"}, "", "measuring through_4x4", ""},
		{"bench of an idle process", []string{"bench", "idle", "--scale=20"}, "", "measuring idle", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newTool(t)
			if c.args[0] == "bench" {
				must(t, os.Mkdir(s.dir, 0o700))
			}
			cmd := s.process(c.args...)
			errs := filepath.Join(t.TempDir(), "stderr")
			f, err := os.Create(errs)
			must(t, err)
			cmd.Stderr = f
			said := func() string {
				text, err := os.ReadFile(errs)
				must(t, err)
				return string(text)
			}
			in, err := cmd.StdinPipe()
			must(t, err)
			s.start(cmd)
			if c.stdin != "" {
				_, err = in.Write([]byte(c.stdin)) // more than a pipe holds: it is under way when this returns
				must(t, err)
			}
			await(t, "it is under way", func() bool { return strings.Contains(said(), c.begins) })
			must(t, cmd.Process.Signal(os.Interrupt))
			begun := time.Now()
			err = cmd.Wait()
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it went on for %v", took)
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitInt {
				t.Errorf("ended with %v, want %d", err, exitInt)
			}
			got := said()
			if strings.Count(got, "stopped by interrupt") != 1 || strings.Contains(got, "context canceled") || !strings.Contains(got, c.says) {
				t.Errorf("it said:\n%s", got)
			}
		})
	}
}

// must fails the test for an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A process that waits for a store whose lock somebody keeps ends with the first
// signal.
func TestASignalEndsTheWaitForTheLockOfAStore(t *testing.T) {
	s := newTool(t)
	s.enqueue("t")
	lock, err := vfs.OS().Open(filepath.Join(s.dir, "LOCK"), os.O_RDWR)
	must(t, err)
	defer func() { must(t, lock.Close()) }()
	must(t, lock.Lock())
	cmd := s.process("stats")
	var said lockedText
	cmd.Stderr = &said
	s.start(cmd)
	await(t, "it says that it waits", func() bool { return strings.Contains(said.String(), "waiting to open the store") })
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitTerm {
		t.Errorf("it ended with %v: %s", err, said.String())
	}
}

// lockedText is what a process writes, to be read meanwhile.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Nothing that a worker could wait for mends a store that is damaged.
func TestWorkEndsAtADamagedStore(t *testing.T) {
	for _, args := range [][]string{{"work", "--exec", "true"}, {"work", "--exec", "true", "--drain"}} {
		s := newTool(t)
		for range 20 {
			s.enqueue("t")
		}
		s.ok("compact")
		name := filepath.Join(s.dir, "000001.idx")
		b, err := os.ReadFile(name)
		must(t, err)
		b[len(b)/2] ^= 1
		must(t, os.WriteFile(name, b, 0o600))
		s.fails(exitUnhealthy, "store is corrupt", args...)
	}
}
