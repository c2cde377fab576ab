package httpbroker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// Claim is Broker.Claim. A long wait is several polls, each as long as the server
// allows. When ctx ends, the poll is told to end and its answer is waited for, so
// that no lease is lost on the way.
func (c *client) Claim(ctx context.Context, call broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	if call.ID.IsZero() {
		call = broker.NewCall()
	}
	deadline := time.Now().Add(r.Wait)
	for poll := uint32(0); ; poll++ {
		id := pollID(call.ID, poll)
		in := wire.ClaimRequestOf(&r)
		left := time.Until(deadline)
		in.Wait = wire.Duration(min(max(left, 0), c.wait))
		req := request{method: http.MethodPost, path: "/v1/claim", body: in, id: id, wait: time.Duration(in.Wait)}
		if in.Wait > 0 {
			req.stop = func(under context.Context) { c.stopClaim(under, id) }
		}
		var out wire.Claimed
		asked := time.Now()
		if err := c.call(ctx, req, &out); err != nil {
			return broker.Claimed{}, err
		}
		got, err := out.Claimed()
		got.Asked = asked
		if err != nil || len(got.Leases) > 0 {
			c.held.claimed(&r, got.Leases)
			return got, err
		}
		if err := ctx.Err(); err != nil {
			return broker.Claimed{}, err
		}
		if c.life.Err() != nil {
			return broker.Claimed{}, broker.ErrClosed
		}
		if left <= c.wait {
			return got, nil
		}
	}
}

// pollID names one poll of a claim, the same when the claim is repeated.
func pollID(id broker.ID, poll uint32) broker.ID {
	binary.BigEndian.PutUint32(id[12:], binary.BigEndian.Uint32(id[12:])^poll)
	return id
}

// stopClaim tells the server to end a poll, again until it has got through: the
// poll may arrive after it, on another connection. ctx ends with the poll.
func (c *client) stopClaim(ctx context.Context, id broker.ID) {
	r := request{method: http.MethodDelete, path: "/v1/claims/" + id.String()}
	for pause := c.pause; ; pause = min(2*pause, pauseMax) {
		resp, err := c.send(ctx, &r, nil)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound && resp.StatusCode < 500 {
				return
			}
		}
		if !c.rest(ctx, pause) {
			return
		}
	}
}

// Await is Broker.Await.
func (c *client) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	deadline := time.Now().Add(wait)
	for {
		left := max(time.Until(deadline), 0)
		in := wire.LookupRequest{Jobs: wire.RefsOf(refs), Wait: wire.Duration(min(left, c.wait))}
		page, err := c.page(ctx, request{method: http.MethodPost, path: "/v1/await", body: in, wait: time.Duration(in.Wait)})
		if err != nil || len(page.Jobs) > 0 || left <= c.wait {
			return page.Jobs, err
		}
	}
}

// Watch is Inspector.Watch: the channel is closed when the stream breaks.
func (c *client) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	streaming, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	end := func() { stop(); cancel(); c.calls.Done() }
	resp, err := c.send(streaming, &request{method: http.MethodGet, path: "/v1/events", query: watchQuery(&f)}, nil)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = problem(resp)
		resp.Body.Close()
	}
	if err != nil {
		defer end()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case c.life.Err() != nil:
			return nil, broker.ErrClosed
		}
		return nil, fmt.Errorf("watch: %w", err)
	}
	events := make(chan broker.Event, 256)
	go func() {
		defer end()
		defer close(events)
		defer resp.Body.Close()
		c.read(streaming, resp, events)
	}()
	return events, nil
}

// silence is how long a stream may say nothing: the server says that it lives
// every 15 s.
const silence = 40 * time.Second

// read passes on the events of a stream, until it ends.
func (c *client) read(ctx context.Context, resp *http.Response, events chan<- broker.Event) {
	dead := time.AfterFunc(silence, func() { resp.Body.Close() })
	defer dead.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		dead.Reset(silence)
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var v wire.Event
		if err := wire.ReadAnswer(data, &v); err != nil {
			c.log.Warn("an event could not be read", "error", err)
			continue
		}
		e, err := v.Event()
		if err != nil {
			c.log.Warn("an event could not be read", "error", err)
			continue
		}
		select {
		case events <- e:
		default: // a slow reader misses some
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func watchQuery(f *broker.Filter) url.Values {
	q := url.Values{}
	for _, p := range [...]struct{ name, value string }{
		{"queue", f.Queue}, {"task", f.Task}, {"tenant", f.Tenant}, {"group", f.Group}, {"reason", f.Reason},
	} {
		if p.value != "" {
			q.Set(p.name, p.value)
		}
	}
	for _, id := range f.IDs {
		q.Add("id", id.String())
	}
	for _, s := range f.States {
		q.Add("state", s.String())
	}
	if f.Settings {
		q.Set("settings", "true")
	}
	return q
}
