package spool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

func (b *bench) list(f spool.Filter) string {
	b.Helper()
	var got []string
	for j, err := range b.List(b.ctx, f) {
		b.must(err)
		got = append(got, strings.Trim(string(j.Payload), `"`))
	}
	return strings.Join(got, " ")
}

// scene has jobs in five states of two queues.
func scene(b *bench) (ids map[string]spool.ID) {
	ids = map[string]spool.ID{}
	put := func(s string, opts ...spool.JobOption) { ids[s] = b.add(instant.With(s, opts...)) }
	put("dead", spool.Queue("a"))
	put("done", spool.Queue("a"), kept)
	put("cancelled", spool.Queue("b"))
	b.drain(one, func(w *spool.Worker) {
		instant.Handle(w, func(_ context.Context, in string) error {
			return map[string]error{"dead": spool.Bury(errUser), "cancelled": spool.Cancel(nil)}[in]
		})
	})
	put("ready1", spool.Queue("b"))
	put("ready2", spool.Queue("a"), spool.Tenant("acme"))
	put("scheduled", spool.Queue("a"), spool.Delay(time.Hour))
	return ids
}

func TestListWalksQueuesAndStates(t *testing.T) {
	bubble(t, func(b *bench) {
		ids := scene(b)
		for _, c := range []struct {
			name string
			f    spool.Filter
			want string
		}{
			{"all", spool.Filter{}, "scheduled ready2 done dead ready1 cancelled"},
			{"one queue", spool.Filter{Queue: "b"}, "ready1 cancelled"},
			{"some states", spool.Filter{States: []spool.State{spool.Dead, spool.Ready}}, "dead ready2 ready1"},
			{"a tenant", spool.Filter{Tenant: "acme"}, "ready2"},
			{"ids", spool.Filter{IDs: []spool.ID{ids["done"], ids["ready1"]}}, "done ready1"},
			{"no ids", spool.Filter{IDs: []spool.ID{}}, ""},
			{"a part of the error", spool.Filter{ErrorContains: "user's"}, "dead"},
			{"another task", spool.Filter{Task: "none"}, ""},
		} {
			want(b, c.name, b.list(c.f), c.want)
		}
		for range b.List(b.ctx, spool.Filter{}) {
			break // and nothing breaks
		}
	})
}

func TestListGoesOnFromPageToPage(t *testing.T) {
	bubble(t, func(b *bench) {
		var names []string
		for i := range 1001 {
			names = append(names, fmt.Sprint(i))
			b.add(instant.With(names[i]))
		}
		want(b, "jobs", b.list(spool.Filter{}), strings.Join(names, " "))
	})
}

func TestListYieldsAnError(t *testing.T) {
	bubble(t, func(b *bench) {
		b.add(instant.With("x"))
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		errs := 0
		for _, err := range b.List(ctx, spool.Filter{}) {
			b.wantErr(err, context.Canceled)
			errs++
		}
		want(b, "errors", errs, 1)
	})
}

func TestGetAsksEachQueue(t *testing.T) {
	bubble(t, func(b *bench) {
		_, err := b.Get(b.ctx, broker.NewID())
		b.wantErr(err, spool.ErrNotFound)
		for name, id := range scene(b) {
			want(b, "payload", string(b.job(id).Payload), `"`+name+`"`)
		}
		_, err = b.Get(b.ctx, broker.NewID())
		b.wantErr(err, spool.ErrNotFound)
		_, err = b.Explain(b.ctx, broker.NewID())
		b.wantErr(err, spool.ErrNotFound)
	})
}

func TestCommandsChangeWhatTheFilterChooses(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(b *bench, f spool.Filter) (int, error)
		filter spool.Filter
		n      int
		after  map[spool.State]string
	}{
		{"cancel all", func(b *bench, f spool.Filter) (int, error) { return b.Cancel(b.ctx, f) }, spool.Filter{}, 3,
			map[spool.State]string{spool.Cancelled: "scheduled ready2 cancelled ready1", spool.Ready: "", spool.Dead: "dead"}},
		{"cancel of a queue", func(b *bench, f spool.Filter) (int, error) { return b.Cancel(b.ctx, f) }, spool.Filter{Queue: "b"}, 1,
			map[spool.State]string{spool.Cancelled: "cancelled ready1"}},
		{"requeue of the dead", func(b *bench, f spool.Filter) (int, error) { return b.Requeue(b.ctx, f) }, spool.Filter{States: []spool.State{spool.Dead}}, 1,
			map[spool.State]string{spool.Ready: "ready2 dead ready1", spool.Dead: "", spool.Cancelled: "cancelled"}},
		{"requeue by error", func(b *bench, f spool.Filter) (int, error) { return b.Requeue(b.ctx, f) }, spool.Filter{ErrorContains: "nothing like it"}, 0,
			map[spool.State]string{spool.Dead: "dead"}},
		{"delete of a state", func(b *bench, f spool.Filter) (int, error) { return b.Delete(b.ctx, f) }, spool.Filter{States: []spool.State{spool.Ready}}, 2,
			map[spool.State]string{spool.Ready: "", spool.Dead: "dead", spool.Done: "done", spool.Scheduled: "scheduled"}},
		{"delete of no ids", func(b *bench, f spool.Filter) (int, error) { return b.Delete(b.ctx, f) }, spool.Filter{IDs: []spool.ID{}}, 0,
			map[spool.State]string{spool.Dead: "dead", spool.Done: "done"}},
		{"delete all", func(b *bench, f spool.Filter) (int, error) { return b.Delete(b.ctx, f) }, spool.Filter{}, 6,
			map[spool.State]string{spool.Ready: "", spool.Dead: "", spool.Done: ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				scene(b)
				n, err := c.do(b, c.filter)
				b.must(err)
				want(b, "changed", n, c.n)
				for s, jobs := range c.after {
					want(b, s.String(), b.list(spool.Filter{States: []spool.State{s}}), jobs)
				}
			})
		})
	}
}

func TestCommandsAreRepeatedUntilTheyAreFinished(t *testing.T) {
	bubble(t, func(b *bench) {
		yielded := 0
		_, err := spool.Define[number]("n").EnqueueMany(b.ctx, b.Client, counted(2500, &yielded))
		b.must(err)
		n, err := b.Cancel(b.ctx, spool.Filter{Task: "n"})
		b.must(err)
		want(b, "cancelled", n, 2500)
		n, err = b.Apply(b.ctx, broker.Command{Kind: broker.DeleteJobs, Filter: spool.Filter{Queue: "default"}, Limit: 7})
		b.must(err)
		want(b, "deleted", n, 2500)
	})
}

func TestPauseNeedsAQueue(t *testing.T) {
	bubble(t, func(b *bench) {
		b.wantErr(b.Pause(b.ctx, ""), spool.ErrInvalid)
		b.wantErr(b.Resume(b.ctx, "a/b"), spool.ErrInvalid)
	})
}

func TestWhatTheStoreTells(t *testing.T) {
	bubble(t, func(b *bench) {
		events, err := b.Watch(b.ctx, spool.Filter{Task: "t"})
		b.must(err)
		ids := scene(b)
		want(b, "first event", (<-events).ID, ids["dead"])
		e, err := b.Explain(b.ctx, ids["ready1"])
		b.must(err)
		want(b, "reason", e.Reason, broker.WhyNoWorker)
		h, err := b.Health(b.ctx)
		b.must(err)
		want(b, "health", h.Status, broker.Healthy)
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Name: "w", Queues: []spool.QueueConfig{{Name: "none"}}})
		instant.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		synctest.Wait()
		workers, err := b.Workers(b.ctx, "none")
		b.must(err)
		want(b, "workers", len(workers), 1)
		counts, err := b.Counts(b.ctx, "a")
		b.must(err)
		want(b, "counts", line(len(counts), counts[0].Ready, counts[0].Scheduled, counts[0].Dead, counts[0].Done), "1 1 1 1 1")
	})
}
