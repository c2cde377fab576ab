package filebroker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// sequence is what one client does, one call after the other: how far it was
// begun, and how far it was answered.
type sequence struct{ begun, answered atomic.Int64 }

// within wants that a copy has as many of the calls as a moment of the backup
// had: at least those that were answered before it began, at most those that were
// begun before it ended.
func (s *sequence) within(t *testing.T, what string, before int64, has int) {
	t.Helper()
	if int64(has) < before || int64(has) > s.begun.Load() {
		t.Errorf("the backup has %d %s; %d were answered before it, %d begun in all", has, what, before, s.begun.Load())
	}
}

// TestABackupOfAStoreInUseIsOneMoment makes backups while clients enqueue, ack
// and compact: each holds a first part of what each client did, and everything
// that was answered before it began.
func TestABackupOfAStoreInUseIsOneMoment(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "jobs")
	looker := open(t, dir)
	var producers [2]sequence
	var worker sequence
	var acked sync.Map // the number of an ack, by job
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	run := func(do func(b *Broker)) {
		b := open(t, dir)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // so that the store stays small
					do(b)
				}
			}
		})
	}
	for i := range producers {
		run(func(b *Broker) {
			n := producers[i].begun.Add(1) - 1
			job := broker.NewJob{Task: fmt.Sprint("p", i), Payload: fmt.Appendf(nil, "%d", n), Retain: time.Hour}
			if _, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{job}); err != nil {
				t.Error(err)
			}
			producers[i].answered.Add(1)
		})
	}
	run(func(b *Broker) {
		for _, l := range take(t, b, 1) {
			acked.Store(l.Job.ID, worker.begun.Add(1)-1)
			settle(t, b, broker.Ack, l)
			worker.answered.Add(1)
		}
	})
	var compacted int64
	run(func(b *Broker) {
		n := producers[0].answered.Load()
		if n < compacted+100 {
			return
		}
		compacted = n
		if _, err := b.Compact(ctx); err != nil {
			t.Error(err)
		}
	})
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for round := range 5 {
		for enough := producers[0].answered.Load() + 20; producers[0].answered.Load() < enough; {
			<-look.C
		}
		before := []int64{producers[0].answered.Load(), producers[1].answered.Load(), worker.answered.Load()}
		target := filepath.Join(t.TempDir(), "copy")
		c, err := looker.Backup(ctx, target)
		must(t, err)
		enqueued, done := readBackup(t, target, &acked)
		if c.Jobs != enqueued["p0"]+enqueued["p1"] {
			t.Errorf("round %d: the backup says %d jobs, and has %v", round, c.Jobs, enqueued)
		}
		producers[0].within(t, "jobs of the first", before[0], enqueued["p0"])
		producers[1].within(t, "jobs of the second", before[1], enqueued["p1"])
		worker.within(t, "acks", before[2], done)
	}
}

// readBackup counts what a backup has, and wants no gap in what each client did.
func readBackup(t *testing.T, target string, acked *sync.Map) (enqueued map[string]int, done int) {
	t.Helper()
	restored := filepath.Join(t.TempDir(), "restored")
	c, err := Restore(context.Background(), target, restored, Config{})
	must(t, err)
	b := open(t, restored)
	enqueued, numbers, acks := map[string]int{}, map[string]bool{}, map[int64]bool{}
	for _, state := range broker.States {
		for cursor := ""; ; {
			page, err := b.List(context.Background(), broker.Filter{Queue: "q", States: []broker.State{state}}, cursor, 1000)
			must(t, err)
			for _, j := range page.Jobs {
				enqueued[j.Task]++
				numbers[j.Task+string(j.Payload)] = true
				if n, ok := acked.Load(j.ID); ok && state == broker.Done {
					done++
					acks[n.(int64)] = true
				} else if state == broker.Leased || state == broker.Done {
					t.Errorf("job %s is %v", j.ID, state)
				}
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
	}
	if c.Jobs != enqueued["p0"]+enqueued["p1"] {
		t.Errorf("restored %d jobs, and there are %v", c.Jobs, enqueued)
	}
	for task, n := range enqueued {
		for i := range n {
			if !numbers[task+fmt.Sprint(i)] {
				t.Errorf("of the %d jobs of %s number %d is missing", n, task, i)
			}
		}
	}
	for i := range done {
		if !acks[int64(i)] {
			t.Errorf("of %d acks number %d is missing", done, i)
		}
	}
	return enqueued, done
}

// TestTokensOfARestoredStoreAreAboveAllThatWereGivenSince lets the store of which
// there is a backup go on, close and open, and restores the backup twice.
func TestTokensOfARestoredStoreAreAboveAllThatWereGivenSince(t *testing.T) {
	dir, target := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "backup")
	b := open(t, dir)
	ids := fill(t, b, 3)
	held := take(t, b, 1) // a lease that the backup has
	_, err := b.Backup(context.Background(), target)
	must(t, err)
	must(t, b.Close())
	largest := held[0].Token
	for range 30 {
		b := open(t, dir)
		for _, l := range take(t, b, 3) {
			largest = max(largest, l.Token)
		}
		must(t, b.Close())
	}
	for _, name := range []string{"first", "second"} {
		restored := filepath.Join(t.TempDir(), name)
		_, err := Restore(context.Background(), target, restored, Config{})
		must(t, err)
		b := open(t, restored)
		if c := counts(t, b); c.Ready != 3 || c.Leased != 0 {
			t.Errorf("right after the restore: %+v", c)
		}
		stale, err := b.Settle(context.Background(), broker.NewCall(), []broker.Settlement{{Ref: broker.Ref{Queue: "q", ID: ids[0]}, Token: held[0].Token, Kind: broker.Ack}})
		if err != nil || !errors.Is(stale[0].Err, broker.ErrLeaseLost) {
			t.Errorf("the ack of a lease from before the backup: %+v %v", stale, err)
		}
		leases := take(t, b, 3)
		if len(leases) != 3 {
			t.Fatalf("%d leases", len(leases))
		}
		for _, l := range leases {
			if l.Token <= largest || uint64(l.Token) >= 1<<53 {
				t.Errorf("the token %d of the restored store is not above %d, which was given since the backup", l.Token, largest)
			}
		}
		must(t, b.Close())
	}
}

// TestABackupHasPayloadsResultsAndSettings of before and after a checkpoint.
func TestABackupHasPayloadsResultsAndSettings(t *testing.T) {
	ctx := context.Background()
	dir, target, restored := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	b := open(t, dir)
	must(t, b.Configure(ctx, broker.NewCall(), "q", broker.Change{Set: []broker.Setting{{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 5000}}}}))
	fill(t, b, 100)
	_, err := b.Compact(ctx)
	must(t, err)
	fill(t, b, 30)
	large := strings.Repeat("large", 300_000)
	_, err = b.Enqueue(ctx, broker.NewCall(), "r", []broker.NewJob{{Task: "t", Payload: []byte(large)}})
	must(t, err)
	settle(t, b, broker.Bury, take(t, b, 1)...)
	want := look(t, b)
	_, err = b.Backup(ctx, target)
	must(t, err)
	must(t, b.Close())
	before := files(t, target)
	_, err = Restore(ctx, target, restored, Config{})
	must(t, err)
	again := open(t, restored)
	if got := look(t, again); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the restored store differs:\n%s", difference(want, got))
	}
	for name, b := range files(t, target) {
		if before[name] != b {
			t.Errorf("the restore changed %s of the backup", name)
		}
		delete(before, name)
	}
	if len(before) > 0 {
		t.Errorf("the restore removed files of the backup")
	}
}

func TestABackupAndARestoreRefuse(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "jobs")
	b := open(t, dir)
	fill(t, b, 20)
	used := t.TempDir()
	must(t, os.WriteFile(filepath.Join(used, "notes.txt"), nil, 0o600))
	backup := filepath.Join(t.TempDir(), "backup")
	_, err := b.Backup(ctx, backup)
	must(t, err)
	hurt := filepath.Join(t.TempDir(), "hurt")
	_, err = b.Backup(ctx, hurt)
	must(t, err)
	flip(t, filepath.Join(hurt, "000001.log"), 1000)
	over, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct {
		do   func() (Copied, error)
		want error
	}{
		"a backup into a directory that holds something":  {func() (Copied, error) { return b.Backup(ctx, used) }, broker.ErrInvalid},
		"a backup into a store":                           {func() (Copied, error) { return b.Backup(ctx, backup) }, broker.ErrInvalid},
		"a backup into the store itself":                  {func() (Copied, error) { return b.Backup(ctx, filepath.Join(dir, "copy")) }, broker.ErrInvalid},
		"a backup to no name":                             {func() (Copied, error) { return b.Backup(ctx, "") }, broker.ErrInvalid},
		"a backup that is cancelled":                      {func() (Copied, error) { return b.Backup(over, filepath.Join(t.TempDir(), "x")) }, context.Canceled},
		"a restore into a directory that holds something": {func() (Copied, error) { return Restore(ctx, backup, used, Config{}) }, broker.ErrInvalid},
		"a restore into the store":                        {func() (Copied, error) { return Restore(ctx, backup, dir, Config{}) }, broker.ErrInvalid},
		"a restore of what is no store":                   {func() (Copied, error) { return Restore(ctx, used, filepath.Join(t.TempDir(), "x"), Config{}) }, broker.ErrInvalid},
		"a restore of a damaged backup":                   {func() (Copied, error) { return Restore(ctx, hurt, filepath.Join(t.TempDir(), "x"), Config{}) }, broker.ErrCorrupt},
	} {
		if _, err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); err != nil || len(left) != 1 {
		t.Errorf("beside the store there is %q, %v", left, err)
	}
}

// TestABackupThatFindsNoRoomLeavesNothing fills the disk of the target.
func TestABackupThatFindsNoRoomLeavesNothing(t *testing.T) {
	ctx := context.Background()
	disk := smallDisk(t, 1_000_000)
	b := open(t, filepath.Join(t.TempDir(), "jobs"))
	_, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: make([]byte, 3_000_000)}})
	must(t, err)
	target := filepath.Join(disk, "backup")
	_, err = b.Backup(ctx, target)
	if err == nil {
		t.Skip("there is no small disk here")
	}
	if !errors.Is(err, broker.ErrFull) {
		t.Errorf("backup: %v", err)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	fill(t, b, 1)
	_, err = b.Backup(ctx, filepath.Join(t.TempDir(), "elsewhere"))
	must(t, err)
}
