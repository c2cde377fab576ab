package server

import (
	"context"
	"expvar"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/internal/wire"
)

// metricsRoutes registers what machines watch.
func (s *Server) metricsRoutes() {
	for _, p := range [...]struct {
		pattern string
		handler http.Handler
		on      bool
	}{
		{"GET /metrics", s.cfg.Metrics, s.cfg.Metrics != nil},
		{"GET /debug/vars", expvar.Handler(), s.cfg.Expvar},
	} {
		if !p.on {
			continue
		}
		s.mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) {
			if _, problem := s.allow(w, r, Read); problem != nil {
				fail(w, problem)
				return
			}
			p.handler.ServeHTTP(w, r)
		})
	}
}

// published is the newest server that serves variables; nil once it has stopped.
var published atomic.Pointer[Server]

// publishOnce makes the variable: package expvar has one of a name in a process.
var publishOnce sync.Once

// publish makes s the server that the process's variable tells of.
func publish(s *Server) {
	published.Store(s)
	publishOnce.Do(func() {
		expvar.Publish("spool", expvar.Func(func() any {
			if s := published.Load(); s != nil {
				return s.variable()
			}
			return nil
		}))
	})
}

// variableTimeout is how long the variable may look at the store.
const variableTimeout = 5 * time.Second

// variable is the process's variable: the queues, and what capacities held up on
// the short paths.
func (s *Server) variable() any {
	ctx, cancel := context.WithTimeout(s.life, variableTimeout)
	defer cancel()
	counts, err := s.broker.Counts(ctx, "")
	if err != nil {
		return map[string]any{"error": "the store cannot be read"}
	}
	queues, depth := map[string]wire.Queue{}, int64(0)
	for _, q := range wire.QueuesOf(counts) {
		queues[q.Name] = q
		depth += q.Depth
	}
	return map[string]any{
		"queues": queues, "depth": depth, "rejected": s.refused.rejected.Load(), "blocked": s.refused.waited.Load(),
	}
}
