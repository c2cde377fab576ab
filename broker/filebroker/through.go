package filebroker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// Every call goes to the present stay in the store, and its error is looked at:
// see noticed.

// on returns the present stay, or why there is none any more.
func (b *Broker) on() (*handle, error) {
	select {
	case <-b.closed:
		return nil, broker.ErrClosed
	default:
		return b.cur.Load(), nil
	}
}

// through makes a call.
func through[T any](b *Broker, call func(h *handle) (T, error)) (T, error) {
	for {
		h, err := b.on()
		if err != nil {
			var none T
			return none, err
		}
		answer, err := call(h)
		ended := errors.Is(err, broker.ErrClosed) || errors.Is(err, fs.ErrClosed)
		if ended && b.cur.Load() != h {
			rare.Reached(rare.StayOver)
			continue // it waited on a stay that is over: nothing changed
		}
		return answer, b.noticed(h, err)
	}
}

// Enqueue implements broker.Broker.
func (b *Broker) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	return through(b, func(h *handle) ([]broker.Enqueued, error) { return h.Enqueue(ctx, c, queue, jobs) })
}

// Claim implements broker.Broker.
func (b *Broker) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	return through(b, func(h *handle) (broker.Claimed, error) { return h.Claim(ctx, c, r) })
}

// Extend implements broker.Broker.
func (b *Broker) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	return through(b, func(h *handle) ([]broker.Beat, error) { return h.Extend(ctx, r) })
}

// Settle implements broker.Broker.
func (b *Broker) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	return through(b, func(h *handle) ([]broker.Settled, error) { return h.Settle(ctx, c, s) })
}

// Await implements broker.Broker.
func (b *Broker) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	return through(b, func(h *handle) ([]broker.Job, error) { return h.Await(ctx, refs, wait) })
}

// Apply implements broker.Broker.
func (b *Broker) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	return through(b, func(h *handle) (broker.Step, error) { return h.Apply(ctx, c, cmd) })
}

// Maintain implements broker.Broker.
func (b *Broker) Maintain(ctx context.Context) (time.Duration, error) {
	return through(b, func(h *handle) (time.Duration, error) { return h.Maintain(ctx) })
}

// Get implements broker.Inspector.
func (b *Broker) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	return through(b, func(h *handle) ([]broker.Job, error) { return h.Get(ctx, refs) })
}

// List implements broker.Inspector.
func (b *Broker) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	return through(b, func(h *handle) (broker.Page, error) { return h.List(ctx, f, cursor, n) })
}

// Counts implements broker.Inspector.
func (b *Broker) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	return through(b, func(h *handle) ([]broker.Count, error) { return h.Counts(ctx, queue) })
}

// Workers implements broker.Inspector.
func (b *Broker) Workers(ctx context.Context, queue string) ([]broker.Worker, error) {
	return through(b, func(h *handle) ([]broker.Worker, error) { return h.Workers(ctx, queue) })
}

// Explain implements broker.Inspector.
func (b *Broker) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	return through(b, func(h *handle) (broker.Explanation, error) { return h.Explain(ctx, r) })
}

// Watch implements broker.Inspector.
func (b *Broker) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	return through(b, func(h *handle) (<-chan broker.Event, error) { return h.Watch(ctx, f) })
}

// Health implements broker.Inspector.
func (b *Broker) Health(ctx context.Context) (broker.Health, error) {
	return through(b, func(h *handle) (broker.Health, error) { return h.Health(ctx) })
}

// Settings implements broker.Inspector.
func (b *Broker) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	return through(b, func(h *handle) ([]broker.QueueSetting, error) { return h.Settings(ctx, queue) })
}

// Compact writes a checkpoint and drops the files of the log that hold nothing
// that is still needed. The store is in use meanwhile: the lock is held only
// to seal the active segment. One compaction runs at a time, in whichever
// process.
func (b *Broker) Compact(ctx context.Context) (Compacted, error) {
	return through(b, func(h *handle) (Compacted, error) { return h.Compact(ctx) })
}

// Configure implements broker.Broker.
func (b *Broker) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	_, err := through(b, func(h *handle) (struct{}, error) { return struct{}{}, h.Configure(ctx, c, queue, change) })
	return err
}

// Tick implements broker.Broker.
func (b *Broker) Tick(ctx context.Context, c broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	now, err = through(b, func(h *handle) (now time.Time, err error) {
		won, now, err = h.Tick(ctx, c, t)
		return now, err
	})
	return won, now, err
}

// Hold ties a lease to a lock of its own instead of to this client, for a job
// that another process runs: the child that inherits the file (exec.Cmd's
// ExtraFiles) keeps the lease for as long as it, or a child of its own, lives,
// so that an orphan never runs beside its job's next run. The lease ends when
// nobody has the file open any more; until then its deadline is put off.
//
// The caller closes the file once the child was started, and calls release
// once it has settled the lease or given it up. Errors: ErrLeaseLost;
// ErrUnsupported where locks cannot be inherited.
func (b *Broker) Hold(ctx context.Context, ref broker.Ref, token broker.Token) (file *os.File, release func() error, err error) {
	file, err = through(b, func(h *handle) (file *os.File, err error) {
		file, release, err = h.Hold(ctx, ref, token)
		return file, err
	})
	return file, release, err
}

// noticed looks at the error of a call: when the store is poisoned, this client
// leaves and joins again.
func (b *Broker) noticed(h *handle, err error) error {
	if err == nil || !errors.Is(err, broker.ErrPoisoned) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && !b.healing && b.cur.Load() == h {
		b.healing = true
		b.wg.Go(func() { b.heal(h) })
	}
	return err
}

// Waits between tries to join a poisoned store again.
const (
	healFirst = 50 * time.Millisecond
	healMost  = 5 * time.Second
)

// enter begins a stay in the store. It ends by itself once the store is poisoned:
// as long as one client stays, though it makes no calls, nobody can recover it.
func (b *Broker) enter() (*handle, error) {
	return openHandle(b.dir, b.cfg, &b.stats, func(h *handle, why error) { _ = b.noticed(h, public(why)) })
}

// heal gives up the poisoned stay and joins again. The others have to give up
// theirs too before one of them, then alone, can recover the store.
func (b *Broker) heal(h *handle) {
	h.slg.Error("the store is poisoned: giving up what this process holds, and joining again", "error", h.log.Poisoned())
	if err := h.resign(); err != nil {
		h.slg.Warn("give up the life sign", "error", err)
	}
	for wait := healFirst; ; wait = min(2*wait, healMost) {
		select {
		case <-time.After(wait):
		case <-b.closed:
			return
		}
		n, err := b.enter()
		if err != nil {
			rare.Reached(rare.HealRefused)
			h.slg.Warn("join again", "error", err)
			continue
		}
		rare.Reached(rare.Healed)
		n.slg.Info("the store works again")
		b.mu.Lock()
		b.cur.Store(n)
		b.healing = false
		b.mu.Unlock()
		if err := h.Close(); err != nil {
			h.slg.Warn("close the poisoned store", "error", err)
		}
		return
	}
}
