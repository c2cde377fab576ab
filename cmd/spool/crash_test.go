//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/spoolq/spool/cmd/spool/internal/crash"
)

// TestDemo runs a short demo with its processes.
func TestDemo(t *testing.T) {
	t.Setenv(asSpool, "1") // for the processes that it starts
	t.Setenv("TMPDIR", t.TempDir())
	s := newTool(t)
	v := object[demoView](t, s.ok("demo", "--jobs=1200", "--json"))
	if !v.OK || v.Enqueued != 1200 || v.Done != 1200 || v.Lost != 0 || v.Kills == 0 || v.Redelivered == 0 {
		t.Errorf("%+v", v)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%d directories are left, %v", len(left), err)
	}
}

// TestTorture runs a short torture with its processes.
func TestTorture(t *testing.T) {
	t.Setenv(asSpool, "1")
	s := newTool(t)
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"torture", "--seconds=4", "--kill-every=150ms", "--json"}
	if runtime.GOOS == "linux" {
		args = append(args, "--stop")
	}
	if runtime.GOARCH == "amd64" && runtime.GOOS == "linux" {
		args = append(args, "--clocks")
	}
	v := object[crash.Report](t, s.ok(args...))
	if !v.OK || v.Kills < 8 || v.Stops < 1 && runtime.GOOS == "linux" || v.Enqueued < 500 || v.Settled < 500 {
		t.Errorf("%+v", v)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}
