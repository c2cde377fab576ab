package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestHelp compares the help of every command with its golden file.
func TestHelp(t *testing.T) {
	for _, command := range commands(t) {
		t.Run("spool "+command, func(t *testing.T) {
			var out bytes.Buffer
			a := system()
			a.stdout, a.errw = &out, &out
			if code := run(append(strings.Fields(command), "--help"), a); code != exitOK {
				t.Fatalf("exit code %d: %s", code, out.Bytes())
			}
			golden := filepath.Join("testdata", "help", strings.ReplaceAll("spool "+command, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("the help is not that of %s (go test ./cmd/spool -update rewrites it):\n%s", golden, out.Bytes())
			}
		})
	}
}

// commands lists the command lines that have a help: "", "enqueue", "dead list".
func commands(t *testing.T) []string {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Name("spool"), groups, kong.Vars{"dir": defaultDir})
	if err != nil {
		t.Fatal(err)
	}
	list := []string{""}
	for _, leaf := range parser.Model.Leaves(true) {
		list = append(list, strings.TrimPrefix(leaf.FullPath(), "spool "))
	}
	if len(list) < 20 {
		t.Fatalf("only %q have a help", list)
	}
	return list
}

// TestWhatPeopleTryFirst is answered.
func TestWhatPeopleTryFirst(t *testing.T) {
	said := func(args ...string) string {
		var out bytes.Buffer
		a := system()
		a.stdout = &out
		if code := run(args, a); code != exitOK {
			t.Errorf("spool %q: exit code %d", args, code)
		}
		return out.String()
	}
	for _, c := range []struct {
		name       string
		args, same []string
	}{
		{"nothing", nil, []string{"--help"}},
		{"help", []string{"help"}, []string{"--help"}},
		{"help for a command", []string{"help", "work"}, []string{"work", "--help"}},
		{"a flag for the version", []string{"--version"}, []string{"version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := said(c.args...); got == "" || got != said(c.same...) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestBadCommandLines: each is refused with exit code 2, says what would do,
// and makes no directory.
func TestBadCommandLines(t *testing.T) {
	const id, token = "01890a5d-ac96-774b-bcce-b302099a8057", "--token=1"
	for _, c := range []struct {
		name, says string
		args       []string
	}{
		{"a command of another name", "spool dead requeue --help", []string{"requeue", id}},
		{"an unknown command", `did you mean "enqueue"`, []string{"enqueu", "x"}},
		{"an unknown flag", `"--delay"`, []string{"enqueue", "x", "--dely=3s"}},
		{"a flag without its value", "--delay", []string{"enqueue", "x", "--delay"}},
		{"no task", "<task>", []string{"enqueue"}},
		{"a bad name of a task", "allowed are A-Z a-z 0-9 _ . -", []string{"enqueue", "a b"}},
		{"a bad name of a queue", "allowed are A-Z a-z 0-9 _ . -", []string{"enqueue", "x", "--queue=../etc"}},
		{"an empty name of a queue", "is empty", []string{"enqueue", "x", "--queue="}},
		{"a negative delay", "negative", []string{"enqueue", "x", "--delay=-3s"}},
		{"a delay that looks like a flag", `--delay: expected a value but got "-3s"; perhaps try --delay="-3s"?`, []string{"enqueue", "x", "--delay", "-3s"}},
		{"a delay that is no duration", "1h30m", []string{"enqueue", "x", "--delay=3"}},
		{"a delay of more than a century", "100 years", []string{"enqueue", "x", "--delay=36500d1h"}},
		{"a delay with a time", "can't be used together", []string{"enqueue", "x", "--delay=3s", "--at=2026-11-30T15:04:05Z"}},
		{"a time that is none", "local time", []string{"enqueue", "x", "--at=tomorrow"}},
		{"a priority that does not fit", "4294967296", []string{"enqueue", "x", "--priority=4294967296"}},
		{"no attempts", "1 or more", []string{"enqueue", "x", "--max-attempts=0"}},
		{"an empty key", "key is empty", []string{"enqueue", "x", "--key="}},
		{"a hold without a key", "give --key", []string{"enqueue", "x", "--key-for=1h"}},
		{"two holds", "can't be used together", []string{"enqueue", "x", "--key=k", "--key-for=1h", "--key-until-started"}},
		{"a header of ours", `"spool."`, []string{"enqueue", "x", "-H", "spool.codec=json"}},
		{"a header that is no pair", "NAME=VALUE", []string{"enqueue", "x", "-H", "trace"}},
		{"an id that is none", "36 characters", []string{"enqueue", "x", "--id=7"}},
		{"the id zero", "names no job", []string{"enqueue", "x", "--id=00000000-0000-0000-0000-000000000000"}},
		{"a key for many lines", "one job", []string{"enqueue", "x", "--lines", "--key=k"}},
		{"a payload beside lines", "leave", []string{"enqueue", "x", "payload", "--lines"}},
		{"a payload over the limit", "limit is 1048576", []string{"enqueue", "x", strings.Repeat("x", 1<<20+1)}},
		{"work without a command", "--exec", []string{"work"}},
		{"work with an empty command", "shell command", []string{"work", "--exec= "}},
		{"work with nobody", "1 or more", []string{"work", "--exec=true", "--concurrency=0"}},
		{"a state that is none", "scheduled, ready, leased, done, dead, cancelled", []string{"list", "--state=running"}},
		{"a negative limit", "0 for all", []string{"list", "--limit=-1"}},
		{"a negative age", "--older", []string{"list", "--older=-1h"}},
		{"settling without a token", "--token", []string{"ack", id}},
		{"a token that is none", "decimal", []string{"ack", id, "--token=x"}},
		{"the token zero", "not a token", []string{"ack", id, "--token=0"}},
		{"a job that is none", "36 characters", []string{"ack", "7", token}},
		{"a lease of no time", "above zero", []string{"extend", id, token, "--ttl=0s"}},
		{"a percentage over 100", "0 to 100", []string{"extend", id, token, "--percent=101"}},
		{"a claim of no time", "above zero", []string{"claim", "--ttl=0s"}},
		{"cancel of nothing", "--all", []string{"cancel"}},
		{"requeue of nothing", "--all", []string{"dead", "requeue"}},
		{"deletion of all and one", "--all means every job", []string{"dead", "delete", "--all", id}},
		{"a replace without a key", "give --key", []string{"enqueue", "x", "--replace"}},
		{"a debounce without a delay", "give --delay", []string{"enqueue", "x", "--key=k", "--debounce"}},
		{"replace and debounce", "can't be used together", []string{"enqueue", "x", "--key=k", "--delay=1s", "--replace", "--debounce"}},
		{"a schedule that never fires", "never fires", []string{"schedule", "add", "s", "0 0 30 2 *", "--task=t"}},
		{"an expression that is none", "minute at position 1", []string{"schedule", "add", "s", "61 * * * *", "--task=t"}},
		{"an expression without quotes", "unexpected argument 5: an expression goes in quotes, as '30 2 * * *'", []string{"schedule", "next", "0", "5", "*", "*", "*"}},
		{"a zone that is none", "Europe/Paris", []string{"schedule", "next", "@daily", "--zone=Mars/Olympus"}},
		{"a DST policy that is none", "wall vixie", []string{"schedule", "next", "@daily", "--dst=robfig"}},
		{"no instants", "1 to 1000", []string{"schedule", "next", "@daily", "--count=0"}},
		{"a schedule without a task", "--task", []string{"schedule", "add", "s", "@daily"}},
		{"a schedule with a delay", "--delay", []string{"schedule", "add", "s", "@daily", "--task=t", "--delay=1s"}},
		{"a cap that says nothing", "--missed=all", []string{"schedule", "add", "s", "@daily", "--task=t", "--cap=3"}},
		{"a grace that says nothing", "--missed=skip", []string{"schedule", "add", "s", "@daily", "--task=t", "--missed=all", "--grace=1m"}},
		{"a cap that is too large", "1000", []string{"schedule", "add", "s", "@daily", "--task=t", "--missed=all", "--cap=1001"}},
		{"a schedule's hold without a key", "give --key", []string{"schedule", "add", "s", "@daily", "--task=t", "--key-for=1h"}},
		{"a schedule's payload over the limit", "limit is 1048576", []string{"schedule", "add", "s", "@daily", strings.Repeat("x", 1<<20+1), "--task=t"}},
		{"a schedule's tenant that is no text", "not UTF-8", []string{"schedule", "add", "s", "@daily", "--task=t", "--tenant=a\xff"}},
		{"a schedule's header that is no text", "not UTF-8", []string{"schedule", "add", "s", "@daily", "--task=t", "-H", "a=\xff"}},
		{"a limit of nothing", "--rate", []string{"limit", "set", "l", "--task=t"}},
		{"a limit that binds nothing", "--task", []string{"limit", "set", "l", "--running=1"}},
		{"a limit of both sorts", "can't be used together", []string{"limit", "set", "l", "--task=t", "--rate=1/s", "--running=1"}},
		{"a rate of zero", "above 0", []string{"limit", "set", "l", "--task=t", "--rate=0/s"}},
		{"a rate below zero", "10/s", []string{"limit", "set", "l", "--task=t", "--rate=-1/s"}},
		{"a burst below zero", "--burst", []string{"limit", "set", "l", "--task=t", "--rate=1/s", "--burst=-1"}},
		{"a burst without a rate", "--rate", []string{"limit", "set", "l", "--task=t", "--running=1", "--burst=2"}},
		{"running jobs below zero", "1 or more", []string{"limit", "set", "l", "--task=t", "--running=-1"}},
		{"no running jobs", "--running is 0: 1 or more", []string{"limit", "set", "l", "--task=t", "--running=0"}},
		{"a burst of nothing", "--burst is 0: 1 or more", []string{"limit", "set", "l", "--task=t", "--rate=1/s", "--burst=0"}},
		{"a scope that is none", "tenant, group", []string{"limit", "set", "l", "--task=t", "--running=1", "--per=queue"}},
		{"a weight of zero", "1 to", []string{"weight", "set", "acme", "0"}},
		{"a weight below zero", "1 to", []string{"weight", "set", "acme", "--", "-3"}},
		{"a weight of bytes that are no text", "not UTF-8", []string{"weight", "set", "a\xff", "3"}},
		{"a capacity of nothing", "above 0", []string{"capacity", "set"}},
		{"a capacity below zero", "1 or more", []string{"capacity", "set", "--jobs=-1"}},
		{"a size that is none", "64MiB", []string{"capacity", "set", "--bytes=12 parsecs"}},
		{"a size that does not fit", "64MiB", []string{"capacity", "set", "--bytes=9223372036854775807KiB"}},
		{"a retention of nothing", "--done", []string{"retention", "set"}},
		{"a retention below zero", "none or default", []string{"retention", "set", "--done=-1h"}},
		{"a retention of more than a century", "100 years", []string{"retention", "set", "--done=36500d1h"}},
		{"an ageing of no time", "above 0", []string{"ageing", "set", "0s"}},
		{"torture for no time", "above zero", []string{"torture", "--seconds=0"}},
		{"a demo of nothing", "1 to 1000000", []string{"demo", "--jobs=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTool(t)
			s.fails(exitUsage, c.says, c.args...)
			if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
				t.Errorf("the directory is there: %v", err)
			}
		})
	}
}

// TestLookingCreatesNothing: where there is no store, only enqueue, work and what
// sets something make one.
func TestLookingCreatesNothing(t *testing.T) {
	const id, token = "01890a5d-ac96-774b-bcce-b302099a8057", "--token=1"
	for _, args := range [][]string{
		{"list"}, {"show", id}, {"stats"}, {"claim"}, {"extend", id, token}, {"ack", id, token}, {"nack", id, token},
		{"bury", id, token}, {"cancel", "--all"}, {"pause", "q"}, {"resume", "q"}, {"purge", "q", "--yes"}, {"dead", "list"},
		{"dead", "requeue", "--all"}, {"dead", "delete", "--all"}, {"inspect"}, {"verify"}, {"repair"}, {"compact"}, {"explain", id},
		{"schedule", "list"}, {"schedule", "pause", "s"}, {"schedule", "resume", "s"}, {"schedule", "remove", "s"}, {"schedule", "run", "s"},
		{"limit", "list"}, {"limit", "clear", "l"}, {"weight", "list"}, {"weight", "clear", "t"}, {"capacity", "list"}, {"capacity", "clear"},
		{"retention", "list"}, {"retention", "clear"}, {"ageing", "list"}, {"ageing", "clear"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := newTool(t)
			s.fails(exitNotFound, "is not a store", args...)
			if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
				t.Errorf("the directory is there: %v", err)
			}
			if err := os.Mkdir(s.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.fails(exitNotFound, "is not a store", args...)
			if files, err := os.ReadDir(s.dir); err != nil || len(files) != 1 {
				t.Errorf("%d files are there, %v", len(files), err)
			}
		})
	}
	t.Run("enqueue leaves a directory alone that is not ours", func(t *testing.T) {
		s := newTool(t)
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.fails(exitUsage, s.dir, "enqueue", "x")
		if files, err := os.ReadDir(s.dir); err != nil || len(files) != 1 {
			t.Errorf("%d files are there, %v", len(files), err)
		}
	})
	t.Run("a file is no store", func(t *testing.T) {
		s := newTool(t)
		if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.fails(exitNotFound, "is not a store", "list")
	})
}

// TestExitCodes: what a broker may return decides the exit code, however it is
// wrapped.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, exitOK},
		{"anything else", io.ErrUnexpectedEOF, exitFailed},
		{"a reader that is gone", syscall.EPIPE, exitOK},
		{"a file system or a format that cannot be used", spool.ErrUnsupported, exitUnhealthy},
		{"damage", spool.ErrCorrupt, exitUnhealthy},
		{"a failed write", spool.ErrPoisoned, exitUnhealthy},
		{"a full disk", spool.ErrFull, exitUnhealthy},
		{"a full queue", &spool.FullError{Queue: "q"}, exitQueueFull},
		{"a setting that was changed", broker.ErrConflict, exitFailed},
		{"a lease that is lost", spool.ErrLeaseLost, exitLeaseLost},
		{"a job that is not there", spool.ErrNotFound, exitNotFound},
		{"what can never be right", spool.ErrInvalid, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := system()
			a.errw = io.Discard
			err := c.err
			if err != nil {
				err = fmt.Errorf("open the store: %w", fmt.Errorf("journal: %w", c.err))
			}
			if got := a.exitCode(err); got != c.want {
				t.Errorf("%v: exit code %d, want %d", err, got, c.want)
			}
		})
	}
}
