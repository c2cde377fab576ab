package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// DefaultPayloadMax is the limit of a payload and of a result, in bytes.
const DefaultPayloadMax = 1 << 20

// Config sets up a client. Its zero value works.
type Config struct {
	// Codecs: the first encodes, all decode the jobs that name them. JSON is
	// always known, and encodes when the list is empty. To change the codec,
	// or a key, put the new one first and keep the old one until no job of it
	// is left.
	Codecs []Codec
	// OnEnqueue wraps every enqueue, those of follow-ups and of schedules
	// included; the first is the outermost.
	OnEnqueue []func(next EnqueueFunc) EnqueueFunc
	// WhenFull says what an enqueue does when the capacity of its queue has no
	// room for it.
	WhenFull WhenFull
	// Logger takes what the client's workers and upkeep report; nil means
	// slog.Default().
	Logger *slog.Logger
	// PayloadMax is in bytes; 0 means DefaultPayloadMax, and more than
	// broker.MaxCallBytes means that.
	PayloadMax int
}

// Client is a program's handle on a store. It is safe for concurrent use. One
// client serves a whole program.
type Client struct {
	broker     broker.Broker
	caps       broker.Caps
	codecs     codecs
	onEnqueue  []func(next EnqueueFunc) EnqueueFunc
	whenFull   WhenFull
	log        *slog.Logger
	payloadMax int
	plain      map[string]map[string]string // codec name to shared headers; read-only
	upkeep     upkeep
	declared   *declarations
	closed     atomic.Bool
}

// New returns a client of b, which it then owns: Close closes it. New panics
// when a codec's name is bad or taken, or WhenFull is none of its values.
func New(b broker.Broker, cfg Config) *Client {
	cs, err := newCodecs(cfg.Codecs)
	if err != nil {
		panic("spool: New: " + err.Error())
	}
	if cfg.WhenFull > Block {
		panic(fmt.Sprintf("spool: New: WhenFull is %d: Reject and Block are allowed", cfg.WhenFull))
	}
	c := &Client{
		broker: b, caps: b.Caps(), codecs: cs, onEnqueue: cfg.OnEnqueue, whenFull: cfg.WhenFull,
		log:        cmp.Or(cfg.Logger, slog.Default()),
		payloadMax: cmp.Or(max(cfg.PayloadMax, 0), DefaultPayloadMax),
		declared:   newDeclarations(),
	}
	c.caps.MaxBatch = cmp.Or(c.caps.MaxBatch, 1)
	c.caps.MaxBytes = cmp.Or(c.caps.MaxBytes, broker.MaxCallBytes)
	plain := map[string]map[string]string{}
	for _, name := range []string{"", rawName, cs.first.Name()} {
		plain[name] = c.headers(nil, name, "", 0)
	}
	c.plain = plain
	return c
}

// Broker returns the broker below, for what this package does not offer.
func (c *Client) Broker() broker.Broker { return c.broker }

// PayloadMax is the limit of a payload and of a result, in bytes: that of the
// Config, or the default.
func (c *Client) PayloadMax() int { return min(c.payloadMax, broker.MaxCallBytes) }

// Close closes the broker: waiting calls return ErrClosed. Stop the workers
// first, so that they can give back their jobs: one that still runs ends with
// ErrClosed. It is idempotent.
func (c *Client) Close() error {
	c.closed.Store(true)
	return c.broker.Close()
}

// repeat makes a call that may lose its reply: as long as the broker would
// recognise the repeat, a call with an unknown outcome is made again with the
// same call id.
func (c *Client) repeat(ctx context.Context, fn func(broker.Call) error) error {
	call := broker.NewCall()
	start, wait := time.Now(), 50*time.Millisecond
	for {
		err := fn(call)
		if err == nil || !errors.Is(err, ErrUnknown) || time.Since(start)+wait >= c.caps.Retry {
			return err
		}
		if !sleep(ctx, wait) {
			return err
		}
		rare.Reached(rare.ReplyLost)
		wait = min(2*wait, 5*time.Second)
	}
}

// sleep waits for d and reports whether it was not cut short by ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// upkeep is the one housekeeper of a client with running workers.
type upkeep struct {
	mu     sync.Mutex
	users  int
	cancel context.CancelFunc
	done   chan struct{}
}

// keepHouse starts the client's housekeeper, unless it runs, and returns what a
// worker calls when it stops. The last one to call it waits until the
// housekeeper has ended, at most patience.
func (c *Client) keepHouse(ctx context.Context) (release func(patience time.Duration)) {
	u := &c.upkeep
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users++
	if u.users == 1 {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		u.cancel, u.done = cancel, make(chan struct{})
		go c.maintain(ctx, u.done)
	}
	return func(patience time.Duration) {
		u.mu.Lock()
		u.users--
		last, done := u.users == 0, u.done
		if last {
			u.cancel()
		}
		u.mu.Unlock()
		if last {
			waitFor(done, patience)
		}
	}
}

// Bounds of the wait between two steps of upkeep, and after a failed one.
const (
	upkeepMin   = 10 * time.Millisecond
	upkeepMax   = time.Minute
	upkeepFault = time.Second
)

func (c *Client) maintain(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	faults := faultLog{log: c.log}
	for {
		after, err := c.broker.Maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		faults.note("maintain", err)
		if err != nil {
			after = max(after, upkeepFault)
		}
		if !sleep(ctx, min(max(after, upkeepMin), upkeepMax)) {
			return
		}
	}
}

// faultLog logs the broker's errors once per change.
type faultLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]string
}

// note takes the outcome of one call of the named sort.
func (f *faultLog) note(op string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last[op] == text {
		return
	}
	if f.last == nil {
		f.last = map[string]string{}
	}
	f.last[op] = text
	if err != nil {
		f.log.Error("broker fault, going on", "op", op, "error", err)
	} else {
		f.log.Info("broker is well again", "op", op)
	}
}

// waitFor waits until done is closed, at most for d.
func waitFor(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// queues returns the queue named, or every queue of the store when it is "".
func (c *Client) queues(ctx context.Context, queue string) ([]string, error) {
	if queue != "" {
		return []string{queue}, nil
	}
	counts, err := c.broker.Counts(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var names []string
	for _, n := range counts {
		if len(names) == 0 || names[len(names)-1] != n.Queue { // sorted by queue
			names = append(names, n.Queue)
		}
	}
	return names, nil
}
