package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// worker claims jobs, takes some time over them, and settles them.
type worker struct {
	role
	id string // of this start

	mu   sync.Mutex
	held map[broker.Ref]broker.Token // what the heartbeat extends
}

func (w *worker) run(ctx context.Context) error {
	w.id = broker.NewID().String()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var lanes, beat sync.WaitGroup
	beating, still := context.WithCancel(context.WithoutCancel(ctx))
	beat.Go(func() {
		if err := w.heartbeat(beating); err != nil {
			stop(err)
		}
	})
	for range w.Lanes {
		r := rand.New(rand.NewPCG(w.rand.Uint64(), w.rand.Uint64()))
		lanes.Go(func() {
			if err := w.lane(ctx, r); err != nil {
				stop(err)
			}
		})
	}
	lanes.Wait()
	still() // leases are extended until the last job is settled
	beat.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// heartbeat registers the worker and extends what it holds.
func (w *worker) heartbeat(ctx context.Context) error {
	self := broker.Worker{ID: w.id, Name: w.Name, PID: os.Getpid(), Queues: w.Queues, Tasks: []string{workTask, laterTask}, Concurrency: w.Lanes, StartedAt: time.Now()}
	for {
		r := broker.ExtendRequest{Worker: self, TTL: w.TTL}
		w.mu.Lock()
		for ref, token := range w.held {
			r.Leases = append(r.Leases, broker.Extension{Ref: ref, Token: token})
		}
		w.mu.Unlock()
		if _, err := w.broker.Extend(ctx, r); err != nil && ctx.Err() == nil {
			if err := w.failed(ctx, fmt.Errorf("extend: %w", err)); err != nil {
				return err
			}
		}
		if !wait(ctx, w.TTL/3) {
			return nil
		}
	}
}

// lane claims and works, over and over.
func (w *worker) lane(ctx context.Context, r *rand.Rand) error {
	for ctx.Err() == nil {
		most := 1
		if w.Chaos {
			most = 1 + r.IntN(5)
		}
		begun := int64(w.ledger.clock.Monotonic())
		got, err := w.broker.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: w.Queues, Tasks: []string{workTask, laterTask}, Max: most, TTL: w.TTL, Worker: w.id, Wait: time.Second})
		if err != nil {
			if err := w.failed(ctx, fmt.Errorf("claim: %w", err)); err != nil {
				return err
			}
			wait(ctx, pause)
			continue
		}
		if err := w.work(context.WithoutCancel(ctx), r, got.Leases, begun); err != nil {
			return err
		}
	}
	return nil
}

// work takes its time over each lease and settles all of them.
func (w *worker) work(ctx context.Context, r *rand.Rand, leases []broker.Lease, begun int64) error {
	if len(leases) == 0 {
		return nil
	}
	lines := make([]entry, len(leases))
	for i, l := range leases {
		lines[i] = note(claimed, l.Job.ID, l.Token, l.Job.Attempt, begun)
		if l.Job.Attempt > l.Job.MaxAttempts {
			lines = append(lines, note(fault, fmt.Sprintf("job %s has attempt %d of %d", l.Job.ID, l.Job.Attempt, l.Job.MaxAttempts)))
		}
		if !bytes.Equal(l.Job.Payload, payload(l.Job.ID)) {
			lines = append(lines, note(fault, "damaged payload of job "+l.Job.ID.String()))
		}
	}
	if err := w.ledger.write(lines...); err != nil {
		return err
	}
	w.hold(leases)
	settlements := make([]broker.Settlement, len(leases))
	for i := range leases {
		wait(ctx, w.WorkLow+rand.N(w.WorkHigh-w.WorkLow+1))
		settlements[i] = w.decide(r, &leases[i])
	}
	if w.Chaos && r.IntN(200) == 0 {
		// Not a word until the lease is over: whoever runs the jobs by then
		// has a larger token, and this settlement must be refused.
		w.letGo(leases)
		wait(ctx, w.TTL+w.TTL/4)
	}
	defer w.letGo(leases)
	for len(settlements) > 0 {
		n := len(settlements)
		if w.Chaos {
			n = 1 + r.IntN(n)
		}
		if err := w.settle(ctx, settlements[:n]); err != nil {
			return err
		}
		settlements = settlements[n:]
	}
	return nil
}

func (w *worker) hold(leases []broker.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range leases {
		w.held[l.Job.Ref()] = l.Token
	}
}

func (w *worker) letGo(leases []broker.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range leases {
		if w.held[l.Job.Ref()] == l.Token { // another lane may hold it by now
			delete(w.held, l.Job.Ref())
		}
	}
}

// decide chooses how a run ends.
func (w *worker) decide(r *rand.Rand, l *broker.Lease) broker.Settlement {
	s := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
	if w.Chaos {
		switch x := r.IntN(100); {
		case x < 12:
			s.Kind, s.Delay, s.Error = broker.Nack, time.Duration(r.IntN(500))*time.Millisecond, "failed\x00\xff on purpose"
		case x < 15:
			s.Kind, s.Delay = broker.Snooze, time.Duration(r.IntN(300))*time.Millisecond
		case x < 19:
			s.Kind = broker.Release
		case x < 21:
			s.Kind, s.Error = broker.Bury, "buried on purpose"
		case x < 22:
			s.Kind, s.Error = broker.Cancel, "cancelled on purpose"
		}
	}
	if s.Kind == broker.Ack {
		s.Result = result(l.Job.ID, l.Token)
	}
	return s
}

// settle settles in one call and notes what was answered.
func (w *worker) settle(ctx context.Context, settlements []broker.Settlement) error {
	lines := make([]entry, len(settlements))
	for i, s := range settlements {
		lines[i] = note(trySettle, s.Ref.ID, s.Token, s.Kind)
	}
	if err := w.ledger.write(lines...); err != nil {
		return err
	}
	answers, err := w.broker.Settle(ctx, broker.NewCall(), settlements)
	if err != nil {
		return w.ledger.fault(fmt.Errorf("settle: %w", err))
	}
	for i, s := range settlements {
		switch a := answers[i]; {
		case a.Err == nil:
			lines[i] = note(ackSettle, s.Ref.ID, s.Token, s.Kind, a.State)
		case errors.Is(a.Err, broker.ErrLeaseLost):
			lines[i] = note(refused, s.Ref.ID, s.Token)
		default:
			lines[i] = note(fault, fmt.Sprintf("settle %s with %v: %v", s.Ref.ID, s.Kind, a.Err))
		}
	}
	return w.ledger.write(lines...)
}
