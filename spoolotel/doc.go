// Package spoolotel carries traces through a queue: one trace shows the request
// that enqueued a job, how long the job waited, each of its runs, and the
// follow-ups that these enqueued.
//
//	c := spool.New(b, spool.Config{OnEnqueue: []func(spool.EnqueueFunc) spool.EnqueueFunc{spoolotel.OnEnqueue(spoolotel.Config{})}})
//	w := spool.NewWorker(c, spool.WorkerConfig{})
//	w.Use(spoolotel.Middleware(spoolotel.Config{}))
//
// The trace context travels in the job's headers traceparent and tracestate, as
// the W3C has them, so that programs in other languages can go on with it. It
// needs only the API of OpenTelemetry: without an SDK nothing is recorded.
package spoolotel
