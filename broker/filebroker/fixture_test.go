package filebroker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// keepStore, a name, adds a store that this version writes to testdata/stores. What
// is there is never written again: go test ./broker/filebroker -run Fixture -keep NAME
var keepStore = flag.String("keep", "", "keep a store of this version in testdata/stores under a new `name`")

// fixtureJobs is the file of a fixture that says what the store holds.
const fixtureJobs = "jobs.txt"

// TestTheFixtureOfThisVersion adds one when it is told to.
func TestTheFixtureOfThisVersion(t *testing.T) {
	c := newCorpus(t, true)
	files := logFiles(c, c.image)
	delete(files, "RESERVE")
	var moved, checkpoints int
	for name, content := range files {
		switch {
		case strings.Trim(content, "\x00") == "":
			delete(files, name) // prepared, and no part of the log
		case strings.HasSuffix(name, ".pay"):
			moved++
		case strings.HasSuffix(name, ".idx"):
			checkpoints++
		}
	}
	if moved == 0 || checkpoints == 0 {
		t.Errorf("the corpus has %d payload files and %d checkpoints: too few for a fixture", moved, checkpoints)
	}
	files[fixtureJobs] = fixtureLines(t, fixtureOn(t, files))
	if *keepStore == "" {
		return
	}
	dir := filepath.Join("testdata", "stores", *keepStore)
	must(t, os.Mkdir(dir, 0o755)) // fails when it is there
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
}

// fixtureOn puts the files of a store on a machine.
func fixtureOn(t *testing.T, files map[string]string) *crashfs.Machine {
	t.Helper()
	m := crashfs.New(crashfs.Config{Seed: 99})
	must(t, m.Process().Mkdir(labDir))
	must(t, m.Process().SyncDir("/"))
	for name, content := range files {
		if name != fixtureJobs {
			put(t, m, name, []byte(content))
		}
	}
	return m
}

// fixtureLines says what a store holds, as far as every version has to know it.
func fixtureLines(t *testing.T, m *crashfs.Machine) string {
	t.Helper()
	b, err := openOn(m.Process())
	must(t, err)
	defer b.Close()
	var lines []string
	for _, queue := range queuesOf(t, b) {
		for _, state := range broker.States {
			page, err := b.List(context.Background(), broker.Filter{Queue: queue, States: []broker.State{state}}, "", 1000)
			must(t, err)
			for _, j := range page.Jobs {
				lines = append(lines, fmt.Sprintf("%s %s %s task=%q attempt=%d payload=%08x result=%08x error=%q",
					j.Queue, j.ID, j.State, j.Task, j.Attempt, crc32.ChecksumIEEE(j.Payload), crc32.ChecksumIEEE(j.Result), j.Error))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func queuesOf(t *testing.T, b *Broker) (queues []string) {
	t.Helper()
	counts, err := b.Counts(context.Background(), "")
	must(t, err)
	for _, c := range counts {
		if !slices.Contains(queues, c.Queue) {
			queues = append(queues, c.Queue)
		}
	}
	return queues
}

// TestStoresOfEveryVersionOpenAndDrain takes the stores that are kept in
// testdata: they are a promise about the format. Add others, and change none.
func TestStoresOfEveryVersionOpenAndDrain(t *testing.T) {
	dirs, err := filepath.Glob("testdata/stores/*")
	must(t, err)
	if len(dirs) == 0 {
		t.Fatal("no stores are kept")
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			files := map[string]string{}
			names, err := os.ReadDir(dir)
			must(t, err)
			for _, n := range names {
				b, err := os.ReadFile(filepath.Join(dir, n.Name()))
				must(t, err)
				files[n.Name()] = string(b)
			}
			m := fixtureOn(t, files)
			report, err := journal.Verify(m.Process(), labDir)
			if err != nil || report.Damaged() {
				t.Errorf("verify: %+v %v", report.Findings, err)
			}
			if got := fixtureLines(t, m); got != files[fixtureJobs] {
				t.Errorf("it does not hold what it did:\n%s", difference(strings.Split(files[fixtureJobs], "\n"), strings.Split(got, "\n")))
			}
			drain(t, m)
		})
	}
}

// drain works off every job of a store, compacts it, and opens it again.
func drain(t *testing.T, m *crashfs.Machine) {
	t.Helper()
	ctx := context.Background()
	b, err := openOn(m.Process())
	must(t, err)
	for _, queue := range queuesOf(t, b) {
		_, err := b.Apply(ctx, broker.NewCall(), broker.Command{Kind: broker.ResumeQueue, Filter: broker.Filter{Queue: queue}})
		must(t, err)
	}
	done := 0
	for range 100 {
		m.Clock.Advance(24 * time.Hour)
		got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1000, TTL: time.Hour, Worker: "w"})
		must(t, err)
		settle(t, b, broker.Ack, got.Leases...)
		done += len(got.Leases)
	}
	for range 2 {
		all, err := b.Counts(ctx, "")
		must(t, err)
		for _, c := range all {
			if c.Ready+c.Scheduled+c.Leased > 0 {
				t.Errorf("%d jobs were worked off, and of %s/%s are left: %+v", done, c.Queue, c.Task, c)
			}
		}
		_, err = b.Compact(ctx)
		must(t, err)
		must(t, b.Close())
		b, err = openOn(m.Process())
		must(t, err)
	}
	must(t, b.Close())
	t.Logf("%d jobs worked off", done)
}

// TestAStoreOfANewerVersionIsRefusedByName makes each thing that a newer version
// could have put into a store: open, verify and repair say so, and call nothing damaged; no byte
// is changed. (Newer frames, segments and side files: internal/journal.)
func TestAStoreOfANewerVersionIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, m *crashfs.Machine)
		says   string
	}{
		"a newer level": {func(t *testing.T, m *crashfs.Machine) {
			b, err := m.ReadFile(path.Join(labDir, "CURRENT"))
			must(t, err)
			line, _, _ := strings.Cut(strings.Replace(string(b), "spool-journal 1 ", "spool-journal 2 ", 1), " crc32c ")
			put(t, m, "CURRENT", fmt.Appendf(nil, "%s crc32c %08x\n", line, crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli))))
		}, "level 2"},
		"a record of a newer type": {func(t *testing.T, m *crashfs.Machine) {
			appendRecord(t, m.Process(), labDir, 200)
		}, "records of type 200"},
		"a checkpoint of a newer version": {func(t *testing.T, m *crashfs.Machine) {
			writeCheckpoint(t, m, []byte{9, 0, 0, 0})
		}, "a checkpoint of version 9"},
	} {
		t.Run(name, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{Seed: 1})
			b, err := openOn(m.Process())
			must(t, err)
			_, err = b.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(1, 2, 3))
			must(t, err)
			must(t, b.Close())
			c.change(t, m)
			m = m.Crash(crashfs.KeepAll)
			was := logFiles(t, m)
			if _, err := openOn(m.Process()); !errors.Is(err, broker.ErrUnsupported) || errors.Is(err, broker.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("open says %v", err)
			}
			if now := logFiles(t, m); !maps.Equal(now, was) {
				t.Error("the store was changed")
			}
			dir := filepath.Join(t.TempDir(), "jobs")
			must(t, os.Mkdir(dir, 0o700))
			for name, content := range was {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			if v, err := Verify(dir); !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("verify says %+v %v", v, err)
			}
			if r, err := Repair(context.Background(), dir); !errors.Is(err, broker.ErrUnsupported) {
				t.Errorf("repair says %+v %v", r, err)
			}
		})
	}
}

// TestARepairOfADamagedStoreOfANewerVersionIsRefused since it would lose what it
// cannot read.
func TestARepairOfADamagedStoreOfANewerVersionIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	b := open(t, dir)
	fill(t, b, 20)
	must(t, b.Close())
	appendRecord(t, vfs.OS(), dir, 200)
	flip(t, filepath.Join(dir, "000001.log"), 1000)
	before := files(t, dir)
	if r, err := Repair(context.Background(), dir); !errors.Is(err, broker.ErrUnsupported) {
		t.Errorf("repair says %+v %v", r, err)
	}
	for name, b := range files(t, dir) {
		if before[name] != b {
			t.Errorf("%s was changed", name)
		}
	}
}

// appendRecord appends a record of a type to the log.
func appendRecord(t *testing.T, sys vfs.System, dir string, kind byte) {
	t.Helper()
	l, err := journal.Open(journal.Options{Sys: sys, Dir: dir})
	must(t, err)
	must(t, l.Lock())
	must(t, l.CatchUp(func(*journal.Frame) error { return nil }))
	must(t, l.Reserve(100, journal.Settle, 0))
	buf, _, _ := l.Body()
	_, err = l.Append(append(buf, append(make([]byte, 16), kind, 3, 0, 0, 'n', 'e', 'w')...), journal.FrameHeader{Count: 1})
	must(t, err)
	l.Unlock()
	must(t, l.Sync())
	must(t, l.Close())
}

// writeCheckpoint seals the log and makes content its checkpoint.
func writeCheckpoint(t *testing.T, m *crashfs.Machine, content []byte) {
	t.Helper()
	l, err := journal.Open(journal.Options{Sys: m.Process(), Dir: labDir, FirstSegmentBytes: labSegment})
	must(t, err)
	if ok, err := l.TryCompactLock(); !ok {
		t.Fatal(err)
	}
	must(t, l.Lock())
	must(t, l.CatchUp(func(*journal.Frame) error { return nil }))
	n, err := l.Seal(0)
	must(t, err)
	l.Unlock()
	must(t, l.WriteCheckpoint(n, func(w io.Writer) error { _, err := w.Write(content); return err }))
	must(t, l.Flip(journal.Current{Checkpoint: n}))
	l.CompactUnlock()
	must(t, l.Close())
}
