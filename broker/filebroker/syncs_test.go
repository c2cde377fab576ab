package filebroker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestSyncsPerJob counts the syncs that answers waited for, on a disk where one
// takes a millisecond: what comes in meanwhile shares the next.
func TestSyncsPerJob(t *testing.T) {
	const each = 20
	for _, callers := range []int{1, 8, 64} {
		t.Run(fmt.Sprintf("of %d callers that enqueue", callers), func(t *testing.T) {
			onSlowDisk(t, func(ctx context.Context, _ *crashfs.Machine, b *Broker) {
				before := b.Stats().Syncs.Load()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for range each {
							if _, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				// Whoever is answered first may go ahead of the others: two for a round.
				rounds, syncs := int64(each), b.Stats().Syncs.Load()-before
				if callers == 1 && syncs != rounds || callers > 1 && syncs > 2*rounds+2 {
					t.Errorf("%d syncs for %d rounds of %d callers", syncs, rounds, callers)
				}
			})
		})
	}
	t.Run("of one that claims and acks", func(t *testing.T) {
		onSlowDisk(t, func(ctx context.Context, _ *crashfs.Machine, b *Broker) {
			_, err := b.Enqueue(ctx, broker.NewCall(), "q", slices.Repeat([]broker.NewJob{{Task: "t"}}, each+1))
			must(t, err)
			claimAck(ctx, t, b) // opens the epoch
			before := b.Stats().Syncs.Load()
			for range each {
				claimAck(ctx, t, b)
			}
			if n := b.Stats().Syncs.Load() - before; n != each {
				t.Errorf("%d syncs for %d jobs that were claimed and acked", n, each)
			}
		})
	})
}

// TestSyncsOfManyWhoClaimAndAck: what was acked during a sync is committed
// before the next, which is for all of it.
func TestSyncsOfManyWhoClaimAndAck(t *testing.T) {
	const callers, each = 16, 20
	onSlowDisk(t, func(ctx context.Context, _ *crashfs.Machine, b *Broker) {
		_, err := b.Enqueue(ctx, broker.NewCall(), "q", slices.Repeat([]broker.NewJob{{Task: "t"}}, callers*each+1))
		must(t, err)
		claimAck(ctx, t, b) // opens the epoch
		before := b.Stats().Syncs.Load()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond) // so that they do not go in step
				for range each {
					claimAck(ctx, t, b)
				}
			})
		}
		wg.Wait()
		if n := b.Stats().Syncs.Load() - before; n > 2*each+4 {
			t.Errorf("%d syncs for %d rounds of %d callers, want two for a round at most", n, each, callers)
		}
	})
}

func claimAck(ctx context.Context, t *testing.T, b *Broker) {
	got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w"})
	if err != nil || len(got.Leases) != 1 {
		t.Errorf("claimed %+v, error %v", got, err)
		return
	}
	job := &got.Leases[0].Job
	if _, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: job.Ref(), Token: job.Token, Kind: broker.Ack}}); err != nil {
		t.Error(err)
	}
}

// onSlowDisk runs fn where a sync of the log takes a millisecond. The log fits
// one segment: to begin another is to sync under LOCK, and whoever waits for that
// in this process waits for a mutex, which stops the bubble's clock.
func onSlowDisk(t *testing.T, fn func(ctx context.Context, m *crashfs.Machine, b *Broker)) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		m.Clock.Advance(2 * time.Minute) // after the first minute of a boot, in which claims are synced too
		b, err := openOn(m.Process(), func(c *Config) { c.segment = 1 << 20 })
		must(t, err)
		m.Inject(func(op crashfs.Op) error {
			if syncsLog(op) {
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		fn(t.Context(), m, b)
		must(t, b.Close())
	})
}

// TestAClaimTakesSettlementsAlong lets a settlement wait for its turn at the
// disk: a claim does not wait, and commits both.
func TestAClaimTakesSettlementsAlong(t *testing.T) {
	onSlowDisk(t, func(ctx context.Context, _ *crashfs.Machine, b *Broker) {
		_, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}, {Task: "t"}})
		must(t, err)
		claim := func() broker.Lease {
			got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w"})
			must(t, err)
			return got.Leases[0]
		}
		first := claim()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "u"}})
			must(t, err)
		})
		synctest.Wait() // its sync is under way
		wg.Go(func() {
			answers, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: first.Job.Ref(), Token: first.Token, Kind: broker.Ack}})
			must(t, err)
			must(t, answers[0].Err)
		})
		synctest.Wait() // it waits for that to end
		before, begun := b.Stats().Commits.Load(), time.Now()
		second := claim()
		if n := b.Stats().Commits.Load() - before; n != 1 || time.Since(begun) != 0 {
			t.Errorf("the claim made %d commits and took %v", n, time.Since(begun))
		}
		wg.Wait()
		if n := b.Stats().Commits.Load() - before; n != 1 || second.Job.ID == first.Job.ID {
			t.Errorf("with the settlement there are %d commits; %v was claimed", n, second.Job.ID)
		}
	})
}

// TestNoLeaseOfAnEpochBeforeThatIsDurable claims while the sync is under way
// that makes the epoch durable: from the handle that opened it, and from another.
// A power cut may forget the epoch until then, and its tokens would come again.
func TestNoLeaseOfAnEpochBeforeThatIsDurable(t *testing.T) {
	onSlowDisk(t, func(ctx context.Context, m *crashfs.Machine, b *Broker) {
		other, err := openOn(m.Process())
		must(t, err)
		defer other.Close()
		_, err = b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}, {Task: "t"}, {Task: "t"}})
		must(t, err)
		began := time.Now()
		var wg sync.WaitGroup
		claim := func(b *Broker) {
			wg.Go(func() {
				got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w"})
				must(t, err)
				if len(got.Leases) != 1 || time.Since(began) == 0 {
					t.Errorf("%d leases were handed out %v after the epoch was written", len(got.Leases), time.Since(began))
				}
			})
			synctest.Wait()
		}
		for _, b := range []*Broker{b, b, other} {
			claim(b)
		}
		wg.Wait()
		before := b.Stats().Syncs.Load()
		_, err = b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		must(t, err)
		began = time.Now()
		if got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w"}); err != nil || len(got.Leases) != 1 || time.Since(began) != 0 {
			t.Errorf("afterwards a claim took %v: %v", time.Since(began), err)
		}
		if n := b.Stats().Syncs.Load() - before; n != 1 {
			t.Errorf("%d syncs for an enqueue and a claim", n)
		}
	})
}

// A handle leaves the store with a record, which nobody syncs in the background: that
// would outlive the handle.
func TestNothingOfAHandleOutlivesItsClose(t *testing.T) {
	for range 20 {
		b, err := openOn(crashfs.New(crashfs.Config{Seed: 1}).Process(), func(c *Config) { c.Sync, c.SyncEvery = SyncInterval, time.Hour })
		must(t, err)
		fill(t, b, 1)
		take(t, b, 1)
		h := b.cur.Load()
		must(t, b.Close())
		h.mu.Lock()
		h.syncSoon()
		late := h.syncing.Load()
		h.mu.Unlock()
		if late {
			t.Fatal("a sync was begun after Close")
		}
	}
}
