package spool_test

import (
	"context"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
)

type number struct{ N int }

// BenchmarkDrain measures what a worker adds to its broker, per job.
func BenchmarkDrain(b *testing.B) {
	ctx := context.Background()
	task := spool.Define[number]("noop")
	c := spool.New(membroker.New(membroker.Config{}), quietConfig)
	defer c.Close()
	n, err := task.EnqueueMany(ctx, c, func(yield func(number) bool) {
		for i := range b.N {
			if !yield(number{i}) {
				return
			}
		}
	})
	if err != nil || n != b.N {
		b.Fatal(n, err)
	}
	w := spool.NewWorker(c, spool.WorkerConfig{Concurrency: 64, Drain: true})
	task.Handle(w, func(context.Context, number) error { return nil })
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	counts, err := c.Counts(ctx, "")
	if err != nil || counts[0].Totals.Acked != int64(b.N) {
		b.Fatal(counts, err)
	}
}

// BenchmarkEnqueueMany measures what encoding and options add.
func BenchmarkEnqueueMany(b *testing.B) {
	task := spool.Define[number]("noop")
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{})
	defer c.Close()
	b.ReportAllocs()
	if _, err := task.EnqueueMany(context.Background(), c, func(yield func(number) bool) {
		for i := range b.N {
			if !yield(number{i}) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
}
