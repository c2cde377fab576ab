package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
)

// Broker is a client of a store on Redis. It is safe for concurrent use.
type Broker struct {
	t      transport
	since  func(time.Time) time.Duration         // time.Since, but for tests that stop the clock
	hurry  func(ttl time.Duration) time.Duration // hurryFor, but for those
	s      *scripts
	client broker.ID // names this client where workers are registered
	hub    hub
	caps   broker.Caps

	ctx    context.Context // ends when the broker is closed
	cancel context.CancelFunc
	once   sync.Once
	closed chan struct{}

	spread table         // what is known of queues that are spread
	turns  atomic.Uint64 // claims without a call id, of which each begins at the next part

	mu      sync.Mutex
	known   map[string]time.Time     // when queues were last made sure to be there
	listed  list                     // all queues, as they were read last
	held    map[broker.Ref]heldLease // not Remote, and not settled here
	stuck   string                   // the queue whose upkeep failed last: the next begins behind it
	alikeAt time.Time                // when upkeep compared the settings of parts
	swept   int                      // leases held after the last sweep
	workers map[string]registered    // registered here, by id
}

var _ broker.Broker = (*Broker)(nil)

// heldLease is a lease that ends with the client.
type heldLease struct {
	token broker.Token
	until time.Time // on this process's clock, about
}

// newBroker makes a client that reaches the server by t, which it closes.
func newBroker(t transport, _ Config) (*Broker, error) { return newBrokerWith(t, usualScripts()), nil }

func newBrokerWith(t transport, s *scripts) *Broker {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Broker{
		since: time.Since, hurry: hurryFor,
		t: t, s: s, client: broker.NewID(), ctx: ctx, cancel: cancel, closed: make(chan struct{}),
		known: map[string]time.Time{}, held: map[broker.Ref]heldLease{}, workers: map[string]registered{},
		caps: broker.Caps{
			Broker: "redis", Durability: t.durability(), MaxBatch: maxBatch, MaxBytes: broker.MaxCallBytes, Retry: retryTime,
		},
	}
	b.hub.init(b)
	return b
}

const (
	// maxBatch is how many jobs one call has: a script with so many takes about
	// a millisecond, and nothing else runs on the server meanwhile.
	maxBatch = 256
	// retryTime is how long the transport repeats a call.
	retryTime = 2 * time.Minute
)

// Caps implements broker.Broker.
func (b *Broker) Caps() broker.Caps { return b.caps }

// alive reports why a call cannot begin.
func (b *Broker) alive(ctx context.Context) error {
	select {
	case <-b.closed:
		return fmt.Errorf("redis: %w", broker.ErrClosed)
	default:
		return ctx.Err()
	}
}

// errNoQueue is the answer of a queue that does not exist.
var errNoQueue = errors.New("redis: the queue does not exist")

// The status of an answer; see lua/base.lua.
const (
	statusOK = iota
	statusNoQueue
	statusInvalid
	statusFull
	statusConflict
	statusNewer
	statusAway
	statusSpread
)

// call runs one call and reads the status of its answer.
func (b *Broker) call(ctx context.Context, s *script, queue string, p packer) (*unpacker, error) {
	if isPart(queue) {
		p = p.ofPart()
	}
	answers, err := b.t.run(ctx, s, queue, [][]byte{p})
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, errPacked
	}
	u := &unpacker{b: answers[0]}
	switch u.u8() {
	case statusOK:
		return u, u.err
	case statusNoQueue:
		if isPart(queue) {
			return nil, b.absent(ctx, queue)
		}
		return nil, errNoQueue
	case statusSpread:
		return nil, b.elsewhere(queue, int(u.u8()))
	case statusInvalid:
		return nil, fmt.Errorf("%w: %s", broker.ErrInvalid, u.text())
	case statusFull:
		return nil, u.full(queue)
	case statusAway:
		return nil, u.away(queue)
	case statusConflict:
		return nil, broker.ErrConflict
	case statusNewer:
		return nil, fmt.Errorf("%w: queue %s was written by a newer version of spool", broker.ErrUnsupported, queue)
	}
	return nil, errPacked
}

// change is call for a queue that is made when it is not there.
func (b *Broker) change(ctx context.Context, s *script, queue string, p packer) (*unpacker, error) {
	for try := 0; ; try++ {
		if err := b.ensure(ctx, queue); err != nil && !nowhere(err) {
			return nil, err
		}
		u, err := b.call(ctx, s, queue, p) // where the queue was, repeats of its calls are known
		if !errors.Is(err, errNoQueue) || try > 0 && !isPart(queue) || try == mostMoves {
			return u, err
		}
		b.forget(queue) // somebody has flushed the database, or is closing the part
	}
}

// Enqueue implements broker.Broker.
func (b *Broker) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	if err := checkJobs(queue, jobs); err != nil {
		return nil, err
	}
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		answers, err := b.enqueueIn(ctx, c, b.spread.now()[queue], queue, jobs)
		if !moved(err) || try == mostMoves {
			return answers, err
		}
	}
}

// enqueue adds jobs to one queue, or part.
func (b *Broker) enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	p := newPacker(c.ID).jobs(jobs)
	u, err := b.change(ctx, b.s.enqueue, queue, p)
	if err != nil {
		return nil, err
	}
	answers := make([]broker.Enqueued, len(jobs))
	all := len(u.b) == 0 // were added under their ids
	for i := range answers {
		if all {
			answers[i].ID = jobs[i].ID
		} else {
			answers[i] = u.enqueued()
		}
	}
	return answers, u.err
}

// Flags of an enqueue; see lua/enqueue.lua.
const (
	enqueueWhole = 1 << iota // the answer has ids that nobody else knows
	enqueuePlain
)

// jobs packs the jobs of an enqueue.
func (p packer) jobs(jobs []broker.NewJob) packer {
	flags := byte(enqueuePlain)
	for i := range jobs {
		if jobs[i].ID.IsZero() {
			flags |= enqueueWhole
		}
		if !isPlain(&jobs[i]) {
			flags &^= enqueuePlain
		}
	}
	if flags&enqueueWhole != 0 {
		flags = enqueueWhole
	}
	p = p.u8(flags).u32(len(jobs))
	for i := range jobs {
		if flags&enqueuePlain != 0 {
			p = p.plain(&jobs[i])
		} else {
			p = p.job(&jobs[i])
		}
	}
	return p
}

func (u *unpacker) enqueued() broker.Enqueued {
	how := u.u8()
	return broker.Enqueued{ID: u.id(), Existing: how > 0, Differs: how == 2}
}

// full reads the answer of a full queue.
func (u *unpacker) full(queue string) error {
	never, tenanted := u.u8() == 1, u.u8() == 1
	var n [6]uint64
	for i := range n {
		n[i] = u.uint(8)
	}
	e := &broker.FullError{Queue: queue, Tenant: string(u.text()), RetryAfter: time.Second}
	e.Text = "queue " + queue
	if tenanted {
		e.Text = fmt.Sprintf("tenant %q of queue %s", e.Tenant, queue)
	}
	if n[1] > 0 {
		e.Text += fmt.Sprintf(" has %d jobs, its capacity is %d, and this would add %d", n[0], n[1], n[2])
	}
	if n[4] > 0 {
		e.Text += fmt.Sprintf(" has %d bytes, its capacity is %d, and this would add %d", n[3], n[4], n[5])
	}
	if never {
		e.RetryAfter = 0
		e.Text += "; so many never fit: enqueue fewer in one call, or raise the capacity"
	}
	return e
}

// Health implements broker.Inspector.
func (b *Broker) Health(ctx context.Context) (broker.Health, error) {
	if err := b.alive(ctx); err != nil {
		return broker.Health{}, err
	}
	return b.t.health(ctx)
}

// Close implements broker.Broker. What is held here and not Remote expires; a
// server that cannot be reached learns of it by the deadlines.
func (b *Broker) Close() (err error) {
	b.once.Do(func() {
		close(b.closed)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		b.giveBack(ctx)
		b.leaveAll(ctx)
		b.cancel()
		err = b.t.close()
		b.hub.wait()
	})
	return err
}
