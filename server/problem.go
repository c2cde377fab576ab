package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// problem is what a client is told of an error. What is the server's own fault
// is logged, since the client is told no more than that.
func (s *Server) problem(ctx context.Context, err error) error {
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		return p
	}
	if s.life.Err() != nil && errors.Is(err, context.Canceled) {
		err = broker.ErrClosed
	}
	p := wire.ProblemOf(err)
	if p.Code == wire.CodeInternal {
		s.log.ErrorContext(ctx, "a request failed", "error", err)
		p.Detail = ""
	}
	return p
}

// problemOfModel is a problem that the framework found in a request.
func problemOfModel(e *huma.ErrorModel) *wire.Problem {
	detail := e.Detail
	if len(e.Errors) > 0 {
		var all []string
		for _, d := range e.Errors {
			all = append(all, strings.TrimPrefix(d.Message, broker.ErrInvalid.Error()+": ")+at(d.Location))
		}
		detail = strings.Join(all, "; ")
	}
	detail = broker.ErrInvalid.Error() + ": " + detail
	switch e.Status {
	case http.StatusRequestEntityTooLarge:
		return wire.ProblemOf(fmt.Errorf("%w: %s", broker.ErrTooLarge, e.Detail))
	case http.StatusUnsupportedMediaType:
		return wire.NewProblem(wire.CodeMedia, e.Status, "The body has a content type that is not taken", "send application/json")
	case http.StatusRequestTimeout:
		return wire.NewProblem("timeout", e.Status, "The body came too slowly", e.Detail)
	case http.StatusInternalServerError:
		return wire.NewProblem(wire.CodeInternal, e.Status, "The server failed", "")
	}
	return wire.NewProblem("invalid", http.StatusBadRequest, "The request can never be right", detail)
}

func at(location string) string {
	if location == "" {
		return ""
	}
	return " (" + location + ")"
}

// fail writes a problem outside of the framework.
func fail(w http.ResponseWriter, p *wire.Problem) {
	h := w.Header()
	for name, values := range p.GetHeaders() {
		h[name] = values
	}
	h.Set("Content-Type", p.ContentType(""))
	h.Del("Content-Length")
	w.WriteHeader(p.Status)
	_ = wire.Write(w, p) // a client that has gone
}
