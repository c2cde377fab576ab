package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
	"github.com/spoolq/spool/server"
)

// Config is everything that `spool serve` can be told: its file has this shape,
// flags and environment variables change fields of it.
type Config struct {
	Schema string `json:"$schema,omitzero" doc:"Where an editor finds the description of this file."`

	Dir    string `json:"dir,omitzero" doc:"Directory of the store. Not with broker." example:"/var/lib/spool"`
	Broker string `json:"broker,omitzero" doc:"URL of a broker in place of a directory. A password is better kept in SPOOL_BROKER_PASSWORD." example:"redis://127.0.0.1:6379"`

	Addr      string `json:"addr,omitzero" doc:"Where to listen: HOST:PORT, unix:PATH, or systemd for the socket that systemd passes. 127.0.0.1:8080 when left out." example:"127.0.0.1:8080"`
	TLSCert   string `json:"tls_cert,omitzero" doc:"File with the certificate chain, PEM. It is read again when it changes." example:"/etc/spool/tls.crt"`
	TLSKey    string `json:"tls_key,omitzero" doc:"File with its key, PEM." example:"/etc/spool/tls.key"`
	ClientCAs string `json:"client_cas,omitzero" doc:"File with the authorities, PEM, one of which has to have signed a client's certificate."`

	Hosts       []string     `json:"hosts,omitzero" doc:"Names by which the server is reached, beside those of loopback. A request for another one is refused." example:"[\"jobs.example.com\"]"`
	Credentials []Credential `json:"credentials,omitzero" doc:"What callers have to show. Needed to listen beyond loopback; spool credential makes one."`

	MaxWait        wire.Duration `json:"max_wait,omitzero" doc:"Bounds the wait of a claim, an await and an enqueue; 1m when left out." example:"1m"`
	MaxBody        int64         `json:"max_body,omitzero" doc:"Largest body of a request, in bytes; 32 MiB when left out." minimum:"1024"`
	MaxPayload     int           `json:"max_payload,omitzero" doc:"Largest payload of a job, and result, in bytes; 1 MiB when left out, 8 MiB at most." minimum:"1" maximum:"8388608"`
	MaxConnections int           `json:"max_connections,omitzero" doc:"Connections at a time; more wait; 20000 when left out." minimum:"1"`
	MaxStreams     int           `json:"max_streams,omitzero" doc:"Event streams at a time; 1000 when left out." minimum:"1"`
	Shutdown       wire.Duration `json:"shutdown,omitzero" doc:"How long requests may go on after SIGTERM; 25s when left out." example:"25s"`

	Metrics *bool `json:"metrics,omitzero" doc:"Whether /metrics is served, for Prometheus; true when left out."`
	Expvar  bool  `json:"expvar,omitzero" doc:"Whether the process's variables are served at /debug/vars."`

	NoDashboard bool `json:"no_dashboard,omitzero" doc:"Serves no pages for browsers at /ui/."`

	Push []Push `json:"push,omitzero" doc:"Queues whose jobs are delivered to a URL, in place of a worker."`

	LogFormat string `json:"log_format,omitzero" enum:"text,json" doc:"Of the log on the standard error; text when left out."`
	AuditLog  string `json:"audit_log,omitzero" doc:"File to which a line of JSON is appended for each change by an operator; the log when left out."`
}

// Credential is server.Credential as the file has it.
type Credential struct {
	Name   string   `json:"name" doc:"Of who has it, for the audit log."`
	Hash   string   `json:"hash" doc:"SHA-256 of the secret, hexadecimal." pattern:"^[0-9a-fA-F]{64}$"`
	Scopes []string `json:"scopes" doc:"Any of produce, work, read, operate." example:"[\"produce\",\"read\"]"`
}

// Defaults of what Config leaves out.
const (
	DefaultAddr     = "127.0.0.1:8080"
	defaultConns    = 20_000
	defaultShutdown = 25 * time.Second
)

// Load reads a configuration file. Unknown fields are errors that name them.
func Load(file string) (Config, error) {
	var c Config
	b, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	if err := wire.ReadDocument(b, &c, "the file"); err != nil {
		return c, fmt.Errorf("configuration %s: %w", file, err)
	}
	// What it names stands beside it.
	for _, path := range []*string{&c.Dir, &c.TLSCert, &c.TLSKey, &c.ClientCAs, &c.AuditLog} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(file), *path)
		}
	}
	return c, nil
}

// Check refuses what cannot be, and what contradicts itself. Its errors name the
// fields.
func (c *Config) Check() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if c.Dir != "" && c.Broker != "" {
		bad("dir and broker name two stores: one of them would do")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls_cert and tls_key belong together: one of them is missing")
	}
	if c.ClientCAs != "" && c.TLSCert == "" {
		bad("client_cas needs tls_cert and tls_key: without TLS nobody shows a certificate")
	}
	for _, f := range [...]struct {
		name string
		path string
	}{{"tls_cert", c.TLSCert}, {"tls_key", c.TLSKey}, {"client_cas", c.ClientCAs}} {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
			bad("%s: there is no file %s", f.name, f.path)
		}
	}
	for _, n := range [...]struct {
		name  string
		value int64
	}{
		{"max_wait", int64(c.MaxWait)}, {"max_body", c.MaxBody}, {"max_payload", int64(c.MaxPayload)}, {"max_connections", int64(c.MaxConnections)},
		{"max_streams", int64(c.MaxStreams)}, {"shutdown", int64(c.Shutdown)},
	} {
		if n.value < 0 {
			bad("%s is negative", n.name)
		}
	}
	if c.MaxBody > 0 && c.MaxBody < 1024 {
		bad("max_body is %d: at least 1024 would do", c.MaxBody)
	}
	if c.MaxPayload > broker.MaxCallBytes {
		bad("max_payload is %d: at most %d would do", c.MaxPayload, broker.MaxCallBytes)
	}
	if c.LogFormat != "" && c.LogFormat != "text" && c.LogFormat != "json" {
		bad("log_format is %.32q: allowed are text and json", c.LogFormat)
	}
	for i, host := range c.Hosts {
		if err := checkHost(host); err != nil {
			bad("hosts[%d] %w", i, err)
		}
	}
	if dir := filepath.Dir(c.AuditLog); c.AuditLog != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			bad("audit_log: there is no directory %s", dir)
		}
	}
	if err := c.checkAddr(); err != nil {
		bad("%w", err)
	}
	if _, err := c.credentials(); err != nil {
		bad("%w", err)
	}
	if _, err := c.targets(); err != nil {
		bad("%w", err)
	}
	return errors.Join(all...)
}

// checkAddr refuses an address that cannot be, and one that strangers reach
// without having to say who they are.
func (c *Config) checkAddr() error {
	addr := c.addr()
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if path == "" {
			return errors.New("addr: unix: is followed by the path of the socket")
		}
		return nil
	}
	guarded := len(c.Credentials) > 0 || c.ClientCAs != ""
	if addr == "systemd" {
		return nil // listen looks at what is passed
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("addr is %.64q: HOST:PORT, unix:PATH or systemd would do", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("addr is %.64q: its port is not one of 0 to 65535", addr)
	}
	if !guarded && !loopback(host) {
		return fmt.Errorf("addr is %s, which others can reach, and no credentials are asked for: make one with spool credential, or listen on 127.0.0.1", addr)
	}
	return nil
}

// checkHost refuses what is no name of a host by itself.
func checkHost(host string) error {
	if host == "*" || net.ParseIP(host) != nil {
		return nil
	}
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
	if host == "" || strings.Trim(host, chars) != "" {
		return fmt.Errorf("is %.64q: a name or an address would do, without https:// and without a port, or \"*\" for every name", host)
	}
	return nil
}

// Warnings are what is allowed and hardly meant.
func (c *Config) Warnings() (all []string) {
	for i := range c.Push {
		if p := &c.Push[i]; p.SecretEnv == "" {
			all = append(all, fmt.Sprintf("push[%d]: the deliveries of queue %s are not signed, so that who gets them cannot tell who sent them: set secret_env", i, p.Queue))
		}
	}
	return all
}

// Where is where it listens, for people.
func (c *Config) Where() string { return c.addr() }

// loopback says whether only this machine reaches a host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (c *Config) addr() string {
	if c.Addr == "" {
		return DefaultAddr
	}
	return c.Addr
}

// credentials are those of the file, in the form of the server.
func (c *Config) credentials() (list []server.Credential, err error) {
	names := map[string]int{}
	for i, one := range c.Credentials {
		s := server.Credential{Name: one.Name, Hash: one.Hash}
		for _, scope := range one.Scopes {
			s.Scopes = append(s.Scopes, server.Scope(scope))
		}
		if names[one.Name]++; names[one.Name] > 2 {
			return nil, fmt.Errorf("credentials: %.64q is there %d times: two of one name are for a rotation", one.Name, names[one.Name])
		}
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("credentials[%d] (%.64q): %w", i, one.Name, err)
		}
		list = append(list, s)
	}
	return list, nil
}
