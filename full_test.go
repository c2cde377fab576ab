package spool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// capTo gives a queue a capacity.
func (b *bench) capTo(queue string, c broker.Capacity) {
	b.Helper()
	b.must(b.Configure(b.ctx, queue, broker.Change{Set: []broker.Setting{{Kind: broker.CapacitySetting, Capacity: &c}}}))
}

func TestAFullQueueRejects(t *testing.T) {
	bubble(t, func(b *bench) {
		b.capTo("default", broker.Capacity{Jobs: 2})
		b.add(greet.With("1"))
		_, err := b.Enqueue(b.ctx, greet.With("2"), greet.With("3"))
		b.wantErr(err, spool.ErrFull)
		var full *spool.FullError
		if !errors.As(err, &full) || full.Queue != "default" || full.RetryAfter <= 0 {
			b.Fatalf("error is %v", err)
		}
		want(b, "enqueued", b.totals().Enqueued, 1)
		b.add(greet.With("2"))
		// Follow-ups, and what takes no room, go on.
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
			greet.Handle(w, func(ctx context.Context, s string) error {
				if len(s) > 1 {
					return nil
				}
				_, err := spool.LeaseFrom(ctx).Enqueue(ctx, greet.With(s+s), greet.With(s+s), greet.With(s+s))
				return err
			})
		})
		want(b, "acked", b.totals().Acked, 8)
	})
}

func TestAClientCanWaitForRoom(t *testing.T) {
	bubbleWith(t, spool.Config{WhenFull: spool.Block}, func(b *bench) {
		b.capTo("default", broker.Capacity{Jobs: 2})
		first := b.add(greet.With("1"))
		b.add(greet.With("2"))
		start := time.Now()
		var took time.Duration
		done := make(chan error, 1)
		go func() {
			_, err := b.Enqueue(b.ctx, greet.With("3"))
			took = time.Since(start)
			done <- err
		}()
		b.sleep(10 * time.Second)
		want(b, "enqueued", b.totals().Enqueued, 2)
		_, err := b.Delete(b.ctx, spool.Filter{IDs: []spool.ID{first}})
		b.must(err)
		b.must(<-done)
		if took > 12*time.Second {
			b.Errorf("it waited %v, there was room after 10 s", took)
		}

		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		defer cancel()
		start = time.Now()
		_, err = b.Enqueue(ctx, greet.With("4"))
		want(b, "waited", time.Since(start), 5*time.Second)
		b.wantErr(err, context.DeadlineExceeded)
		b.wantErr(err, spool.ErrFull)
	})
}

func TestEnqueueManyWaitsForRoomPieceByPiece(t *testing.T) {
	task := spool.Define[number]("t")
	bubbleWith(t, spool.Config{WhenFull: spool.Block}, func(b *bench) {
		b.capTo("default", broker.Capacity{Jobs: 100}) // less than a chunk has
		var depth notes[int64]
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		task.Handle(w, func(_ context.Context, n number) error {
			counts, err := b.Counts(b.ctx, "default")
			depth.add(counts[0].Depth)
			return err
		})
		b.start(w)
		synctest.Wait()
		yielded := 0
		n, err := task.EnqueueMany(b.ctx, b.Client, counted(1000, &yielded))
		b.must(err)
		want(b, "durable", n, 1000)
		b.sleep(time.Second)
		want(b, "acked", b.totals().Acked, 1000)
		if most := slices.Max(depth.all()); most > 100 || most < 50 {
			b.Errorf("at most %d jobs waited", most)
		}

		// After an error it says how many are durable.
		b.must(b.Pause(b.ctx, "default"))
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		n, err = task.EnqueueMany(ctx, b.Client, counted(1000, &yielded))
		b.wantErr(err, context.DeadlineExceeded)
		want(b, "durable", n, 100)
		want(b, "enqueued", b.totals().Enqueued, 1100)
	})
}

func TestNewRefusesAnUnknownWayToMeetAFullQueue(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New took it")
		}
	}()
	spool.New(nil, spool.Config{WhenFull: 7})
}

func TestJobsThatNeverFitAreRefusedAtOnce(t *testing.T) {
	bubbleWith(t, spool.Config{WhenFull: spool.Block}, func(b *bench) {
		for _, c := range []broker.Capacity{{Jobs: 2}, {Jobs: 2, DropOldest: true}, {Bytes: 10}} {
			b.capTo("default", c)
			_, err := b.Enqueue(b.ctx, greet.With("1"), greet.With("2"), greet.With("3"))
			var full *spool.FullError
			if !errors.As(err, &full) || full.RetryAfter != 0 || !strings.Contains(err.Error(), "never fit") {
				b.Errorf("with %+v the error is %v", c, err)
			}
		}
		want(b, "enqueued", b.totals().Enqueued, 0)
	})
}

func TestAWorkerDeclaresWhatItsQueuesHold(t *testing.T) {
	bubble(t, func(b *bench) {
		worker := func(q spool.QueueConfig) *spool.Worker {
			w := spool.NewWorker(b.Client, spool.WorkerConfig{Name: "app", Queues: []spool.QueueConfig{q}})
			greet.Handle(w, func(context.Context, string) error { return nil })
			return w
		}
		settings := func() (lines []string) {
			all, err := b.Settings(b.ctx, "")
			b.must(err)
			for _, s := range all {
				lines = append(lines, line(s.Queue, s.Kind, s.Name, "by", s.Owner))
			}
			return lines
		}
		stop := b.start(worker(spool.QueueConfig{
			Name: "q", Capacity: &broker.Capacity{Jobs: 1}, TenantCapacity: &broker.Capacity{Jobs: 3},
			Retention: &broker.Retention{Done: time.Hour}, Ageing: time.Minute,
		}))
		synctest.Wait()
		want(b, "settings", strings.Join(settings(), "\n"), "q ageing  by app\nq capacity  by app\nq capacity tenant by app\nq retention  by app")
		_, err := b.Enqueue(b.ctx, greet.With("1", spool.Queue("q")), greet.With("2", spool.Queue("q")))
		b.wantErr(err, spool.ErrFull)
		b.must(stop())
		stop = b.start(worker(spool.QueueConfig{Name: "q", Ageing: time.Hour}))
		synctest.Wait()
		b.must(stop())
		want(b, "settings of the next version", strings.Join(settings(), "\n"), "q ageing  by app")
		defer func() {
			if text := fmt.Sprint(recover()); !strings.Contains(text, "queue q: ") || !strings.Contains(text, "capacity") {
				b.Errorf("a bad capacity: %s", text)
			}
		}()
		worker(spool.QueueConfig{Name: "q", Capacity: &broker.Capacity{Jobs: -1}})
	})
}
