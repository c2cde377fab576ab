package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolq/spool/broker/filebroker"
)

func TestBackupAndRestore(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("mail", "hello")
	held := s.open() // the store is in use
	defer held.Close()
	backup := filepath.Join(t.TempDir(), "backup")
	if c := object[filebroker.Copied](t, s.ok("backup", backup, "--json")); c.Jobs != 1 || c.Store != backup || c.Bytes == 0 {
		t.Errorf("backup: %+v", c)
	}
	s.fails(exitUsage, "not empty", "backup", backup)
	s.fails(exitUsage, "lies in the store", "backup", filepath.Join(s.dir, "backup"))
	s.enqueue("mail", "later")
	s.fails(exitUsage, "not empty", "restore", backup)
	again := newTool(t)
	again.fails(exitNotFound, "is not a store", "restore", t.TempDir())
	if out := again.ok("restore", backup); !strings.Contains(out, "1 job restored in") {
		t.Errorf("restore: %q", out)
	}
	if got := again.ok("show", id, "--payload"); got != "hello" {
		t.Errorf("the payload of the restored job is %q", got)
	}
	if n := strings.Count(again.ok("list"), "\n"); n != 2 { // with the heading
		t.Errorf("it lists %d lines", n)
	}
}

// TestAKilledBackupLeavesNoStore kills spool backup at many stages of its work.
// The store goes on; what is left does not open as a store with fewer jobs; and
// the next backup works.
func TestAKilledBackupLeavesNoStore(t *testing.T) {
	s := newTool(t)
	const jobs = 12
	for range jobs {
		s.enqueue("mail", strings.Repeat("x", 600_000)) // each is a piece to copy
	}
	beside := t.TempDir()
	killed, finished := 0, 0
	for round := range 8 {
		target := filepath.Join(beside, "backup")
		cmd := s.process("backup", target)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "the backup", func() bool { // for more of it in each round
			left, err := filepath.Glob(target + "*/*")
			return err == nil && len(left) > round || there(target)
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if cmd.Wait() == nil {
			finished++
		} else {
			killed++
		}
		for _, dir := range glob(t, target+"*") {
			noLessThan(t, dir, jobs)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if v := object[filebroker.Verified](t, s.ok("verify", "--json")); v.Jobs != jobs {
			t.Fatalf("after a killed backup the store has %+v", v)
		}
	}
	if killed == 0 {
		t.Errorf("none of %d backups was killed before its end", finished)
	}
	s.enqueue("mail")
	s.ok("backup", filepath.Join(beside, "last"))
}

func there(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// noLessThan wants that a directory that a killed backup left is refused, or holds
// all.
func noLessThan(t *testing.T, dir string, jobs int) {
	t.Helper()
	if names, err := os.ReadDir(dir); err != nil || len(names) == 0 {
		return // made, and nothing in it yet
	}
	s := &tool{t, dir}
	r := s.run("verify", "--json")
	if r.code != exitOK {
		if again := s.run("list"); again.code == exitOK {
			t.Errorf("a part of a backup opens: %s", again.out)
		}
		return
	}
	if v := object[filebroker.Verified](t, r.out); v.Jobs != jobs {
		t.Errorf("a part of a backup is a store with %d jobs", v.Jobs)
	}
}
