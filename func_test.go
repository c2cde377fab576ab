package spool_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

var half = spool.DefineFunc[float64, float64]("half", spool.Backoff(spool.Exponential{First: time.Second, Factor: 1, Jitter: -1}))

func halve(_ context.Context, in float64) (float64, error) {
	switch {
	case in < 0:
		return 0, spool.Bury(errUser)
	case in > 1e6:
		return math.Inf(1), nil
	}
	return in / 2, nil
}

func TestAResultIsAwaited(t *testing.T) {
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		half.Handle(w, halve)
		b.start(w)
		b.must(b.Pause(b.ctx, "default"))
		time.AfterFunc(time.Hour, func() { b.must(b.Resume(b.ctx, "default")) })
		p, err := half.Enqueue(b.ctx, b.Client, 3)
		b.must(err)
		out, err := p.Await(b.ctx) // waits as long as it takes
		b.must(err)
		want(b, "result", out, 1.5)
		out, err = half.Await(b.ctx, b.Client, p.ID) // of any process, by id
		b.must(err)
		want(b, "result", out, 1.5)

		again, err := half.Enqueue(b.ctx, b.Client, 4, spool.Key("k"), spool.Delay(time.Minute))
		b.must(err)
		same, err := half.Enqueue(b.ctx, b.Client, 4, spool.Key("k"))
		b.must(err)
		want(b, "existing", same.Existing && same.ID == again.ID, true)
		out, err = same.Await(b.ctx)
		b.must(err)
		want(b, "result of the existing job", out, 2)
		b.must(b.stopAll())

		b.sleep(59 * time.Minute)
		_, err = b.Broker().Maintain(b.ctx)
		b.must(err)
		_, err = same.Await(b.ctx)
		b.must(err)
		b.sleep(2 * time.Minute) // a result is kept for an hour
		_, err = b.Broker().Maintain(b.ctx)
		b.must(err)
		_, err = same.Await(b.ctx)
		b.wantErr(err, spool.ErrNotFound)
		_, err = half.Await(b.ctx, b.Client, p.ID)
		b.wantErr(err, spool.ErrNotFound)
	})
}

func TestAJobWithoutAResultGivesAJobError(t *testing.T) {
	for _, c := range []struct {
		name  string
		add   func(b *bench) spool.ID
		state spool.State
		part  string
	}{
		{"buried", func(b *bench) spool.ID { return b.add(half.With(-1)) }, spool.Dead, "is dead (buried): user's error"},
		{"out of attempts", func(b *bench) spool.ID { return b.add(half.With(2e6, spool.MaxAttempts(2))) }, spool.Dead, "is dead (attempts): "},
		{"cancelled", func(b *bench) spool.ID {
			id := b.add(half.With(1, spool.Delay(time.Hour)))
			_, err := b.Cancel(b.ctx, spool.Filter{IDs: []spool.ID{id}})
			b.must(err)
			return id
		}, spool.Cancelled, "is cancelled (cancelled)"},
		{"acked without a result", func(b *bench) spool.ID {
			id := b.add(half.With(1, kept))
			leases, err := b.Claim(b.ctx, broker.ClaimRequest{})
			b.must(err)
			b.must(leases[0].Ack(b.ctx, nil))
			return id
		}, spool.Done, "is done without a result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := c.add(b)
				w := spool.NewWorker(b.Client, spool.WorkerConfig{})
				half.Handle(w, halve)
				b.start(w)
				_, err := half.Await(b.ctx, b.Client, id)
				var je *spool.JobError
				if !errors.As(err, &je) || je.Job.ID != id || je.Job.State != c.state {
					b.Fatalf("error is %v", err)
				}
				wantText(b, err.Error(), id.String(), c.part)
			})
		})
	}
}

func TestAResultThatCannotBeKeptIsAFailedAttempt(t *testing.T) {
	big := spool.DefineFunc[int, []byte]("big", spool.MaxAttempts(1))
	bubbleWith(t, spool.Config{PayloadMax: 100}, func(b *bench) {
		var kinds []broker.SettleKind
		cfg := spool.WorkerConfig{Concurrency: 1, Hooks: spool.Hooks{Finished: func(_ *spool.Lease, o spool.Outcome) { kinds = append(kinds, o.Kind) }}}
		odd, large := b.add(half.With(2e6, spool.MaxAttempts(1))), b.add(big.With(101))
		b.drain(cfg, func(w *spool.Worker) {
			half.Handle(w, halve)
			big.Handle(w, func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
		})
		wantText(b, b.wantState(odd, spool.Dead).Error, "result: ", "unsupported value")
		wantText(b, b.wantState(large, spool.Dead).Error, "result has 101 bytes, the limit is 100")
		want(b, "told to the hooks", line(kinds), "[nack nack]")
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	bubble(t, func(b *bench) {
		p, err := half.Enqueue(b.ctx, b.Client, 1)
		b.must(err)
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
		defer cancel()
		start := time.Now()
		_, err = p.Await(ctx)
		b.wantErr(err, context.DeadlineExceeded)
		want(b, "took", time.Since(start), 5*time.Minute)
	})
}

func TestAwaitOfAFollowUpNeedsAClient(t *testing.T) {
	bubble(t, func(b *bench) {
		b.add(instant.With("x"))
		var p spool.Pending[float64]
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		half.Handle(w, halve)
		instant.Handle(w, func(ctx context.Context, _ string) (err error) {
			p, err = half.Enqueue(ctx, spool.LeaseFrom(ctx), 5)
			b.must(err)
			_, err = p.Await(ctx)
			b.wantErr(err, spool.ErrUnsupported)
			return nil
		})
		b.start(w)
		synctest.Wait()
		out, err := half.Await(b.ctx, b.Client, p.ID)
		b.must(err)
		want(b, "result", out, 2.5)
	})
}
