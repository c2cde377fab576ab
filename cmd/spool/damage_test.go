package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// victim is a store that faults are planted in: 20 jobs before a checkpoint,
// their payloads moved; 20 after it, in a sealed segment; one that has a segment of
// its own; 3 in the active one.
type victim struct {
	files   map[string][]byte // as they are, without locks and life signs
	stale   []byte            // what segment 1 held
	current []byte            // what CURRENT said before the compaction
	frames  []filebroker.Entry
	ends    map[string]int64 // where the log ends in each segment
}

const victimJobs = 44

func newVictim(t *testing.T) *victim {
	t.Helper()
	s := newTool(t)
	b := s.open0(t)
	put := func(n int, payload string) {
		t.Helper()
		for range n {
			if _, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: []byte(payload)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(20, strings.Repeat("before ", 40))
	v := &victim{stale: slurp(t, s.dir, segment(1)), current: slurp(t, s.dir, "CURRENT"), ends: map[string]int64{}}
	if _, err := b.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	put(20, strings.Repeat("after ", 100))
	put(1, strings.Repeat("large ", 200_000))
	put(3, "last")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	v.files = contents(t, s.dir)
	if err := filebroker.Inspect(s.dir, func(e filebroker.Entry) error {
		v.frames = append(v.frames, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, b := range v.files {
		v.ends[name] = int64(len(bytes.TrimRight(b, "\x00")))
	}
	return v
}

// open0 makes the store.
func (s *tool) open0(t *testing.T) *filebroker.Broker {
	t.Helper()
	b, err := filebroker.Open(s.dir, filebroker.Config{AllowUnsafeFS: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func segment(n int) string { return fmt.Sprintf("%06d.log", n) }

func slurp(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contents reads the files of a store, but for locks and life signs.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, n := range names {
		if !n.IsDir() && !slices.Contains([]string{"LOCK", "LOCK.next", "COMPACT", "PREP"}, n.Name()) {
			all[n.Name()] = slurp(t, dir, n.Name())
		}
	}
	return all
}

// fault is something that is wrong with a store. Its function changes the files;
// nil is one that is gone.
type fault struct {
	name  string
	plant func(v *victim, files map[string][]byte)
	kind  string // of the first finding; "" when there is nothing to find
	file  string
	at    func(v *victim, was, is map[string][]byte) int64
	opens bool // it is none that keeps the store from opening
	saved int  // jobs that a repair has; 0: those whose frames are as they were
	lost  int  // of these without their payload
}

// zero is an offset of nothing but the file itself.
func zero(*victim, map[string][]byte, map[string][]byte) int64 { return 0 }

// firstHurt is where the first frame of a segment begins that is not as it was.
func firstHurt(name string) func(*victim, map[string][]byte, map[string][]byte) int64 {
	return func(v *victim, was, is map[string][]byte) int64 {
		for i := range v.frames {
			if e := &v.frames[i]; segment(int(e.Segment)) == name && !v.intact(i, was, is) {
				return e.Offset
			}
		}
		return -1
	}
}

// intact says whether a frame is as it was.
func (v *victim) intact(i int, was, is map[string][]byte) bool {
	e := &v.frames[i]
	name := segment(int(e.Segment))
	end := v.ends[name]
	if i+1 < len(v.frames) && v.frames[i+1].Segment == e.Segment {
		end = v.frames[i+1].Offset
	}
	return int64(len(is[name])) >= end && bytes.Equal(was[name][e.Offset:end], is[name][e.Offset:end])
}

// edit changes a copy of a file.
func edit(name string, change func(v *victim, b []byte) []byte) func(*victim, map[string][]byte) {
	return func(v *victim, files map[string][]byte) { files[name] = change(v, bytes.Clone(files[name])) }
}

func flipAt(name string, at func(v *victim, b []byte) int64) func(*victim, map[string][]byte) {
	return edit(name, func(v *victim, b []byte) []byte { b[at(v, b)] ^= 0x10; return b })
}

func fixed(at int64) func(*victim, []byte) int64 { return func(*victim, []byte) int64 { return at } }

// fromEnd is an offset counted from the end of a file.
func fromEnd(n int) func(*victim, []byte) int64 {
	return func(_ *victim, b []byte) int64 { return int64(len(b) - n) }
}

// frame is an offset in the n-th frame of a segment, from the last for a
// negative n.
func inFrame(seg uint64, n int, off int64) func(*victim, []byte) int64 {
	return func(v *victim, _ []byte) int64 {
		var in []int64
		for _, e := range v.frames {
			if e.Segment == seg && !slices.Contains(in, e.Offset) {
				in = append(in, e.Offset)
			}
		}
		return in[(n+len(in))%len(in)] + off
	}
}

func gone(name string) func(*victim, map[string][]byte) {
	return func(_ *victim, files map[string][]byte) { delete(files, name) }
}

// blocks changes two blocks of segment 2, of a size.
func blocks(size int, change func(one, two, stale []byte)) func(*victim, map[string][]byte) {
	return edit(segment(2), func(v *victim, b []byte) []byte {
		one, two := b[4096:][:size], b[8192:][:size]
		change(one, two, v.stale[4096:][:size])
		return b
	})
}

func swapBlocks(one, two, _ []byte) {
	keep := bytes.Clone(one)
	copy(one, two)
	copy(two, keep)
}

func duplicateBlock(one, two, _ []byte) { copy(two, one) }
func staleBlock(one, _, stale []byte)   { copy(one, stale) }
func zeroBlock(one, _, _ []byte)        { clear(one) }

// faults is every kind of damage, in every kind of file.
func faults() []fault {
	log2, idx, pay := segment(2), "000001.idx", "000001.pay"
	frame := func(name string, plant func(*victim, map[string][]byte)) fault {
		return fault{name: name, plant: plant, kind: "bad frame", file: log2, at: firstHurt(log2)}
	}
	side := func(name, kind, file string, plant func(*victim, map[string][]byte), at int64, saved, lost int) fault {
		return fault{
			name: name, plant: plant, kind: kind, file: file, opens: kind == "bad payload", saved: saved, lost: lost,
			at: func(_ *victim, _, is map[string][]byte) int64 {
				if at < 0 {
					return int64(len(is[file])) + at
				}
				return at
			},
		}
	}
	harmless := func(name string, plant func(*victim, map[string][]byte)) fault {
		return fault{name: name, plant: plant, opens: true}
	}
	all := []fault{
		frame("a bit of a frame's header is another", flipAt(log2, inFrame(2, 3, 20))),
		frame("a bit of a frame's body is another", flipAt(log2, inFrame(2, 3, 100))),
		frame("a bit of the head of a segment is another", flipAt(log2, fixed(90))),
		frame("a bit of the end of a segment is another", flipAt(log2, inFrame(2, -1, 30))),
		frame("bytes are missing in the middle of a segment", edit(log2, func(_ *victim, b []byte) []byte { return slices.Delete(b, 5000, 5000+1024) })),
		frame("a segment ends in its middle", edit(log2, func(_ *victim, b []byte) []byte { return b[:7000] })),
		frame("a segment is empty", edit(log2, func(_ *victim, b []byte) []byte { return nil })),
		{name: "a sealed segment is gone", plant: gone(log2), kind: "missing segment", file: log2, at: zero},
		{name: "the segment of a large job is gone", plant: gone(segment(3)), kind: "missing segment", file: segment(3), at: zero},
		{name: "the active segment is gone", plant: gone(segment(4)), kind: "missing segment", file: segment(4), at: zero},
		{name: "a bit of a large payload is another", plant: flipAt(segment(3), fixed(700_000)), kind: "bad frame", file: segment(3), at: firstHurt(segment(3))},
		{name: "a bit of the active segment is another", plant: flipAt(segment(4), inFrame(4, 1, 90)), kind: "bad frame", file: segment(4), at: firstHurt(segment(4))},
		{name: "two segments are swapped", plant: func(_ *victim, f map[string][]byte) { f[log2], f[segment(4)] = f[segment(4)], f[log2] }, kind: "bad link", file: log2, at: zero},
		side("a bit of the checkpoint's header is another", "bad checkpoint", idx, flipAt(idx, fixed(20)), 0, 24, 0),
		side("a bit of the checkpoint's content is another", "bad checkpoint", idx, flipAt(idx, fixed(200)), 64, 24, 0),
		side("a bit of the checkpoint's footer is another", "bad checkpoint", idx, flipAt(idx, fromEnd(30)), -64, 0, 0),
		side("a block of the checkpoint is zeros", "bad checkpoint", idx, edit(idx, func(_ *victim, b []byte) []byte { clear(b[256:512]); return b }), 64, 24, 0),
		side("the checkpoint ends in its middle", "bad checkpoint", idx, edit(idx, func(_ *victim, b []byte) []byte { return b[:len(b)/2] }), -64, 24, 0),
		side("the checkpoint is gone", "bad checkpoint", idx, gone(idx), 0, 24, 0),
		side("a bit of a moved payload is another", "bad payload", pay, flipAt(pay, fixed(700)), 64, 44, 1),
		side("a bit of a payload file's header is another", "bad payload", pay, flipAt(pay, fixed(20)), 0, 44, 0),
		side("a bit of a payload file's footer is another", "bad payload", pay, flipAt(pay, fromEnd(30)), -64, 44, 0),
		side("a payload file ends in its middle", "bad payload", pay, edit(pay, func(_ *victim, b []byte) []byte { return b[:len(b)/2] }), -64, 44, 10),
		side("a payload file is gone", "bad payload", pay, gone(pay), 0, 44, 20),
		side("CURRENT is gone", "bad current", "CURRENT", gone("CURRENT"), 0, 44, 0),
		side("CURRENT is empty", "bad current", "CURRENT", edit("CURRENT", func(_ *victim, b []byte) []byte { return nil }), 0, 44, 0),
		side("a bit of CURRENT is another", "bad current", "CURRENT", flipAt("CURRENT", fixed(20)), 0, 44, 0),
		{name: "CURRENT is that of before the compaction", plant: func(v *victim, f map[string][]byte) { f["CURRENT"] = v.current }, kind: "missing segment", file: segment(1), at: zero, saved: victimJobs},
		harmless("CONTROL is gone", gone("CONTROL")),
		harmless("CONTROL is garbage", edit("CONTROL", func(_ *victim, b []byte) []byte { return bytes.Repeat([]byte("garbage!"), 512) })),
		harmless("CONTROL is cut short", edit("CONTROL", func(_ *victim, b []byte) []byte { return b[:100] })),
		harmless("RESERVE is gone", gone("RESERVE")),
		harmless("LOCK is garbage", func(_ *victim, f map[string][]byte) { f["LOCK"] = []byte("garbage") }),
	}
	for _, size := range []int{512, 4096} {
		for name, change := range map[string]func(one, two, stale []byte){
			"two blocks of %d bytes are swapped": swapBlocks, "a block of %d bytes is there twice": duplicateBlock,
			"a block of %d bytes is an old one": staleBlock, "a block of %d bytes is zeros": zeroBlock,
		} {
			all = append(all, frame(fmt.Sprintf(name, size), blocks(size, change)))
		}
	}
	return all
}

// TestEveryPlantedFaultIsFoundAndNothingIsDeleted plants faults in stores that
// nobody uses. verify --json names the kind, the file and the offset; the store is refused
// (or opens, where a lost payload or a hint is all that is wrong); no file is
// touched; a repair saves what can be read, lists what is lost, and keeps the rest.
func TestEveryPlantedFaultIsFoundAndNothingIsDeleted(t *testing.T) {
	v := newVictim(t)
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.try(t, v)
		})
	}
}

func (f *fault) try(t *testing.T, v *victim) {
	is := maps.Clone(v.files)
	f.plant(v, is)
	s := newTool(t)
	write(t, s.dir, is)
	found := f.verify(t, s, v, is)
	before := contents(t, s.dir)
	b, err := filebroker.Open(s.dir, filebroker.Config{AllowUnsafeFS: true})
	if err == nil {
		_, err = b.Counts(context.Background(), "")
		err = errors.Join(err, b.Close())
	}
	switch {
	case f.opens && err != nil:
		t.Errorf("open: %v", err)
	case !f.opens && !errors.Is(err, broker.ErrCorrupt):
		t.Errorf("open: %v, want that it is corrupt", err)
	}
	after := contents(t, s.dir)
	for name, b := range before {
		if !bytes.Equal(after[name], b) && !hint(name) && !f.opens {
			t.Errorf("%s was changed or removed", name)
		}
		if after[name] == nil && b != nil && f.kind != "" {
			t.Errorf("%s was removed", name)
		}
	}
	if found {
		f.repair(t, s, v, is)
	}
}

// hint is a file without which nothing is lost.
func hint(name string) bool { return name == "CONTROL" || name == "RESERVE" }

// write makes a store of files.
func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// verify wants that a process that is told to verify finds the fault.
func (f *fault) verify(t *testing.T, s *tool, v *victim, is map[string][]byte) (found bool) {
	t.Helper()
	out, err := s.process("verify", "--json").Output()
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	got := object[filebroker.Verified](t, string(out))
	if f.kind == "" {
		if code != exitOK || !got.OK || got.Jobs != victimJobs {
			t.Errorf("verify: exit code %d, %s", code, out)
		}
		return false
	}
	first := slices.IndexFunc(got.Findings, func(x filebroker.Finding) bool { return x.Damage })
	if code != exitUnhealthy || got.OK || first < 0 {
		t.Fatalf("verify: exit code %d, %s", code, out)
	}
	if x, at := got.Findings[first], f.at(v, v.files, is); x.Kind != f.kind || x.File != f.file || x.Offset != at {
		t.Errorf("verify says %+v, want %s in %s at %d", x, f.kind, f.file, at)
	}
	return true
}

// repair wants that all that can be read is saved, and all that is known to be
// lost named.
func (f *fault) repair(t *testing.T, s *tool, v *victim, is map[string][]byte) {
	t.Helper()
	want := f.saved
	if want == 0 {
		want = 20
		for i := range v.frames {
			if v.frames[i].Record == "enqueue" && v.intact(i, v.files, is) {
				want++
			}
		}
	}
	r := s.run("repair", "--json")
	var got filebroker.Repaired
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("repair: %v in %s%s", err, r.out, r.errout)
	}
	if got.Jobs != want || len(got.Lost) != f.lost || got.Complete != (f.kind == "bad current") {
		t.Errorf("repair saved %d jobs, %d without payload; want %d and %d: %+v", got.Jobs, len(got.Lost), want, f.lost, got)
	}
	kept := contents(t, got.Original)
	for name, b := range is {
		if !bytes.Equal(kept[name], b) && !hint(name) && name != "LOCK" {
			t.Errorf("%s of the original was changed or removed", name)
		}
	}
	if again := object[filebroker.Verified](t, s.ok("verify", "--json")); again.Jobs != want {
		t.Errorf("after the repair there are %d jobs, want %d", again.Jobs, want)
	}
	s.enqueue("t")
}
