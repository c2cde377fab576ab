//go:build unix

package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func run(t *testing.T, ctx context.Context, c *Command) *Result {
	t.Helper()
	r, err := c.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestACommandGetsItsPayloadAndItsNames(t *testing.T) {
	payload := []byte("a\x00b\xff\n")
	r := run(t, t.Context(), &Command{Shell: `cat; printf '%s' "$SPOOL_TASK"`, Stdin: payload, Env: []string{"SPOOL_TASK=resize"}})
	if want := append(bytes.Clone(payload), "resize"...); !bytes.Equal(r.Stdout, want) || r.Code != 0 {
		t.Errorf("got %q, status %d; want %q, 0", r.Stdout, r.Code, want)
	}
}

func TestExitStatusAndTail(t *testing.T) {
	for _, c := range []struct {
		name, shell  string
		code         int
		signal, tail string
	}{
		{"a status comes back", "echo oops >&2; exit 75", 75, "", "oops\n"},
		{"no such command is a status", "exec /no/such/command 2>/dev/null", 127, "", ""},
		{"a payload that nobody reads is no fault", "exit 0", 0, "", ""},
		{"a signal is named", "kill -9 $$", -1, "killed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, t.Context(), &Command{Shell: c.shell, Stdin: bytes.Repeat([]byte("x"), 1<<20)})
			if r.Code != c.code || r.Signal != c.signal || string(r.Tail) != c.tail {
				t.Errorf("got status %d, signal %q, tail %q; want %d, %q, %q", r.Code, r.Signal, r.Tail, c.code, c.signal, c.tail)
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	var live bytes.Buffer
	r := run(t, t.Context(), &Command{
		Shell:  `head -c 1100000 /dev/zero; head -c 50000 /dev/zero | tr '\0' x >&2; printf end >&2`,
		Stderr: &live,
	})
	if len(r.Stdout) != MaxStdout || !r.StdoutCut {
		t.Errorf("kept %d bytes of the output (cut: %v), want %d (cut)", len(r.Stdout), r.StdoutCut, MaxStdout)
	}
	if len(r.Tail) != MaxTail || !bytes.HasSuffix(r.Tail, []byte("xend")) {
		t.Errorf("kept %d bytes of the standard error, ending %q; want the last %d", len(r.Tail), r.Tail[max(0, len(r.Tail)-8):], MaxTail)
	}
	if live.Len() != 50003 {
		t.Errorf("%d bytes came through, want 50003", live.Len())
	}
	if r := run(t, t.Context(), &Command{Shell: "head -c 1048576 /dev/zero"}); r.StdoutCut {
		t.Error("an output of exactly the limit is called cut")
	}
}

// await polls for a condition that another process brings about.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

func TestTheWholeGroupIsStopped(t *testing.T) {
	for _, c := range []struct {
		name, shell string
		grace       time.Duration
	}{
		{"a command that obeys ends by SIGTERM, and its child with it", `trap 'echo term; exit 3' TERM; (sh -c 'while :; do sleep 0.05; touch "$DIR/child"; done') & touch "$DIR/up"; wait`, 10 * time.Second},
		{"a command that does not obey ends by SIGKILL, and its child with it", `trap '' TERM; (sh -c 'while :; do sleep 0.05; touch "$DIR/child"; done') & touch "$DIR/up"; while :; do sleep 0.05; done`, 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan *Result, 1)
			go func() {
				r, err := (&Command{Shell: c.shell, Env: []string{"DIR=" + dir}, Grace: func(error) time.Duration { return c.grace }}).Run(ctx)
				if err != nil {
					t.Error(err)
				}
				ended <- r
			}()
			child := filepath.Join(dir, "child")
			await(t, "the child", func() bool { return exists(filepath.Join(dir, "up")) && exists(child) })
			begun := time.Now()
			cancel()
			r := <-ended
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("stopping took %v", took)
			}
			if c.grace > time.Second && (r.Code != 3 || strings.TrimSpace(string(r.Stdout)) != "term") {
				t.Errorf("got status %d, output %q: it was not asked first", r.Code, r.Stdout)
			}
			if c.grace < time.Second && r.Signal != "killed" {
				t.Errorf("got status %d, signal %q; want it killed", r.Code, r.Signal)
			}
			// The child writes every 50 ms while it lives: it must stop.
			await(t, "the child's end", func() bool {
				if err := os.Remove(child); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				<-time.After(150 * time.Millisecond)
				return !exists(child)
			})
		})
	}
}

func TestAnInheritedFileStaysOpenInTheCommand(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), &Command{Shell: "echo held >&3", Inherit: []*os.File{f}})
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != "held\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("this process still has the file open: %v", err)
	}
}
