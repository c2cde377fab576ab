package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/redistest"
)

// journey is a directory and two stores of Redis, one of which has a password,
// and what commands said of them: without what differs from run to run.
type journey struct {
	t      *testing.T
	dir    *tool
	near   *redistest.Server
	far    *redistest.Server // its password is hu5h
	told   strings.Builder
	hidden []string // pairs of what differs, and what stands for it
}

func newJourney(t *testing.T) *journey {
	x := &journey{t: t, dir: newTool(t)}
	x.near = redistest.Start(t, redistest.Options{})
	x.far = redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "hu5h"}})
	real, err := filepath.EvalSymlinks(filepath.Dir(x.dir.dir))
	if err != nil {
		t.Fatal(err)
	}
	x.hidden = []string{filepath.Join(real, "jobs"), "DIRECTORY", x.dir.dir, "DIRECTORY", x.near.Addr(), "NEAR", x.far.Addr(), "FAR"}
	return x
}

var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// spool runs a command and notes what it said.
func (x *journey) spool(args ...string) string {
	x.t.Helper()
	r := spoolWith(args...)
	if strings.Contains(r.out+r.errout, "hu5h") {
		x.t.Errorf("spool %q tells a secret: %s%s", args, r.out, r.errout)
	}
	hide := strings.NewReplacer(x.hidden...)
	asked := strings.ReplaceAll(hide.Replace(strings.Join(args, " ")), ":hu5h@", ":PASSWORD@")
	x.told.WriteString(anID.ReplaceAllString("$ spool "+asked+"\n"+hide.Replace(r.out+r.errout), "ID"))
	if r.code != exitOK {
		x.told.WriteString("exit code " + string(rune('0'+r.code)) + "\n")
	}
	return strings.TrimSpace(r.out)
}

// TestQueuesMoveFromADirectoryToRedisAndBack compares what the commands say with
// a golden file.
func TestQueuesMoveFromADirectoryToRedisAndBack(t *testing.T) {
	x := newJourney(t)
	near, far := x.near.URL(), "redis://:hu5h@"+x.far.Addr()+"/2?namespace=shop"
	at := func(store string, args ...string) string {
		if store == x.dir.dir {
			return x.spool(append([]string{"--dir", store}, args...)...)
		}
		return x.spool(append([]string{"--broker", store}, args...)...)
	}
	resize := at(x.dir.dir, "enqueue", "resize", "cat", "--priority=3", "--key=k", "--queue=a")
	at(x.dir.dir, "enqueue", "mail", "--delay=1h", "--queue=b")
	at(x.dir.dir, "weight", "set", "acme", "3", "--queue=a")
	at(x.dir.dir, "pause", "b")
	x.spool("migrate", x.dir.dir, near)
	x.spool("migrate", x.dir.dir, near, "--status")
	if out := spoolWith("--broker", near, "stats").out; !strings.Contains(out, "b (paused)") {
		t.Errorf("the pause did not go along:\n%s", out)
	}
	late := at(x.dir.dir, "enqueue", "resize", "dog", "--queue=a")
	at(x.dir.dir, "explain", late)
	x.spool("migrate", x.dir.dir, near, "--json")
	x.spool("migrate", near, far, "--queue=a", "--json")
	x.spool("migrate", near, far, "--queue=a", "--status", "--json")
	x.spool("migrate", near, near)
	x.spool("migrate", far, x.dir.dir)
	x.spool("migrate", near, x.dir.dir)
	x.spool("migrate", near, far, "--abort")
	x.spool("migrate", near, far, "--forget")
	x.spool("migrate", near, "redis://"+x.far.Addr())
	x.spool("migrate", near, "memory://")
	x.spool("--broker", far, "migrate", near, x.dir.dir)
	if j := object[map[string]any](t, x.dir.ok("show", resize, "--json")); j["payload_text"] != "cat" || j["priority"] != 3.0 || j["key"] != "k" {
		t.Errorf("the job is %v", j)
	}
	x.golden("migrate-redis.txt")
}

func (x *journey) golden(name string) {
	x.t.Helper()
	path := filepath.Join("testdata", name)
	got := regexp.MustCompile(`(?m) +$`).ReplaceAllString(regexp.MustCompile(`   +`).ReplaceAllString(x.told.String(), "  "), "")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			x.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		x.t.Fatal(err)
	}
	if got != string(want) {
		x.t.Errorf("the commands do not say what is in %s (go test ./cmd/spool -update rewrites it):\n%s", path, got)
	}
}

func TestQueuesMoveToAClusterAndToSentinels(t *testing.T) {
	s := newTool(t)
	urls := []string{redistest.StartCluster(t, redistest.Options{}).URL(), redistest.StartSentinel(t, redistest.Options{}).URL(), s.dir}
	id := s.enqueue("greet", "hello", "--priority=3")
	at := s.dir
	for _, next := range urls {
		if r := spoolWith("migrate", at, next); r.code != exitOK || !strings.Contains(r.out, "default  1") {
			t.Fatalf("from %s to %s: %+v", at, next, r)
		}
		at = next
	}
	if j := object[shown](t, s.ok("show", id, "--json")); j["payload_text"] != "hello" || j["priority"] != 3.0 {
		t.Errorf("the job is %v", j)
	}
}

func TestPasswordsOfBothSidesStandInVariables(t *testing.T) {
	x := newJourney(t)
	x.dir.enqueue("greet")
	t.Setenv("SPOOL_BROKER", x.near.URL()) // migrate names its stores itself
	for _, c := range []struct{ env, url string }{{"SPOOL_TO_PASSWORD", "redis://" + x.far.Addr()}, {passwordEnv, "redis://" + x.far.Addr()}} {
		t.Run(c.env, func(t *testing.T) {
			t.Setenv(c.env, "hu5h")
			if r := spoolWith("migrate", x.dir.dir, c.url); r.code != exitOK {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Setenv("SPOOL_FROM_PASSWORD", "wrong")
	if r := spoolWith("migrate", "redis://"+x.far.Addr(), x.dir.dir); r.code == exitOK || strings.Contains(r.errout, "wrong") {
		t.Errorf("%+v", r)
	}
}
