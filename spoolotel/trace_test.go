package spoolotel_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/spoolotel"
)

// bench is a store, a worker and what they record.
type bench struct {
	*testing.T
	client   *spool.Client
	provider *sdktrace.TracerProvider
	exporter *tracetest.InMemoryExporter
	cfg      spoolotel.Config
}

// traced runs fn in a bubble.
func traced(t *testing.T, cfg spoolotel.Config, fn func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, exporter: tracetest.NewInMemoryExporter(), cfg: cfg}
		b.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.exporter))
		b.cfg.Provider = b.provider
		b.client = spool.New(membroker.New(membroker.Config{}), spool.Config{
			Logger:    slog.New(slog.DiscardHandler),
			OnEnqueue: []func(spool.EnqueueFunc) spool.EnqueueFunc{spoolotel.OnEnqueue(b.cfg)},
		})
		defer b.client.Close()
		fn(b)
	})
}

// request is the context of a request that is traced, and its end.
func (b *bench) request() (context.Context, trace.Span) {
	return b.provider.Tracer("test").Start(b.Context(), "POST /signup")
}

// work runs h for every job, for a while.
func (b *bench) work(cfg spool.WorkerConfig, h spool.Handler) {
	b.Helper()
	w := spool.NewWorker(b.client, cfg)
	w.Use(spoolotel.Middleware(b.cfg))
	w.HandleAny(h)
	main, span := b.provider.Tracer("test").Start(b.Context(), "main") // no job is part of it
	defer span.End()
	ctx, stop := context.WithTimeout(main, 24*time.Hour)
	defer stop()
	if err := w.Run(ctx); err != nil {
		b.Error(err)
	}
}

// spans are those of a name, in the order in which they began.
func (b *bench) spans(name string) (found tracetest.SpanStubs) {
	for _, s := range b.exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// one is the span of a name, of which there has to be one.
func (b *bench) one(name string) tracetest.SpanStub {
	b.Helper()
	found := b.spans(name)
	if len(found) != 1 {
		var names []string
		for _, s := range b.exporter.GetSpans() {
			names = append(names, s.Name)
		}
		b.Fatalf("%d spans %q of %q", len(found), name, names)
	}
	return found[0]
}

func attributes(s tracetest.SpanStub) map[string]attribute.Value {
	m := map[string]attribute.Value{}
	for _, a := range s.Attributes {
		m[string(a.Key)] = a.Value
	}
	return m
}

func TestOneTraceShowsARequestItsJobItsRetryAndItsFollowUp(t *testing.T) {
	traced(t, spoolotel.Config{}, func(b *bench) {
		ctx, request := b.request()
		got, err := b.client.Enqueue(ctx, spool.Raw("mail", []byte("{}"), spool.Queue("out"), spool.Delay(time.Minute)))
		if err != nil {
			b.Fatal(err)
		}
		request.End()
		time.Sleep(90 * time.Second) // nobody works for half a minute after it was due
		b.work(spool.WorkerConfig{}, func(ctx context.Context, l *spool.Lease) error {
			if l.Job.Task == "mail" && l.Job.Attempt == 1 {
				return errors.New("the relay is away")
			}
			if l.Job.Task == "mail" {
				_, err := l.Enqueue(ctx, spool.Raw("audit", nil))
				return err
			}
			return nil
		})
		send, runs, audit := b.one("send out"), b.spans("process mail"), b.one("process audit")
		if len(runs) != 2 {
			b.Fatalf("%d runs", len(runs))
		}
		chain := []tracetest.SpanStub{b.one("POST /signup"), send, runs[1], b.one("send default"), audit}
		for i, s := range chain[1:] {
			if s.Parent.SpanID() != chain[i].SpanContext.SpanID() || s.SpanContext.TraceID() != request.SpanContext().TraceID() {
				b.Errorf("%s is no child of %s in the request's trace", s.Name, chain[i].Name)
			}
		}
		if runs[0].Parent.SpanID() != send.SpanContext.SpanID() {
			b.Error("the first run is no child of the enqueue")
		}
		if send.SpanKind != trace.SpanKindProducer || runs[0].SpanKind != trace.SpanKindConsumer {
			b.Errorf("kinds %v and %v", send.SpanKind, runs[0].SpanKind)
		}
		a := attributes(runs[0])
		for name, want := range map[string]any{
			"messaging.system": "spool", "messaging.destination.name": "out", "messaging.operation.name": "process",
			"messaging.operation.type": "process", "messaging.message.id": got[0].ID.String(), "messaging.message.body.size": int64(2),
			"spool.task": "mail", "spool.attempt": int64(1), "spool.wait": 30.0,
		} {
			if a[name].AsInterface() != want {
				b.Errorf("%s is %v, want %v", name, a[name].AsInterface(), want)
			}
		}
		if n := attributes(runs[1])["spool.attempt"].AsInt64(); n != 2 {
			b.Errorf("the second run is attempt %d", n)
		}
		if id := attributes(send)["messaging.message.id"].AsString(); id != got[0].ID.String() {
			b.Errorf("the enqueue is of %q", id)
		}
		if runs[0].Status.Code != codes.Error || len(runs[0].Events) != 1 || runs[0].Events[0].Name != "exception" {
			b.Errorf("the failed run: %+v %+v", runs[0].Status, runs[0].Events)
		}
		if runs[1].Status.Code != codes.Unset {
			b.Errorf("the good run: %+v", runs[1].Status)
		}
	})
}

func TestARunMayBeATraceOfItsOwnThatLinks(t *testing.T) {
	traced(t, spoolotel.Config{Link: true}, func(b *bench) {
		ctx, request := b.request()
		if _, err := b.client.Enqueue(ctx, spool.Raw("mail", nil)); err != nil {
			b.Fatal(err)
		}
		request.End()
		b.work(spool.WorkerConfig{}, func(context.Context, *spool.Lease) error { return nil })
		run, send := b.one("process mail"), b.one("send default")
		if run.Parent.IsValid() || run.SpanContext.TraceID() == send.SpanContext.TraceID() {
			b.Error("the run is part of the enqueue's trace")
		}
		if len(run.Links) != 1 || run.Links[0].SpanContext.SpanID() != send.SpanContext.SpanID() {
			b.Errorf("links %+v", run.Links)
		}
	})
}

func TestEachTickOfAScheduleIsATrace(t *testing.T) {
	traced(t, spoolotel.Config{}, func(b *bench) {
		nightly := spool.Schedule{Name: "nightly", Spec: "0 */10 * * *", Job: spool.Raw("report", nil)}
		if err := b.client.AddSchedule(b.Context(), nightly); err != nil {
			b.Fatal(err)
		}
		b.work(spool.WorkerConfig{}, func(context.Context, *spool.Lease) error { return nil })
		runs := b.spans("process report")
		if len(runs) < 2 {
			b.Fatalf("%d runs", len(runs))
		}
		for _, r := range runs {
			if attributes(r)["spool.schedule"].AsString() != "nightly" {
				b.Errorf("a run without its schedule: %v", r.Attributes)
			}
			if !r.Parent.IsValid() {
				b.Error("a run is in no trace of its tick")
			}
		}
	})
}

func TestAJobWithoutATraceBeginsOne(t *testing.T) {
	traced(t, spoolotel.Config{}, func(b *bench) {
		_, err := b.client.Broker().Enqueue(b.Context(), broker.NewCall(), "default", []broker.NewJob{
			{Task: "plain"}, {Task: "broken", Headers: map[string]string{"traceparent": "00-nonsense"}},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.work(spool.WorkerConfig{}, func(context.Context, *spool.Lease) error { return nil })
		for _, name := range []string{"process plain", "process broken"} {
			if s := b.one(name); s.Parent.IsValid() {
				b.Errorf("%s has a parent: %v", name, s.Parent)
			}
		}
	})
}

func TestWhatIsNoFailureIsNoError(t *testing.T) {
	traced(t, spoolotel.Config{}, func(b *bench) {
		for _, task := range []string{"snooze", "cancel", "bury", "panic"} {
			if _, err := b.client.Enqueue(b.Context(), spool.Raw(task, nil, spool.MaxAttempts(1))); err != nil {
				b.Fatal(err)
			}
		}
		b.work(spool.WorkerConfig{}, func(_ context.Context, l *spool.Lease) error {
			switch l.Job.Task {
			case "snooze":
				return spool.Snooze(100 * time.Hour)
			case "cancel":
				return spool.Cancel(errors.New("not wanted"))
			case "bury":
				return spool.Bury(errors.New("never"))
			}
			panic("hand")
		})
		for task, want := range map[string]codes.Code{"snooze": codes.Unset, "cancel": codes.Unset, "bury": codes.Error, "panic": codes.Error} {
			if s := b.one("process " + task); s.Status.Code != want {
				b.Errorf("%s has the status %+v", task, s.Status)
			}
		}
		for job, err := range b.client.List(b.Context(), spool.Filter{Task: "panic"}) {
			if err != nil || !strings.Contains(job.Error, "trace_test.go") {
				b.Errorf("the panic lost the handler's stack: %v\n%s", err, job.Error)
			}
		}
	})
}

func TestTracingNeverMakesAnEnqueueFail(t *testing.T) {
	propagator := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	traced(t, spoolotel.Config{Propagator: propagator}, func(b *bench) {
		ctx, request := b.request()
		defer request.End()
		state, err := trace.ParseTraceState("vendor=" + strings.Repeat("x", 200))
		if err != nil {
			b.Fatal(err)
		}
		ctx = trace.ContextWithSpanContext(ctx, request.SpanContext().WithTraceState(state))
		for name, c := range map[string]struct {
			taken int // by the job's own headers
			has   string
		}{
			"room for all":         {1000, "traceparent tracestate"},
			"no room for a vendor": {broker.MaxHeaderBytes - 200, "traceparent"},
			"no room":              {broker.MaxHeaderBytes - 50, ""},
		} {
			own := strings.Repeat("y", c.taken-len("own")-len("spool.version")-8)
			got, err := b.client.Enqueue(ctx, spool.Raw("t", nil, spool.Header("own", own)))
			if err != nil {
				b.Errorf("%s: %v", name, err)
				continue
			}
			job, err := b.client.Get(ctx, got[0].ID)
			if err != nil {
				b.Fatal(err)
			}
			var has []string
			for _, header := range []string{"traceparent", "tracestate"} {
				if job.Headers[header] != "" {
					has = append(has, header)
				}
			}
			if strings.Join(has, " ") != c.has {
				b.Errorf("%s: the job has %q, want %q", name, has, c.has)
			}
		}
	})
}

func TestAJobKeepsTheTraceThatItHas(t *testing.T) {
	traced(t, spoolotel.Config{}, func(b *bench) {
		const mine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		if _, err := b.client.Enqueue(b.Context(), spool.Raw("mail", nil, spool.Header("traceparent", mine))); err != nil {
			b.Fatal(err)
		}
		b.work(spool.WorkerConfig{}, func(context.Context, *spool.Lease) error { return nil })
		if id := b.one("process mail").SpanContext.TraceID().String(); id != "0af7651916cd43dd8448eb211c80319c" {
			b.Errorf("the run is in trace %s", id)
		}
	})
}
