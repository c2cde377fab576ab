// Package serve is what `spool serve` does: its configuration, where it listens,
// how it begins and ends.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/server"
	"github.com/spoolq/spool/server/dashboard"
)

// Bounds of a connection.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeader     = 16 << 10
)

// Run serves a store until ctx ends and the requests under way have had their
// time. The client stays the caller's. ready is called once it listens, with the
// URL.
func Run(ctx context.Context, client *spool.Client, c Config, version string, log *slog.Logger, ready func(url string)) (err error) {
	for _, text := range c.Warnings() {
		log.Warn(text)
	}
	audit, closeAudit, err := c.audit(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAudit()) }()
	credentials, err := c.credentials()
	if err != nil {
		return err
	}
	metrics, observe := c.metrics(client, version)
	pages, closePages, err := c.pages(client, log, audit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePages()) }()
	s, err := server.New(client, server.Config{
		Pages: pages, Credentials: credentials, Hosts: c.hosts(), MaxWait: time.Duration(c.MaxWait), MaxBody: c.MaxBody,
		MaxStreams: c.MaxStreams, Version: version, Logger: log, Audit: audit, Metrics: metrics, Expvar: c.Expvar,
	})
	if err != nil {
		return err
	}
	defer s.Stop()
	l, err := c.listen()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	delivered, err := c.deliver(ctx, client)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	upkeep, stopUpkeep := context.WithCancel(context.WithoutCancel(ctx))
	defer stopUpkeep()
	kept := make(chan error, 1)
	go func() { kept <- client.Upkeep(upkeep) }()

	h := &http.Server{
		Handler: observe(s), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	ready(c.url(l))
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // nobody may listen
	select {
	case err = <-ended:
	case <-ctx.Done():
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
		log.Info("stopping: requests under way come to their end", "for at most", cmp.Or(time.Duration(c.Shutdown), defaultShutdown).String())
		began := time.Now()
		err = c.shutdown(s, h)
		log.Info("stopped serving", "after", time.Since(began).Round(time.Millisecond).String())
	}
	stop()
	stopUpkeep()
	return errors.Join(err, delivered(), <-kept)
}

// shutdown lets the requests under way come to their end: those that wait are
// answered at once.
func (c *Config) shutdown(s *server.Server, h *http.Server) error {
	s.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(time.Duration(c.Shutdown), defaultShutdown))
	defer cancel()
	err := h.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(fmt.Errorf("some requests were cut off: they took longer than %v", cmp.Or(time.Duration(c.Shutdown), defaultShutdown)), h.Close())
	}
	return err
}

// hosts are the names that a request may be for. What comes through a socket of
// this machine may have any.
func (c *Config) hosts() []string {
	if strings.HasPrefix(c.addr(), "unix:") {
		return []string{"*"}
	}
	hosts := c.Hosts
	if host, _, err := net.SplitHostPort(c.addr()); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}

// url is where to find the server.
func (c *Config) url(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	if c.TLSCert != "" {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// pages are those for browsers; nil when there are to be none.
func (c *Config) pages(client *spool.Client, log, audit *slog.Logger) (http.Handler, func() error, error) {
	if c.NoDashboard {
		return nil, func() error { return nil }, nil
	}
	d, err := dashboard.New(client, dashboard.Config{Caller: server.Caller, MayChange: server.MayOperate, Audit: audit, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return d, d.Close, nil
}

// audit is where changes by operators are recorded.
func (c *Config) audit(log *slog.Logger) (*slog.Logger, func() error, error) {
	if c.AuditLog == "" {
		return log, func() error { return nil }, nil
	}
	f, err := os.OpenFile(c.AuditLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("audit_log: %w", err)
	}
	return slog.New(slog.NewJSONHandler(f, nil)), f.Close, nil
}

// NewLogger is the log that c asks for.
func (c *Config) NewLogger(w io.Writer) *slog.Logger {
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
