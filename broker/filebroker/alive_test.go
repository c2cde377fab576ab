package filebroker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestNothingIsLeftOfAKilledHandle whether it held something or not, once
// another has noticed: one that lives, or the next that opens the store.
func TestNothingIsLeftOfAKilledHandle(t *testing.T) {
	for _, c := range []struct {
		name  string
		held  bool // a lease
		alone bool // when it is killed
	}{{"that held nothing", false, false}, {"that held a lease", true, false}, {"that was alone and held nothing", false, true}, {"that was alone and held a lease", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := crashfs.New(crashfs.Config{Uptime: time.Hour})
				open := func() (*crashfs.Process, *Broker) {
					p := m.Process()
					b, err := openOn(p)
					must(t, err)
					t.Cleanup(func() { b.Close() }) // it may be dead
					return p, b
				}
				p, b := open()
				if fill(t, b, 1); c.held {
					take(t, b, 1)
				}
				if !c.alone {
					open()
				}
				p.Kill()
				if c.alone {
					open()
				}
				time.Sleep(time.Second) // of the bubble
				names, err := m.Process().ReadDir(labDir + "/alive")
				must(t, err)
				slices.Sort(names)
				if len(names) != 2 || names[1] != names[0]+bellSuffix {
					t.Errorf("alive holds %q, want one handle and its bell", names)
				}
			})
		})
	}
}

// TestWhoCannotBeProbedIsNotDead lets the look at another handle's life sign fail: a
// process that has no descriptor left, or whose disk fails for a moment, takes no
// lease from one that lives, and recovers nothing beside it.
func TestWhoCannotBeProbedIsNotDead(t *testing.T) {
	for _, c := range []struct {
		name string
		kind crashfs.OpKind
		err  error
	}{{"no descriptor is left", crashfs.OpOpen, syscall.EMFILE}, {"its file cannot be read", crashfs.OpOpen, syscall.EIO}, {"its lock cannot be tried", crashfs.OpTryLock, syscall.ENOLCK}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := crashfs.New(crashfs.Config{Uptime: time.Hour})
				a, err := openOn(m.Process())
				must(t, err)
				defer a.Close()
				fill(t, a, 1)
				held := take(t, a, 1)
				sign := labDir + "/alive/" + a.cur.Load().member.name
				p := m.Process()
				var failing atomic.Bool
				var failed atomic.Int32
				m.Inject(func(op crashfs.Op) error {
					if failing.Load() && op.Process == p && op.Kind == c.kind && op.Path == sign {
						failed.Add(1)
						return c.err
					}
					return nil
				})
				failing.Store(true)
				if b, err := openOn(p); !errors.Is(err, c.err) {
					t.Errorf("open: %v", err)
					if err == nil {
						must(t, b.Close())
					}
				}
				failing.Store(false)
				b, err := openOn(p)
				must(t, err)
				defer b.Close()
				before := failed.Load()
				failing.Store(true)
				time.Sleep(2 * probeEvery) // b looks who is alive
				if before == 0 || failed.Load() == before {
					t.Errorf("%d looks failed, %d of them at open", failed.Load(), before)
				}
				m.Inject(nil)
				settle(t, a, broker.Ack, held...)
			})
		})
	}
}

// TestARestartOfTheMachineEndsEveryLeaseOfAProcess cuts the power: of the processes
// that held jobs there may be no life sign left, and their jobs wait for nobody.
func TestARestartOfTheMachineEndsEveryLeaseOfAProcess(t *testing.T) {
	for _, keep := range []crashfs.Choose{crashfs.KeepNone, crashfs.KeepAll} {
		synctest.Test(t, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{Uptime: time.Hour})
			open := func() *Broker {
				b, err := openOn(m.Process())
				must(t, err)
				t.Cleanup(func() { b.Close() }) // its machine may be gone
				return b
			}
			a := open()
			fill(t, a, 2)
			take(t, a, 1)
			claim := broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: "w", Remote: true}
			_, err := a.Claim(context.Background(), broker.NewCall(), claim)
			must(t, err)
			must(t, a.cur.Load().log.Sync())
			m = m.Crash(keep)
			b := open()
			if got := take(t, b, 2); len(got) != 1 || got[0].Job.Attempt != 2 {
				t.Errorf("%d leases, and not that of the dead process alone: %+v", len(got), got)
			}
		})
	}
}

// TestALeaseThatWasOverBeforeARestartHasExpired: the broker's clock goes on with the
// wall clock, which may have been set meanwhile.
func TestALeaseThatWasOverBeforeARestartHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Uptime: time.Hour})
		a, err := openOn(m.Process())
		must(t, err)
		ids := fill(t, a, 1)
		m.Clock.Step(3 * time.Hour)
		take(t, a, 1)
		must(t, a.cur.Load().log.Sync())
		m = m.Crash(crashfs.KeepNone)
		a.Close() // its machine is gone
		b, err := openOn(m.Process())
		must(t, err)
		defer b.Close()
		_, err = b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"none"}, Max: 1})
		must(t, err)
		got, err := b.Get(t.Context(), []broker.Ref{{Queue: "q", ID: ids[0]}})
		must(t, err)
		if got[0].State != broker.Ready || got[0].Reason != broker.ReasonExpired {
			t.Errorf("the job is %v, %q", got[0].State, got[0].Reason)
		}
	})
}
