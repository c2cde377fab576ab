package filebroker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/filebroker"
)

// BenchmarkDrain works off jobs with 64 slots of one worker, acks durable.
func BenchmarkDrain(b *testing.B) {
	ctx := context.Background()
	store, err := filebroker.Open(b.TempDir(), filebroker.Config{})
	if err != nil {
		b.Fatal(err)
	}
	c := spool.New(store, spool.Config{Logger: slog.New(slog.DiscardHandler)})
	defer c.Close()
	task := spool.Define[[]byte]("noop")
	payload := make([]byte, 100)
	if n, err := task.EnqueueMany(ctx, c, func(yield func([]byte) bool) {
		for range b.N {
			if !yield(payload) {
				return
			}
		}
	}); err != nil || n != b.N {
		b.Fatal(n, err)
	}
	w := spool.NewWorker(c, spool.WorkerConfig{Concurrency: 64, Drain: true})
	task.Handle(w, func(context.Context, []byte) error { return nil })
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "jobs/s")
	b.ReportMetric(float64(store.Stats().Syncs.Load())/float64(b.N), "syncs/job")
}
