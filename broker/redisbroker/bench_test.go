package redisbroker

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// cpu is what the server's main thread has used.
func cpu(s *redistest.Server) time.Duration {
	var sum float64
	for _, field := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		n, _ := strconv.ParseFloat(strings.TrimSpace(s.Info(field)), 64)
		sum += n
	}
	return time.Duration(sum * float64(time.Second))
}

func memory(s *redistest.Server) int {
	n, _ := strconv.Atoi(strings.TrimSpace(s.Info("used_memory")))
	return n
}

// fill enqueues n jobs with a payload of 100 bytes.
func fill(t testing.TB, b broker.Broker, queue string, n, each int, change func(i int, n *broker.NewJob)) {
	t.Helper()
	payload := bytes.Repeat([]byte("p"), 100)
	for at := 0; at < n; at += each {
		jobs := make([]broker.NewJob, min(each, n-at))
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: "t", Payload: payload}
			jobs[i].MakeID()
			if change != nil {
				change(at+i, &jobs[i])
			}
		}
		if _, err := b.Enqueue(context.Background(), broker.NewCall(), queue, jobs); err != nil {
			t.Fatal(err)
		}
	}
}

// drain claims and acks n jobs, each at a call, and returns what the server
// used for the two.
func drain(t testing.TB, s *redistest.Server, b broker.Broker, r broker.ClaimRequest, n int) (claim, ack time.Duration) {
	t.Helper()
	ctx := context.Background()
	var lists [][]broker.Settlement
	was := cpu(s)
	for n > 0 {
		r.Max = min(r.Max, n)
		got, err := b.Claim(ctx, broker.NewCall(), r)
		if err != nil || len(got.Leases) == 0 {
			t.Fatalf("claim: %d leases, %d to go, %v", len(got.Leases), n, err)
		}
		n -= len(got.Leases)
		list := make([]broker.Settlement, len(got.Leases))
		for i, l := range got.Leases {
			list[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
		}
		lists = append(lists, list)
	}
	is := cpu(s)
	for _, list := range lists {
		if _, err := b.Settle(ctx, broker.NewCall(), list); err != nil {
			t.Fatal(err)
		}
	}
	return is - was, cpu(s) - is
}

// BenchmarkServerCPU shows what a job costs the server, in microseconds of its
// CPU and bytes of its memory.
func BenchmarkServerCPU(b *testing.B) {
	kinds := []struct {
		name   string
		change func(i int, n *broker.NewJob)
	}{
		{"plain", nil},
		{"tenants", func(i int, n *broker.NewJob) { n.Tenant = fmt.Sprint("tenant-", i%50) }},
		{"groups", func(i int, n *broker.NewJob) { n.Group = fmt.Sprint("group-", i%1000) }},
		{"priorities", func(i int, n *broker.NewJob) { n.Priority = int32(i % 3) }},
		{"keys", func(i int, n *broker.NewJob) { n.Key = fmt.Sprint("key-", i) }},
	}
	for _, kind := range kinds {
		for _, each := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, each), func(b *testing.B) {
				s := redistest.Start(b, redistest.Options{})
				c := open(b, s.URL(), "bench", nil)
				defer c.Close()
				n := 20_000
				if each == 1 {
					n = 4000
				}
				fill(b, c, "q", 1000, each, kind.change)
				for b.Loop() {
					mem, was := memory(s), cpu(s)
					fill(b, c, "q", n, each, kind.change)
					us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
					b.ReportMetric(us(cpu(s)-was), "enqueue-µs/job")
					b.ReportMetric(float64(memory(s)-mem)/float64(n), "B/job")
					claim, ack := drain(b, s, c, broker.ClaimRequest{Queues: []string{"q"}, Max: each, TTL: time.Minute, Worker: "w"}, n)
					b.ReportMetric(us(claim), "claim-µs/job")
					b.ReportMetric(us(ack), "ack-µs/job")
				}
			})
		}
	}
}
