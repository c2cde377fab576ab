package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolq/spool/broker/filebroker"
)

func TestInspect(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("mail", "\x1b[2J", "--queue=a", "--retain=1h")
	s.enqueue("other", "--queue=b")
	l := object[shown](t, s.ok("claim", "--json", "--queue=a"))
	s.ok("nack", id, "--token", l["token"].(string), "--error=no\x1b route")
	all := s.ok("inspect")
	for _, want := range []string{"head", "enqueue  a " + id, "claim    a " + id, "attempt=1", `task="other"`} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	if strings.Contains(all, "\x1b") {
		t.Errorf("it writes an escape: %q", all)
	}
	if got, want := strings.Count(s.ok("inspect", "--id="+id), "\n"), 3; got != want {
		t.Errorf("%d records are of the job, want %d", got, want)
	}
	if out := s.ok("inspect", "--queue=b", "--json"); object[filebroker.Entry](t, out).Record != "enqueue" || strings.Count(out, "\n") != 1 {
		t.Errorf("of queue b it writes %s", out)
	}
	last := object[filebroker.Entry](t, s.ok("inspect", "--record=enqueue", "--last=1", "--json"))
	if last.Queue != "b" {
		t.Errorf("the last enqueue is %+v", last)
	}
}

// TestVerifyRepairCompact: a sound store is left as it is; a damaged one is
// refused, said to be damaged, and replaced by what can be read.
func TestVerifyRepairCompact(t *testing.T) {
	s := newTool(t)
	kept := s.enqueue("mail", "kept")
	for range 20 {
		s.enqueue("mail", strings.Repeat("x", 300))
	}
	before := snapshot(t, s.dir)
	if v := object[filebroker.Verified](t, s.ok("verify", "--json")); !v.OK || v.Jobs != 21 {
		t.Errorf("verify: %+v", v)
	}
	s.ok("inspect")
	if r := object[filebroker.Repaired](t, s.ok("repair", "--json")); r.Original != "" || !r.Complete || r.Jobs != 21 {
		t.Errorf("repair of a sound store: %+v", r)
	}
	if said := s.ok("repair"); !strings.Contains(said, "is sound: nothing was done") {
		t.Errorf("repair of a sound store: %s", said)
	}
	if after := snapshot(t, s.dir); after != before {
		t.Error("verify, inspect or repair has changed the store")
	}
	if c := object[filebroker.Compacted](t, s.ok("compact", "--json")); c.Checkpoint == 0 || c.Jobs != 21 || c.Removed == 0 {
		t.Errorf("compact: %+v", c)
	}
	if got := s.ok("show", kept, "--payload"); got != "kept" {
		t.Errorf("after the compaction the payload is %q", got)
	}

	for range 20 {
		s.enqueue("mail", "after the checkpoint")
	}
	damage(t, s.dir)
	r := s.run("verify")
	if r.code != exitUnhealthy || !strings.Contains(r.out, "YES") || !strings.Contains(r.out, "spool repair") {
		t.Errorf("verify: exit code %d, %s%s", r.code, r.out, r.errout)
	}
	s.fails(exitUnhealthy, "spool verify", "list")
	s.fails(exitUnhealthy, "spool verify", "enqueue", "mail")
	mended := s.run("repair", "--json")
	fixed := object[filebroker.Repaired](t, mended.out)
	if mended.code != exitUnhealthy || fixed.Complete || fixed.Jobs < 21 || len(fixed.Findings) == 0 {
		t.Errorf("repair: %+v", fixed)
	}
	if err := filebroker.IsStore(fixed.Original); err != nil {
		t.Errorf("the damaged store is not kept: %v", err)
	}
	if got := s.ok("show", kept, "--payload"); got != "kept" {
		t.Errorf("after the repair the payload is %q", got)
	}
	s.enqueue("mail")
}

// damage changes a byte of the second frame in the newest segment that has
// frames: what follows it proves that it was durable.
func damage(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%q, %v", segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	b[300] ^= 0x40
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// snapshot returns what a directory holds.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		all.WriteString(name)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
