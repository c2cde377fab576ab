package redisbroker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/internal/redistest"
)

// plainPush is about the least that a transition does: a write for each call.
var plainPush = &script{name: "push", durable: true, source: "#!lua\nfor i = 1, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end\nreturn ARGV"}

// BenchmarkRun measures calls of a small script through the transport beside
// the same script called through the client alone.
func BenchmarkRun(b *testing.B) {
	for _, keeps := range []struct {
		name string
		p    redistest.Persistence
	}{{"none", redistest.None}, {"everysec", redistest.Everysec}, {"always", redistest.Always}} {
		s := redistest.Start(b, redistest.Options{Persistence: keeps.p})
		to, err := parse(s.URL(), &Config{})
		if err != nil {
			b.Fatal(err)
		}
		n, err := newNetwork(b.Context(), to, Config{}.withDefaults(), namesOf("spool"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.close() })
		bare := redis.NewClient(&redis.Options{Addr: s.Addr()})
		b.Cleanup(func() { _ = bare.Close() })
		direct := redis.NewScript(plainPush.source)
		payload := make([]byte, 200)
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/transport/callers=%d", keeps.name, callers), func(b *testing.B) {
				each(b, callers, func() error {
					_, err := n.run(context.Background(), plainPush, "q", [][]byte{payload})
					return err
				})
			})
			b.Run(fmt.Sprintf("%s/client/callers=%d", keeps.name, callers), func(b *testing.B) {
				each(b, callers, func() error {
					return direct.EvalSha(context.Background(), bare, []string{"{q}:c"}, payload).Err()
				})
			})
			s.Must("FLUSHALL")
			s.Must("SCRIPT", "LOAD", plainPush.source)
		}
	}
}

// each makes b.N calls from so many callers.
func each(b *testing.B, callers int, call func() error) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
