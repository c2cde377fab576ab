//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// TestNoFileOfAStoreIsForOthers looks at the modes of everything that a store, a
// backup and a repair make, by a process whose umask forbids nothing.
func TestNoFileOfAStoreIsForOthers(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	s := newTool(t)
	s.enqueue("mail", strings.Repeat("x", 400))
	b := s.open() // a life sign, and its bell
	s.ok("compact")
	s.ok("claim", "--ttl=1h")
	s.enqueue("mail", "more")
	backup := filepath.Join(filepath.Dir(s.dir), "backup")
	s.ok("backup", backup)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	private := func(dir string) {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the mode %v", name, info.Mode())
			}
			seen++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	private(s.dir)
	private(backup)
	if err := os.Remove(filepath.Join(s.dir, "CURRENT")); err != nil {
		t.Fatal(err)
	}
	s.ok("repair")
	private(s.dir)
	if seen < 20 {
		t.Errorf("only %d files were looked at", seen)
	}
}

// stranger is something that is no file of a store.
type stranger struct {
	name string
	put  func(name, precious string) error
}

var strangers = []stranger{
	{"a symbolic link", func(name, precious string) error { return os.Symlink(precious, name) }},
	{"a pipe", func(name, _ string) error { return syscall.Mkfifo(name, 0o600) }},
	{"a directory", func(name, _ string) error { return os.Mkdir(name, 0o700) }},
	{"an endless device", func(name, _ string) error { return mkZero(name) }},
	{"a file of 1 TiB with nothing in it", func(name, _ string) error {
		return errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, 1<<40))
	}},
	{"a file of 1 TiB of nothing behind what was there", func(name, _ string) error {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(1<<40), f.Close())
	}},
}

// TestAStrangerInPlaceOfAFileOfTheStoreIsHarmless puts something else in the
// place of each file. Commands end, take little of a processor and little memory, do not panic, and
// leave alone what a link names.
func TestAStrangerInPlaceOfAFileOfTheStoreIsHarmless(t *testing.T) {
	v := newVictim(t)
	n := 0
	for _, name := range []string{"CURRENT", "CONTROL", "LOCK", "LOCK.next", "COMPACT", "PREP", "RESERVE", "POISON", "000001.idx", "000001.pay", "000002.log", "000004.log", "000005.log", "alive"} {
		for _, x := range strangers {
			if n++; testing.Short() && n%7 != 0 {
				continue
			}
			t.Run(name+" is "+x.name, func(t *testing.T) {
				t.Parallel()
				withStranger(t, v, name, x)
			})
		}
	}
}

func withStranger(t *testing.T, v *victim, name string, x stranger) {
	s := newTool(t)
	write(t, s.dir, v.files)
	precious := filepath.Join(filepath.Dir(s.dir), "precious")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(s.dir, name)
	if !strings.Contains(x.name, "behind") {
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.put(place, precious); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skipf("cannot be made here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"verify", "list"} {
		s.bounded(t, command)
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "precious" {
		t.Errorf("what the link names is %q now, %v", b, err)
	}
}

// bounded runs a command that must end within a time and a memory, in whatever way.
func (s *tool) bounded(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // of a busy machine
	defer cancel()
	p := s.process(args...)
	cmd := exec.CommandContext(ctx, p.Path, p.Args[1:]...)
	cmd.Env = append(p.Env, "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("spool %v does not end", args)
		return
	}
	if bytes.Contains(out, []byte("goroutine ")) {
		t.Errorf("spool %v: %v\n%s", args, err, out)
	}
	if rss := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; rss > 400<<10 { // KiB, on Linux
		t.Errorf("spool %v took %d MiB", args, rss>>10)
	}
	if took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); took > 20*time.Second {
		t.Errorf("spool %v took %v of a processor", args, took)
	}
}

// TestNothingThatIsPrintedControlsATerminal gives every text of a store control
// characters, and every kind of name in its directory.
func TestNothingThatIsPrintedControlsATerminal(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;title\x07\x9b31m\u009b31m\r\x08\x7f\u202e"
	ctx := context.Background()
	s := newTool(t)
	b := s.open0(t)
	add := func(j broker.NewJob) broker.Ref {
		t.Helper()
		got, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{j})
		if err != nil {
			t.Fatal(err)
		}
		return broker.Ref{Queue: "q", ID: got[0].ID}
	}
	text := strings.ToValidUTF8(evil, "?")
	job := broker.NewJob{Task: "t", Payload: []byte(evil), Tenant: text, Group: text, Key: text, KeyHold: broker.HoldUntilFinal, Headers: map[string]string{"h": text}, Retain: time.Hour}
	ref := add(job)
	add(broker.NewJob{Task: "t", Payload: []byte(evil)})
	for _, kind := range []broker.SettleKind{broker.Bury, broker.Nack} {
		got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: text})
		if err != nil || len(got.Leases) != 1 {
			t.Fatal(got, err)
		}
		l := got.Leases[0]
		if _, err := b.Extend(ctx, broker.ExtendRequest{Worker: broker.Worker{ID: text, Name: text, Host: text}, Leases: []broker.Extension{{Ref: l.Job.Ref(), Token: l.Token, Progress: &broker.Progress{Note: text}, Log: []string{text}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: kind, Error: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"torn-" + evil, evil + ".tmp", evil + ".new", evil + ".idx", strings.Repeat("\x1b", 200)} {
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	looks := [][]string{
		{"list"}, {"list", "--state=dead"}, {"show", ref.ID.String()}, {"stats"}, {"dead", "list"}, {"explain", ref.ID.String()}, {"inspect"}, {"verify"},
		{"list", "--json"}, {"show", ref.ID.String(), "--json"}, {"inspect", "--json"}, {"verify", "--json"}, {"compact"},
	}
	for _, args := range looks {
		s.harmless(t, args...)
	}
	hurt := &tool{t, filepath.Join(t.TempDir(), "jobs\x1b[2J")}
	write(t, hurt.dir, contents(t, s.dir))
	if err := os.Remove(filepath.Join(hurt.dir, "CURRENT")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify"}, {"list"}, {"inspect"}, {"repair"}, {"verify"}, {"backup", hurt.dir + evil}, {"restore", hurt.dir + evil}} {
		hurt.harmless(t, args...)
	}
}

// harmless runs a command, in whatever way it ends, and wants that it prints nothing
// but text, line ends and tabs.
func (s *tool) harmless(t *testing.T, args ...string) {
	t.Helper()
	r := s.run(args...)
	for _, out := range []string{r.out, r.errout} {
		if !utf8.ValidString(out) {
			t.Errorf("spool %q prints what is no text: %q", args, out)
		}
		if i := strings.IndexFunc(out, controls); i >= 0 {
			t.Errorf("spool %q prints %q", args, out[max(0, i-40):min(len(out), i+20)])
		}
	}
}

func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || slices.Contains([]rune("\u202a\u202b\u202d\u202e\u2066\u2067\u2068"), r)
}

// TestAStoreBehindALinkOrOfAnotherUserIsRefused, and the directory alive likewise.
func TestAStoreBehindALinkOrOfAnotherUserIsRefused(t *testing.T) {
	v := newVictim(t)
	for _, c := range []struct {
		name   string
		change func(dir string) error
		says   string
	}{
		{"a link to the store", func(dir string) error { return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir)) }, "symbolic link"},
		{"a store that others may write", func(dir string) error { return os.Chmod(dir, 0o777) }, "may be written by others"},
		{"a store of another user", func(dir string) error { return os.Chown(dir, 65534, 65534) }, "belongs to user"},
		{"life signs that others may write", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "alive"), 0o700), os.Chmod(filepath.Join(dir, "alive"), 0o777))
		}, "may be written by others"},
		{"life signs behind a link", func(dir string) error { return os.Symlink(os.TempDir(), filepath.Join(dir, "alive")) }, "symbolic link"},
	} {
		s := newTool(t)
		write(t, s.dir, v.files)
		if err := c.change(s.dir); errors.Is(err, fs.ErrPermission) {
			t.Logf("%s: cannot be made here: %v", c.name, err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		_, err := filebroker.Open(s.dir, filebroker.Config{AllowUnsafeFS: true})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: open says %v", c.name, err)
		}
	}
}
