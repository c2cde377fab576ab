package spoolotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Config sets up OnEnqueue and Middleware. Its zero value works.
type Config struct {
	// Provider makes the tracer; nil means the global one.
	Provider trace.TracerProvider
	// Propagator writes the trace context into a job's headers and reads it there;
	// nil means the W3C's trace context, without baggage.
	Propagator propagation.TextMapPropagator
	// Link makes each run the root of a trace of its own that links to the span
	// which enqueued the job: for jobs that run days later, or thousands to a trace.
	// By default that span is the parent of the run's.
	Link bool
}

const scope = "github.com/spoolq/spool/spoolotel"

func (c Config) tracer() trace.Tracer {
	if c.Provider == nil {
		return otel.GetTracerProvider().Tracer(scope)
	}
	return c.Provider.Tracer(scope)
}

func (c Config) propagator() propagation.TextMapPropagator {
	if c.Propagator == nil {
		return propagation.TraceContext{}
	}
	return c.Propagator
}
