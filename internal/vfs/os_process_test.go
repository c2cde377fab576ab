//go:build linux

package vfs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs"
)

func TestAWriteThatFailsTellsHowMuchItWrote(t *testing.T) {
	if out, err := child(t, "outgrow", filepath.Join(t.TempDir(), "f")).Output(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheMonotonicClockIsTheSameForAllProcesses(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []string
	}{
		{"in this time namespace", nil},
		{"in another time namespace", []string{"unshare", "--time", "--monotonic", "100000", "--fork"}},
		{"in another one with a negative offset", []string{"unshare", "--time", "--monotonic", "-2", "--fork"}},
		{"with another one only for its children", []string{"unshare", "--time", "--monotonic", "100000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.before) > 0 {
				if out, err := exec.Command(c.before[0], append(c.before[1:], "true")...).CombinedOutput(); err != nil {
					t.Skipf("no time namespaces for this user: %v: %s", err, out)
				}
			}
			before := vfs.OS().Monotonic()
			out, err := child(t, "tell", "", c.before...).Output()
			ok(t, err)
			after := vfs.OS().Monotonic()
			n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
			ok(t, err)
			if got := time.Duration(n); got < before || got > after {
				t.Errorf("between %v and %v the child says %v", before, after, got)
			}
		})
	}
}

func TestAWatcherThatFallsBehindSaysSo(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	ok(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	ok(t, err)
	if limit > 100_000 {
		t.Skipf("the queue holds %d reports", limit)
	}
	p := &place{System: vfs.OS(), dir: t.TempDir()}
	w := p.watch(t)
	a, b := p.make(t, "a", "x"), p.make(t, "b", "x")
	ok(t, w.File(p.path("a")))
	ok(t, w.File(p.path("b")))
	for range limit { // two reports each that cannot be merged
		for _, f := range []vfs.File{a, b} {
			_, err := f.WriteAt([]byte("y"), 0)
			ok(t, err)
		}
	}
	for n := 0; ; n++ {
		e, err := w.Next()
		ok(t, err)
		if e == (vfs.WatchEvent{}) {
			break
		}
		if n > limit {
			t.Fatal("more reports than the queue holds, and none of a loss")
		}
	}
	ok(t, a.Close())
	ok(t, b.Close())
}
