package dashboard

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// dashboardOf is a dashboard that is closed when the test ends. Its looks through
// lists end by what they have seen, however busy the machine is.
func dashboardOf(t testing.TB, c *spool.Client, cfg Config) *Dashboard {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	d, err := New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.lookTime = time.Hour
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// get asks a handler for a page.
func get(t testing.TB, h http.Handler, place string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, place, nil))
	return w
}

// page is get of a page that has to be there.
func (f *fixture) page(h http.Handler, place string) string {
	f.Helper()
	w := get(f, h, place)
	if w.Code != http.StatusOK {
		f.Fatalf("GET %s: status %d: %s", place, w.Code, w.Body)
	}
	return w.Body.String()
}

// post sends a form as the page's own origin does.
func post(t testing.TB, h http.Handler, place string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, place, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// counted is a broker that counts what is asked of it. It refuses what changes
// the store while frozen.
type counted struct {
	broker.Broker
	t      testing.TB
	frozen atomic.Bool
	counts atomic.Int64
	lists  atomic.Int64
	jobs   atomic.Int64 // returned by lists
	reads  atomic.Int64 // all reading calls
}

func countedOn(t testing.TB) (*counted, *spool.Client) {
	b := &counted{Broker: membroker.New(membroker.Config{}), t: t}
	c := spool.New(b, spool.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { _ = c.Close() })
	return b, c
}

func (b *counted) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	b.counts.Add(1)
	b.reads.Add(1)
	return b.Broker.Counts(ctx, queue)
}

func (b *counted) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	b.lists.Add(1)
	b.reads.Add(1)
	p, err := b.Broker.List(ctx, f, cursor, n)
	b.jobs.Add(int64(len(p.Jobs)))
	return p, err
}

func (b *counted) Health(ctx context.Context) (broker.Health, error) {
	b.reads.Add(1)
	return b.Broker.Health(ctx)
}

func (b *counted) changes(what string) {
	if b.frozen.Load() {
		b.t.Errorf("a GET calls %s", what)
	}
}

func (b *counted) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	b.changes("Apply")
	return b.Broker.Apply(ctx, c, cmd)
}

func (b *counted) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	b.changes("Enqueue")
	return b.Broker.Enqueue(ctx, c, queue, jobs)
}

func (b *counted) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	b.changes("Configure")
	return b.Broker.Configure(ctx, c, queue, change)
}

func (b *counted) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	b.changes("Claim")
	return b.Broker.Claim(ctx, c, r)
}

func (b *counted) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	b.changes("Settle")
	return b.Broker.Settle(ctx, c, s)
}

func (b *counted) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	b.changes("Extend")
	return b.Broker.Extend(ctx, r)
}

func (b *counted) Tick(ctx context.Context, c broker.Call, t broker.Tick) (bool, time.Time, error) {
	b.changes("Tick")
	return b.Broker.Tick(ctx, c, t)
}

func (b *counted) Maintain(ctx context.Context) (time.Duration, error) {
	b.changes("Maintain")
	return b.Broker.Maintain(ctx)
}

func TestABadConfigurationIsRefused(t *testing.T) {
	c := quiet(t)
	for _, x := range []struct {
		name string
		c    *spool.Client
		cfg  Config
		want string
	}{
		{"no client", nil, Config{}, "client is nil"},
		{"a page of none", c, Config{PageSize: -1}, "page size is -1"},
		{"a page of too many", c, Config{PageSize: 1000}, "page size is 1000"},
		{"a prefix that is no path", c, Config{Prefix: "ops"}, `prefix "ops"`},
		{"a prefix that walks up", c, Config{Prefix: "/a/../b"}, "prefix"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := New(x.c, x.cfg); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want an error with %q", err, x.want)
			}
		})
	}
}
