package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spoolq/spool/broker"
)

// mistaken adds to the error of a first question what the URL should have been,
// where the answer shows that another kind of server stands there.
func mistaken(to *target, err error) error {
	said := err.Error()
	switch {
	case errors.Is(err, errNode):
		return fmt.Errorf("%w: its URL begins with %s://", err, to.scheme("redis+cluster"))
	case to.kind == cluster && strings.Contains(said, "cluster support disabled"):
		return fmt.Errorf("%w: %w: it is no node of a cluster: its URL begins with %s://", broker.ErrInvalid, err, to.scheme("redis"))
	case errors.Is(err, errSentinel):
		return fmt.Errorf("%w: its URL begins with %s:// and has ?master=NAME", err, to.scheme("redis+sentinel"))
	case strings.Contains(said, noSentinel) && strings.Contains(said, "WRONGPASS"), strings.Contains(said, noSentinel) && strings.Contains(said, "NOAUTH"):
		return fmt.Errorf("%w: %w: the sentinels' own password is ?sentinel_password=", broker.ErrInvalid, err)
	case strings.Contains(said, noSentinel) && strings.HasSuffix(said, "redis: nil"):
		return fmt.Errorf("%w: the sentinels answer, and none knows a primary named %s (?master=)", broker.ErrInvalid, to.master)
	case to.tls && errors.Is(err, context.DeadlineExceeded): // it waits for the end of a line
		return fmt.Errorf("%w: it does not answer in TLS: if it has none, its URL begins with redis:// or redis+, not rediss", err)
	case strings.Contains(said, "HTTP/1."):
		if to.network == "unix" {
			return fmt.Errorf("%w: it speaks HTTP: http+unix://%s is spool serve at that socket", broker.ErrInvalid, to.addrs[0])
		}
		return fmt.Errorf("%w: it speaks HTTP: http://%s is spool serve at that address", broker.ErrInvalid, to.addrs[0])
	}
	return err
}

// errNode says that a server asked for alone is one of several.
var errNode = fmt.Errorf("%w: it is a node of a cluster", broker.ErrInvalid)

// errSentinel says the same of a sentinel.
var errSentinel = fmt.Errorf("%w: it is a sentinel", broker.ErrInvalid)

// noSentinel is in what the client says when no sentinel could name the primary.
const noSentinel = "all sentinels specified"

// scheme is that of a URL, encrypted as this one is.
func (t *target) scheme(plain string) string {
	if t.tls {
		return strings.Replace(plain, "redis", "rediss", 1)
	}
	return plain
}
