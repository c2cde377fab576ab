package filebroker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// damaged makes a store of 50 jobs, some finished, and flips a bit in the body
// of the frame that enqueued the 20th.
func damaged(t *testing.T) (dir string, hurt broker.ID) {
	return damagedBy(t, func(*Broker) {})
}

// damagedBy is damaged after a change of the empty store.
func damagedBy(t *testing.T, change func(b *Broker)) (dir string, hurt broker.ID) {
	dir = filepath.Join(t.TempDir(), "jobs")
	b := open(t, dir)
	change(b)
	ids := fill(t, b, 50)
	settle(t, b, broker.Ack, take(t, b, 5)...)
	settle(t, b, broker.Bury, take(t, b, 1)...)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var at int64
	if err := Inspect(dir, func(e Entry) error {
		if e.Record == "enqueue" && e.IDs[0] == ids[20] {
			at = e.Offset
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(dir, "000001.log"), at+100)
	return dir, ids[20]
}

func flip(t *testing.T, file string, at int64) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDamageIsRefusedAndNamedAndLeftAsItIs(t *testing.T) {
	dir, _ := damaged(t)
	before := files(t, dir)
	if _, err := Open(dir, Config{}); !errors.Is(err, broker.ErrCorrupt) || !strings.Contains(err.Error(), "000001.log") {
		t.Errorf("open: %v", err)
	}
	v, err := Verify(dir)
	if err != nil || v.OK || len(v.Findings) == 0 || v.Findings[0].File != "000001.log" {
		t.Errorf("verify: %+v %v", v, err)
	}
	after := files(t, dir)
	for name, b := range before {
		if after[name] != b && name != "/CONTROL" { // which is hints
			t.Errorf("%s was changed", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was made", name)
		}
	}
}

func TestRepairSavesWhatIsReadableAndKeepsTheOriginal(t *testing.T) {
	dir, hurt := damaged(t)
	before := files(t, dir)
	mine := dir + ".repair" // a name that a repair might think of
	must(t, os.Mkdir(mine, 0o700))
	r, err := Repair(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Jobs != 44 { // 50, less 5 acked and the one that was damaged
		t.Errorf("saved %d jobs: %+v", r.Jobs, r)
	}
	for name, b := range before {
		if files(t, r.Original)[name] != b && name != "/CONTROL" {
			t.Errorf("%s of the original was changed", name)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); err != nil || !slices.Equal(left, []string{dir, r.Original, mine}) {
		t.Errorf("beside the store there are %q now, error %v", left, err)
	}
	b := open(t, dir)
	if c := counts(t, b); c.Ready != 43 || c.Dead != 1 {
		t.Errorf("counts %+v", c)
	}
	leases := take(t, b, 100)
	if len(leases) != 43 {
		t.Fatalf("%d leases", len(leases))
	}
	for _, l := range leases {
		if l.Job.ID == hurt || len(l.Job.Payload) != 1 {
			t.Errorf("lease of %+v", l.Job)
		}
	}
	settle(t, b, broker.Ack, leases...)
	if _, err := Repair(context.Background(), dir); err == nil {
		t.Error("a store in use was repaired")
	}
}

// TestRepairAfterACompaction damages one file after another of a store that
// was compacted with some jobs before the checkpoint and some after it.
func TestRepairAfterACompaction(t *testing.T) {
	garble := func(t *testing.T, file string) { flip(t, file, 20) }
	remove := func(t *testing.T, file string) { must(t, os.Remove(file)) }
	for _, c := range []struct {
		name     string
		file     string
		damage   func(*testing.T, string)
		jobs     int // saved
		dead     int // of them without their payload
		complete bool
	}{
		{"without CURRENT nothing is lost", "CURRENT", remove, 40, 0, true},
		{"with a garbled CURRENT nothing is lost", "CURRENT", garble, 40, 0, true},
		{"without the checkpoint what the log holds is saved", "000001.idx", remove, 20, 0, false},
		{"with a garbled checkpoint what the log holds is saved", "000001.idx", garble, 20, 0, false},
		{"without the payload file its jobs are dead letters", "000001.pay", remove, 40, 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "jobs")
			b := open(t, dir)
			fill(t, b, 20)
			if _, err := b.Compact(context.Background()); err != nil {
				t.Fatal(err)
			}
			fill(t, b, 20)
			must(t, b.Close())
			c.damage(t, filepath.Join(dir, c.file))
			if c.file == "CURRENT" {
				if _, err := Open(dir, Config{}); !errors.Is(err, broker.ErrCorrupt) {
					t.Errorf("open: %v", err)
				}
			}
			r, err := Repair(context.Background(), dir)
			if err != nil || r.Jobs != c.jobs || r.Complete != c.complete || len(r.Lost) != c.dead {
				t.Errorf("repair: %+v %v", r, err)
			}
			got := counts(t, open(t, dir))
			if got.Ready != int64(c.jobs-c.dead) || got.Dead != int64(c.dead) {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

func TestRepairOfASoundStoreDoesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	b := open(t, dir)
	fill(t, b, 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Repair(context.Background(), dir)
	if err != nil || r.Original != "" || !r.Complete || r.Jobs != 1 || len(r.Lost) > 0 {
		t.Errorf("repair: %+v, %v", r, err)
	}
	if beside, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(beside) != 1 {
		t.Errorf("beside the store there is %v, %v", beside, err)
	}
	if _, err := Verify(t.TempDir()); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("verify of a directory that is no store: %v", err)
	}
}

// TestACapacityHoldsAfterARepair enqueues into a repaired store before anybody
// has loaded its state.
func TestACapacityHoldsAfterARepair(t *testing.T) {
	ctx := context.Background()
	dir, _ := damagedBy(t, func(b *Broker) {
		must(t, b.Configure(ctx, broker.NewCall(), "q", broker.Change{Set: []broker.Setting{{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 50}}}}))
	})
	_, err := Repair(ctx, dir)
	must(t, err)
	b, err := Open(dir, Config{small: 1})
	must(t, err)
	if n := b.Stats().Loads.Load(); n != 0 {
		t.Errorf("Open loaded the state %d times", n)
	}
	for n := 0; err == nil; n++ {
		if _, err = b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); n > 50 {
			t.Fatal("the capacity is forgotten")
		}
	}
	if full := (*broker.FullError)(nil); !errors.As(err, &full) {
		t.Errorf("enqueue: %v", err)
	}
	if c := counts(t, b); c.Scheduled+c.Ready != 50 {
		t.Errorf("counts %+v", c)
	}
	must(t, b.Close())
}

// A checkpoint that is damaged gives what stands before the damage.
func TestRepairSavesTheFirstJobsOfADamagedCheckpoint(t *testing.T) {
	const jobs = 6000
	sound := t.TempDir()
	b, err := Open(sound, Config{AllowUnsafeFS: true, Sync: SyncNever})
	must(t, err)
	list := make([]broker.NewJob, jobs)
	for i := range list {
		list[i] = broker.NewJob{Task: "t", Payload: fmt.Appendf(nil, "payload %d", i)}
		switch i % 3 {
		case 1:
			list[i].Key, list[i].KeyHold = fmt.Sprint(i), broker.HoldUntilFinal
		case 2:
			list[i].Key, list[i].KeyHold, list[i].KeyFor = fmt.Sprint(i), broker.HoldFor, time.Hour
		}
	}
	_, err = b.Enqueue(t.Context(), broker.NewCall(), "q", list)
	must(t, err)
	settle(t, b, broker.Nack, take(t, b, 10)...)
	take(t, b, 10) // their leases end with this process
	must(t, errorOf(b.Compact(t.Context())))
	must(t, b.Close())
	names, err := filepath.Glob(filepath.Join(sound, "*.idx"))
	must(t, err)
	whole, err := os.ReadFile(names[0])
	must(t, err)
	before := 0
	for at := 100; at <= len(whole); at += len(whole) / 6 {
		dir := filepath.Join(t.TempDir(), "jobs")
		must(t, os.CopyFS(dir, os.DirFS(sound)))
		b := slices.Clone(whole)
		if at < len(b) {
			b[at] ^= 1
		} else {
			b = append(b, "garbage"...)
		}
		must(t, os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), b, 0o600))
		r, err := Repair(t.Context(), dir)
		must(t, err)
		if r.Jobs < before || r.Jobs > jobs || r.Checkpoint == 0 || r.Complete || len(r.Lost) > 0 {
			t.Errorf("damaged at %d of %d: %+v after %d", at, len(whole), r, before)
		}
		t.Logf("damaged at %d of %d: %d jobs saved", at, len(whole), r.Jobs)
		before = r.Jobs
		worked(t, dir, r.Jobs)
	}
	if before < jobs/2 {
		t.Errorf("%d of %d jobs are saved at the most", before, jobs)
	}
}

// worked works off a repaired store: what it holds is whole, and holds its keys.
func worked(t *testing.T, dir string, jobs int) {
	t.Helper()
	b, err := Open(dir, Config{AllowUnsafeFS: true, Sync: SyncNever})
	must(t, err)
	defer func() { must(t, b.Close()) }()
	for done := 0; done < jobs; {
		got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 500, Worker: "w"})
		must(t, err)
		if len(got.Leases) == 0 {
			t.Fatalf("%d of %d jobs can be claimed", done, jobs)
		}
		for _, l := range got.Leases {
			if !strings.HasPrefix(string(l.Job.Payload), "payload ") {
				t.Errorf("job %v has the payload %q", l.Job.ID, l.Job.Payload)
			}
			if l.Job.Key == "" {
				continue
			}
			again, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Key: l.Job.Key, Payload: l.Job.Payload, KeyHold: broker.HoldUntilFinal}})
			if err != nil || !again[0].Existing || again[0].ID != l.Job.ID {
				t.Fatalf("key %s is not held by %v: %+v, %v", l.Job.Key, l.Job.ID, again, err)
			}
		}
		done += len(got.Leases)
		settle(t, b, broker.Ack, got.Leases...)
	}
	if v, err := Verify(dir); err != nil || !v.OK {
		t.Errorf("afterwards %+v, %v", v, err)
	}
}
