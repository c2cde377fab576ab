package filebroker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/migrate"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// openMoving opens a store whose state a move needs.
func openMoving(t testing.TB, sys vfs.System) *Broker {
	t.Helper()
	b, err := Open(labDir, Config{sys: sys, segment: labSegment, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	return b
}

// movingJobs fills a queue with jobs in every state but leased, and settings.
func movingJobs(t testing.TB, b *Broker) (ids map[broker.ID]broker.State) {
	t.Helper()
	ctx := context.Background()
	jobs := labJobs(1, 2, 3, 4, 5, 6, 7, 8)
	jobs[2].Delay, jobs[3].Key = time.Hour, "k"
	whole := broker.NewJob{ID: labID(20), Task: "whole", BatchSize: 2}
	jobs = append(jobs, whole)
	for i := range uint32(2) {
		jobs = append(jobs, broker.NewJob{ID: labID(21 + int(i)), Task: "member", Batch: whole.ID, BatchOrdinal: i})
	}
	_, err := b.Enqueue(ctx, broker.NewCall(), "q", jobs)
	must(t, err)
	must(t, b.Configure(ctx, broker.NewCall(), "q", broker.Change{Set: []broker.Setting{{Kind: broker.WeightSetting, Name: "acme", Weight: 7}}}))
	got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Tasks: []string{jobs[0].Task}, Max: 2, Worker: "w"})
	must(t, err)
	for i, l := range got.Leases {
		s := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Bury, Error: "no"}
		if i == 1 {
			s.Kind, s.Error, s.Result = broker.Ack, "", []byte("result")
		}
		_, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{s})
		must(t, err)
	}
	return jobsOf(t, b)
}

// jobsOf lists the jobs of the queue, with payloads read.
func jobsOf(t testing.TB, b *Broker) map[broker.ID]broker.State {
	t.Helper()
	all := map[broker.ID]broker.State{}
	for _, s := range broker.States {
		page, err := b.List(context.Background(), broker.Filter{Queue: "q", States: []broker.State{s}}, "", 100)
		must(t, err)
		for _, j := range page.Jobs {
			if j.Reason == broker.ReasonDamaged {
				t.Fatalf("job %s is damaged", j.ID)
			}
			all[j.ID] = j.State
		}
	}
	return all
}

// moveCut is what two machines are left with.
type moveCut struct {
	name  string
	sides [2]*crashfs.Machine
}

// moveCuts moves a queue, and cuts the power of one machine or of both before
// every operation that changes what a disk holds. The process that drives the
// move ends with it; a machine that keeps its power keeps all that was written.
func moveCuts(t *testing.T, cfg crashfs.Config) (jobs map[broker.ID]broker.State, all []moveCut) {
	var sides [2]*crashfs.Machine
	var stores [2]*Broker
	for i := range sides {
		sides[i] = crashfs.New(cfg)
		stores[i] = openMoving(t, sides[i].Process())
	}
	jobs = movingJobs(t, stores[0])
	var mu sync.Mutex
	take := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		for how := range 3 {
			left := moveCut{name: fmt.Sprintf("%s, %s", name, [...]string{"here", "there", "both"}[how])}
			for i, m := range sides {
				choose := crashfs.Choose(crashfs.KeepAll)
				if how == i || how == 2 {
					choose = crashfs.KeepRandom(uint64(len(all)))
				}
				left.sides[i] = m.Crash(choose)
			}
			all = append(all, left)
		}
	}
	for i, m := range sides {
		m.Inject(func(op crashfs.Op) error {
			if changes(m, op) {
				take(fmt.Sprintf("%s: %v", [...]string{"here", "there"}[i], op))
			}
			return nil
		})
	}
	m := migrate.Mover{From: migrate.Side{Broker: stores[0], Name: "here"}, To: migrate.Side{Broker: stores[1], Name: "there"}, Max: 3, TTL: time.Second}
	batches := 0
	m.Report = func(migrate.Progress) {
		if batches++; batches == 2 {
			for _, b := range stores {
				_, err := b.Compact(context.Background())
				must(t, err)
			}
		}
	}
	_, err := m.Queue(context.Background(), "q")
	must(t, err)
	take("the end")
	for i, b := range stores {
		sides[i].Inject(nil)
		must(t, b.Close())
	}
	return jobs, all
}

// check goes on with the move, or takes it back, and wants every job to be
// there, once.
func (c *moveCut) check(t *testing.T, jobs map[broker.ID]broker.State, back bool) {
	t.Helper()
	var stores [2]*Broker
	for i, m := range c.sides {
		stores[i] = openMoving(t, m.Process())
		defer stores[i].Close()
	}
	ctx := context.Background()
	m := migrate.Mover{From: migrate.Side{Broker: stores[0], Name: "here"}, To: migrate.Side{Broker: stores[1], Name: "there"}, Max: 3, TTL: time.Second}
	at := 1
	moves, err := stores[0].Moves(ctx, "q")
	must(t, err)
	if back = back && len(moves) > 0 && moves[0].State == broker.Leaving; back {
		at = 0
		_, err = m.Back(ctx, "q")
	} else {
		_, err = m.Queue(ctx, "q")
	}
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	there, away := jobsOf(t, stores[at]), jobsOf(t, stores[1-at])
	if len(away) != 0 || len(there) != len(jobs) {
		t.Fatalf("%s: %d jobs are at the right side and %d at the other, want %d (taken back: %v)", c.name, len(there), len(away), len(jobs), back)
	}
	for id, s := range jobs {
		if there[id] != s {
			t.Errorf("%s: job %s is %v, was %v", c.name, id, there[id], s)
		}
	}
	settings, err := stores[at].Settings(ctx, "q")
	must(t, err)
	if len(settings) != 1 || settings[0].Weight != 7 {
		t.Errorf("%s: settings are %+v", c.name, settings)
	}
	got, err := stores[at].Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 100, Worker: "w"})
	must(t, err)
	if len(got.Leases) != 7 {
		t.Errorf("%s: %d jobs are ready, want 7", c.name, len(got.Leases))
	}
}

func TestAPowerCutInAMoveLosesAndDoublesNothing(t *testing.T) {
	for _, torn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			jobs, all := moveCuts(t, crashfs.Config{Seed: 3, Torn: torn, FollowTime: true, Uptime: time.Hour})
			t.Logf("torn sectors %v: %d cuts", torn, len(all))
			if len(jobs) != 11 || len(all) < 100 {
				t.Fatalf("%d jobs, %d cuts: the test shows little", len(jobs), len(all))
			}
			for i := range all {
				if i%stride(3) == 0 {
					all[i].check(t, jobs, i/stride(3)%2 == 1)
				}
				all[i].sides = [2]*crashfs.Machine{}
			}
		})
	}
}

// TestTheMoveTestNoticesAMissingSync is the control.
func TestTheMoveTestNoticesAMissingSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := moveCuts(t, crashfs.Config{Seed: 3, IgnoreSync: true, FollowTime: true, Uptime: time.Hour})
		lost := 0
		for i := range all {
			jobs := 0
			for _, m := range all[i].sides {
				b, err := Open(labDir, Config{sys: m.Process(), segment: labSegment, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					continue // a directory that is not there, or damaged
				}
				counts, err := b.Counts(context.Background(), "q")
				for _, n := range counts {
					jobs += int(n.Depth + n.Done + n.Dead)
				}
				if cerr := b.Close(); err == nil {
					must(t, cerr)
				}
			}
			if jobs < 8 { // three may be on their way
				lost++
			}
		}
		t.Logf("%d of %d cuts lose something", lost, len(all))
		if lost < len(all)/4 {
			t.Errorf("only %d of %d cuts lose something", lost, len(all))
		}
	})
}
