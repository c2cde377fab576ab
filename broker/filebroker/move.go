package filebroker

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

var _ broker.Mover = (*Broker)(nil)

// Moves implements broker.Mover.
func (b *Broker) Moves(ctx context.Context, queue string) ([]broker.Move, error) {
	return through(b, func(h *handle) ([]broker.Move, error) { return h.Moves(ctx, queue) })
}

// BeginMove implements broker.Mover.
func (b *Broker) BeginMove(ctx context.Context, _ broker.Call, r broker.MoveBegin) (broker.Move, error) {
	return through(b, func(h *handle) (broker.Move, error) { return h.BeginMove(ctx, r) })
}

// TakeMoved implements broker.Mover.
func (b *Broker) TakeMoved(ctx context.Context, _ broker.Call, r broker.MoveTake) (broker.MoveBatch, error) {
	return through(b, func(h *handle) (broker.MoveBatch, error) { return h.TakeMoved(ctx, r) })
}

// PutMoved implements broker.Mover.
func (b *Broker) PutMoved(ctx context.Context, _ broker.Call, r broker.MovePut) (broker.MovePutAnswer, error) {
	return through(b, func(h *handle) (broker.MovePutAnswer, error) { return h.PutMoved(ctx, r) })
}

// EndMove implements broker.Mover.
func (b *Broker) EndMove(ctx context.Context, _ broker.Call, r broker.MoveEnd) error {
	_, err := through(b, func(h *handle) (struct{}, error) { return struct{}{}, h.EndMove(ctx, r) })
	return err
}

// moveBytes is about what a record of a move takes beside its peer.
const moveBytes = 512

// Moves is Broker.Moves.
func (b *handle) Moves(ctx context.Context, queue string) (all []broker.Move, err error) {
	err = b.look(ctx, func(now jobstate.Now) { all = b.s.Moves(now, queue) })
	return all, err
}

// BeginMove is Broker.BeginMove.
func (b *handle) BeginMove(ctx context.Context, r broker.MoveBegin) (m broker.Move, err error) {
	if err := r.Validate(); err != nil {
		return m, err
	}
	o := &op{size: moveBytes + len(r.Peer), class: journal.Settle}
	o.decide = func(now jobstate.Now) { m, o.err = b.s.BeginMove(&b.w, now, &r) }
	return m, b.do(ctx, o)
}

// TakeMoved is Broker.TakeMoved.
func (b *handle) TakeMoved(ctx context.Context, r broker.MoveTake) (batch broker.MoveBatch, err error) {
	for try := 0; ; try++ {
		var out []jobstate.OutJob
		o := &op{size: 2*moveBytes + broker.MaxMoveJobs*recordBytes, class: journal.Settle}
		o.decide = func(now jobstate.Now) { batch, out, o.err = b.s.Take(&b.w, now, &r) }
		if err := b.do(ctx, o); err != nil {
			return broker.MoveBatch{}, err
		}
		err := b.fillMoved(&batch, out)
		if err == nil {
			return batch, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || try == 2 {
			return broker.MoveBatch{}, public(err)
		}
		r.Batch = batch.Number // a compaction moved its bytes: it is asked for again
		b.mu.Lock()
		if try > 0 {
			b.broken = b.reload()
		}
		b.mu.Unlock()
	}
}

// fillMoved reads what the state does not hold of jobs on their way.
func (b *handle) fillMoved(batch *broker.MoveBatch, out []jobstate.OutJob) error {
	damaged := func(err error) bool { return errors.Is(err, errDamaged) }
	batch.Jobs = make([]broker.MovedJob, len(out))
	for i := range out {
		lost, err := out[i].Fill(b.readMoved, damaged, batch.Now)
		if err != nil {
			return err
		}
		if lost {
			b.slg.Error("stored bytes of a job that moves no longer match their checksum", "queue", out[i].Moved.Queue, "id", out[i].Moved.ID)
		}
		batch.Jobs[i] = out[i].Moved
	}
	return nil
}

// PutMoved is Broker.PutMoved.
func (b *handle) PutMoved(ctx context.Context, r broker.MovePut) (a broker.MovePutAnswer, err error) {
	size := moveBytes
	for i := range r.Batch.Jobs {
		size += 2*recordBytes + movedBytes(&r.Batch.Jobs[i])
	}
	for i := range r.Batch.Settings {
		t := &r.Batch.Settings[i]
		for _, set := range [...]*broker.Setting{t.Declared, t.Operator} {
			if set != nil {
				c := broker.Change{Set: []broker.Setting{*set}}
				size += c.Size()
			}
		}
	}
	size += recordBytes * (len(r.Batch.Keys) + len(r.Batch.Signals) + len(r.Batch.Starts))
	o := &op{size: size, class: journal.Enqueue}
	o.decide = func(now jobstate.Now) { a, o.err = b.s.Put(&b.w, now, &r) }
	return a, b.do(ctx, o)
}

// movedBytes is about what a job that arrives takes in the log.
func movedBytes(j *broker.MovedJob) int {
	n := broker.NewJob{Payload: j.Payload, Headers: j.Headers, Tenant: j.Tenant, Group: j.Group, Key: j.Key}
	size := n.Size() + len(j.Result) + len(j.Error) + len(j.Progress.Note) + 10*len(j.Seen)
	for _, line := range j.Log {
		size += len(line) + 3
	}
	return size
}

// EndMove is Broker.EndMove.
func (b *handle) EndMove(ctx context.Context, r broker.MoveEnd) error {
	o := &op{size: 2*moveBytes + broker.MaxReasonBytes, class: journal.Settle}
	o.decide = func(jobstate.Now) { o.err = b.s.EndMove(&b.w, &r) }
	return b.do(ctx, o)
}
