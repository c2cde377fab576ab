package httpbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// request is one call, whatever number of attempts it takes.
type request struct {
	method string
	path   string
	query  url.Values
	body   any           // nil: none
	id     broker.ID     // of the call; zero for one that changes nothing
	wait   time.Duration // how long the server may wait before it answers
	once   bool          // no second attempt
	// stop ends the wait of a call that changes something, when its context
	// ends: its answer still comes. It returns once that has got through, or its
	// own context ends. nil: there is nothing to end.
	stop func(context.Context)
}

// changes says that the request changes something: its outcome matters, so that
// an attempt that is under way is not given up for a context.
func (r *request) changes() bool { return !r.id.IsZero() }

// Bounds of the pause between two attempts; the first is the shortest.
const (
	pauseMin = 25 * time.Millisecond
	pauseMax = 2 * time.Second
)

// call makes a request until it has an answer, and reads that into out.
//
// An attempt can be refused by the server, or be lost: then nobody knows whether
// it took place, and it is made again under the same call id. A request that
// changes something is repeated for as long as the server would recognise it.
func (c *client) call(ctx context.Context, r request, out any) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.calls.Done()
	if err := ctx.Err(); err != nil {
		return err
	}
	body, err := wire.Append(nil, r.body)
	if err != nil {
		return fmt.Errorf("%w: %w", broker.ErrInvalid, err)
	}
	lost := false // an attempt may have taken place
	pause := c.pause
	for start := time.Now(); ; {
		err := c.attempt(ctx, &r, body, out)
		again, ok := errors.AsType[*againError](err)
		if !ok {
			c.away.reached()
			return judged(&r, lost, err)
		}
		lost = lost || again.lost
		wait := max(pause/2+rand.N(pause/2+1), again.after)
		over := r.once || r.changes() && time.Since(start)+wait > c.caps.Retry || !r.changes() && time.Since(start)+wait > c.cfg.Timeout
		if !over {
			if again.lost {
				c.away.missed(again.err)
			}
			over = !c.rest(ctx, wait)
		}
		if over {
			return c.givenUp(ctx, &r, lost, again.err)
		}
		pause = min(2*pause, pauseMax)
	}
}

// judged is what an answer that is not to be had again says of a call. What the
// store answers tells of all its attempts, since it remembers them; what somebody
// before the store refuses tells of this attempt alone, and a server that failed
// does not know itself.
func judged(r *request, lost bool, err error) error {
	if p, ok := errors.AsType[*wire.Problem](err); ok && r.changes() && (lost || p.Code == wire.CodeInternal) {
		return fmt.Errorf("%w: %w", broker.ErrUnknown, err)
	}
	return err
}

// givenUp is the error of a call that got no answer.
func (c *client) givenUp(ctx context.Context, r *request, lost bool, last error) error {
	waits := r.stop != nil // a claim: whoever closes its client asks for no more of it
	switch {
	case lost && r.changes() && !(waits && c.life.Err() != nil):
		return fmt.Errorf("%w: %w", broker.ErrUnknown, last)
	case c.life.Err() != nil:
		return broker.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return last
}

// rest waits, and reports whether to go on.
func (c *client) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-c.life.Done():
	}
	return false
}

// againError says that an attempt is to be repeated.
type againError struct {
	err   error
	lost  bool          // it may have taken place
	after time.Duration // not before
}

func (e *againError) Error() string { return e.err.Error() }

// attempt makes a request once.
func (c *client) attempt(ctx context.Context, r *request, body []byte, out any) error {
	if err := ctx.Err(); err != nil {
		return &againError{err: err}
	}
	under, cancel := context.WithTimeout(c.life, r.wait+c.cfg.Timeout)
	defer cancel()
	ended := context.AfterFunc(ctx, func() {
		switch {
		case r.stop != nil:
			late := time.AfterFunc(c.cfg.Timeout, cancel) // it waits no more, and has the time of any other
			context.AfterFunc(under, func() { late.Stop() })
			r.stop(under)
		case !r.changes():
			cancel()
		}
	})
	defer ended()
	resp, err := c.send(under, r, body)
	if err != nil {
		return c.unanswered(ctx, r, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return problem(resp)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return c.unanswered(ctx, r, err)
	}
	switch none := resp.StatusCode == http.StatusNoContent; {
	case none != (out == nil):
		return c.strange(r, errors.New(resp.Status))
	case none:
		return nil
	}
	if err := wire.ReadAnswer(b, out); err != nil {
		return c.strange(r, err)
	}
	return nil
}

// strange is the error of an answer of success that is not a spool server's, or
// not all of it: whether the call took place nobody can tell.
func (c *client) strange(r *request, err error) error {
	is := broker.ErrUnsupported
	if r.changes() {
		is = broker.ErrUnknown
	}
	return fmt.Errorf("%w: %s%s did not answer as a spool server does: %w", is, c.place, r.path, err)
}

// all refuses an answer for other than all that was asked.
func (c *client) all(r *request, got, want int) error {
	if got == want {
		return nil
	}
	return c.strange(r, fmt.Errorf("it answered for %d of %d", got, want))
}

// unanswered is what an attempt without an answer comes to.
func (c *client) unanswered(ctx context.Context, r *request, err error) error {
	if !r.changes() && ctx.Err() != nil {
		return ctx.Err()
	}
	if c.life.Err() != nil && !r.changes() {
		return broker.ErrClosed
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL
	}
	return &againError{err: fmt.Errorf("%s: %w", c.place, err), lost: true}
}

// send sends a request and returns the head of the answer.
func (c *client) send(ctx context.Context, r *request, body []byte) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var reader io.Reader
	if r.body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, reader)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.changes() {
		req.Header.Set("Spool-Call-ID", r.id.String())
	}
	if c.cfg.Credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Credential)
	}
	return c.http.Do(req)
}

// problem is the error that a server answered with.
func problem(resp *http.Response) error {
	const enough = 64 << 10
	b, _ := io.ReadAll(io.LimitReader(resp.Body, enough)) // as much as there is
	var p wire.Problem
	if wire.ReadAnswer(b, &p) != nil || p.Code == "" {
		head := strings.ToValidUTF8(string(b[:min(len(b), 120)]), "?")
		p = *wire.NewProblem("", resp.StatusCode, resp.Status, fmt.Sprintf("the server answered %s: %q", resp.Status, head))
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	again := &againError{err: p.Err(), after: time.Duration(after) * time.Second}
	switch {
	case p.Code == "closed" || p.Code == wire.CodeBusy: // it was refused before it began
		return again
	case p.Code == "unknown_outcome" || p.Code == "" && resp.StatusCode >= 500: // a proxy, or the store behind
		again.lost = true
		return again
	}
	return p.Err()
}
