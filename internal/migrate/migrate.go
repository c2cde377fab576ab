// Package migrate moves queues from one broker to another: it drives the two
// halves of broker.Mover. It keeps nothing itself: what it needs to go on after
// it was killed stands in the records of both brokers.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// Broker is what a queue can be moved from and to.
type Broker interface {
	broker.Broker
	broker.Mover
}

// Side is one of the two brokers, with a name for people.
type Side struct {
	Broker Broker
	Name   string
}

// Mover moves the queues of From to To. The zero value of the other fields
// works. It is for one goroutine.
type Mover struct {
	From, To Side
	// Report is told of each batch, and of each look at what is still running.
	Report func(Progress)
	// Poll is how long to wait between two looks at jobs that still run; 0 means
	// 200 ms.
	Poll time.Duration
	// TTL is how long a run that was killed is waited for; 0 means
	// broker.MoveTTL.
	TTL time.Duration
	// Max is how many jobs a batch has at most; 0 means broker.MaxMoveJobs.
	Max int

	runner broker.ID
}

// Progress says how far the move of a queue is. Counts but for Left and Leased
// are of this run.
type Progress struct {
	Queue      string `json:"queue"`
	Moved      int64  `json:"moved"`      // jobs
	Duplicates int64  `json:"duplicates"` // of them: ended, as another job holds their key
	Known      int64  `json:"known"`      // of them: were there already, by their ids
	Settings   int64  `json:"settings"`   // limits, schedules and the like
	Left       int64  `json:"left"`       // jobs that have not left yet
	Leased     int64  `json:"leased"`     // of them: still run
}

// Queue moves one queue, whole, and goes on with a move that was begun before.
// It returns once nothing is left to move and nothing runs at the old side. The
// queue rests at both sides meanwhile, and at the old one from then on. Where
// ctx ends or an error is returned, the same call goes on from there.
//
// Errors: ErrConflict when another move of the queue is under way, or another
// run of this one; those of the brokers.
func (m *Mover) Queue(ctx context.Context, queue string) (Progress, error) {
	r := run{Mover: m, p: Progress{Queue: queue}, from: m.From, to: m.To}
	if err := r.begin(ctx); err != nil {
		return r.p, fmt.Errorf("move queue %s: %w", queue, err)
	}
	err := r.drain(ctx)
	if err == nil {
		err = r.end(ctx, false)
	}
	if err != nil {
		err = fmt.Errorf("move queue %s: %w", queue, err)
	}
	return r.p, err
}

// run is the move of one queue.
type run struct {
	*Mover
	from, to Side // as the jobs go
	p        Progress
	id       broker.ID
	turn     broker.ID
	batch    uint64 // the last that has arrived
}

// records reads what both sides know.
func (r *run) records(ctx context.Context) (from, to broker.Move, err error) {
	for _, side := range [...]struct {
		of Side
		to *broker.Move
	}{{r.from, &from}, {r.to, &to}} {
		all, err := side.of.Broker.Moves(ctx, r.p.Queue)
		if err != nil {
			return from, to, fmt.Errorf("%s: %w", side.of.Name, err)
		}
		if len(all) > 0 {
			*side.to = all[0]
		}
	}
	return from, to, nil
}

// begin puts the queue to rest at both sides, the old one first, and finds out
// which batch has arrived.
func (r *run) begin(ctx context.Context) error {
	from, to, err := r.records(ctx)
	if err != nil {
		return err
	}
	leaves := from.State == broker.Leaving || from.State == broker.Left
	switch {
	case leaves:
		r.id = from.ID
	case from.State == broker.Arriving && to.State == broker.Arriving && to.Turned == from.ID:
		r.id, r.turn = to.ID, from.ID
	default:
		r.id = broker.NewID()
	}
	if leaves && to.ID != r.id && (from.OnWay || from.Batch > 0 && from.Peer != r.to.Name) {
		return fmt.Errorf("%w: it %s %s, and %s knows nothing of that", broker.ErrConflict, going(from.State), from.Peer, r.to.Name)
	}
	began, err := r.leave(ctx, leaves)
	if err != nil {
		return fmt.Errorf("%s: %w", r.from.Name, err)
	}
	if began, err = r.onClock(ctx, r.from, began); err != nil {
		return err
	}
	arrive := broker.MoveBegin{ID: r.id, Queue: r.p.Queue, State: broker.Arriving, Peer: r.from.Name, Batch: began.Batch, Now: began.Now, First: began.First, Seq: began.Seq}
	there, err := repeat(ctx, func(c broker.Call) (broker.Move, error) { return r.to.Broker.BeginMove(ctx, c, arrive) })
	if err != nil {
		if from.State == 0 {
			err = errors.Join(err, r.forget(ctx, r.from, 0))
		}
		return fmt.Errorf("%s: %w", r.to.Name, err)
	}
	return r.resume(ctx, began, there)
}

// onClock is a record with its side's clock as it is now: the two clocks are
// compared by it, and to put a queue to rest takes time.
func (r *run) onClock(ctx context.Context, side Side, m broker.Move) (broker.Move, error) {
	all, err := side.Broker.Moves(ctx, r.p.Queue)
	if err != nil {
		return m, fmt.Errorf("%s: %w", side.Name, err)
	}
	if len(all) == 1 && all[0].ID == m.ID {
		m.Now, m.First, m.Seq = all[0].Now, all[0].First, all[0].Seq
	}
	return m, nil
}

func going(s broker.MoveState) string {
	if s == broker.Left {
		return "has moved to"
	}
	return "moves to"
}

// leave begins at the old side. A run of the same move that was killed is waited
// for until it is known to be gone.
func (r *run) leave(ctx context.Context, goesOn bool) (broker.Move, error) {
	if r.runner.IsZero() {
		r.runner = broker.NewID()
	}
	b := broker.MoveBegin{ID: r.id, Queue: r.p.Queue, State: broker.Leaving, Peer: r.to.Name, Runner: r.runner, TTL: r.TTL, Turn: r.turn}
	for deadline := time.Now().Add(r.ttl() + r.ttl()/4); ; {
		began, err := repeat(ctx, func(c broker.Call) (broker.Move, error) { return r.from.Broker.BeginMove(ctx, c, b) })
		if !errors.Is(err, broker.ErrConflict) || !goesOn || time.Now().After(deadline) {
			return began, err
		}
		if err := sleep(ctx, r.ttl()/20); err != nil {
			return began, err
		}
	}
}

func (r *run) ttl() time.Duration {
	if r.TTL > 0 {
		return r.TTL
	}
	return broker.MoveTTL
}

// resume brings the last batch to its end.
func (r *run) resume(ctx context.Context, here, there broker.Move) error {
	r.batch = there.Batch
	switch here.Batch {
	case there.Batch:
		return nil
	case there.Batch + 1:
		_, err := r.step(ctx)
		return err
	}
	return fmt.Errorf("%w: %s is at batch %d of this move and %s at batch %d: one of them is not what it was", broker.ErrConflict, r.from.Name, here.Batch, r.to.Name, there.Batch)
}

// step moves the batch behind the last that has arrived.
func (r *run) step(ctx context.Context) (broker.MoveBatch, error) {
	take := broker.MoveTake{ID: r.id, Queue: r.p.Queue, Runner: r.runner, TTL: r.TTL, Batch: r.batch + 1, Max: r.Max}
	b, err := repeat(ctx, func(c broker.Call) (broker.MoveBatch, error) { return r.from.Broker.TakeMoved(ctx, c, take) })
	if err != nil {
		return b, fmt.Errorf("%s: %w", r.from.Name, err)
	}
	r.p.Left, r.p.Leased = b.Left, b.Leased
	if b.Number == r.batch {
		return b, nil // there was nothing to take
	}
	put := broker.MovePut{ID: r.id, Queue: r.p.Queue, Batch: b}
	a, err := repeat(ctx, func(c broker.Call) (broker.MovePutAnswer, error) { return r.to.Broker.PutMoved(ctx, c, put) })
	if err != nil {
		return b, fmt.Errorf("%s: %w", r.to.Name, err)
	}
	r.batch = b.Number
	r.p.Moved += int64(len(b.Jobs))
	r.p.Settings += int64(len(b.Settings))
	r.p.Duplicates += int64(a.Duplicates)
	r.p.Known += int64(a.Known)
	return b, nil
}

// drain moves batches until there is nothing left, and nothing runs any more.
func (r *run) drain(ctx context.Context) error {
	for {
		before := r.batch
		b, err := r.step(ctx)
		if err != nil {
			return err
		}
		if r.Report != nil {
			r.Report(r.p)
		}
		switch {
		case b.Done:
			return nil
		case r.batch > before:
			continue
		}
		if _, err := r.from.Broker.Maintain(ctx); err != nil { // leases of who is gone end
			return fmt.Errorf("%s: %w", r.from.Name, err)
		}
		poll := r.Poll
		if poll <= 0 {
			poll = 200 * time.Millisecond
		}
		if err := sleep(ctx, min(poll, r.ttl()/3)); err != nil {
			return err
		}
	}
}

// end lets the queue work at the new side. back says that nothing is to be
// remembered of the move.
func (r *run) end(ctx context.Context, back bool) error {
	for _, side := range [...]Side{r.from, r.to} {
		if err := r.endAt(ctx, side, broker.MoveEnd{ID: r.id, Queue: r.p.Queue, Batch: r.batch}); err != nil {
			return err
		}
	}
	if !back {
		return nil
	}
	if err := r.forget(ctx, r.from, r.batch); err != nil {
		return err
	}
	return r.forget(ctx, r.to, r.batch)
}

func (r *run) forget(ctx context.Context, side Side, batch uint64) error {
	return r.endAt(ctx, side, broker.MoveEnd{ID: r.id, Queue: r.p.Queue, Batch: batch, Forget: true})
}

func (r *run) endAt(ctx context.Context, side Side, e broker.MoveEnd) error {
	_, err := repeat(ctx, func(c broker.Call) (struct{}, error) { return struct{}{}, side.Broker.EndMove(ctx, c, e) })
	if err != nil {
		return fmt.Errorf("%s: %w", side.Name, err)
	}
	return nil
}

// repeats is how often a call is made whose outcome is not known: each step is
// the same however often it is made.
const repeats = 5

func repeat[T any](ctx context.Context, call func(c broker.Call) (T, error)) (T, error) {
	c := broker.NewCall()
	for try := 1; ; try++ {
		answer, err := call(c)
		if !errors.Is(err, broker.ErrUnknown) || try == repeats {
			return answer, err
		}
		if err := sleep(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
			return answer, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
