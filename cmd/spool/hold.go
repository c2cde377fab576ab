package main

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// holder is a broker whose leases can be tied to a lock that a child process
// inherits: when this process dies and the command does not, the lease goes on
// until the command ends, so that it never runs beside the job's next run.
type holder interface {
	Hold(ctx context.Context, ref broker.Ref, token broker.Token) (file *os.File, release func() error, err error)
}

// holds are the locks of the jobs that run. Safe for concurrent use.
type holds struct {
	client *spool.Client

	mu       sync.Mutex
	releases map[heldLease]func() error
}

type heldLease struct {
	ref   broker.Ref
	token broker.Token
}

func held(l *spool.Lease) heldLease { return heldLease{l.Job.Ref(), l.Token} }

// take returns the lock for the command of a job; none where a broker or a
// system has no such thing.
func (h *holds) take(ctx context.Context, l *spool.Lease) ([]*os.File, error) {
	b, ok := h.client.Broker().(holder)
	if !ok {
		return nil, nil
	}
	file, release, err := b.Hold(ctx, l.Job.Ref(), l.Token)
	if errors.Is(err, spool.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.releases == nil {
		h.releases = map[heldLease]func() error{}
	}
	h.releases[held(l)] = release
	return []*os.File{file}, nil
}

// release gives back the lock of a job that is settled or given up.
func (h *holds) release(l *spool.Lease) error {
	h.mu.Lock()
	release := h.releases[held(l)]
	delete(h.releases, held(l))
	h.mu.Unlock()
	if release == nil {
		return nil
	}
	return release()
}
