package redisbroker

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/spoolq/spool/broker"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// wires are the open connections of a transport. Cutting them ends whatever
// waits for a server that does not answer.
type wires struct {
	mu   sync.Mutex
	open map[net.Conn]bool
	over bool
}

// dialer connects to the servers and sentinels of a target.
func (w *wires) dialer(to *target, cfg *Config) dialFunc {
	dial := (&net.Dialer{Timeout: cfg.DialTimeout, KeepAlive: 15 * time.Second}).DialContext
	if to.tls {
		secure := &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.TLS != nil {
			secure = cfg.TLS.Clone()
		}
		dial = (&tls.Dialer{NetDialer: &net.Dialer{Timeout: cfg.DialTimeout, KeepAlive: 15 * time.Second}, Config: secure}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return w.add(c)
	}
}

// add keeps account of a new connection.
func (w *wires) add(c net.Conn) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		_ = c.Close()
		return nil, broker.ErrClosed
	}
	if w.open == nil {
		w.open = map[net.Conn]bool{}
	}
	w.open[c] = true
	one := &wire{c, w}
	if raw, ok := c.(syscall.Conn); ok {
		return &rawWire{one, raw}, nil
	}
	return one, nil
}

// cut closes all connections, and each new one at once.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for c := range w.open {
		_ = c.Close()
	}
}

// wire is an open connection.
type wire struct {
	net.Conn
	of *wires
}

// Close closes it.
func (w *wire) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w.Conn)
	w.of.mu.Unlock()
	return w.Conn.Close()
}

// rawWire lets the pool look whether the server has closed a connection,
// before it sends a call over it.
type rawWire struct {
	*wire
	raw syscall.Conn
}

// SyscallConn is syscall.Conn's.
func (w *rawWire) SyscallConn() (syscall.RawConn, error) { return w.raw.SyscallConn() }
