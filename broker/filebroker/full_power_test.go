package filebroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// fullLife is a store whose disk fills up, and which is worked off then.
type fullLife struct {
	m       *crashfs.Machine
	disk    atomic.Int64 // its size
	mu      sync.Mutex
	added   []broker.ID // acknowledged
	settled []broker.ID // acknowledged
	ending  []broker.ID // of these the last were perhaps not yet
	cuts    []fullCut
	seen    map[string]int // operations
}

// fullCut is what a power cut left, and what had been promised then.
type fullCut struct {
	name                   string
	m                      *crashfs.Machine
	disk                   int64 // its size
	added, settled, ending int
}

func halfSegments(c *Config) { c.segment = 256 << 10 }

// cut takes what a power cut before an operation leaves, of each so many.
func (f *fullLife) cut(op crashfs.Op, each int, keep crashfs.Choose) {
	if !changes(f.m, op) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.seen["all"]
	f.seen["all"]++
	f.seen[fmt.Sprint(op.Kind, " ", op.Path)]++
	if n%each == 0 {
		f.cuts = append(f.cuts, fullCut{op.String(), f.m.Crash(keep), f.disk.Load(), len(f.added), len(f.settled), len(f.ending)})
	}
}

func (f *fullLife) note(list *[]broker.ID, ids ...broker.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, ids...)
}

// enqueue adds jobs until the disk is full, and nobody finds more room on it.
func (f *fullLife) enqueue(t *testing.T, b *Broker, size int) {
	for refused := 0; refused < 2; {
		jobs := make([]broker.NewJob, 50)
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, size)}
		}
		got, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
		if errors.Is(err, broker.ErrFull) {
			refused++
			pass(2 * vainFor)
			synctest.Wait()
			continue
		}
		must(t, err)
		refused = 0
		for _, e := range got {
			f.note(&f.added, e.ID)
		}
	}
}

// work settles so many jobs, some at a time, with none left behind.
func (f *fullLife) work(t *testing.T, b *Broker, n int) {
	for n > 0 {
		got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: "w"})
		must(t, err)
		if len(got.Leases) == 0 {
			return
		}
		n--
		l := got.Leases[0]
		f.note(&f.ending, l.Job.ID)
		settled, err := b.Settle(context.Background(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}})
		must(t, errors.Join(err, errOf(settled)))
		f.note(&f.settled, l.Job.ID)
	}
}

// judge opens what is left of the store, on a disk that is as full as it was: all
// that was acknowledged is there, and is worked off.
func (f *fullLife) judge(c *fullCut) error {
	if report, err := journal.Verify(c.m.Process(), labDir); err != nil || report.Damaged() {
		return fmt.Errorf("verify: %w, %+v", err, report.Findings)
	}
	c.m.SetDiskBytes(max(c.disk, c.m.Used()))
	b, err := openOn(c.m.Process(), halfSegments)
	if err != nil {
		return err
	}
	defer b.Close()
	done, ending := map[broker.ID]bool{}, map[broker.ID]bool{}
	for _, id := range f.settled[:c.settled] {
		done[id] = true
	}
	for _, id := range f.ending[:c.ending] {
		ending[id] = true
	}
	refs := make([]broker.Ref, c.added)
	for i, id := range f.added[:c.added] {
		refs[i] = broker.Ref{Queue: "q", ID: id}
	}
	jobs, err := b.Get(context.Background(), refs)
	if err != nil {
		return err
	}
	for i, j := range jobs {
		switch id := refs[i].ID; {
		case j.State != 0 && done[id]:
			return fmt.Errorf("job %s was settled, and is %v", id, j.State)
		case j.State == 0 && !ending[id]:
			return fmt.Errorf("job %s was acknowledged, and is not there", id)
		}
	}
	for range 2 { // leases of the dead handle end
		for {
			n, err := workOnce(&testing.T{}, b, "q", 20)
			if err != nil {
				return fmt.Errorf("work off: %w", err)
			}
			if n == 0 {
				break
			}
		}
		pass(time.Minute)
	}
	c.m.SetDiskBytes(0)
	if _, err := b.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(1)); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return b.Close()
}

// TestAPowerCutOfAFullDiskLosesNothing cuts the power at the operations of a store
// that fills its disk, is worked off, compacts into the room that it keeps, lends of
// it, and fills up again.
func TestAPowerCutOfAFullDiskLosesNothing(t *testing.T) {
	each := stride(150)
	if testing.Short() {
		each *= 4
	}
	for seed, keep := range []crashfs.Choose{crashfs.KeepNone, crashfs.KeepAll, crashfs.KeepRandom(1)} {
		synctest.Test(t, func(t *testing.T) {
			f := &fullLife{m: crashfs.New(crashfs.Config{Seed: uint64(seed), FollowTime: true, Uptime: time.Hour, DiskBytes: 1500 << 10}), seen: map[string]int{}}
			f.disk.Store(1500 << 10)
			b, err := openOn(f.m.Process(), halfSegments)
			must(t, err)
			synctest.Wait()
			f.m.Inject(func(op crashfs.Op) error { f.cut(op, each, keep); return nil })
			f.enqueue(t, b, 200)
			f.disk.Store(f.m.Used())
			f.m.SetDiskBytes(f.m.Used()) // others have the rest
			for range 3 {
				f.work(t, b, 500)
				synctest.Wait()
			}
			f.enqueue(t, b, 200)
			f.work(t, b, 1<<20)
			f.m.Inject(nil)
			must(t, b.Close())
			t.Logf("%d jobs, %d operations, %d cuts", len(f.added), f.seen["all"], len(f.cuts))
			for _, op := range []string{"rename " + labDir + "/" + "RESERVE", "truncate " + labDir + "/" + "RESERVE", "write " + labDir + "/" + "RESERVE"} {
				if f.seen[op] == 0 {
					t.Errorf("this test proves less than it should: there was no %s, but %v", op, f.seen)
				}
			}
			for i := range f.cuts {
				if err := f.judge(&f.cuts[i]); err != nil {
					t.Fatalf("before %s: %v", f.cuts[i].name, err)
				}
			}
		})
	}
}
