package spoolotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// Middleware returns a worker's middleware (spool.Worker.Use) that makes a
// consumer span, "process <task>", of each run, in the trace of the enqueue. The
// handler's context carries it. A failed attempt, a bury and a panic are errors of
// the span; a snooze, a
// cancellation and a run that was stopped (shutdown, lost lease) are not. The time that the job waited since
// it was due is the attribute spool.wait, in seconds.
//
// Retries are spans of one trace; spool.attempt tells them apart.
func Middleware(cfg Config) func(next spool.Handler) spool.Handler {
	tracer, propagator := cfg.tracer(), cfg.propagator()
	return func(next spool.Handler) spool.Handler {
		return func(ctx context.Context, l *spool.Lease) error {
			own := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // Run's span is no job's parent
			from := propagator.Extract(own, propagation.MapCarrier(l.Job.Headers))
			options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(processed(l)...)}
			if cfg.Link {
				if origin := trace.SpanContextFromContext(from); origin.IsValid() {
					options = append(options, trace.WithLinks(trace.Link{SpanContext: origin}))
				}
				options = append(options, trace.WithNewRoot())
			}
			ctx, span := tracer.Start(from, "process "+l.Job.Task, options...)
			returned := false
			defer func() { // a panic goes on with its own stack
				if !returned {
					span.SetStatus(codes.Error, "the handler panicked")
				}
				span.End()
			}()
			err := next(ctx, l)
			returned = true
			end(span, err, context.Cause(ctx))
			return err
		}
	}
}

// processed is what a consumer span says of a job.
func processed(l *spool.Lease) []attribute.KeyValue {
	j := &l.Job
	all := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("spool"), semconv.MessagingDestinationName(j.Queue),
		semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingMessageID(j.ID.String()), semconv.MessagingMessageBodySize(len(j.Payload)),
		attribute.String("spool.task", j.Task), attribute.Int("spool.attempt", j.Attempt),
		attribute.Float64("spool.wait", max(0, j.ClaimedAt.Sub(j.RunAt).Seconds())),
	}
	if name := j.Headers["spool.schedule"]; name != "" {
		all = append(all, attribute.String("spool.schedule", name))
	}
	return all
}

// end says how a run ended; cause is that of its context.
func end(span trace.Span, err, cause error) {
	if err == nil {
		return
	}
	switch kind, steered := spool.Steered(err); {
	case cause == spool.ErrCancelled, cause == spool.ErrShutdown && !steered, cause == spool.ErrLeaseLost:
		span.AddEvent("stopped", trace.WithAttributes(attribute.String("spool.reason", cause.Error())))
	case steered && (kind == broker.Snooze || kind == broker.Cancel):
		span.AddEvent(kind.String(), trace.WithAttributes(attribute.String("spool.reason", err.Error())))
	default:
		span.RecordError(err)
		span.SetStatus(codes.Error, "the attempt failed")
	}
}
