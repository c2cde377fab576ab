package server

import (
	"context"
	"net/http"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

func (s *Server) healthRoutes() {
	register(s, route{
		method: http.MethodGet, path: "/v1/health", id: "health", tag: "health", scope: Read,
		summary: "How the store is",
		doc:     "Answers 200 whatever the store's state: the body says it.",
	}, s.health)
	register(s, route{
		method: http.MethodGet, path: "/v1/caps", id: "caps", tag: "health", scope: Anyone,
		summary: "What the server's store can do and promise",
	}, s.about)
	register(s, route{
		method: http.MethodGet, path: "/v1/live", id: "live", tag: "health", scope: Public,
		summary: "Whether the process serves", status: http.StatusNoContent,
	}, func(context.Context, *struct{}) (*empty, error) { return nil, nil })
	register(s, route{
		method: http.MethodGet, path: "/v1/ready", id: "ready", tag: "health", scope: Public,
		summary: "Whether the store works", status: http.StatusNoContent,
		doc: "Answers 503 while it does not. A store whose disk is full is ready: the settlements that make room have to get through, and health says it.",
	}, s.ready)
}

func (s *Server) health(ctx context.Context, _ *struct{}) (*answer[broker.Health], error) {
	h, err := s.broker.Health(ctx)
	if err != nil {
		return nil, err
	}
	return &answer[broker.Health]{h}, nil
}

func (s *Server) ready(ctx context.Context, _ *struct{}) (*empty, error) {
	h, err := s.broker.Health(ctx)
	switch {
	case err != nil:
		return nil, err
	case h.Status != broker.Healthy && h.Status != broker.Degraded && h.Status != broker.DiskFull:
		return nil, wire.NewProblem("not_ready", http.StatusServiceUnavailable, "The store does not work", string(h.Status))
	}
	return nil, nil
}

func (s *Server) about(context.Context, *struct{}) (*answer[wire.Caps], error) {
	c := s.caps
	return &answer[wire.Caps]{wire.Caps{
		Broker: c.Broker, Durability: c.Durability, OneCommit: c.OneCommit, MaxBatch: c.MaxBatch, MaxBytes: c.MaxBytes, MaxPayload: s.client.PayloadMax(),
		Retry: wire.Duration(c.Retry), MaxWait: wire.Duration(s.cfg.MaxWait), Version: s.cfg.Version,
	}}, nil
}
