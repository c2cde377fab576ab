package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

func (s *Server) streamRoutes() {
	register(s, route{
		method: http.MethodGet, path: "/v1/events", id: "events", tag: "read", scope: Read,
		summary: "What happens, as server-sent events",
		doc: "Each event is of type job or setting, with a JSON object as its data. They are hints: a slow reader misses some. " +
			"A comment every 15 s says that the stream lives.",
	}, s.events)
}

type eventsIn struct {
	Queue    string   `query:"queue"`
	IDs      []string `query:"id,explode" doc:"May be repeated."`
	States   []string `query:"state,explode" doc:"May be repeated."`
	Task     string   `query:"task"`
	Tenant   string   `query:"tenant"`
	Group    string   `query:"group"`
	Reason   string   `query:"reason"`
	Settings bool     `query:"settings" doc:"Changes of settings, in place of those of jobs."`
}

// name is the same for those that ask for the same.
func (in *eventsIn) name() string {
	return fmt.Sprintf("%q %q %q %t", []string{in.Queue, in.Task, in.Tenant, in.Group, in.Reason}, in.IDs, in.States, in.Settings)
}

func (in *eventsIn) filter() (broker.Filter, error) {
	f := broker.Filter{Queue: in.Queue, Task: in.Task, Tenant: in.Tenant, Group: in.Group, Reason: in.Reason, Settings: in.Settings}
	for _, text := range in.IDs {
		id, err := broker.ParseID(text)
		if err != nil {
			return f, fmt.Errorf("%w: id: %w", broker.ErrInvalid, err)
		}
		f.IDs = append(f.IDs, id)
	}
	for _, text := range in.States {
		state, err := broker.ParseState(text)
		if err != nil {
			return f, fmt.Errorf("%w: state: %w", broker.ErrInvalid, err)
		}
		f.States = append(f.States, state)
	}
	return f, nil
}

func (s *Server) events(ctx context.Context, in *eventsIn) (*huma.StreamResponse, error) {
	select {
	case s.streams <- struct{}{}:
	default:
		p := wire.NewProblem(wire.CodeBusy, http.StatusServiceUnavailable, "There are too many event streams",
			fmt.Sprintf("the limit is %d", cap(s.streams)))
		p.RetryAfter = wire.Duration(10 * time.Second)
		return nil, p
	}
	ctx, cancel := s.waiting(ctx)
	done := func() { cancel(); <-s.streams }
	filter, err := in.filter()
	var events <-chan []byte
	var leave func()
	if err == nil {
		events, leave, err = s.feeds.join(in.name(), filter)
	}
	if err != nil {
		done()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer done()
		defer leave()
		r, w := humago.Unwrap(hc)
		if spend(r) != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		stream(ctx, w, events)
	}}, nil
}

// Bounds of a stream.
const (
	readTime   = 5 * time.Second // for a reader that takes nothing
	atOnce     = 64 << 10        // bytes of events in one write
	betweenFew = 5 * time.Millisecond
)

// stream writes events until there are none any more, or the reader has gone.
// What comes within a moment is written together.
func stream(ctx context.Context, w http.ResponseWriter, events <-chan []byte) {
	ctl := http.NewResponseController(w)
	write := func(b []byte) bool {
		_ = ctl.SetWriteDeadline(time.Now().Add(readTime)) // not every connection has one
		_, err := w.Write(b)
		return err == nil && ctl.Flush() == nil
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	if !write([]byte(": spool\n\n")) {
		return
	}
	var some []byte
	for {
		select {
		case e, open := <-events:
			if !open {
				return
			}
			some = gather(append(some[:0], e...), events)
			if !write(some) {
				return
			}
			if !sleep(ctx, betweenFew) {
				return
			}
		case <-alive.C:
			if !write([]byte(": alive\n\n")) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// gather adds to b what is there, up to a bound.
func gather(b []byte, events <-chan []byte) []byte {
	for len(b) < atOnce {
		select {
		case e := <-events: // nil, once they have ended
			if e == nil {
				return b
			}
			b = append(b, e...)
		default:
			return b
		}
	}
	return b
}
