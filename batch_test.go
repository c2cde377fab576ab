package spool_test

import (
	"context"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

var (
	part  = spool.Define[int]("part", spool.Queue("q"), spool.MaxAttempts(1), kept)
	whole = spool.Define[string]("whole", spool.Queue("q"), kept)
)

func TestABatchIsCompleteWhenItsMembersAreFinal(t *testing.T) {
	bubble(t, func(b *bench) {
		batch, err := b.EnqueueBatch(b.ctx, whole.With("all"), part.With(0), part.With(1), part.With(2, spool.Delay(time.Minute)))
		b.must(err)
		want(b, "members", len(batch.Members), 3)
		for i, id := range batch.Members {
			j := b.job(id)
			want(b, "member", line(j.Task, string(j.Payload), j.Batch, j.BatchOrdinal), line("part", i, batch.ID, i))
		}
		want(b, "the completion job", b.wantState(batch.ID, spool.Scheduled).Reason, broker.ReasonBatch)
		var ended notes[spool.State]
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		part.Handle(w, func(_ context.Context, n int) error {
			if n == 1 {
				return errDisk // dead
			}
			return nil
		})
		whole.Handle(w, func(_ context.Context, s string) error {
			for _, id := range batch.Members {
				j, err := b.Get(b.ctx, id)
				if err != nil {
					return err
				}
				ended.add(j.State)
			}
			return nil
		})
		b.start(w)
		b.sleep(time.Minute - time.Millisecond)
		want(b, "before the last member", len(ended.all()), 0)
		x, err := b.Explain(b.ctx, batch.ID)
		b.must(err)
		want(b, "why it waits", x.Reason, broker.WhyBatch)
		b.sleep(time.Second)
		want(b, "members in the end", line(ended.all()), "[done dead done]")
		b.wantState(batch.ID, spool.Done)
	})
}

func TestBadBatchesAreRefused(t *testing.T) {
	keyed := spool.Define[int]("keyed", spool.Queue("q"), spool.KeyBy(func(int) string { return "k" }))
	for _, c := range []struct {
		name    string
		done    spool.Spec
		members []spool.Spec
		part    string
	}{
		{"no members", whole.With("x"), nil, "no members"},
		{"a member in another queue", whole.With("x"), []spool.Spec{part.With(1), part.With(2, spool.Queue("r"))}, "member 2 of 2 belongs to queue r"},
		{"a member with a key", whole.With("x"), []spool.Spec{keyed.With(1)}, `member 1 of 1 (keyed) has the key "k"`},
		{"a completion job with a key", whole.With("x", spool.Key("k")), []spool.Spec{part.With(1)}, `the completion job (whole) has the key "k"`},
		{"a completion job with a delay", whole.With("x", spool.Delay(1)), []spool.Spec{part.With(1)}, "Delay or At"},
		{"no completion job", spool.Spec{}, []spool.Spec{part.With(1)}, "the completion job is missing"},
		{"a bad member", whole.With("x"), []spool.Spec{part.With(1, spool.MaxAttempts(-1))}, "max attempts"},
		{"too many members", whole.With("x"), make([]spool.Spec, broker.MaxBatchJobs), "limits of one call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				for i := range c.members {
					if c.members[i].Task() == "" {
						c.members[i] = part.With(i)
					}
				}
				_, err := b.EnqueueBatch(b.ctx, c.done, c.members...)
				if c.name == "too many members" {
					b.wantErr(err, spool.ErrTooLarge)
				} else {
					b.wantErr(err, spool.ErrInvalid)
				}
				wantText(b, err.Error(), "enqueue batch", c.part)
				want(b, "enqueued", b.totals().Enqueued, 0)
			})
		})
	}
}

func TestABatchThatFailsIsNotThere(t *testing.T) {
	bubble(t, func(b *bench) {
		b.broker.set(func() { b.broker.enqueue = func(string, []broker.NewJob) error { return errDisk } })
		batch, err := b.EnqueueBatch(b.ctx, whole.With("x"), part.With(1))
		b.wantErr(err, errDisk)
		want(b, "id", batch.ID, spool.ID{})
		wantText(b, err.Error(), "enqueue batch to q")
	})
}
