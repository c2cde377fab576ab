package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/filebroker"
)

// asSpool, set in the environment, makes this test binary the spool command.
const asSpool = "SPOOL_TEST_AS_SPOOL"

func TestMain(m *testing.M) {
	// What the tests show does not rest on the kind of file system.
	if err := os.Setenv("SPOOL_ALLOW_UNSAFE_FS", "true"); err != nil {
		panic(err)
	}
	if os.Getenv(asSpool) != "" {
		main()
	}
	os.Exit(m.Run())
}

// tool runs commands on one directory.
type tool struct {
	t   *testing.T
	dir string
}

func newTool(t *testing.T) *tool {
	t.Helper()
	return &tool{t, filepath.Join(t.TempDir(), "jobs")}
}

// result is how a command ended.
type result struct {
	code        int
	out, errout string
}

// with runs a command in this process, with an input.
func (s *tool) with(in io.Reader, args ...string) result {
	s.t.Helper()
	var out, errout bytes.Buffer
	a := system()
	a.in, a.stdout, a.errw = in, &out, &errout
	code := run(append([]string{"--dir", s.dir}, args...), a)
	return result{code, out.String(), errout.String()}
}

func (s *tool) run(args ...string) result {
	s.t.Helper()
	return s.with(strings.NewReader(""), args...)
}

// ok runs a command that must succeed, and returns its output.
func (s *tool) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != exitOK {
		s.t.Fatalf("spool %q: exit code %d\n%s", args, r.code, r.errout)
	}
	return r.out
}

// fails runs a command that must end with a code and say something of a kind.
func (s *tool) fails(code int, says string, args ...string) {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code || !strings.Contains(r.errout, says) {
		s.t.Errorf("spool %q: exit code %d, %q; want %d, and %q in it", args, r.code, r.errout, code, says)
	}
	for line := range strings.Lines(r.errout) {
		if !strings.HasPrefix(line, "spool: ") {
			s.t.Errorf("spool %q: %q does not begin with its name", args, line)
		}
	}
}

// enqueue adds a job and returns its id.
func (s *tool) enqueue(args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.ok(append([]string{"enqueue"}, args...)...))
}

// open opens the store as a program does; the caller closes it.
func (s *tool) open() *filebroker.Broker {
	s.t.Helper()
	a := system()
	a.unsafeFS = true
	b, err := a.openStore(s.dir, changing)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// object reads what a command prints with --json.
func object[T any](t *testing.T, out string) (v T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return v
}

// shown is what the tests read of a job.
type shown map[string]any

func (s *tool) show(id string) shown {
	s.t.Helper()
	return object[shown](s.t, s.ok("show", id, "--json"))
}

// process returns the spool command as a process of its own.
func (s *tool) process(args ...string) *exec.Cmd {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"--dir", s.dir}, args...)...)
	cmd.Env = append(os.Environ(), asSpool+"=1")
	return cmd
}

// start starts a process that is killed at the end of the test.
func (s *tool) start(cmd *exec.Cmd) {
	s.t.Helper()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // how it ended was the test's to see
	})
}

// await polls for a condition that another process brings about.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// handle declares a task whose handler keeps what it got.
func handle[In any](w *spool.Worker, task string, got *In) {
	spool.Define[In](task).Handle(w, func(_ context.Context, in In) error { *got = in; return nil })
}
