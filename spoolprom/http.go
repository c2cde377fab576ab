package spoolprom

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NewHTTP registers the metric of requests with r and returns a middleware that
// observes them. A route is the pattern of the http.ServeMux that answered, never
// the path, so that no request makes a series; one that no mux saw, because it was
// refused before, has the route "_none". A long poll takes as long as it waits,
// and a stream as long as it lasts.
//
// It panics when r has another metric under this name.
func NewHTTP(r prometheus.Registerer) func(next http.Handler) http.Handler {
	requests := histogram("spool_http_request_duration_seconds", "Time that a request took, waiting included.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60}, "route", "code")
	if err := r.Register(requests); err != nil {
		var there prometheus.AlreadyRegisteredError
		if !errors.As(err, &there) {
			panic("spoolprom: NewHTTP: " + err.Error())
		}
		requests = there.ExistingCollector.(*prometheus.HistogramVec)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			seen := &seenWriter{ResponseWriter: w}
			defer func() { // also when the handler panics
				route := r.Pattern
				if route == "" {
					route = "_none"
				}
				requests.WithLabelValues(route, strconv.Itoa(seen.status())).Observe(time.Since(began).Seconds())
			}()
			next.ServeHTTP(seen, r)
		})
	}
}

// seenWriter notes the status of an answer.
type seenWriter struct {
	http.ResponseWriter
	code int
}

// status is that of the answer; a handler that wrote nothing answers 200.
func (w *seenWriter) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

// WriteHeader implements http.ResponseWriter.
func (w *seenWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 { // those below announce
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *seenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
