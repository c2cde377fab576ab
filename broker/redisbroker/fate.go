package redisbroker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// fate is what is known of a run that brought no answers.
type fate uint8

const (
	refused  fate = 1 + iota // it did not take place, and would not if it were repeated
	deferred                 // it did not take place; it may if it is repeated
	lost                     // it may have taken place: its reply did not come
	weak                     // it took place, and is not as durable as asked
)

// failure is the error of an attempt.
type failure struct {
	fate fate
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// passing are the refusals of a server that pass: it loads its data, fails
// over, moves a slot, is busy, has no room for a connection, or waits for a
// disk or a replica. Proxies put words before them, so that they are looked
// for anywhere.
var passing = []string{
	"LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", "BUSY ", "NOREPLICAS ",
	"MISCONF ", "UNBLOCKED ", "max number of clients", "Script attempted to access a non local key",
}

// judge says what became of a run that failed. sent says whether its command
// was on its way to a server that has not replied to it.
func judge(s *script, err error, sent bool) *failure {
	var said redis.Error
	if !errors.As(err, &said) {
		if sent {
			return &failure{lost, err}
		}
		return &failure{deferred, err}
	}
	text := said.Error()
	for _, p := range passing {
		if strings.Contains(text, p) {
			return &failure{deferred, err}
		}
	}
	switch {
	case strings.HasPrefix(text, "OOM "):
		return &failure{refused, fmt.Errorf("%w: the server's memory: %v", broker.ErrFull, err)}
	case strings.HasPrefix(text, "NOAUTH "), strings.HasPrefix(text, "WRONGPASS "), strings.HasPrefix(text, "NOPERM "):
		return &failure{refused, fmt.Errorf("redis: the server refuses this user: %w", err)}
	}
	return &failure{refused, fmt.Errorf("redis: script %s: %w", s.name, err)}
}
