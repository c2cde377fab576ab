package spoolotel

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// OnEnqueue returns an interceptor (spool.Config.OnEnqueue) that makes a producer
// span, "send <queue>", of each enqueue and writes its context into the headers of
// the jobs, those of follow-ups and schedules included. The span is a child of the
// one in the enqueue's context: give a follow-up the handler's.
//
// A job that has a trace context keeps it. One whose headers have no room left
// for all of it gets what fits, traceparent first: no enqueue fails because it is
// traced.
func OnEnqueue(cfg Config) func(next spool.EnqueueFunc) spool.EnqueueFunc {
	tracer, propagator := cfg.tracer(), cfg.propagator()
	return func(next spool.EnqueueFunc) spool.EnqueueFunc {
		return func(ctx context.Context, queue string, jobs []broker.NewJob) ([]spool.Enqueued, error) {
			ctx, span := tracer.Start(ctx, "send "+queue, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(sent(queue, jobs)...))
			defer span.End()
			carrier := propagation.MapCarrier{}
			propagator.Inject(ctx, carrier)
			for i := range jobs {
				inject(&jobs[i], propagator.Fields(), carrier)
			}
			answers, err := next(ctx, queue, jobs)
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, "the jobs were not enqueued")
			} else if len(answers) == 1 {
				span.SetAttributes(semconv.MessagingMessageID(answers[0].ID.String()), attribute.Bool("spool.existing", answers[0].Existing))
			}
			return answers, err
		}
	}
}

// sent is what a producer span says of jobs.
func sent(queue string, jobs []broker.NewJob) []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("spool"), semconv.MessagingDestinationName(queue),
		semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend,
	}
	if len(jobs) != 1 {
		return append(all, semconv.MessagingBatchMessageCount(len(jobs)))
	}
	return append(all, attribute.String("spool.task", jobs[0].Task), semconv.MessagingMessageBodySize(len(jobs[0].Payload)))
}

// inject writes a trace context into the headers of a job, as far as they have
// room for it.
func inject(j *broker.NewJob, fields []string, carrier propagation.MapCarrier) {
	if slices.ContainsFunc(fields, func(name string) bool { _, there := j.Headers[name]; return there }) {
		return
	}
	room := broker.MaxHeaderBytes
	for name, value := range j.Headers {
		room -= len(name) + len(value)
	}
	for _, name := range order(carrier) {
		if room -= len(name) + len(carrier[name]); room < 0 {
			return
		}
		if j.Headers == nil {
			j.Headers = map[string]string{}
		}
		j.Headers[name] = carrier[name]
	}
}

// order are the headers to write: traceparent, without which tracestate means
// nothing, goes first.
func order(carrier propagation.MapCarrier) []string {
	names := slices.Sorted(maps.Keys(carrier))
	if i := slices.Index(names, "traceparent"); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "traceparent")
	}
	return names
}
