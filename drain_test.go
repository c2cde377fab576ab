package spool_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

func TestDrainWorksWhatFollows(t *testing.T) {
	bubble(t, func(b *bench) {
		var got []string
		b.add(instant.With("first"))
		later := b.add(instant.With("later", spool.Delay(time.Hour)))
		b.drain(spool.WorkerConfig{Concurrency: 4}, func(w *spool.Worker) {
			instant.Handle(w, func(ctx context.Context, in string) error {
				got = append(got, in)
				if len(got) < 5 {
					_, err := instant.Enqueue(ctx, spool.LeaseFrom(ctx), "next")
					return err
				}
				return nil
			})
		})
		want(b, "ran", strings.Join(got, " "), "first next next next next")
		b.wantState(later, spool.Scheduled)
	})
}

func TestADrainingWorkerUsesItsFreeSlots(t *testing.T) {
	bubble(t, func(b *bench) {
		b.add(instant.With("long"))
		var short time.Duration
		start := time.Now()
		time.AfterFunc(time.Second, func() { b.add(instant.With("short")) })
		b.drain(spool.WorkerConfig{Concurrency: 2}, func(w *spool.Worker) {
			instant.Handle(w, func(ctx context.Context, in string) error {
				if in == "short" {
					short = time.Since(start)
					return nil
				}
				time.Sleep(time.Minute)
				return nil
			})
		})
		want(b, "start of the short job", short, time.Second)
		want(b, "took", time.Since(start), time.Minute)
	})
}
