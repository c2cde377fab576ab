package filebroker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestAPoisonedStoreIsRecoveredByItsClients fails one sync of one process.
func TestAPoisonedStoreIsRecoveredByItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		var fail atomic.Bool
		m.Inject(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") && fail.CompareAndSwap(true, false) {
				return syscall.EIO
			}
			return nil
		})
		join := func() *Broker {
			b, err := Open("/jobs", Config{sys: m.Process(), segment: 64 << 10, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		a, b := join(), join()
		kept := fill(t, a, 3)
		held := take(t, b, 1)
		fail.Store(true)
		if _, err := a.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); !errors.Is(err, broker.ErrPoisoned) {
			t.Fatalf("the enqueue whose sync failed: %v", err)
		}
		if h, err := b.Health(ctx); err != nil || h.Status != broker.Poisoned || h.Text == "" {
			t.Errorf("health of the other: %+v %v", h, err)
		}
		if _, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); !errors.Is(err, broker.ErrPoisoned) {
			t.Fatalf("an enqueue of the other: %v", err)
		}
		if got, err := b.Get(ctx, []broker.Ref{{Queue: "q", ID: kept[2]}}); err != nil || got[0].State != broker.Ready {
			t.Errorf("a read meanwhile: %+v %v", got, err)
		}
		time.Sleep(time.Minute)
		for name, c := range map[string]*Broker{"a": a, "b": b} {
			if h, err := c.Health(ctx); err != nil || h.Status != broker.Healthy {
				t.Errorf("health of %s afterwards: %+v %v", name, h, err)
			}
		}
		if answers, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: held[0].Job.Ref(), Token: held[0].Token, Kind: broker.Ack}}); err != nil || !errors.Is(answers[0].Err, broker.ErrLeaseLost) {
			t.Errorf("the lease from before: %+v %v", answers, err)
		}
		leases := take(t, a, 10)
		for i, id := range kept {
			if len(leases) < 3 || leases[i].Job.ID != id {
				t.Fatalf("claimed %d jobs, not the three that were acknowledged", len(leases))
			}
		}
		settle(t, a, broker.Ack, leases...)
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatAPoisonedClientHeldIsFreeOnceTheStoreWorksAgain closes the clients of a
// poisoned store in either order: what they held does not wait for its deadline.
func TestWhatAPoisonedClientHeldIsFreeOnceTheStoreWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		a, err := openOn(m.Process())
		must(t, err)
		b, err := openOn(m.Process())
		must(t, err)
		fill(t, a, 2)
		take(t, a, 1)
		take(t, b, 1)
		m.Inject(once(func(op crashfs.Op) bool { return op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") }, syscall.EIO))
		if _, err := a.Enqueue(ctx, broker.NewCall(), "q", labJobs(1)); !errors.Is(err, broker.ErrPoisoned) {
			t.Fatalf("the enqueue whose sync failed: %v", err)
		}
		must(t, errors.Join(b.Close(), a.Close()))
		c, err := openOn(m.Process())
		must(t, err)
		if got := take(t, c, 2); len(got) != 2 {
			t.Errorf("%d of 2 jobs are free", len(got))
		}
		must(t, c.Close())
	})
}

// TestAnIdleClientKeepsNobodyFromRecovering leaves a client of a poisoned store
// that makes no call alone.
func TestAnIdleClientKeepsNobodyFromRecovering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		a, err := openOn(m.Process())
		must(t, err)
		idle, err := openLazy(m.Process())
		must(t, err)
		m.Inject(once(func(op crashfs.Op) bool { return op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") }, syscall.EIO))
		if _, err := a.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(1)); !errors.Is(err, broker.ErrPoisoned) {
			t.Fatalf("the enqueue whose sync failed: %v", err)
		}
		pass(5 * time.Second)
		if _, err := a.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(2)); err != nil {
			t.Errorf("five seconds later: %v", err)
		}
		must(t, errors.Join(a.Close(), idle.Close()))
	})
}

// TestAClientWhoseBellCouldNotBeMadeMakesItLater lets the kernel make the file, and
// then say that it could not.
func TestAClientWhoseBellCouldNotBeMadeMakesItLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		b, err := openLazy(m.Process())
		must(t, err)
		fill(t, b, 1)
		f, err := m.Process().Open(labDir+"/alive/"+b.cur.Load().member.name+bellSuffix, os.O_RDWR|os.O_CREATE)
		must(t, err)
		must(t, f.Close())
		settle(t, b, broker.Ack, take(t, b, 1)...)
		must(t, b.Close())
	})
}
