package spool

import (
	"fmt"
	"strings"

	"github.com/spoolq/spool/broker/filebroker"
)

// Open opens the store in a directory, and makes it when there is none. Any
// number of processes of one machine may have it open. Close the client to give
// back what it holds.
//
// A large store's jobs are loaded by the first call that has to know them, which
// takes as long as there is to read; enqueues need none of it, unless they use a
// Key or a queue has a capacity.
//
// To open another broker, or to set one up, open it by its own package and pass
// it to New.
func Open(dir string) (*Client, error) {
	if scheme, _, ok := strings.Cut(dir, "://"); ok {
		return nil, fmt.Errorf("open %q: %w: Open takes a directory; open the broker for %s:// by its own package and pass it to New", dir, ErrInvalid, scheme)
	}
	b, err := filebroker.Open(dir, filebroker.Config{})
	if err != nil {
		return nil, err
	}
	return New(b, Config{}), nil
}
