package main

import (
	"errors"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/brokerurl"
	"github.com/spoolq/spool/cmd/spool/internal/serve"
	"github.com/spoolq/spool/internal/wire"
)

type serveCmd struct {
	Config     *exact   `env:"SPOOL_CONFIG" placeholder:"FILE" help:"Configuration, JSON: what flags and the environment do not say. --schema describes it."`
	Addr       *exact   `env:"SPOOL_ADDR" placeholder:"ADDR" help:"Where to listen: HOST:PORT, unix:PATH, or systemd for a socket that it passes (127.0.0.1:8080)."`
	TLSCert    *exact   `name:"tls-cert" env:"SPOOL_TLS_CERT" placeholder:"FILE" help:"Certificate chain, PEM; read again when it changes."`
	TLSKey     *exact   `name:"tls-key" env:"SPOOL_TLS_KEY" placeholder:"FILE" help:"Its key, PEM."`
	ClientCAs  *exact   `name:"client-cas" env:"SPOOL_CLIENT_CAS" placeholder:"FILE" help:"Authorities, PEM, one of which has to have signed a client's certificate."`
	Host       []string `env:"SPOOL_HOSTS" placeholder:"NAME" help:"A name by which the server is reached, beside those of loopback. May be repeated."`
	MaxWait    *span    `env:"SPOOL_MAX_WAIT" placeholder:"DURATION" help:"Longest wait of a claim (1m)."`
	MaxBody    *int64   `env:"SPOOL_MAX_BODY" placeholder:"BYTES" help:"Largest body of a request (32 MiB)."`
	MaxPayload *int64   `env:"SPOOL_MAX_PAYLOAD" placeholder:"BYTES" help:"Largest payload of a job, and result (1 MiB; 8 MiB at most)."`
	Shutdown   *span    `env:"SPOOL_SHUTDOWN" placeholder:"DURATION" help:"How long requests may go on after SIGTERM or Ctrl-C (25s)."`
	LogFormat  *exact   `env:"SPOOL_LOG_FORMAT" placeholder:"text|json" help:"Of the log on the standard error (text)."`
	AuditLog   *exact   `env:"SPOOL_AUDIT_LOG" placeholder:"FILE" help:"Append a line of JSON there for each change by an operator."`
	Schema     bool     `help:"Print the JSON Schema of the configuration and end."`
	Check      bool     `help:"Check the configuration and end."`
}

// Help is shown by spool serve --help.
func (*serveCmd) Help() string {
	return "Serves the store over HTTP until SIGTERM or Ctrl-C: the API is described at /v1/openapi.json. " +
		"Without credentials it listens on this machine only; spool credential makes one for the configuration. " +
		"A flag goes before its environment variable, that before the configuration, that before the default. " +
		"It also keeps the store's house and enqueues what schedules are due, and runs no jobs itself."
}

// Run serves until it is stopped.
func (c *serveCmd) Run(a *app, parsed *kong.Context) (err error) {
	if c.Schema {
		b, err := serve.Schema()
		if err != nil {
			return err
		}
		_, err = a.out.Write(b)
		return err
	}
	cfg, err := c.config(a, parsed)
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return usagef("%v", err)
	}
	if c.Check {
		for _, text := range cfg.Warnings() {
			a.note("warning: %s", text)
		}
		return a.printf("the configuration is right: %s is served on %s", a.place(), cfg.Where())
	}
	ctx, stop := interruptible()
	defer stop()
	log := cfg.NewLogger(a.errw)
	client, err := a.openServed(ctx, spool.Config{Logger: log, PayloadMax: cfg.MaxPayload})
	if err != nil {
		return causeOf(ctx, err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return serve.Run(ctx, client, cfg, version(), log, func(url string) {
		if cfg.LogFormat == "json" {
			log.Info("serving", "store", a.place(), "url", url, "durability", client.Broker().Caps().Durability)
		} else {
			a.note("serving %s on %s (%s); Ctrl-C stops", a.place(), url, client.Broker().Caps().Durability)
		}
		if a.json {
			_ = errors.Join(a.object(served{url, os.Getpid()}), a.out.Flush()) // nobody may read it
		}
	})
}

// served is what --json prints when the server listens.
type served struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// config joins what the file, the environment and the flags say.
func (c *serveCmd) config(a *app, parsed *kong.Context) (cfg serve.Config, err error) {
	if c.Config != nil {
		if cfg, err = serve.Load(string(*c.Config)); err != nil {
			return cfg, usagef("%s", plain(err))
		}
	}
	for _, f := range []struct {
		flag *exact
		into *string
	}{
		{c.Addr, &cfg.Addr}, {c.TLSCert, &cfg.TLSCert}, {c.TLSKey, &cfg.TLSKey}, {c.ClientCAs, &cfg.ClientCAs},
		{c.LogFormat, &cfg.LogFormat}, {c.AuditLog, &cfg.AuditLog},
	} {
		if f.flag != nil {
			*f.into = string(*f.flag)
		}
	}
	if c.Host != nil {
		cfg.Hosts = c.Host
	}
	if c.MaxWait != nil {
		cfg.MaxWait = wire.Duration(time.Duration(*c.MaxWait))
	}
	if c.MaxBody != nil {
		cfg.MaxBody = *c.MaxBody
	}
	if c.MaxPayload != nil {
		cfg.MaxPayload = int(*c.MaxPayload)
	}
	if c.Shutdown != nil {
		cfg.Shutdown = wire.Duration(time.Duration(*c.Shutdown))
	}
	return cfg, c.store(a, parsed, &cfg)
}

// store makes the file's store the one that is served, unless a flag or the
// environment names another.
func (c *serveCmd) store(a *app, parsed *kong.Context, cfg *serve.Config) error {
	if cfg.Dir != "" && cfg.Broker != "" || cfg.Dir == "" && cfg.Broker == "" {
		return nil // the first is found by Check
	}
	for _, named := range []bool{given(parsed, "dir"), given(parsed, "broker"), os.Getenv("SPOOL_DIR") != "", os.Getenv("SPOOL_BROKER") != ""} {
		if named {
			return nil
		}
	}
	a.dir, a.url = cfg.Dir, ""
	if cfg.Broker == "" {
		return nil
	}
	dir, isDir, err := brokerurl.Dir(cfg.Broker)
	if err != nil {
		return usagef("broker: %s", plain(err))
	}
	if a.dir = dir; !isDir {
		a.url = cfg.Broker
	}
	return nil
}
