package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// network is the transport over go-redis. Of that library it uses the pools,
// the protocol, the routing to a slot's node, and what sentinels say; what
// becomes of a call that fails is decided here, since only what knows of each
// attempt can say whether a call may have taken place.
type network struct {
	target *target
	client redis.UniversalClient
	cfg    Config // without zero values
	names  func(queue string) names
	keys   sync.Map // queue → *keys
	runs   *gather
	ears   *ears
	wires  wires

	promised atomic.Pointer[promise] // as it was read last
	opened   promise                 // as it was when the broker was opened

	mu    sync.Mutex
	away  time.Time // since when no attempt reached the server; zero: the last one did
	cause error     // of it
	wg    sync.WaitGroup
}

// newNetwork connects to a target. It returns once the server answers, and is
// one that can be used.
func newNetwork(ctx context.Context, to *target, cfg Config, of func(queue string) names) (*network, error) {
	n := &network{target: to, cfg: cfg, names: of}
	n.client = newClient(to, &cfg, n.wires.dialer(to, &cfg))
	n.runs = newGather(n.attempt)
	n.ears = newEars(n)
	p, err := n.firstPromise(ctx)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	n.opened = p
	n.promised.Store(&p)
	return n, nil
}

// firstPromise waits until the server is ready: a server that is starting, or
// fails over, is given until ctx ends, at most one minute. One that is not
// there is an error at once.
func (n *network) firstPromise(ctx context.Context) (promise, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for failed := 1; ; failed++ {
		p, err := n.readPromise(ctx)
		if err == nil {
			return p, p.check(&n.cfg)
		}
		if err = mistaken(n.target, err); errors.Is(err, broker.ErrInvalid) {
			return promise{}, fmt.Errorf("redis: %s: %w", n.target, err)
		}
		var said redis.Error
		f := judge(&script{name: "INFO"}, err, false)
		if (!errors.As(err, &said) || f.fate == refused) && !n.replaces(err) {
			return promise{}, fmt.Errorf("redis: %s: %w", n.target, err)
		}
		if failed == 1 {
			n.cfg.Logger.Warn("redis: the server is not ready and is waited for, a minute at most", slog.Any("error", err))
		}
		t := time.NewTimer(backoff(failed))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return promise{}, fmt.Errorf("redis: %s is not ready: %w", n.target, err)
		}
	}
}

// replaces says whether sentinels answer, and name a primary that does not: they
// are about to name another one.
func (n *network) replaces(err error) bool {
	var dial *net.OpError
	return n.target.kind == sentinel && errors.As(err, &dial) && dial.Op == "dial" && !strings.Contains(err.Error(), noSentinel)
}

// keys are the first two of a queue, as they are sent.
type keys struct {
	config string
	absent []byte
}

// of returns the keys of a queue.
func (n *network) of(queue string) *keys {
	if k, ok := n.keys.Load(queue); ok {
		return k.(*keys)
	}
	names := n.names(queue)
	k := &keys{names.config, []byte(names.absent)}
	n.keys.Store(queue, k)
	return k
}

func (n *network) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	answers, err := n.runs.run(ctx, s, queue, calls)
	if err != nil && ctx.Err() != nil {
		err = n.explained(err)
	}
	return answers, err
}

// explained adds to the error of a caller who waited no longer why there was nothing
// to have, if that is known.
func (n *network) explained(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away.IsZero() {
		return err
	}
	return fmt.Errorf("%w: redis: %s has not answered for %v: %v", err, n.target, time.Since(n.away).Round(time.Second/10), n.cause)
}

func (n *network) listen(ctx context.Context, queue string, heard func(message []byte)) error {
	return n.ears.listen(ctx, n.names(queue).channel, heard)
}

func (n *network) close() error {
	n.runs.close()
	n.wires.cut()
	n.ears.close()
	err := n.client.Close()
	n.runs.leads.Wait()
	n.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil // cut before
	}
	return err
}

// reached notes that the server answered, and looks again at what it promises
// when it was away: another one may have taken its place.
func (n *network) reached() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away.IsZero() {
		return
	}
	away := time.Since(n.away)
	n.away, n.cause = time.Time{}, nil
	if n.runs.ctx.Err() != nil {
		return
	}
	n.cfg.Logger.Info("redis: the server answers again", slog.Duration("after", away))
	n.wg.Go(n.promiseAgain)
}

// missed notes that an attempt did not bring what it should. A cluster client
// looks then where the slots are.
func (n *network) missed(f *failure) {
	if f.fate != lost && f.fate != deferred {
		return
	}
	if c, ok := n.client.(*redis.ClusterClient); ok {
		c.ReloadState(n.runs.ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away.IsZero() {
		n.away = time.Now()
		n.cfg.Logger.Warn("redis: a call is repeated until the server answers", slog.Any("error", f.err))
	}
	n.cause = f.err
}
