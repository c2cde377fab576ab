// Package brokerurl opens any broker that a URL names. It compiles in all of
// them: a program that knows which one it uses imports that one instead.
package brokerurl

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/broker/redisbroker"
)

// Config holds what a URL does not say, for each broker. The zero Config is
// that of all brokers.
type Config struct {
	File  filebroker.Config
	Redis redisbroker.Config
	HTTP  httpbroker.Config
}

// Open opens the broker that a URL names, which the caller closes:
//
//	./jobs, file:///var/lib/jobs       a directory, made when it is not there (see filebroker.Open)
//	redis://…, rediss://…, unix://…    Redis or Valkey, as redisbroker.Open has them,
//	redis+sentinel://…, redis+cluster://…   with sentinels and as a cluster
//	http://…, https://…                a server of spool serve; a credential may stand in it as https://:SECRET@HOST
//	http+unix:///run/spool.sock        the same by its socket
//	memory://                          this process's memory: gone with it
//
// Whatever has no :// is the name of a directory, but for what looks like a
// server's address, HOST:PORT: a directory of such a name is written ./ before
// it. Errors: ErrInvalid for that, and when no broker has that scheme; others of
// the broker. None repeats the URL, which may
// hold a password.
func Open(ctx context.Context, url string, cfg Config) (broker.Broker, error) {
	if dir, ok, err := Dir(url); ok || err != nil {
		if err != nil {
			return nil, err
		}
		return opened(filebroker.Open(dir, cfg.File))
	}
	scheme, rest, _ := strings.Cut(url, "://")
	switch {
	case redisbroker.IsURL(url):
		return opened(redisbroker.Open(ctx, url, cfg.Redis))
	case httpbroker.IsURL(url):
		return httpbroker.Open(ctx, url, cfg.HTTP)
	case scheme == "memory" && rest == "":
		return membroker.New(membroker.Config{}), nil
	case scheme == "memory":
		return nil, fmt.Errorf("%w: nothing stands behind memory://", broker.ErrInvalid)
	}
	for _, later := range []string{"postgres", "postgresql"} {
		if scheme == later {
			return nil, fmt.Errorf("%w: there is no broker for %s:// yet: %s", broker.ErrUnsupported, later, there)
		}
	}
	return nil, fmt.Errorf("%w: no broker has this URL's scheme: %s", broker.ErrInvalid, there)
}

const there = "there are directories (a path or file://), redis:// and its relatives, http://, https:// and http+unix:// for spool serve, and memory://"

// opened makes nothing of a broker that was not opened.
func opened[B broker.Broker](b B, err error) (broker.Broker, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// address matches what is meant as that of a server: HOST:PORT, perhaps with a
// path, or a user and a password before it.
var address = regexp.MustCompile(`^([\w.-]*|\[[0-9a-fA-F:.%]+\]):[0-9]{1,5}(/.*)?$|^[^/\\]*:.*@`)

// Dir returns the directory that a URL names, and whether it names one.
func Dir(s string) (dir string, ok bool, err error) {
	scheme, rest, isURL := strings.Cut(s, "://")
	switch {
	case isURL && scheme != "file":
		return "", false, nil
	case isURL:
		if dir, err = url.PathUnescape(rest); err != nil || dir == "" {
			return "", false, fmt.Errorf("%w: file:// is followed by a path, in which a %% is written %%25", broker.ErrInvalid)
		}
		return dir, true, nil
	case s == "":
		return "", false, fmt.Errorf("%w: the broker's URL is empty: %s", broker.ErrInvalid, there)
	}
	if scheme, _, ok := strings.Cut(s, ":"); ok && redisbroker.IsURL(scheme+"://") {
		return "", false, fmt.Errorf("%w: a URL has :// behind its scheme; a directory of such a name is written ./ before it", broker.ErrInvalid)
	}
	if address.MatchString(s) {
		return "", false, fmt.Errorf("%w: a server's address needs a scheme: redis://HOST:PORT for Redis or Valkey, http://HOST:PORT for spool serve; "+
			"a directory of such a name is written ./ before it", broker.ErrInvalid)
	}
	return s, true, nil
}

// Redacted is a URL without what it may hold of secrets, for people to see.
func Redacted(url string) string {
	if dir, ok, err := Dir(url); ok && err == nil {
		return dir
	}
	if redisbroker.IsURL(url) {
		return redisbroker.Redacted(url)
	}
	if httpbroker.IsURL(url) {
		return httpbroker.Redacted(url)
	}
	return "the broker"
}
