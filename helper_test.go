package spool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// fakeBroker passes calls on, after it has asked the test. A hook that returns
// an error makes the call fail without effect.
type fakeBroker struct {
	broker.Broker
	mu      sync.Mutex
	enqueue func(queue string, jobs []broker.NewJob) error
	claim   func(broker.ClaimRequest) error
	extend  func(broker.ExtendRequest) error
	settle  func([]broker.Settlement) error
	settled func() error // after the call took place
	upkeep  func() (time.Duration, error)
	change  func(broker.Change) error
	tick    func(broker.Tick) error
	behind  time.Duration // what the wall clock that ticks go by is behind
	retry   time.Duration
	max     int // jobs in one call
}

// another returns another client of the store, as another process would be.
func (f *fakeBroker) another() broker.Broker { return f.Broker.(*membroker.Broker).Another() }

func (f *fakeBroker) set(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

func ask[T any](f *fakeBroker, hook *func(T) error, v T) error {
	f.mu.Lock()
	fn := *hook
	f.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn(v)
}

func (f *fakeBroker) Caps() broker.Caps {
	caps := f.Broker.Caps()
	caps.Retry = f.retry
	if f.max > 0 {
		caps.MaxBatch = f.max
	}
	return caps
}

func (f *fakeBroker) Maintain(ctx context.Context) (time.Duration, error) {
	f.mu.Lock()
	hook := f.upkeep
	f.mu.Unlock()
	if hook != nil {
		return hook()
	}
	return f.Broker.Maintain(ctx)
}

func (f *fakeBroker) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	f.mu.Lock()
	hook := f.enqueue
	f.mu.Unlock()
	if hook != nil {
		if err := hook(queue, jobs); err != nil {
			return nil, err
		}
	}
	return f.Broker.Enqueue(ctx, c, queue, jobs)
}

func (f *fakeBroker) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	if err := ask(f, &f.claim, r); err != nil {
		return broker.Claimed{}, err
	}
	return f.Broker.Claim(ctx, c, r)
}

func (f *fakeBroker) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	if err := ask(f, &f.extend, r); err != nil {
		return nil, err
	}
	return f.Broker.Extend(ctx, r)
}

func (f *fakeBroker) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	if err := ask(f, &f.settle, s); err != nil {
		return nil, err
	}
	answers, err := f.Broker.Settle(ctx, c, s)
	f.mu.Lock()
	after := f.settled
	f.mu.Unlock()
	if err == nil && after != nil {
		err = after()
	}
	return answers, err
}

func (f *fakeBroker) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	if err := ask(f, &f.change, change); err != nil {
		return err
	}
	return f.Broker.Configure(ctx, c, queue, change)
}

func (f *fakeBroker) Tick(ctx context.Context, c broker.Call, t broker.Tick) (bool, time.Time, error) {
	if err := ask(f, &f.tick, t); err != nil {
		return false, time.Time{}, err
	}
	f.mu.Lock()
	wall := time.Now().Add(-f.behind)
	f.mu.Unlock()
	if wall.Before(t.Due) {
		return false, wall, nil
	}
	won, _, err := f.Broker.Tick(ctx, c, t)
	return won, wall, err
}

var errDisk = errors.New("disk is on fire")

// bench is a test's client, inside a bubble of fake time.
type bench struct {
	*testing.T
	*spool.Client
	ctx    context.Context
	broker *fakeBroker
	log    *logBook
	stops  []func() error
}

// bubble runs fn with a client of an empty store in memory, on fake time.
func bubble(t *testing.T, fn func(b *bench)) { bubbleWith(t, spool.Config{}, fn) }

func bubbleWith(t *testing.T, cfg spool.Config, fn func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, ctx: t.Context(), broker: &fakeBroker{Broker: membroker.New(membroker.Config{})}, log: &logBook{}}
		cfg.Logger = slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		b.Client = spool.New(b.broker, cfg)
		defer func() {
			b.stopAll() // those that matter were looked at
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		fn(b)
	})
}

// start runs a worker and returns what stops it and waits for its end.
func (b *bench) start(w *spool.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(b.ctx)
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			err = <-end
		})
		return err
	}
	b.stops = append(b.stops, stop)
	return stop
}

// stopAll stops the workers that still run.
func (b *bench) stopAll() (err error) {
	for _, stop := range b.stops {
		err = errors.Join(err, stop())
	}
	return err
}

// drain works what is ready with a fresh worker.
func (b *bench) drain(cfg spool.WorkerConfig, handle ...func(w *spool.Worker)) {
	b.Helper()
	cfg.Drain = true
	w := spool.NewWorker(b.Client, cfg)
	for _, h := range handle {
		h(w)
	}
	b.must(w.Run(b.ctx))
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wantErr(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("error is %v, want %v", err, want)
	}
}

// add enqueues a job and returns its id.
func (b *bench) add(s spool.Spec) spool.ID {
	b.Helper()
	answers, err := b.Enqueue(b.ctx, s)
	b.must(err)
	return answers[0].ID
}

func (b *bench) job(id spool.ID) spool.Job {
	b.Helper()
	j, err := b.Get(b.ctx, id)
	b.must(err)
	return j
}

func (b *bench) wantState(id spool.ID, want spool.State) spool.Job {
	b.Helper()
	j := b.job(id)
	if j.State != want {
		b.Fatalf("job is %s (%s, %q), want %s", j.State, j.Reason, j.Error, want)
	}
	return j
}

func (b *bench) totals() (t broker.Totals) {
	b.Helper()
	counts, err := b.Counts(b.ctx, "")
	b.must(err)
	for _, c := range counts {
		t.Enqueued += c.Totals.Enqueued
		t.Claimed += c.Totals.Claimed
		t.Acked += c.Totals.Acked
		t.Failed += c.Totals.Failed
		t.Expired += c.Totals.Expired
		t.Died += c.Totals.Died
		t.Cancelled += c.Totals.Cancelled
		t.Deleted += c.Totals.Deleted
	}
	return t
}

// kept makes a done job stay, to be looked at.
var kept = spool.Retain(1000 * time.Hour)

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func wantText(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Fatalf("%q does not contain %q", text, p)
		}
	}
}

// logBook keeps what is logged.
type logBook struct {
	mu sync.Mutex
	b  strings.Builder
}

var _ io.Writer = (*logBook)(nil)

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), part)
}

// line joins values with spaces.
func line(v ...any) string { return strings.TrimSuffix(fmt.Sprintln(v...), "\n") }

// sleep lets d pass in the bubble, and then everything come to rest: what the
// other goroutines did before is then seen.
func (b *bench) sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// quietConfig keeps examples and benchmarks free of logs.
var quietConfig = spool.Config{Logger: slog.New(slog.DiscardHandler)}

// notes is what handlers noted, in their order.
type notes[T any] struct {
	mu sync.Mutex
	v  []T
}

func (n *notes[T]) add(v T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.v = append(n.v, v)
}

func (n *notes[T]) all() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.v)
}
