package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/net/netutil"
)

// listen opens what c.Addr names.
func (c *Config) listen() (net.Listener, error) {
	l, err := c.open()
	if err != nil {
		return nil, err
	}
	conns := c.MaxConnections
	if conns == 0 {
		conns = defaultConns
	}
	l = netutil.LimitListener(l, conns)
	if c.TLSCert == "" {
		return l, nil
	}
	cfg, err := c.tls()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return tls.NewListener(l, cfg), nil
}

func (c *Config) open() (net.Listener, error) {
	addr := c.addr()
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path)
	}
	if addr != "systemd" {
		return net.Listen("tcp", addr)
	}
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("addr is systemd: %w", err)
	}
	if len(passed) != 1 || passed[0] == nil {
		return nil, fmt.Errorf("addr is systemd, which passed %d sockets: one would do (see the .socket unit in contrib/)", len(passed))
	}
	if a, ok := passed[0].Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && len(c.Credentials) == 0 && c.ClientCAs == "" {
		return nil, errors.Join(fmt.Errorf("the socket that systemd passed is %s, which others can reach, and no credentials are asked for", a), passed[0].Close())
	}
	return passed[0], nil
}

// listenUnix opens a socket that only its owner may connect to. One that a dead
// server left behind is replaced.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			return nil, fmt.Errorf("a server listens at %s already", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// tls is the configuration of TLS; the certificate is read again when its file
// changes.
func (c *Config) tls() (*tls.Config, error) {
	k := &certificate{cert: c.TLSCert, key: c.TLSKey}
	if _, err := k.get(nil); err != nil {
		return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
	}
	cfg := &tls.Config{GetCertificate: k.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCAs != "" {
		pem, err := os.ReadFile(c.ClientCAs)
		if err != nil {
			return nil, fmt.Errorf("client_cas: %w", err)
		}
		cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("client_cas: %s holds no certificate in PEM", c.ClientCAs)
		}
	}
	return cfg, nil
}

// certificate is a pair of files that may be replaced while it is used.
type certificate struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	of     time.Time // the change of the files that was loaded
	looked time.Time
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = 5 * time.Second

func (k *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.loaded != nil && time.Since(k.looked) < lookEvery {
		return k.loaded, nil
	}
	k.looked = time.Now()
	var changed time.Time
	for _, file := range []string{k.cert, k.key} {
		info, err := os.Stat(file)
		if err != nil {
			return k.old(err)
		}
		if info.ModTime().After(changed) {
			changed = info.ModTime()
		}
	}
	if k.loaded != nil && changed.Equal(k.of) {
		return k.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return k.old(err)
	}
	k.loaded, k.of = &pair, changed
	return k.loaded, nil
}

// old goes on with what was loaded while the files are being replaced.
func (k *certificate) old(err error) (*tls.Certificate, error) {
	if k.loaded != nil {
		return k.loaded, nil
	}
	return nil, err
}
