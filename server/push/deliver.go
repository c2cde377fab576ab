package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/spoolq/spool"
)

// delivery turns jobs into requests. Safe for concurrent use.
type delivery struct {
	target Target
	client *http.Client
	sign   *webhooks.Webhook // nil: not signed
	alone  atomic.Int64      // until when the target is left alone, Unix nanoseconds
}

// pause is what a target is left alone for that does not say how long.
const pause = 30 * time.Second

// maxPause is the longest that a target can ask to be left alone for.
const maxPause = 24 * time.Hour

// deliver is a spool.Handler.
func (d *delivery) deliver(ctx context.Context, l *spool.Lease) error {
	if left := time.Until(time.Unix(0, d.alone.Load())); left > 0 {
		return spool.Snooze(left)
	}
	ctx, cancel := context.WithTimeout(ctx, d.target.Timeout)
	defer cancel()
	r, err := d.request(ctx, l)
	if err != nil {
		return spool.Bury(err)
	}
	resp, err := d.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address stands in the configuration
		}
		return fmt.Errorf("deliver: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	return d.outcome(resp)
}

// outcome is what an answer makes of a job. What the target says beside its
// status is not kept: it may be of somebody else.
func (d *delivery) outcome(resp *http.Response) error {
	said := fmt.Errorf("deliver: answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	after, known := retryAfter(resp.Header.Get("Retry-After"))
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable && known:
		if !known {
			after = pause
		}
		d.alone.Store(time.Now().Add(after).UnixNano())
		return spool.Snooze(after)
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly:
		return said
	case code >= 400 && code < 500 && d.target.ClientError != Retry:
		return spool.Bury(said)
	}
	return said
}

// retryAfter reads the header, seconds or a date (RFC 9110, 10.2.3).
func retryAfter(text string) (d time.Duration, ok bool) {
	if text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds > int(maxPause/time.Second) { // however many
			return maxPause, true
		}
		return max(time.Duration(seconds)*time.Second, time.Second), true // at once would be again and again
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(time.Until(at), time.Second), maxPause), true
}

// request is a job as an HTTP request.
func (d *delivery) request(ctx context.Context, l *spool.Lease) (*http.Request, error) {
	j := &l.Job
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.target.URL, bytes.NewReader(j.Payload))
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", err)
	}
	h := r.Header
	h.Set("Content-Type", media(j.Payload))
	h.Set("User-Agent", "spool")
	h.Set("Spool-Queue", j.Queue)
	h.Set("Spool-Task", j.Task)
	h.Set("Spool-Attempt", strconv.Itoa(j.Attempt))
	for _, name := range []string{"traceparent", "tracestate"} {
		if v := j.Headers[name]; v != "" && strings.IndexFunc(v, control) < 0 {
			h.Set(name, v)
		}
	}
	h.Set(webhooks.HeaderWebhookID, j.ID.String())
	if d.sign == nil {
		return r, nil
	}
	now := time.Now()
	signature, err := d.sign.Sign(j.ID.String(), now, j.Payload)
	if err != nil {
		return nil, fmt.Errorf("deliver: sign: %w", err)
	}
	h.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(webhooks.HeaderWebhookSignature, signature)
	return r, nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }

func media(payload []byte) string {
	if json.Valid(payload) {
		return "application/json"
	}
	return "application/octet-stream"
}
