package spool_test

import (
	"context"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

func TestOneHousekeeperServesAllWorkersOfAClient(t *testing.T) {
	bubble(t, func(b *bench) {
		var calls []time.Duration
		start := time.Now()
		b.broker.upkeep = func() (time.Duration, error) {
			calls = append(calls, time.Since(start))
			switch len(calls) {
			case 2:
				return 0, errDisk
			case 3:
				return -1, nil
			case 5:
				return time.Hour, nil
			}
			return 10 * time.Second, nil
		}
		run := func() func() error {
			w := spool.NewWorker(b.Client, one)
			instant.Handle(w, func(context.Context, string) error { return nil })
			return b.start(w)
		}
		first, second := run(), run()
		b.sleep(30 * time.Second)
		b.must(first())
		b.sleep(time.Minute)
		// As asked for, but no sooner than in 10 ms, in 1 s after a fault, and
		// no later than in a minute.
		want(b, "calls", line(calls), "[0s 10s 11s 11.01s 21.01s 1m21.01s]")
		b.must(second())
		b.sleep(time.Hour)
		want(b, "calls in all", len(calls), 6)
		third := run()
		b.sleep(time.Second)
		b.must(third())
		want(b, "calls after a new start", len(calls), 7)
	})
}

func TestUpkeepServesAStoreWithoutAWorker(t *testing.T) {
	bubble(t, func(b *bench) {
		set := spool.Schedule{Name: "often", Spec: "*/20 * * * *", Job: tidyUp.With("attic")}
		b.must(b.scheduler(set)()) // declares it, and is gone
		_, err := tidyUp.Enqueue(b.ctx, b.Client, "cellar", spool.StartWithin(time.Minute))
		b.must(err)
		ctx, stop := context.WithCancel(b.ctx)
		ended := make(chan error)
		go func() { ended <- b.Upkeep(ctx) }()
		b.sleep(time.Hour)
		b.wantTicks("often", "01 00:20", "01 00:40", "01 01:00")
		counts, err := b.Counts(b.ctx, "")
		b.must(err)
		cancelled := int64(0)
		for _, n := range counts {
			cancelled += n.Totals.Cancelled
		}
		want(b, "cancelled, since nobody started it", cancelled, 1)
		stop()
		b.must(<-ended)
		b.sleep(time.Hour)
		b.wantTicks("often", "01 00:20", "01 00:40", "01 01:00")
	})
}
