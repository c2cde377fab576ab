package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spoolq/spool/broker"
)

// Plan says what one process of a run does. It crosses to the process as JSON.
type Plan struct {
	Role    string // Producer or Worker
	Name    string // of the process, the same over its starts
	Store   string // the directory of the store
	Ledgers string // the directory of the ledgers
	Queues  []string

	// Chaos mixes everything in: kinds of jobs, failures, commands, slow
	// workers. Without it producers enqueue plain jobs, and workers ack them.
	Chaos bool
	// Count is how many jobs a producer enqueues before it ends, counting those
	// of its earlier starts; 0 means: until it is told to stop.
	Count int
	// PerSecond is how many jobs a producer enqueues a second; 0 means as many
	// as it can.
	PerSecond int

	Lanes    int           // of a worker: how many claims it has under way
	TTL      time.Duration // of its leases
	WorkLow  time.Duration // a job takes at least this long
	WorkHigh time.Duration // and at most this

	Wall time.Duration // by how much the process's own wall clock is off
}

// The roles of a process.
const (
	Producer = "producer"
	Worker   = "worker"
)

// pause is how long a role waits after an error before it goes on.
const pause = 50 * time.Millisecond

// Run does what the plan says, in this process, until ctx ends. It returns nil
// when it was told to stop or has done all. The broker is the caller's to
// close.
func Run(ctx context.Context, b broker.Broker, p Plan) error {
	l, err := newLedger(p.Ledgers, p.Name)
	if err != nil {
		return err
	}
	defer l.file.Close()
	r := role{Plan: p, ledger: l, broker: b, rand: rand.New(rand.NewPCG(rand.Uint64(), uint64(os.Getpid())))}
	ctx, stop := context.WithCancel(ctx)
	upkept := make(chan struct{})
	go func() {
		defer close(upkept)
		r.upkeep(ctx)
	}()
	defer func() { stop(); <-upkept }()
	switch p.Role {
	case Producer:
		return (&producer{role: r}).run(ctx)
	case Worker:
		return (&worker{role: r, held: map[broker.Ref]broker.Token{}}).run(ctx)
	default:
		return fmt.Errorf("no such role: %q", p.Role)
	}
}

// role is what producers and workers share.
type role struct {
	Plan
	ledger *ledger
	broker broker.Broker
	rand   *rand.Rand // of one goroutine
}

// upkeep lets the broker expire leases and compact, as a program's client does.
func (r *role) upkeep(ctx context.Context) {
	for {
		after, err := r.broker.Maintain(ctx)
		if err != nil {
			if r.failed(ctx, fmt.Errorf("maintain: %w", err)) != nil {
				return
			}
			after = time.Second
		}
		if !wait(ctx, after) {
			return
		}
	}
}

// failed notes an error that nobody should get, unless the run is over.
func (r *role) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return r.ledger.fault(err)
}

// wait waits for d; it reports false when ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
