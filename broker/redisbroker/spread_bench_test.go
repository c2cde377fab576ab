package redisbroker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// BenchmarkSpread shows what one busy queue of a cluster of three nodes does in one
// part and in three: jobs a second, and how much of the servers' CPU the busiest node
// used. Where the machine has fewer cores than the servers and the clients want, the
// jobs a second say nothing of what more machines would do; the share does.
func BenchmarkSpread(b *testing.B) {
	for _, parts := range []int{1, 3} {
		b.Run(fmt.Sprint(parts), func(b *testing.B) {
			c := redistest.StartCluster(b, redistest.Options{})
			client := open(b, c.URL(), "bench", nil)
			defer client.Close()
			if parts > 1 {
				if err := client.SetSpread(b.Context(), "q", parts); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				var was [3]time.Duration
				for i, s := range c.Nodes {
					was[i] = cpu(s)
				}
				const n = 40_000
				began := time.Now()
				rush(func() bool { return true }, n, func() int {
					fill(b, client, "q", 100, 100, nil)
					return 100
				})
				b.ReportMetric(n/time.Since(began).Seconds(), "enqueues/s")
				began = time.Now()
				rush(func() bool { return !b.Failed() }, n, func() int { return work(b, client) })
				b.ReportMetric(n/time.Since(began).Seconds(), "claims+acks/s")
				var all, most time.Duration
				for i, s := range c.Nodes {
					used := cpu(s) - was[i]
					all, most = all+used, max(most, used)
				}
				b.ReportMetric(100*most.Seconds()/all.Seconds(), "%-on-busiest")
				b.ReportMetric(float64(all.Microseconds())/n, "server-µs/job")
			}
		})
	}
}

// rush does what is to be done n times, by 8 at a time.
func rush(on func() bool, n int, do func() int) {
	var wg sync.WaitGroup
	var done atomic.Int64
	for range 8 {
		wg.Go(func() {
			for on() && done.Load() < int64(n) {
				done.Add(int64(do()))
			}
		})
	}
	wg.Wait()
}

// work claims and acks up to 100 jobs.
func work(b *testing.B, client *Broker) int {
	ctx := context.Background()
	got, err := client.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 100, TTL: time.Minute, Worker: "w"})
	if err != nil {
		b.Error(err)
	}
	list := make([]broker.Settlement, len(got.Leases))
	for i, l := range got.Leases {
		list[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
	}
	if len(list) > 0 {
		if _, err := client.Settle(ctx, broker.NewCall(), list); err != nil {
			b.Error(err)
		}
	}
	return len(list)
}
