//go:build linux || darwin

package vfs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/spoolq/spool/internal/vfs"
)

// childVar names what this binary is to do instead of its tests, for a test
// that needs another process.
const childVar = "VFS_TEST_CHILD"

func TestMain(m *testing.M) {
	role := os.Getenv(childVar)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := children[role](os.Getenv("VFS_TEST_FILE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var children = map[string]func(file string) error{
	"hold":    holdUntilKilled,
	"outgrow": outgrow,
	"tell": func(string) error {
		_, err := fmt.Println(int64(vfs.OS().Monotonic()))
		return err
	},
}

// holdUntilKilled locks the file, says so, and waits until it is killed or its
// parent is gone.
func holdUntilKilled(name string) error {
	f, err := vfs.OS().Open(name, os.O_RDWR)
	if err != nil {
		return err
	}
	if err := f.Lock(); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// outgrow writes past a limit for files, to see what a failed write tells.
func outgrow(name string) error {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := vfs.OS().Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2000, Max: 2000}); err != nil {
		return err
	}
	n, err := f.WriteAt(make([]byte, 5000), 0)
	if n != 2000 || !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("WriteAt past the limit: %d, %w", n, err)
	}
	return nil
}

// child is a command that runs this binary in a role, after those words.
func child(t *testing.T, role, file string, before ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	ok(t, err)
	words := append(before, self)
	cmd := exec.Command(words[0], words[1:]...)
	// The race detector would wait a second at the end.
	cmd.Env = append(os.Environ(), childVar+"="+role, "VFS_TEST_FILE="+file, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

func startHolder(t *testing.T, name string) (kill func()) {
	t.Helper()
	cmd := child(t, "hold", name)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	in, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "locked" {
		t.Fatalf("the other process says %q, error %v", line, err)
	}
	return func() {
		defer in.Close()
		ok(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Error("the other process ended by itself")
		}
	}
}
