//go:build linux

package proctest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/membroker"
)

// twoClients are two clients of an empty store of each kind, as two processes
// would have them.
var twoClients = []struct {
	name string
	open func(*testing.T) [2]*spool.Client
}{
	{"in memory", func(t *testing.T) [2]*spool.Client {
		b := membroker.New(membroker.Config{})
		return [2]*spool.Client{spool.New(b, spool.Config{}), spool.New(b.Another(), spool.Config{})}
	}},
	{"in a directory", func(t *testing.T) (c [2]*spool.Client) {
		dir := newStore(t)
		for i := range c {
			b, err := filebroker.Open(dir, filebroker.Config{AllowUnsafeFS: true, Sync: filebroker.SyncNever})
			must(t, err)
			c[i] = spool.New(b, spool.Config{})
		}
		return c
	}},
}

// forBothStores runs a test on each kind of store.
func forBothStores(t *testing.T, fn func(*testing.T, [2]*spool.Client)) {
	for _, s := range twoClients {
		t.Run(s.name, func(t *testing.T) {
			clients := s.open(t)
			for _, c := range clients {
				defer func() { must(t, c.Close()) }()
			}
			fn(t, clients)
		})
	}
}

// supply adds n jobs of a task and a tenant.
func supply(t *testing.T, c *spool.Client, task, tenant string, n int) {
	t.Helper()
	job := []spool.Spec{spool.Raw(task, nil, spool.Tenant(tenant))}
	for ; n > 0; n -= broker.MaxBatchJobs {
		_, err := c.Enqueue(t.Context(), slices.Repeat(job, min(n, broker.MaxBatchJobs))...)
		must(t, err)
	}
}

func TestProofThatSharesFollowTheWeights(t *testing.T) {
	forBothStores(t, func(t *testing.T, clients [2]*spool.Client) {
		const total = 54
		n := size(20_000, 100_000)
		weights := map[string]int{"a": 1, "b": 1, "c": 2, "d": 3, "e": 5, "f": 8, "g": 13, "h": 21}
		tasks := []string{"left", "right"}
		for tenant, w := range weights {
			must(t, clients[0].Configure(t.Context(), spool.DefaultQueue, broker.Change{Set: []broker.Setting{{Kind: broker.WeightSetting, Name: tenant, Weight: w}}}))
			for _, task := range tasks { // enough for one worker that does it all
				supply(t, clients[0], task, tenant, n*w/total*102/100+50)
			}
		}
		served := serve(t, clients, tasks, n)
		worst, byTask := 0.0, map[string]int{}
		for _, tenant := range slices.Sorted(maps.Keys(weights)) {
			got, w := 0, weights[tenant]
			for _, task := range tasks {
				of := served[task+"/"+tenant]
				got, byTask[task] = got+of, byTask[task]+of
			}
			share := float64(got) * total / float64(n*w)
			worst = max(worst, math.Abs(share-1))
			t.Logf("tenant %s, weight %2d: %6d jobs, %.4f of its share", tenant, w, got, share)
		}
		t.Logf("the worst is %.3f %% off; by task %v", 100*worst, byTask)
		if worst > 0.01 {
			t.Errorf("a share is %.3f %% off", 100*worst)
		}
		for _, task := range tasks {
			if byTask[task] < n/100 {
				t.Errorf("the worker of %s did only %d jobs", task, byTask[task])
			}
		}
	})
}

// serve lets one worker for each task run, and counts the first n starts by task
// and tenant.
func serve(t *testing.T, clients [2]*spool.Client, tasks []string, n int) map[string]int {
	t.Helper()
	var mu sync.Mutex
	served := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	started := func(l *spool.Lease) {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 {
			served[l.Job.Task+"/"+l.Job.Tenant]++
		}
		if n--; n == 0 {
			stop()
		}
	}
	var wg sync.WaitGroup
	for i, task := range tasks {
		w := spool.NewWorker(clients[i], spool.WorkerConfig{Concurrency: 4 + 8*i, Hooks: spool.Hooks{Started: started}})
		spool.Define[[]byte](task).Handle(w, func(context.Context, []byte) error { return nil })
		wg.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n > 0 {
		t.Fatalf("%d jobs were not worked", n)
	}
	return served
}

func TestProofThatAFloodDelaysAnothersJobByOneTurnOfEach(t *testing.T) {
	forBothStores(t, func(t *testing.T, clients [2]*spool.Client) {
		const rounds = 100
		tenants := []string{"a", "b", "c", "d", "e"}
		supply(t, clients[0], "job", "flood", size(20_000, 100_000))
		for _, tenant := range tenants {
			supply(t, clients[0], "job", tenant, 30*rounds)
		}
		claim := func(most int) []broker.Lease {
			got, err := clients[rand.IntN(2)].Broker().Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Max: most})
			must(t, err)
			if len(got.Leases) != most {
				t.Fatalf("%d jobs were claimed, want %d", len(got.Leases), most)
			}
			return got.Leases
		}
		longest := 0
		for round := range rounds {
			claim(1 + rand.IntN(100))
			tenant := fmt.Sprintf("single-%d", round%7) // new at first, later one that was idle
			supply(t, clients[0], "job", tenant, 1)
			before := map[string]int{}
			for {
				of := claim(1)[0].Job.Tenant
				if of == tenant {
					break
				}
				if before[of]++; before[of] > 1 {
					t.Fatalf("round %d: the job of %s waits for a second turn of %s, after %v", round, tenant, of, before)
				}
			}
			longest = max(longest, len(before))
		}
		t.Logf("%d single jobs waited for at most %d claims, of %d other tenants", rounds, longest, 1+len(tenants))
	})
}
