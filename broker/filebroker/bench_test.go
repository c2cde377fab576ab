package filebroker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

var payload100 = make([]byte, 100)

func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(map[int]string{1: "1", 8: "8", 64: "64"}[n], func(b *testing.B) {
			q := open(b, b.TempDir())
			ctx := context.Background()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					for i := 0; i < b.N/n; i++ {
						if _, err := q.Enqueue(ctx, broker.Call{}, "default", []broker.NewJob{{Task: "t", Payload: payload100}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(q.stats.Syncs.Load())/float64(b.N), "syncs/job")
		})
	}
}

func BenchmarkEnqueueBatch1000(b *testing.B) {
	q := open(b, b.TempDir())
	ctx := context.Background()
	jobs := make([]broker.NewJob, 1000)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: payload100}
	}
	b.ResetTimer()
	start := time.Now()
	for range b.N {
		for i := range jobs {
			jobs[i].ID = broker.NewID()
		}
		if _, err := q.Enqueue(ctx, broker.Call{}, "default", jobs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(1000*b.N)/time.Since(start).Seconds(), "jobs/s")
}

func BenchmarkClaimSettle100(b *testing.B) {
	q := open(b, b.TempDir())
	ctx := context.Background()
	jobs := make([]broker.NewJob, 1000)
	for n := 0; n < b.N+1000; n += 1000 {
		for i := range jobs {
			jobs[i] = broker.NewJob{ID: broker.NewID(), Task: "t", Payload: payload100}
		}
		if _, err := q.Enqueue(ctx, broker.Call{}, "default", jobs); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	start := time.Now()
	for n := 0; n < b.N; n += 100 {
		c, err := q.Claim(ctx, broker.Call{}, broker.ClaimRequest{Queues: []string{"default"}, Tasks: []string{"t"}, Max: 100, Worker: "w"})
		if err != nil || len(c.Leases) != 100 {
			b.Fatal(len(c.Leases), err)
		}
		st := make([]broker.Settlement, 100)
		for i, l := range c.Leases {
			st[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
		}
		if _, err := q.Settle(ctx, broker.Call{}, st); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "jobs/s")
}

// BenchmarkClaimAck is n goroutines that claim a job and ack it, one after the
// other.
func BenchmarkClaimAck(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(map[int]string{1: "1", 64: "64"}[n], func(b *testing.B) {
			q := open(b, b.TempDir())
			ctx := context.Background()
			for k := 0; k < b.N; k += 1000 {
				_, err := q.Enqueue(ctx, broker.Call{}, "default", slices.Repeat([]broker.NewJob{{Task: "t", Payload: payload100}}, 1000))
				must(b, err)
			}
			before := q.stats.Syncs.Load()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					for i := 0; i < b.N/n; i++ {
						c, err := q.Claim(ctx, broker.Call{}, broker.ClaimRequest{Queues: []string{"default"}, Tasks: []string{"t"}, Max: 1, Worker: "w"})
						if err != nil || len(c.Leases) != 1 {
							b.Error(len(c.Leases), err)
							return
						}
						l := &c.Leases[0]
						if _, err := q.Settle(ctx, broker.Call{}, []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(q.stats.Syncs.Load()-before)/float64(b.N), "syncs/job")
			b.ReportMetric(float64(q.stats.Commits.Load())/float64(b.N), "commits/job")
		})
	}
}
