package spool_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

var greet = spool.Define[string]("greet")

func TestOptionsReachTheStore(t *testing.T) {
	bubble(t, func(b *bench) {
		at := time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
		id := b.add(greet.With("ada", spool.Queue("mail"), spool.Priority(-7), spool.At(at), spool.Tenant("acme"), spool.Group("g"),
			spool.Key("k"), spool.MaxAttempts(3), spool.Timeout(time.Minute), spool.StartWithin(time.Hour), spool.Retain(2*time.Hour),
			spool.Header("trace", "1"), spool.Header("lang", "en")))
		j := b.wantState(id, spool.Scheduled)
		want(b, "queue", j.Queue, "mail")
		want(b, "task", j.Task, "greet")
		want(b, "priority", j.Priority, -7)
		want(b, "run-at", j.RunAt.UTC(), at)
		want(b, "tenant and group", j.Tenant+" "+j.Group, "acme g")
		want(b, "key", j.Key, "k")
		want(b, "max attempts", j.MaxAttempts, 3)
		want(b, "times", fmt.Sprint(j.Timeout, j.StartWithin, j.Retain), "1m0s 1h0m0s 2h0m0s")
		want(b, "headers", fmt.Sprint(j.Headers), "map[lang:en spool.codec:json spool.version:1 trace:1]")
		want(b, "payload", string(j.Payload), `"ada"`)
	})
}

func TestDefaults(t *testing.T) {
	bubble(t, func(b *bench) {
		j := b.wantState(b.add(greet.With("ada")), spool.Ready)
		want(b, "queue", j.Queue, "default")
		want(b, "max attempts", j.MaxAttempts, 20)
		want(b, "timeout", j.Timeout, 0)
	})
}

func TestTheCallDecidesBeforeTheTask(t *testing.T) {
	task := spool.Define[string]("t", spool.Queue("a"), spool.MaxAttempts(3), spool.Timeout(time.Minute), spool.Delay(time.Hour),
		spool.Header("h", "task"), spool.Header("only", "task"), spool.Tenant("task"),
		spool.GroupBy(func(s string) string { return "by " + s }), spool.KeyBy(func(s string) string { return s }))
	bubble(t, func(b *bench) {
		j := b.job(b.add(task.With("x")))
		want(b, "of the task", line(j.Queue, j.MaxAttempts, j.Timeout, j.State, j.Headers["h"], j.Tenant, j.Group, j.Key), "a 3 1m0s scheduled task task by x x")
		j = b.job(b.add(task.With("y", spool.Queue("b"), spool.MaxAttempts(4), spool.Timeout(0), spool.At(time.Now()),
			spool.Header("h", "call"), spool.Tenant("call"), spool.Group(""), spool.Key("k"))))
		want(b, "of the call", line(j.Queue, j.MaxAttempts, j.Timeout, j.State, j.Headers["h"], j.Headers["only"], j.Tenant, j.Group, j.Key),
			"b 4 0s ready call task call  k")
		j = b.job(b.add(task.With("z", spool.Delay(0))))
		want(b, "state without the task's delay", j.State, spool.Ready)
		want(b, "the task's header is its own", j.Headers["h"], "task")
	})
}

func TestBadInputIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	at := spool.At(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name string
		opts []spool.JobOption
		part string
	}{
		{"an empty queue name", []spool.JobOption{spool.Queue("")}, "queue name is empty"},
		{"a queue name that climbs", []spool.JobOption{spool.Queue("../x")}, "queue name"},
		{"a queue name with a space", []spool.JobOption{spool.Queue("a b")}, "position 2"},
		{"a long queue name", []spool.JobOption{spool.Queue(long)}, "allowed are 1 to 128"},
		{"a negative delay", []spool.JobOption{spool.Delay(-1)}, "delay -1ns is negative"},
		{"a delay beyond 100 years", []spool.JobOption{spool.Delay(math.MaxInt64)}, "longer than 100 years"},
		{"delay with at", []spool.JobOption{spool.Delay(1), at}, "both a delay"},
		{"at with delay", []spool.JobOption{at, spool.Delay(1)}, "both a delay"},
		{"a zero time", []spool.JobOption{spool.At(time.Time{})}, "zero"},
		{"a time before 1970", []spool.JobOption{spool.At(time.Unix(-1e9, 0))}, "1970 to 2200"},
		{"no attempts", []spool.JobOption{spool.MaxAttempts(0)}, "max attempts is 0"},
		{"negative attempts", []spool.JobOption{spool.MaxAttempts(-1)}, "max attempts is -1"},
		{"a negative timeout", []spool.JobOption{spool.Timeout(-1)}, "timeout -1ns is negative"},
		{"a negative start-within", []spool.JobOption{spool.StartWithin(-1)}, "start-within"},
		{"an empty key", []spool.JobOption{spool.Key("")}, "key is empty"},
		{"a long key", []spool.JobOption{spool.Key(long)}, "key has 300 bytes"},
		{"an empty key window", []spool.JobOption{spool.Key("k"), spool.KeyWindow(0)}, "key window 0s"},
		{"a long tenant", []spool.JobOption{spool.Tenant(long)}, "tenant has 300 bytes"},
		{"a header of ours", []spool.JobOption{spool.Header("spool.codec", "x")}, "spool."},
		{"a header without a name", []spool.JobOption{spool.Header("", "x")}, "header name"},
		{"large headers", []spool.JobOption{spool.Header("h", strings.Repeat("x", 9000))}, "headers have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				for _, s := range []spool.Spec{greet.With("x", c.opts...), spool.Raw("greet", nil, c.opts...)} {
					_, err := b.Enqueue(b.ctx, greet.With("good"), s)
					if !errors.Is(err, spool.ErrInvalid) && !errors.Is(err, spool.ErrTooLarge) {
						b.Fatalf("error is %v", err)
					}
					wantText(b, err.Error(), c.part, "job 2 of 2", "greet")
				}
				n, err := greet.EnqueueMany(b.ctx, b.Client, slices.Values([]string{"x"}), c.opts...)
				if err == nil || n != 0 {
					b.Fatal("EnqueueMany took it")
				}
				want(b, "enqueued", b.totals().Enqueued, 0)
			})
			defer func() {
				if p := recover(); p == nil {
					t.Fatal("Define took it")
				}
			}()
			opts := make([]spool.TaskOption, len(c.opts))
			for i, o := range c.opts {
				opts[i] = o
			}
			spool.Define[string]("greet", opts...)
		})
	}
}

func TestBadTasksPanicWhenTheyAreDefined(t *testing.T) {
	for name, define := range map[string]func(){
		"an empty name":             func() { spool.Define[int]("") },
		"a name with a slash":       func() { spool.Define[int]("a/b") },
		"a key for all jobs":        func() { spool.Define[int]("t", spool.Key("k")) },
		"a selector of other types": func() { spool.Define[int]("t", spool.KeyBy(func(string) string { return "" })) },
		"a nil selector":            func() { spool.Define[int]("t", spool.TenantBy[int](nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				p := recover()
				if s, ok := p.(string); !ok || !strings.HasPrefix(s, "spool: Define(") {
					t.Fatalf("panicked with %v", p)
				}
			}()
			define()
		})
	}
}

func TestArgumentsThatCannotBeEncodedAreRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		_, err := greet.Enqueue(b.ctx, b.Client, "a\xff")
		b.wantErr(err, spool.ErrInvalid)
		wantText(b, err.Error(), "greet", "UTF-8")
		_, err = spool.Define[float64]("f").Enqueue(b.ctx, b.Client, math.NaN())
		b.wantErr(err, spool.ErrInvalid)
		want(b, "enqueued", b.totals().Enqueued, 0)
	})
}

func TestPayloadsHaveALimit(t *testing.T) {
	bubbleWith(t, spool.Config{PayloadMax: 10}, func(b *bench) {
		b.add(spool.Raw("t", make([]byte, 10)))
		_, err := b.Enqueue(b.ctx, spool.Raw("t", make([]byte, 11)))
		b.wantErr(err, spool.ErrTooLarge)
		want(b, "enqueued", b.totals().Enqueued, 1)
	})
	bubble(t, func(b *bench) {
		b.add(spool.Raw("t", make([]byte, 1<<20)))
		_, err := b.Enqueue(b.ctx, spool.Raw("t", make([]byte, 1<<20+1)))
		b.wantErr(err, spool.ErrTooLarge)
	})
}

func TestACallHasALimit(t *testing.T) {
	bubble(t, func(b *bench) {
		specs := make([]spool.Spec, b.Broker().Caps().MaxBatch+1)
		for i := range specs {
			specs[i] = spool.Raw("t", nil)
		}
		_, err := b.Enqueue(b.ctx, specs...)
		b.wantErr(err, spool.ErrTooLarge)
		for i := range specs[:9] {
			specs[i] = spool.Raw("t", make([]byte, 1<<20))
		}
		_, err = b.Enqueue(b.ctx, specs[:9]...)
		b.wantErr(err, spool.ErrTooLarge)
		want(b, "enqueued", b.totals().Enqueued, 0)
		_, err = b.Enqueue(b.ctx, specs[9:]...)
		b.must(err)
	})
}

func TestEnqueueOfSeveralQueues(t *testing.T) {
	bubble(t, func(b *bench) {
		mixed := []spool.Spec{
			greet.With("1", spool.Queue("a")), spool.Raw("other", nil, spool.Queue("b")),
			greet.With("2", spool.Queue("a")), greet.With("3", spool.Queue("c")),
		}
		answers, err := b.Enqueue(b.ctx, mixed...)
		b.must(err)
		var got []string
		for _, e := range answers {
			j := b.job(e.ID)
			got = append(got, j.Queue+j.Task+string(j.Payload))
		}
		want(b, "jobs in order", strings.Join(got, " "), `agreet"1" bother agreet"2" cgreet"3"`)

		b.broker.set(func() {
			b.broker.enqueue = func(queue string, _ []broker.NewJob) error {
				if queue == "b" {
					return errDisk
				}
				return nil
			}
		})
		answers, err = b.Enqueue(b.ctx, mixed...)
		b.wantErr(err, errDisk)
		wantText(b, err.Error(), "enqueue to b")
		for i, added := range []bool{true, false, true, false} {
			want(b, fmt.Sprintf("job %d was added", i), !answers[i].ID.IsZero(), added)
		}
	})
}

func TestAKeyMakesEnqueueIdempotent(t *testing.T) {
	task := spool.Define[number]("t", spool.KeyBy(func(n number) string {
		if n.N < 0 {
			return ""
		}
		return fmt.Sprint(n.N)
	}))
	bubble(t, func(b *bench) {
		first, err := task.Enqueue(b.ctx, b.Client, number{1})
		b.must(err)
		again, err := task.Enqueue(b.ctx, b.Client, number{1})
		b.must(err)
		want(b, "again", again, spool.Enqueued{ID: first.ID, Existing: true})
		other, err := task.Enqueue(b.ctx, b.Client, number{2}, spool.Key("1"))
		b.must(err)
		want(b, "with another payload", other, spool.Enqueued{ID: first.ID, Existing: true, Differs: true})
		for range 2 {
			e, err := task.Enqueue(b.ctx, b.Client, number{-1})
			b.must(err)
			want(b, "without a key", e.Existing, false)
		}
		// Held until final: after the ack a repeat is a new job.
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) { task.Handle(w, func(context.Context, number) error { return nil }) })
		again, err = task.Enqueue(b.ctx, b.Client, number{1})
		b.must(err)
		want(b, "after the end", again.Existing, false)
	})
}

func TestKeyHolds(t *testing.T) {
	for _, c := range []struct {
		name                    string
		hold                    spool.JobOption
		running, ended, expired bool // does the key hold
	}{
		{"until started", spool.KeyUntilStarted(), false, false, false},
		{"for a time", spool.KeyWindow(time.Hour), true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				holds := func(when string, want bool) {
					b.Helper()
					e, err := greet.Enqueue(b.ctx, b.Client, "x", spool.Key("k"), c.hold)
					b.must(err)
					if e.Existing != want {
						b.Fatalf("%s the key holds: %v, want %v", when, e.Existing, want)
					}
					if !e.Existing { // take the new one away
						_, err := b.Delete(b.ctx, spool.Filter{IDs: []spool.ID{e.ID}})
						b.must(err)
					}
				}
				b.add(greet.With("x", spool.Key("k"), c.hold))
				b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
					greet.Handle(w, func(context.Context, string) error { holds("in the run", c.running); return nil })
				})
				holds("after the run", c.ended)
				b.sleep(time.Hour)
				holds("after an hour", c.expired)
			})
		})
	}
}

func counted(n int, yielded *int) iter.Seq[number] {
	return func(yield func(number) bool) {
		for i := range n {
			*yielded++
			if !yield(number{i}) {
				return
			}
		}
	}
}

func TestEnqueueManyCommitsInChunks(t *testing.T) {
	task := spool.Define[number]("t")
	bubble(t, func(b *bench) {
		var chunks []int
		b.broker.enqueue = func(_ string, jobs []broker.NewJob) error {
			chunks = append(chunks, len(jobs))
			return nil
		}
		yielded := 0
		n, err := task.EnqueueMany(b.ctx, b.Client, counted(25_000, &yielded))
		b.must(err)
		want(b, "durable", n, 25_000)
		want(b, "chunks", fmt.Sprint(chunks), "[10000 10000 5000]")

		chunks = nil
		n, err = spool.Define[[]byte]("big").EnqueueMany(b.ctx, b.Client, slices.Values(slices.Repeat([][]byte{make([]byte, 1<<20)}, 20)))
		b.must(err)
		want(b, "durable", n, 20)
		want(b, "chunks by bytes", fmt.Sprint(chunks), "[7 7 6]")
	})
}

func TestEnqueueManySaysHowManyAreDurable(t *testing.T) {
	task := spool.Define[number]("t")
	bubble(t, func(b *bench) {
		b.broker.enqueue = func(_ string, jobs []broker.NewJob) error {
			if b.totals().Enqueued > 0 {
				return errDisk
			}
			return nil
		}
		yielded := 0
		n, err := task.EnqueueMany(b.ctx, b.Client, counted(50_000, &yielded))
		b.wantErr(err, errDisk)
		want(b, "durable", n, 10_000)
		want(b, "in the store", b.totals().Enqueued, 10_000)
		want(b, "values read", yielded, 20_001)

		b.broker.enqueue = nil
		n, err = greet.EnqueueMany(b.ctx, b.Client, slices.Values([]string{"a", "b\xff", "c"}))
		b.wantErr(err, spool.ErrInvalid)
		wantText(b, err.Error(), "job 2")
		want(b, "durable before a bad value", n, 0)
		n, err = greet.EnqueueMany(b.ctx, b.Client, slices.Values([]string{"a"}), spool.Key("k"))
		b.wantErr(err, spool.ErrInvalid)
		want(b, "durable with one key", n, 0)
		n, err = greet.EnqueueMany(b.ctx, b.Client, slices.Values([]string(nil)))
		b.must(err)
		want(b, "durable of nothing", n, 0)
	})
}

// fakeEnqueuer is what users write to test their producers.
type fakeEnqueuer struct{ specs []spool.Spec }

func (f *fakeEnqueuer) Enqueue(_ context.Context, jobs ...spool.Spec) ([]spool.Enqueued, error) {
	f.specs = append(f.specs, jobs...)
	return make([]spool.Enqueued, len(jobs)), nil
}

func TestAFakeEnqueuerSeesWhatIsEnqueued(t *testing.T) {
	var f fakeEnqueuer
	if _, err := greet.Enqueue(t.Context(), &f, "ada", spool.Key("k"), spool.Queue("q")); err != nil {
		t.Fatal(err)
	}
	s := f.specs[0]
	want(t, "job", line(s.Task(), s.Queue(), s.Key(), s.Args()), "greet q k ada")
	yielded := 0
	n, err := spool.Define[number]("t").EnqueueMany(t.Context(), &f, counted(2500, &yielded))
	if err != nil || n != 2500 || len(f.specs) != 2501 || f.specs[2500].Args() != (number{2499}) {
		t.Fatal(n, err, len(f.specs))
	}
}

func TestInterceptorsWrapEveryEnqueue(t *testing.T) {
	var trace []string
	mark := func(name string) func(spool.EnqueueFunc) spool.EnqueueFunc {
		return func(next spool.EnqueueFunc) spool.EnqueueFunc {
			return func(ctx context.Context, queue string, jobs []broker.NewJob) ([]spool.Enqueued, error) {
				trace = append(trace, fmt.Sprintf("%s:%s:%d", name, queue, len(jobs)))
				for i := range jobs {
					jobs[i].Headers["by"] += name
					if jobs[i].Task == "bad" {
						jobs[i].Task = ""
					}
				}
				if queue == "no" {
					return nil, errDisk
				}
				return next(ctx, queue, jobs)
			}
		}
	}
	bubbleWith(t, spool.Config{OnEnqueue: []func(spool.EnqueueFunc) spool.EnqueueFunc{mark("a"), mark("b")}}, func(b *bench) {
		answers, err := b.Enqueue(b.ctx, greet.With("1"), greet.With("2"), greet.With("3", spool.Queue("q")))
		b.must(err)
		for _, e := range answers {
			want(b, "header", b.job(e.ID).Headers["by"], "ab")
		}
		_, err = greet.EnqueueMany(b.ctx, b.Client, slices.Values([]string{"4", "5"}))
		b.must(err)
		_, err = greet.Enqueue(b.ctx, b.Client, "6", spool.Queue("no"))
		b.wantErr(err, errDisk)
		_, err = b.Enqueue(b.ctx, spool.Raw("bad", nil, spool.Queue("q")))
		b.wantErr(err, spool.ErrInvalid)
		want(b, "calls", strings.Join(trace, " "), "a:default:2 b:default:2 a:q:1 b:q:1 a:default:2 b:default:2 a:no:1 a:q:1 b:q:1")

		trace = nil
		var follow spool.ID
		b.drain(spool.WorkerConfig{Queues: []spool.QueueConfig{{Name: "q"}}}, func(w *spool.Worker) {
			greet.Handle(w, func(ctx context.Context, _ string) error {
				e, err := greet.Enqueue(ctx, spool.LeaseFrom(ctx), "7")
				follow = e.ID
				return err
			})
		})
		want(b, "calls of a follow-up", strings.Join(trace, " "), "a:default:1 b:default:1")
		want(b, "header of a follow-up", b.job(follow).Headers["by"], "ab")
	})
}

func TestAnAlteredHeaderMapHarmsNoOtherJob(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(greet.With("1"))
		j := b.job(id)
		clear(j.Headers)
		j = b.job(b.add(greet.With("2")))
		want(b, "headers", len(maps.Clone(j.Headers)), 2)
	})
}

func TestACallWithALostReplyIsMadeAgain(t *testing.T) {
	bubble(t, func(b *bench) {
		b.broker.retry = 2 * time.Minute
		c := spool.New(b.broker, spool.Config{})
		lost := 0
		b.broker.enqueue = func(string, []broker.NewJob) error {
			if lost < 3 {
				lost++
				return fmt.Errorf("reply: %w", spool.ErrUnknown)
			}
			return nil
		}
		_, err := greet.Enqueue(b.ctx, c, "x")
		b.must(err)
		want(b, "lost replies", lost, 3)

		b.broker.enqueue = func(string, []broker.NewJob) error { return spool.ErrUnknown }
		start := time.Now()
		_, err = greet.Enqueue(b.ctx, c, "x")
		b.wantErr(err, spool.ErrUnknown)
		if d := time.Since(start); d < 100*time.Second || d > 2*time.Minute {
			b.Fatalf("gave up after %v", d)
		}
		_, err = greet.Enqueue(b.ctx, b.Client, "x") // of a broker that cannot recognise a repeat
		b.wantErr(err, spool.ErrUnknown)
	})
}
