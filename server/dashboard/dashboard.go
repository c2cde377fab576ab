package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// Bounds of Config.PageSize.
const (
	DefaultPageSize = 50
	MaxPageSize     = 200
)

// Config sets up a dashboard. Its zero value works.
type Config struct {
	// Title stands on every page; "" means "spool".
	Title string
	// Prefix is the path that the handler is mounted under, when nothing strips
	// it: "/ops/queue". A request that comes without it is served as well.
	Prefix string
	// ReadOnly shows no actions, and refuses them.
	ReadOnly bool
	// MayChange says of who makes a request whether the dashboard is more than
	// ReadOnly to them; nil means that it is for everybody.
	MayChange func(*http.Request) bool
	// Caller names who makes a request, for the audit log; nil means that
	// everybody is "anybody".
	Caller func(*http.Request) string
	// Audit takes a record of each change: who, what, where, how many. nil means
	// Logger.
	Audit *slog.Logger
	// Logger takes what the dashboard itself reports; nil means slog.Default().
	Logger *slog.Logger
	// PageSize is how many jobs a page lists, at most MaxPageSize; 0 means
	// DefaultPageSize.
	PageSize int
}

// Dashboard is the handler. It is safe for concurrent use. Make one with New.
type Dashboard struct {
	client *spool.Client
	broker broker.Broker
	caps   broker.Caps
	cfg    Config
	log    *slog.Logger
	audit  *slog.Logger
	pages  pages
	mux    *http.ServeMux
	cross  *http.CrossOriginProtection

	snap   snapshots
	scans  scans
	watch  sync.Once // starts the sampler
	series series

	lookTime time.Duration // see walk.go

	life context.Context // of the sampler; ends with Close
	stop context.CancelFunc
}

// New returns a dashboard of c, which stays the caller's: Close the dashboard
// before the client. It returns an error when the configuration is bad.
func New(c *spool.Client, cfg Config) (*Dashboard, error) {
	cfg.Title = cmp.Or(cfg.Title, "spool")
	cfg.PageSize = cmp.Or(cfg.PageSize, DefaultPageSize)
	cfg.Prefix = strings.TrimSuffix(cfg.Prefix, "/")
	switch {
	case c == nil:
		return nil, errors.New("dashboard: the client is nil")
	case cfg.PageSize < 1 || cfg.PageSize > MaxPageSize:
		return nil, fmt.Errorf("dashboard: the page size is %d, allowed are 1 to %d", cfg.PageSize, MaxPageSize)
	case cfg.Prefix != "" && (cfg.Prefix[0] != '/' || path.Clean(cfg.Prefix) != cfg.Prefix):
		return nil, fmt.Errorf("dashboard: the prefix %q is no clean path that begins with /", cfg.Prefix)
	}
	parsed, err := parsePages()
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d := &Dashboard{
		client: c, broker: c.Broker(), caps: c.Broker().Caps(), cfg: cfg, pages: parsed,
		log: cmp.Or(cfg.Logger, slog.Default()), cross: http.NewCrossOriginProtection(), lookTime: lookTime,
	}
	d.audit = cmp.Or(cfg.Audit, d.log)
	d.life, d.stop = context.WithCancel(context.Background())
	d.routes()
	return d, nil
}

// Close stops the sampling of the store for the charts, which begins with the
// first page that shows them. Pages are served on. It is idempotent.
func (d *Dashboard) Close() error {
	d.stop()
	return nil
}

// policy is what a browser may do on these pages: load the two files that come
// with them, ask this server, and no more.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if e := recover(); e != nil {
			if e == http.ErrAbortHandler {
				panic(e)
			}
			d.log.ErrorContext(r.Context(), "a page panicked", "panic", e, "method", r.Method, "path", r.URL.Path)
			http.Error(w, "The page failed.", http.StatusInternalServerError)
		}
	}()
	r, ok := d.below(w, r)
	if !ok {
		return
	}
	if r.Method == http.MethodPost {
		if err := d.cross.Check(r); err != nil {
			d.fail(w, r, refusal{http.StatusForbidden, "This request comes from another site and was refused."})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	if _, pattern := d.mux.Handler(r); pattern == "" {
		d.noRoute(w, r)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// maxForm is the largest form, in bytes: a page full of ticked jobs, and a filter.
const maxForm = 256 << 10

// below returns the request with the path below the prefix. It answers what
// leads to no page: the place without its final slash is redirected, so that
// relative links hold.
func (d *Dashboard) below(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	p := r.URL.Path
	if rest, ok := strings.CutPrefix(p, d.cfg.Prefix); ok && (rest == "" || rest[0] == '/') {
		p = rest
	}
	if p == "" {
		name := path.Base(cmp.Or(r.URL.Path, beforeQuery(r.RequestURI)))
		w.Header().Set("Location", escape(name)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil, false
	}
	u := *r.URL
	u.Path, u.RawPath = p, ""
	below := *r
	below.URL = &u
	if path.Clean(p) != p {
		d.fail(w, &below, refusal{http.StatusNotFound, "There is no page at this address."})
		return nil, false
	}
	return &below, true
}

func beforeQuery(uri string) string {
	before, _, _ := strings.Cut(uri, "?")
	return before
}

// noRoute answers a request that no page is for.
func (d *Dashboard) noRoute(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe := *r
		probe.Method = method
		if _, pattern := d.mux.Handler(&probe); pattern != "" {
			w.Header().Set("Allow", method)
			d.fail(w, r, refusal{http.StatusMethodNotAllowed, "This address takes " + method + " requests only."})
			return
		}
	}
	d.fail(w, r, refusal{http.StatusNotFound, "There is no page at this address."})
}

// caller names who makes a request.
func (d *Dashboard) caller(r *http.Request) string {
	if d.cfg.Caller == nil {
		return "anybody"
	}
	return d.cfg.Caller(r)
}

// readOnly reports whether who makes a request may change nothing.
func (d *Dashboard) readOnly(r *http.Request) bool {
	return d.cfg.ReadOnly || d.cfg.MayChange != nil && !d.cfg.MayChange(r)
}

// record writes an action into the audit log.
func (d *Dashboard) record(r *http.Request, did, queue string, changed int, err error, more ...any) {
	args := append([]any{"who", d.caller(r), "did", did, "queue", queue, "changed", changed}, more...)
	if err != nil {
		d.audit.WarnContext(r.Context(), "operator", append(args, "error", err)...)
		return
	}
	d.audit.InfoContext(r.Context(), "operator", args...)
}

// now is the dashboard's clock, for ages and the like: in UTC, as every time on a
// page is.
func now() time.Time { return time.Now().UTC() }
