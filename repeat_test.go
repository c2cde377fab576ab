package spool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

func TestReplaceChangesTheJobThatWaits(t *testing.T) {
	task := spool.Define[int]("t", spool.KeyBy(func(n int) string {
		if n < 0 {
			return ""
		}
		return "k"
	}), spool.Replace(), kept)
	bubble(t, func(b *bench) {
		first, err := task.Enqueue(b.ctx, b.Client, 1, spool.Delay(time.Hour), spool.Header("h", "1"))
		b.must(err)
		before := b.wantState(first.ID, spool.Scheduled)
		b.sleep(time.Minute)
		again, err := task.Enqueue(b.ctx, b.Client, 2, spool.Delay(3*time.Hour), spool.Header("h", "2"))
		b.must(err)
		want(b, "answer", again, spool.Enqueued{ID: first.ID, Existing: true, Differs: true})
		after := b.wantState(first.ID, spool.Scheduled)
		want(b, "job", line(string(after.Payload), after.Headers["h"]), "2 2")
		want(b, "due", after.RunAt, before.RunAt)
		for range 2 { // without a key nothing is replaced
			e, err := task.Enqueue(b.ctx, b.Client, -1)
			b.must(err)
			want(b, "existing", e.Existing, false)
		}

		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		var got notes[int]
		task.Handle(w, func(ctx context.Context, n int) error {
			if got.add(n); n < 0 {
				return nil
			}
			e, err := task.Enqueue(b.ctx, b.Client, 3)
			want(b, "while it runs", e, spool.Enqueued{ID: first.ID, Existing: true, Differs: true})
			return err
		})
		b.start(w)
		b.sleep(2 * time.Hour)
		want(b, "runs", line(got.all()), line([]int{-1, -1, 2}))
		want(b, "payload", string(b.wantState(first.ID, spool.Done).Payload), "2")
	})
}

func TestDebounceRunsOnceCallsHaveStopped(t *testing.T) {
	task := spool.Define[int]("t", spool.KeyBy(func(int) string { return "k" }), spool.Debounce(), spool.Delay(10*time.Second))
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		var got notes[int]
		var at notes[time.Time]
		task.Handle(w, func(_ context.Context, n int) error {
			got.add(n)
			at.add(time.Now())
			return nil
		})
		b.start(w)
		for n := range 20 {
			_, err := task.Enqueue(b.ctx, b.Client, n)
			b.must(err)
			b.sleep(time.Second)
		}
		want(b, "runs before they stop", len(got.all()), 0)
		last := time.Now().Add(-time.Second)
		b.sleep(time.Minute)
		want(b, "runs", line(got.all()), line([]int{19}))
		want(b, "after the last call", at.all()[0].Sub(last), 10*time.Second)

		e, err := task.Enqueue(b.ctx, b.Client, 20)
		b.must(err)
		want(b, "a new job", e.Existing, false)
		_, err = task.Enqueue(b.ctx, b.Client, 21, spool.Delay(0)) // now
		b.must(err)
		b.sleep(time.Millisecond)
		want(b, "runs", line(got.all()), line([]int{19, 21}))
	})
}

func TestRepeatsThatMakeNoSenseAreRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		for name, c := range map[string]struct {
			opts []spool.JobOption
			part string
		}{
			"a window without a key":   {[]spool.JobOption{spool.KeyWindow(time.Hour)}, "KeyWindow and KeyUntilStarted need a Key"},
			"a hold without a key":     {[]spool.JobOption{spool.KeyUntilStarted()}, "KeyWindow and KeyUntilStarted need a Key"},
			"replace without a key":    {[]spool.JobOption{spool.Replace()}, "Replace needs a Key"},
			"debounce without a key":   {[]spool.JobOption{spool.Debounce(), spool.Delay(1)}, "Debounce needs a Key"},
			"debounce without a delay": {[]spool.JobOption{spool.Debounce(), spool.Key("k")}, "Debounce needs a Delay"},
			"both":                     {[]spool.JobOption{spool.Debounce(), spool.Replace(), spool.Key("k"), spool.Delay(1)}, "use one"},
		} {
			_, err := greet.Enqueue(b.ctx, b.Client, "x", c.opts...)
			if !errors.Is(err, spool.ErrInvalid) {
				b.Errorf("%s: error is %v", name, err)
				continue
			}
			wantText(b, err.Error(), c.part)
		}
		want(b, "enqueued", b.totals().Enqueued, 0)
		// Of no key there is nothing to hold.
		some := spool.Define[string]("some", spool.KeyWindow(time.Hour), spool.Replace(), spool.KeyBy(func(s string) string { return s }))
		_, err := some.Enqueue(b.ctx, b.Client, "")
		b.must(err)
		// The call decides before the task.
		task := spool.Define[string]("t", spool.Replace())
		_, err = task.Enqueue(b.ctx, b.Client, "x", spool.Key("k"), spool.Debounce(), spool.Delay(time.Hour))
		b.must(err)
	})
}

func TestAChainOfFollowUpsHasAnEnd(t *testing.T) {
	task := spool.Define[int]("t", kept, spool.MaxAttempts(1))
	bubble(t, func(b *bench) {
		runs, refused := 0, error(nil)
		first := b.add(task.With(0))
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
			task.Handle(w, func(ctx context.Context, n int) error {
				runs++
				l := spool.LeaseFrom(ctx)
				if runs == 500 { // it adds the same as Enqueue
					added, err := task.EnqueueMany(ctx, l, slices.Values([]int{n + 1}))
					want(b, "recorded", added, 1)
					return err
				}
				_, err := task.Enqueue(ctx, l, n+1)
				if err != nil {
					refused = err
					_, many := task.EnqueueMany(ctx, l, slices.Values([]int{1}))
					b.wantErr(many, spool.ErrInvalid)
				}
				return err
			})
		})
		want(b, "runs", runs, 1001) // the first and 1,000 follow-ups
		b.wantErr(refused, spool.ErrInvalid)
		wantText(b, refused.Error(), "follow-up 1000 of its chain", "schedule")
		want(b, "depth of the first", b.job(first).Headers["spool.depth"], "")
		for j, err := range b.List(b.ctx, spool.Filter{States: []spool.State{spool.Dead}}) {
			b.must(err)
			want(b, "the last", line(string(j.Payload), j.Headers["spool.depth"]), "1000 1000")
		}
		// What is enqueued through the client begins anew.
		b.add(task.With(7))
		want(b, "enqueued", b.totals().Enqueued, 1002)
	})
}
