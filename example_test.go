package spool_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/broker/redisbroker"
	"github.com/spoolq/spool/cron"
)

type Email struct{ To, Subject string }

// One declaration binds the name, the argument type and the policy. Producer and worker share it; no backend in sight.
var SendEmail = spool.Define[Email]("send_email", spool.MaxAttempts(8), spool.Timeout(30*time.Second))

func deliver(_ context.Context, e Email) error {
	fmt.Println("to", e.To)
	return nil
}

// The whole of a program: it enqueues, and works until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	c, err := spool.Open("./jobs") // a directory: nothing to install, nothing to run
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if _, err := SendEmail.Enqueue(ctx, c, Email{To: "ada@example.com"}, spool.Key("welcome-42")); err != nil {
		log.Fatal(err)
	}

	w := spool.NewWorker(c, spool.WorkerConfig{Concurrency: 16})
	SendEmail.Handle(w, deliver)       // func(context.Context, Email) error; an error means: retry with backoff
	if err := w.Run(ctx); err != nil { // ctx done: finish what is running, give back the rest, return
		log.Fatal(err)
	}
}

// The same program on Redis, for several machines: another line opens the client.
func Example_redis() {
	ctx := context.Background()
	b, err := redisbroker.Open(ctx, "redis://localhost:6379", redisbroker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	c := spool.New(b, spool.Config{}) // instead of spool.Open; c.Close closes b, too
	defer c.Close()
}

// And through a server of spool serve.
func Example_http() {
	ctx := context.Background()
	b, err := httpbroker.Open(ctx, "http://127.0.0.1:8080", httpbroker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	c := spool.New(b, spool.Config{})
	defer c.Close()
}

// openMemory stands for spool.Open in the examples that run as tests.
func openMemory() *spool.Client { return spool.New(membroker.New(membroker.Config{}), quietConfig) }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A task with a result can be awaited, from any process.
func ExampleDefineFunc() {
	wordCount := spool.DefineFunc[string, int]("word_count")
	c := openMemory()
	defer c.Close()

	w := spool.NewWorker(c, spool.WorkerConfig{})
	wordCount.Handle(w, func(_ context.Context, text string) (int, error) { return len(text), nil })
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		must(w.Run(ctx))
	}()

	p, err := wordCount.Enqueue(ctx, c, "hello")
	must(err)
	n, err := p.Await(ctx)
	must(err)
	fmt.Println(n)

	stop()    // first the worker: it gives back what it holds
	<-stopped // then, by the deferred Close, the client
	// Output: 5
}

// A handler says by its error what is to happen.
func ExampleRetryAfter() {
	charge := spool.Define[int]("charge")
	c := openMemory()
	defer c.Close()
	ctx := context.Background()
	for cents := range 4 {
		_, err := charge.Enqueue(ctx, c, cents)
		must(err)
	}

	w := spool.NewWorker(c, spool.WorkerConfig{Drain: true})
	charge.Handle(w, func(ctx context.Context, cents int) error {
		switch cents {
		case 0:
			return spool.Cancel(fmt.Errorf("nothing to pay")) // no failure, and not to be run
		case 1:
			return spool.Bury(fmt.Errorf("below the minimum")) // a dead letter: no retry would help
		case 2:
			return spool.RetryAfter(time.Minute, fmt.Errorf("bank says 429")) // a failed attempt
		}
		return spool.Snooze(time.Hour) // later; the attempt does not count
	})
	must(w.Run(ctx))

	for j, err := range c.List(ctx, spool.Filter{}) {
		must(err)
		fmt.Printf("%s: %s (%s), attempt %d, %q\n", j.Payload, j.State, j.Reason, j.Attempt, j.Error)
	}
	// Unordered output:
	// 0: cancelled (cancelled), attempt 1, "nothing to pay"
	// 1: dead (buried), attempt 1, "below the minimum"
	// 2: scheduled (retry), attempt 1, "bank says 429"
	// 3: scheduled (snoozed), attempt 0, ""
}

// Follow-ups are enqueued in the commit of their job's ack: both happen, or
// neither.
func ExampleLease_Enqueue() {
	resize := spool.Define[string]("resize")
	publish := spool.Define[string]("publish")
	c := openMemory()
	defer c.Close()
	ctx := context.Background()
	_, err := resize.Enqueue(ctx, c, "cat.png")
	must(err)

	w := spool.NewWorker(c, spool.WorkerConfig{Drain: true})
	resize.Handle(w, func(ctx context.Context, name string) error {
		fmt.Println("resize", name)
		_, err := publish.Enqueue(ctx, spool.LeaseFrom(ctx), name)
		return err
	})
	publish.Handle(w, func(_ context.Context, name string) error {
		fmt.Println("publish", name)
		return nil
	})
	must(w.Run(ctx))
	// Output:
	// resize cat.png
	// publish cat.png
}

// A limit is part of the declaration. The workers declare it to the store; it
// holds over all processes, and an operator can override it.
func ExampleRateLimit() {
	convert := spool.Define[string]("convert",
		spool.RateLimit("100/m burst 2", spool.PerTenant()), // each customer by itself
		spool.RunningLimit(8),                               // all together
	)
	c := openMemory()
	defer c.Close()
	ctx := context.Background()
	for _, name := range []string{"a.mov", "b.mov", "c.mov"} {
		_, err := convert.Enqueue(ctx, c, name, spool.Tenant("acme"))
		must(err)
	}

	w := spool.NewWorker(c, spool.WorkerConfig{Drain: true, Concurrency: 1})
	convert.Handle(w, func(_ context.Context, name string) error {
		fmt.Println("convert", name)
		return nil
	})
	must(w.Run(ctx))
	for j, err := range c.List(ctx, spool.Filter{States: []spool.State{spool.Ready}}) {
		must(err)
		fmt.Printf("%s waits, attempt %d\n", j.Payload, j.Attempt)
	}
	// Output:
	// convert a.mov
	// convert b.mov
	// "c.mov" waits, attempt 0
}

// A schedule is declared by the worker. Any number of workers may run: each
// tick is enqueued once.
func ExampleSchedule() {
	report := spool.Define[string]("report", spool.Queue("night"))
	c := openMemory()
	defer c.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	w := spool.NewWorker(c, spool.WorkerConfig{Schedules: []spool.Schedule{{
		Name: "nightly", Spec: "30 2 * * MON-FRI", Zone: "Europe/Paris",
		Missed: cron.Skip, Grace: time.Hour, // better never than in the morning
		Job: report.With("sales", spool.Priority(-1)),
	}}})
	ran := make(chan string)
	report.Handle(w, func(_ context.Context, what string) error {
		ran <- what
		return nil
	})
	end := make(chan error)
	go func() { end <- w.Run(ctx) }()

	for { // until the worker has declared it
		_, err := c.TriggerSchedule(ctx, "night", "nightly") // now, beside its instants
		if err == nil {
			break
		}
		if !errors.Is(err, spool.ErrNotFound) {
			log.Fatal(err)
		}
		runtime.Gosched()
	}
	fmt.Println(<-ran)
	stop()
	must(<-end)
	// Output: sales
}

// A batch is a job that waits for others, whatever becomes of them.
func ExampleClient_EnqueueBatch() {
	resize := spool.Define[string]("resize", spool.Retain(time.Hour))
	album := spool.Define[string]("album")
	c := openMemory()
	defer c.Close()
	ctx := context.Background()

	batch, err := c.EnqueueBatch(ctx, album.With("holiday"), resize.With("1.png"), resize.With("2.png"))
	must(err)

	w := spool.NewWorker(c, spool.WorkerConfig{Drain: true})
	resize.Handle(w, func(context.Context, string) error { return nil })
	album.Handle(w, func(ctx context.Context, name string) error {
		for _, id := range batch.Members {
			j, err := c.Get(ctx, id)
			if err != nil {
				return err
			}
			fmt.Println(name, j.State)
		}
		return nil
	})
	must(w.Run(ctx))
	// Output:
	// holiday done
	// holiday done
}

// The low level, for programs that bring their own loop.
func ExampleClient_Claim() {
	c := openMemory()
	defer c.Close()
	ctx := context.Background()
	_, err := c.Enqueue(ctx, spool.Raw("report", []byte("any bytes")))
	must(err)

	leases, err := c.Claim(ctx, broker.ClaimRequest{Max: 10, TTL: time.Minute, Wait: 5 * time.Second})
	must(err)
	for _, l := range leases {
		fmt.Printf("%s %s, attempt %d\n", l.Job.Task, l.Job.Payload, l.Job.Attempt)
		must(l.Extend(ctx, 0))
		must(l.Ack(ctx, nil))
	}
	// Output: report any bytes, attempt 1
}

// Dead letters are listed, looked at, and brought back.
func ExampleClient_Requeue() {
	c := openMemory()
	defer c.Close()
	ctx := context.Background()
	_, err := SendEmail.Enqueue(ctx, c, Email{To: "ada@example.com"}, spool.MaxAttempts(1))
	must(err)
	w := spool.NewWorker(c, spool.WorkerConfig{Drain: true})
	SendEmail.Handle(w, func(context.Context, Email) error { return fmt.Errorf("mail server is down") })
	must(w.Run(ctx))

	dead := spool.Filter{States: []spool.State{spool.Dead}, Task: SendEmail.Name(), ErrorContains: "is down"}
	for j, err := range c.List(ctx, dead) {
		must(err)
		fmt.Println(j.Task, j.State, j.Reason, j.Error)
	}
	n, err := c.Requeue(ctx, dead)
	must(err)
	fmt.Println(n, "back")
	// Output:
	// send_email dead attempts mail server is down
	// 1 back
}
