package httpbroker

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// Config sets up a broker. Its zero value works with a server that asks for no
// credential.
type Config struct {
	// Credential is the secret that `spool credential` made; "" means none. It
	// is sent over plain HTTP, too: use https:// beyond a machine of one's own.
	Credential string
	// TLS sets up https://; nil means Go's defaults.
	TLS *tls.Config
	// Socket is the path of a Unix socket to connect to, whatever the URL's host;
	// a URL of http+unix:// names one itself.
	Socket string
	// Timeout is how long one attempt of a call may take, beside what it waits
	// for; 0 means 10 seconds.
	Timeout time.Duration
	// Logger takes what the broker reports, such as that the server does not
	// answer; nil means slog.Default().
	Logger *slog.Logger
}

// client is a broker.Broker.
type client struct {
	base  string // the URL that requests go to, without a slash at its end
	place string // where that is, for people
	cfg   Config
	http  *http.Client
	log   *slog.Logger
	caps  broker.Caps
	pause time.Duration // before the second attempt
	wait  time.Duration // the server's longest

	held  held
	away  *away
	life  context.Context // ends with Close
	end   context.CancelFunc
	calls sync.WaitGroup
	mu    sync.Mutex // guards closed, against calls.Add beside calls.Wait
	done  bool
}

// Open connects to a server. It returns an error when the URL is not of http://,
// https:// or http+unix:///PATH/OF/SOCKET, nobody answers there, or the answer is
// not that of a spool server (broker.ErrUnsupported); when ctx ends, its error.
func Open(ctx context.Context, address string, cfg Config) (broker.Broker, error) {
	base, place, err := where(address, &cfg)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	c := &client{
		pause: pauseMin, base: base, place: place, cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()),
		http: &http.Client{
			Transport:     transport(&cfg),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.away = &away{log: c.log, place: place}
	c.life, c.end = context.WithCancel(context.Background())
	var caps wire.Caps
	if err := c.call(ctx, request{method: http.MethodGet, path: "/v1/caps", once: true}, &caps); err != nil {
		c.end()
		return nil, fmt.Errorf("open %s: %w", c.place, err)
	}
	c.wait = time.Duration(caps.MaxWait)
	c.caps = broker.Caps{
		Broker: "http", Durability: caps.Durability + ", behind a server", OneCommit: caps.OneCommit,
		MaxBatch: caps.MaxBatch, MaxBytes: caps.MaxBytes, Retry: time.Duration(caps.Retry),
	}
	return c, nil
}

// where reads a URL: where requests go, and how people call it. What stands in
// it of a credential or a socket goes into cfg.
func where(address string, cfg *Config) (base, place string, err error) {
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == onSocket && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
		return "", "", fmt.Errorf("%w: open %.128q: a socket is named by its whole path: http+unix:///run/spool.sock", broker.ErrInvalid, redact(address))
	case err == nil && u.Scheme == onSocket:
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", "", fmt.Errorf("%w: open %.128q: want the URL of a spool server, like http://127.0.0.1:8080", broker.ErrInvalid, redact(address))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", "", fmt.Errorf("%w: open %.128q: a query or a fragment means nothing here", broker.ErrInvalid, redact(address))
	}
	if u.User != nil && cfg.Credential == "" { // as a broker URL carries it
		cfg.Credential, _ = u.User.Password()
	}
	u.User = nil
	if u.Scheme == onSocket {
		cfg.Socket = u.Path
		return "http://spool", u.String(), nil
	}
	base = strings.TrimSuffix(u.String(), "/")
	return base, base, nil
}

// onSocket is the scheme of a server at a Unix socket.
const onSocket = "http+unix"

// IsURL says whether a URL is of a server's scheme.
func IsURL(address string) bool {
	scheme, _, ok := strings.Cut(address, "://")
	return ok && (scheme == "http" || scheme == "https" || scheme == onSocket)
}

// Redacted is a URL without its credential, for people to see.
func Redacted(address string) string { return redact(address) }

// redact takes a password out of what may be a URL.
func redact(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	scheme, _, _ := strings.Cut(address[:at], "://")
	return scheme + "://" + address[at+1:]
}

func transport(cfg *Config) *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true,
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 45 * time.Second, // less than the server's
		TLSHandshakeTimeout: 5 * time.Second, DisableCompression: true,
	}
	if cfg.Socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", cfg.Socket)
		}
	}
	return t
}

// Caps is Broker.Caps.
func (c *client) Caps() broker.Caps { return c.caps }

// Close is Broker.Close: calls that wait return broker.ErrClosed.
func (c *client) Close() error {
	c.mu.Lock()
	first := !c.done
	c.done = true
	c.mu.Unlock()
	c.end()
	c.calls.Wait()
	if first {
		c.giveBack()
	}
	c.http.CloseIdleConnections()
	return nil
}

// begin lets a call in, unless the broker is closed.
func (c *client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return broker.ErrClosed
	}
	c.calls.Add(1)
	return nil
}
