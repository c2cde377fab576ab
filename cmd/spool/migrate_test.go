package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// other is a tool on another directory beside s's.
func (s *tool) other(name string) *tool {
	return &tool{s.t, filepath.Join(filepath.Dir(s.dir), name)}
}

func TestMigrate(t *testing.T) {
	t.Run("jobs, settings and a pause go, and the counts say so", func(t *testing.T) {
		s := newTool(t)
		to := s.other("new")
		id := s.enqueue("resize", "cat", "--queue=a", "--priority=3", "--key=k")
		s.enqueue("mail", "--queue=b", "--delay=1h")
		s.ok("weight", "set", "acme", "3", "--queue=a")
		s.ok("pause", "a")
		out := s.ok("migrate", s.dir, to.dir)
		for _, want := range []string{"QUEUE  JOBS MOVED  SETTINGS", "a      1           1", "b      1           0"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		j := object[map[string]any](t, to.ok("show", id, "--json"))
		if j["payload_text"] != "cat" || j["priority"] != 3.0 || j["key"] != "k" || j["state"] != "ready" {
			t.Errorf("the job is %v", j)
		}
		if out := to.ok("stats"); !strings.Contains(out, "a (paused)") {
			t.Errorf("the pause did not go along:\n%s", out)
		}
		if out := s.ok("stats"); !strings.Contains(out, "a (has moved to "+to.dir+")") {
			t.Errorf("the old store does not say where it went:\n%s", out)
		}
		s.fails(exitNotFound, "not found", "show", id)
	})
	t.Run("what comes later waits, and follows", func(t *testing.T) {
		s := newTool(t)
		to := s.other("new")
		s.enqueue("a")
		s.ok("migrate", s.dir, to.dir)
		r := s.run("enqueue", "b")
		if !strings.Contains(r.errout, "queue default has moved to "+to.dir) || !strings.Contains(r.errout, "use that store") || strings.Contains(r.errout, "no live worker") {
			t.Errorf("enqueue says %s", r.errout)
		}
		id := strings.TrimSpace(r.out)
		s.fails(exitNotFound, "", "claim")
		if out := s.ok("explain", id); !strings.Contains(out, "has moved to "+to.dir) || !strings.Contains(out, "use that store") || strings.Contains(out, "end of the move") {
			t.Errorf("explain says\n%s", out)
		}
		if r := s.run("work", "--drain", "--exec=true"); !strings.Contains(r.errout, "queue default has moved to "+to.dir+", and no job of it is given out here: 1 job waits there; use that store") {
			t.Errorf("work says %s", r.errout)
		}
		p := object[map[string]any](t, s.ok("migrate", s.dir, to.dir, "--json"))
		if p["queue"] != "default" || p["moved"] != 1.0 {
			t.Errorf("moved %v", p)
		}
		to.ok("claim")
		to.ok("claim")
	})
	t.Run("what has moved to one store is neither moved nor used again on behalf of another", func(t *testing.T) {
		s := newTool(t)
		to, third := s.other("new"), s.other("third")
		s.enqueue("a", "--queue=gone")
		s.ok("migrate", s.dir, to.dir)
		s.enqueue("b", "--queue=here")
		r := s.run("migrate", s.dir, third.dir)
		if r.code != 0 || !strings.Contains(r.errout, "queue gone is left out: it has moved to "+to.dir) || !strings.Contains(r.out, "here   1") {
			t.Errorf("migrate ended with %d, and said %s%s", r.code, r.out, r.errout)
		}
		s.fails(exitNotFound, "it has moved to "+to.dir+", and "+third.dir+" knows nothing of that", "migrate", s.dir, third.dir, "--forget", "--queue=gone")
		if out := s.ok("stats"); !strings.Contains(out, "gone (has moved to "+to.dir+")") {
			t.Errorf("it was forgotten:\n%s", out)
		}
		s.ok("migrate", s.dir, to.dir, "--forget")
		if out := s.ok("stats"); strings.Contains(out, "gone (has moved to "+to.dir+")") {
			t.Errorf("it was not forgotten:\n%s", out)
		}
	})
	t.Run("status, and back", func(t *testing.T) {
		s := newTool(t)
		to := s.other("new")
		s.enqueue("a")
		to.enqueue("b", "--queue=other")
		if out := s.ok("migrate", s.dir, to.dir, "--status"); out != "no queue moves\n" {
			t.Errorf("status: %s", out)
		}
		s.ok("migrate", s.dir, to.dir)
		out := s.ok("migrate", s.dir, to.dir, "--status")
		if !strings.Contains(out, "left") || !strings.Contains(out, "arrived") {
			t.Errorf("status: %s", out)
		}
		r := object[recordJSON](t, strings.SplitAfter(s.ok("migrate", s.dir, to.dir, "--status", "--json"), "\n")[0])
		if r.Store != s.dir || r.State != "left" || r.Peer != to.dir || r.Jobs != 1 {
			t.Errorf("status: %+v", r)
		}
		s.fails(exitFailed, "that move has ended", "migrate", s.dir, to.dir, "--abort", "--queue=default")
		s.ok("migrate", to.dir, s.dir, "--queue=default")
		s.ok("claim")
		to.fails(exitNotFound, "", "claim", "--queue=default")
		to.ok("claim", "--queue=other")
	})
	t.Run("the old store's queue can be used again", func(t *testing.T) {
		s := newTool(t)
		to := s.other("new")
		s.enqueue("a")
		s.ok("migrate", s.dir, to.dir)
		s.enqueue("b")
		s.ok("migrate", s.dir, to.dir, "--forget")
		s.ok("claim")
		if out := s.ok("stats"); strings.Contains(out, "moved") {
			t.Errorf("stats: %s", out)
		}
	})
	t.Run("a move that waits is stopped, looked at and taken back", func(t *testing.T) {
		s := newTool(t)
		to := s.other("new")
		s.enqueue("a")
		s.enqueue("b")
		s.ok("claim", "--task=a", "--ttl=1h")
		cmd := s.process("migrate", s.dir, to.dir)
		s.start(cmd)
		await(t, "a batch to arrive", func() bool {
			return strings.Contains(s.run("migrate", s.dir, to.dir, "--status").out, "leaving")
		})
		s.fails(exitFailed, "another run of this move goes on", "migrate", s.dir, to.dir)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitTerm {
			t.Errorf("stopped: %v", err)
		}
		if out := s.ok("stats"); !strings.Contains(out, "(moves to "+to.dir+")") {
			t.Errorf("stats: %s", out)
		}
		s.ok("migrate", s.dir, to.dir, "--abort")
		if out := s.ok("migrate", s.dir, to.dir, "--status"); out != "no queue moves\n" {
			t.Errorf("status: %s", out)
		}
		s.ok("claim", "--task=b")
		s.fails(exitNotFound, "no move", "migrate", s.dir, to.dir, "--abort", "--queue=default")
		s.fails(exitNotFound, "no move", "migrate", s.dir, to.dir, "--abort")
	})
}

func TestMigrateFollows(t *testing.T) {
	s := newTool(t)
	to := s.other("new")
	s.enqueue("a")
	cmd := s.process("migrate", s.dir, to.dir, "--follow")
	var said bytes.Buffer
	cmd.Stdout = &said
	s.start(cmd)
	arrives := func(n string) {
		await(t, "jobs to arrive", func() bool { return strings.Contains(to.run("stats", "--json").out, `"ready":`+n+`,`) })
	}
	arrives("1")
	s.enqueue("a")
	arrives("2")
	s.enqueue("a", "--queue=another")
	await(t, "a queue that is new to arrive, and the move to end", func() bool {
		out := s.run("migrate", s.dir, to.dir, "--status").out
		return strings.Count(out, " arrived ") == 2 && strings.Count(out, " left ") == 2 && strings.Contains(to.run("stats").out, "another")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if got := said.String(); strings.Count(got, "QUEUE") != 1 || strings.Count(got, "\n") < 4 {
		t.Errorf("it is one table for all rounds, with one head:\n%s", got)
	}
	for range 3 {
		to.ok("claim")
	}
}

// recordJSON is what --status prints with --json.
type recordJSON struct {
	Store  string `json:"store"`
	ID     string `json:"id"`
	Queue  string `json:"queue"`
	State  string `json:"state"`
	Peer   string `json:"peer"`
	Batch  uint64 `json:"batch"`
	OnWay  bool   `json:"on_way"`
	Jobs   int64  `json:"jobs"`
	Turned string `json:"turned"`
}

func TestBadMigrations(t *testing.T) {
	s := newTool(t)
	to := s.other("new")
	s.fails(exitNotFound, "is not a store", "migrate", s.dir, to.dir)
	s.enqueue("a")
	s.fails(exitUsage, "are one store", "migrate", s.dir, s.dir+"/../jobs")
	s.fails(exitUsage, "can't be used together", "migrate", s.dir, to.dir, "--abort", "--follow")
	s.fails(exitUsage, "between directories and servers of Redis", "migrate", s.dir, "ftp://example.org/x")
	s.fails(exitNotFound, "is not a store", "migrate", s.dir, to.dir, "--status")
	s.fails(exitNotFound, "has a queue typo", "migrate", s.dir, to.dir, "--queue=default", "--queue=typo")
	if _, err := os.Stat(to.dir); !os.IsNotExist(err) {
		t.Errorf("the new directory is there: %v", err)
	}
	to.enqueue("a", "--queue=there")
	s.fails(exitNotFound, "has a queue typo", "migrate", s.dir, to.dir, "--queue=typo")
	b := s.open()
	defer b.Close()
	if moves, err := b.Moves(context.Background(), ""); err != nil || len(moves) != 0 {
		t.Errorf("records %v, %v", moves, err)
	}
}
