package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// Defaults of a server.
const (
	DefaultMaxWait = time.Minute
	DefaultMaxBody = 32 << 20
)

// Config sets up a server. Its zero value works on loopback, for everybody who
// can connect.
type Config struct {
	// Credentials are what callers have to show; none means that nobody has to.
	Credentials []Credential
	// Hosts are the names, without a port, that a request may have in its Host
	// header, beside those of loopback: a page of somebody else that a browser
	// was led to by a name of theirs is refused. "*" allows every name.
	Hosts []string
	// MaxWait bounds the wait of a claim, an await and an enqueue; 0 means
	// DefaultMaxWait.
	MaxWait time.Duration
	// MaxBody is the largest body of a request, in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// MaxStreams is how many event streams there may be at a time; 0 means 1000.
	MaxStreams int
	// Pages is served below PagesPath, for browsers: package dashboard makes one. A
	// credential is asked for as a password (HTTP Basic, with any user name); it
	// needs the scope read, and operate for what changes something. Its request's
	// context has the caller: see Caller. nil means that there are none.
	Pages http.Handler
	// Expvar serves the process's variables at /debug/vars, to who may read, and
	// publishes one named "spool": what the store of the newest such server holds.
	Expvar bool
	// Metrics is served at /metrics, to who may read: a handler of Prometheus, say,
	// with a collector of package spoolprom. nil means that there is none.
	Metrics http.Handler
	// Version is what the server says of itself; "" means "devel".
	Version string
	// Logger takes what the server reports; nil means slog.Default().
	Logger *slog.Logger
	// Audit takes a record of each change by an operator: who, what, where. nil
	// means Logger.
	Audit *slog.Logger
}

// Server answers HTTP for a store. It is an http.Handler, safe for concurrent
// use. Make one with New.
type Server struct {
	client *spool.Client
	broker broker.Broker
	caps   broker.Caps
	cfg    Config
	log    *slog.Logger
	audit  *slog.Logger
	keys   keyring
	hosts  map[string]bool
	mux    *http.ServeMux
	api    huma.API

	life     context.Context // of waits; ends with Stop
	stop     context.CancelFunc
	streams  chan struct{} // a token for each event stream
	waits    *waits
	claimers *claimers
	feeds    *feeds
	bodies   bodies
	refused  refused
	origins  *http.CrossOriginProtection
}

// New returns a server of c, which stays the caller's. It returns an error when
// the configuration is bad.
func New(c *spool.Client, cfg Config) (*Server, error) {
	cfg.MaxWait = cmp.Or(cfg.MaxWait, DefaultMaxWait)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 1000)
	cfg.Version = cmp.Or(cfg.Version, "devel")
	if cfg.MaxWait < 0 || cfg.MaxBody < 0 || cfg.MaxStreams < 0 {
		return nil, errors.New("server: a negative limit")
	}
	keys, err := newKeyring(cfg.Credentials)
	if err != nil {
		return nil, err
	}
	s := &Server{
		client: c, broker: c.Broker(), caps: c.Broker().Caps(), cfg: cfg, keys: keys,
		log: cmp.Or(cfg.Logger, slog.Default()), hosts: hostSet(cfg.Hosts), mux: http.NewServeMux(),
		origins: http.NewCrossOriginProtection(), streams: make(chan struct{}, cfg.MaxStreams),
	}
	s.audit = cmp.Or(cfg.Audit, s.log)
	s.bodies.coming = map[*timelyBody]struct{}{}
	s.waits, s.claimers, s.feeds = newWaits(), newClaimers(s.broker), newFeeds(s.broker)
	s.life, s.stop = context.WithCancel(context.Background())
	s.routes()
	if cfg.Expvar {
		publish(s)
	}
	return s, nil
}

// PagesPath is where Config.Pages is.
const PagesPath = "/ui/"

// Stop ends what waits: claims and awaits are answered with what they have,
// streams end, and a body that has not arrived has a second more. Requests that come later are refused. It is idempotent.
func (s *Server) Stop() {
	s.stop()
	s.claimers.stop()
	s.bodies.stop()
	published.CompareAndSwap(s, nil)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(s, w, r)
}

// waits are the waiting calls of clients that may want them to end, by call id. A
// call waits twice when its client makes it again before it was noticed that the
// first connection has gone.
type waits struct {
	mu    sync.Mutex
	calls map[broker.ID][]*context.CancelFunc
}

func newWaits() *waits { return &waits{calls: map[broker.ID][]*context.CancelFunc{}} }

// begin makes a call stoppable, until done is called.
func (w *waits) begin(ctx context.Context, id broker.ID) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	one := &cancel
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[id] = append(w.calls[id], one)
	return ctx, func() {
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		left := slices.DeleteFunc(w.calls[id], func(c *context.CancelFunc) bool { return c == one })
		if w.calls[id] = left; len(left) == 0 {
			delete(w.calls, id)
		}
	}
}

// end stops a call's waiting, and reports whether it was there.
func (w *waits) end(id broker.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cancel := range w.calls[id] {
		(*cancel)()
	}
	return len(w.calls[id]) > 0
}
