package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/redistest"
)

// spoolWith runs a command line in this process as it stands.
func spoolWith(args ...string) result {
	var out, errout bytes.Buffer
	a := system()
	a.in, a.stdout, a.errw = strings.NewReader(""), &out, &errout
	code := run(args, a)
	return result{code, out.String(), errout.String()}
}

func TestABrokerIsChosen(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "other")
	enqueued := func(dir string) bool { return spoolWith("--dir", dir, "stats").code == exitOK }
	for _, c := range []struct {
		name  string
		env   string
		args  []string
		stays string // the store that must not be made
		makes string
	}{
		{"a directory by --broker", "", []string{"--broker", dir}, other, dir},
		{"a directory by SPOOL_BROKER", "file://" + other, nil, "", other},
		{"--dir before SPOOL_BROKER", "redis://127.0.0.1:1", []string{"--dir", dir}, "", dir},
		{"--broker before SPOOL_BROKER", "redis://127.0.0.1:1", []string{"--broker", "file://" + dir}, "", dir},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SPOOL_BROKER", c.env)
			r := spoolWith(append(c.args, "enqueue", "task")...)
			t.Setenv("SPOOL_BROKER", "")
			if r.code != exitOK || !enqueued(c.makes) || c.stays != "" && enqueued(c.stays) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestABrokerThatCannotBeIsRefused(t *testing.T) {
	gone := redistest.Start(t, redistest.Options{})
	gone.Kill()
	evicts := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	locked := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "right"}})
	for _, c := range []struct {
		name string
		env  string
		args []string
		code int
		says string
	}{
		{"two stores", "", []string{"--broker", "redis://h", "--dir", "d", "stats"}, exitUsage, "one of them"},
		{"a wrong URL", "redis://u:hu5h@host/x", []string{"stats"}, exitUsage, "database"},
		{"an unknown scheme", "", []string{"--broker", "amqp://u:hu5h@host", "stats"}, exitUsage, "redis://"},
		{"one that is not there yet", "postgres://u:hu5h@host", []string{"stats"}, exitUnhealthy, "yet"},
		{"an address without a scheme", "", []string{"--broker", "localhost:6379", "enqueue", "x"}, exitUsage, "redis://HOST:PORT"},
		{"an address with a password", "u:hu5h@localhost:6379", []string{"enqueue", "x"}, exitUsage, "http://HOST:PORT"},
		{"memory", "", []string{"--broker", "memory://", "stats"}, exitUsage, "ends with the command"},
		{"a server that is not there", "redis://u:hu5h@" + gone.Addr(), []string{"stats"}, exitFailed, "refused"},
		{"a server that evicts", evicts.URL(), []string{"stats"}, exitUnhealthy, "noeviction"},
		{"a wrong password", "redis://:hu5h@" + locked.Addr(), []string{"stats"}, exitFailed, "WRONGPASS"},
		{"verify", "redis://u:hu5h@host", []string{"verify"}, exitUsage, "--dir"},
		{"repair", "", []string{"--broker", "redis://u:hu5h@host", "repair"}, exitUsage, "--dir"},
		{"compact", "redis://u:hu5h@host", []string{"compact"}, exitUsage, "--dir"},
		{"inspect", "redis://u:hu5h@host", []string{"inspect"}, exitUsage, "--dir"},
		{"torture", "", []string{"--broker", "redis://u:hu5h@host", "torture"}, exitUsage, "of its own"},
		{"demo", "", []string{"--broker", "redis://u:hu5h@host", "demo"}, exitUsage, "of its own"},
		{"bench", "", []string{"--broker", "redis://u:hu5h@host", "bench"}, exitUsage, "of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SPOOL_BROKER", c.env)
			r := spoolWith(c.args...)
			if r.code != c.code || !strings.Contains(r.errout, c.says) {
				t.Errorf("exit code %d, %q; want %d, and %q in it", r.code, r.errout, c.code, c.says)
			}
			if strings.Contains(r.out+r.errout, "hu5h") {
				t.Errorf("a secret was told: %q", r.errout)
			}
		})
	}
	t.Run("a password in a variable of its own", func(t *testing.T) {
		t.Setenv(passwordEnv, "hu5h")
		if r := spoolWith("--broker", locked.URL(), "stats"); r.code != exitFailed || !strings.Contains(r.errout, "WRONGPASS") || strings.Contains(r.errout, "hu5h") {
			t.Errorf("%+v", r)
		}
	})
}

// TestTheCommandsWorkOnAServer: one life of jobs, by the command line alone.
func TestTheCommandsWorkOnAServer(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always, Args: []string{"--requirepass", "hu5h"}})
	t.Setenv("SPOOL_BROKER", s.URL()+"?namespace=shop")
	t.Setenv(passwordEnv, "hu5h")
	ok := func(args ...string) string {
		t.Helper()
		r := spoolWith(args...)
		if r.code != exitOK || strings.Contains(r.out+r.errout, "hu5h") {
			t.Fatalf("spool %q: exit code %d\n%s", args, r.code, r.errout)
		}
		return strings.TrimSpace(r.out)
	}
	id := ok("enqueue", "greet", "hello")
	later := ok("enqueue", "greet", "later", "--delay", "1h")
	if out := ok("list"); !strings.Contains(out, id) || !strings.Contains(out, later) {
		t.Errorf("list: %s", out)
	}
	if out := ok("stats"); !strings.Contains(out, "the server at "+s.Addr()+", namespace shop is healthy") || !strings.Contains(out, "master with 0 replicas") {
		t.Errorf("stats: %s", out)
	}
	ok("work", "--drain", "--quiet", "--exec", "cat")
	if out := ok("show", id); !strings.Contains(out, "done") || !strings.Contains(out, "hello") {
		t.Errorf("show: %s", out)
	}
	ok("cancel", later)
	ok("pause", "default")
	third := ok("enqueue", "greet")
	if out := ok("explain", third); !strings.Contains(out, "paused") {
		t.Errorf("explain: %s", out)
	}
	ok("resume", "default")
	lease := object[shown](t, ok("--json", "claim"))
	ok("bury", third, "--token", lease["token"].(string), "--error", "no use")
	if out := ok("dead", "list"); !strings.Contains(out, third) {
		t.Errorf("dead list: %s", out)
	}
	ok("limit", "set", "calm", "--task", "greet", "--running", "1")
	if out := ok("limit", "list"); !strings.Contains(out, "calm") {
		t.Errorf("limit list: %s", out)
	}
	t.Setenv("SPOOL_BROKER", s.URL())
	if out := ok("list"); strings.Contains(out, id) {
		t.Errorf("another namespace lists %s", out)
	}
}

func TestLinesAreCutToWhatTheBrokerTakesInOneCall(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	var out, errout bytes.Buffer
	a := system()
	a.in, a.stdout, a.errw = strings.NewReader(strings.Repeat("{}\n", 600)), &out, &errout
	code := run([]string{"--broker", s.URL(), "enqueue", "t", "--lines"}, a)
	if ids := strings.Count(out.String(), "\n"); code != exitOK || ids != 600 {
		t.Errorf("exit code %d, %d ids of 600, %q", code, ids, errout.String())
	}
}
