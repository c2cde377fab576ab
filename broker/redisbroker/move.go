package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

var _ broker.Mover = (*Broker)(nil)

// moveRec is the record of a queue's move: its fields are those of a hash. What
// may be done with it is decided here, and written if it is still the same; what
// changes jobs besides is decided by the script. Times are on the steady clock.
type moveRec struct {
	jobstate.MoveRecord
	turned  broker.ID
	jobs    uint64 // that left, or came
	settled bool   // the settings have left; the queue has worked here
	delta   int64  // µs that this clock is ahead of the other's
	shift   int64  // what the numbers of the other's enqueues are less than those here
	fresh   uint64 // µs: when the queue first worked here, with rates that began empty
	put     int    // how many jobs, keys and signals of the next batch are here
	rev     uint64

	now uint64 // µs: when it was read
	seq uint64 // the number of the last enqueue then
}

// said says how a queue moves, for people; "" when it does not rest for that.
func said(s broker.MoveState, peer string) string {
	m := jobstate.MoveRecord{State: s, Peer: peer}
	return m.Said()
}

// readMove reads the record of a queue's move, the zero one when there is none.
func (b *Broker) readMove(ctx context.Context, queue string) (m moveRec, err error) {
	u, err := b.call(ctx, b.s.moves, queue, newPacker(broker.ID{}))
	if errors.Is(err, errNoQueue) {
		return m, nil
	} else if err != nil {
		return m, err
	}
	m.now, m.seq, m.OnWay = u.uint(8), u.uint(8), u.u8() == 1
	for range u.count() {
		name, value := string(u.text()), u.text()
		m.read(name, value)
	}
	m.Part = m.put > 0
	return m, u.err
}

// read sets a field.
func (m *moveRec) read(name string, value []byte) {
	n, _ := strconv.ParseInt(string(value), 10, 64) // of those that are numbers
	switch name {
	case "id":
		copy(m.ID[:], value)
	case "turned":
		copy(m.turned[:], value)
	case "runner":
		copy(m.Runner[:], value)
	case "peer":
		m.Peer = string(value)
	case "state":
		m.State = broker.MoveState(n)
	case "batch":
		m.Batch = uint64(n)
	case "jobs":
		m.jobs = uint64(n)
	case "settled":
		m.settled = n == 1
	case "until":
		m.Until = n * 1000
	case "delta":
		m.delta = n
	case "shift":
		m.shift = n
	case "fresh":
		m.fresh = uint64(n)
	case "put":
		m.put = int(n)
	case "rev":
		m.rev = uint64(n)
	}
}

// pack packs what lua/move.lua makes of a record: the zero one is dropped. keep
// says that the batch which is on its way still is.
func (m *moveRec) pack(id broker.ID, saw uint64, keep bool) packer {
	p := newPacker(id).u48(saw).flag(keep).u8(byte(m.State))
	settled := int64(0)
	if m.settled {
		settled = 1
	}
	texts := [...]struct{ name, value string }{
		{"id", string(m.ID[:])}, {"turned", string(m.turned[:])}, {"runner", string(m.Runner[:])}, {"peer", m.Peer},
	}
	numbers := [...]struct {
		name  string
		value int64
	}{
		{"state", int64(m.State)}, {"batch", int64(m.Batch)}, {"jobs", int64(m.jobs)}, {"settled", settled}, {"until", m.Until / 1000},
		{"delta", m.delta}, {"shift", m.shift}, {"fresh", int64(m.fresh)}, {"put", int64(m.put)},
	}
	p = p.u32(len(texts) + len(numbers))
	for _, f := range texts {
		p = p.str(f.name).text([]byte(f.value))
	}
	for _, f := range numbers {
		p = p.str(f.name).text(strconv.AppendInt(nil, f.value, 10))
	}
	return p
}

// seqWindow is how far back the numbers of enqueues keep their order at another
// broker among jobs of one place: 24 days. Numbers count milliseconds here, and
// one that is told of the first would keep all from there on free.
const seqWindow = 1 << 36

func (m *moveRec) describe(queue string) broker.Move {
	return broker.Move{
		ID: m.ID, Queue: queue, State: m.State, Peer: m.Peer, Batch: m.Batch, OnWay: m.OnWay, Jobs: int64(m.jobs), Turned: m.turned,
		Now: instant(m.now), First: max(m.seq, seqWindow) - seqWindow, Seq: m.seq,
	}
}

// Moves implements broker.Mover.
func (b *Broker) Moves(ctx context.Context, queue string) (all []broker.Move, err error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	queues, err := b.only(ctx, queue)
	if err != nil || queue != "" && broker.ValidName(queue) != nil {
		return nil, err
	}
	for _, q := range queues {
		m, err := b.readMove(ctx, q)
		if moved(err) {
			continue // a queue that is spread does not move
		} else if err != nil {
			return nil, err
		}
		if m.State != 0 {
			all = append(all, m.describe(q))
		}
	}
	return all, nil
}

// moveTries is how often a decision is made anew, since somebody else has changed
// meanwhile what it was about.
const moveTries = 20

// changeMove makes a change of a queue's record that decide makes of it.
func (b *Broker) changeMove(ctx context.Context, c broker.Call, queue string, decide func(is moveRec) (next moveRec, keep bool, err error)) (moveRec, error) {
	for try := 0; ; try++ {
		is, err := b.readMove(ctx, queue)
		if err != nil {
			return is, err
		}
		next, keep, refused := decide(is)
		saw := is.rev
		if refused != nil {
			saw = 1<<48 - 1 // no record is at that revision, but a repeat is known
		}
		_, err = b.call(ctx, b.s.move, queue, next.pack(c.ID, saw, keep))
		switch {
		case errors.Is(err, errNoQueue) && refused != nil, errors.Is(err, broker.ErrConflict) && refused != nil:
			return next, refused
		case !errors.Is(err, broker.ErrConflict) || try == moveTries:
			return next, err
		}
	}
}

// BeginMove implements broker.Mover.
func (b *Broker) BeginMove(ctx context.Context, c broker.Call, r broker.MoveBegin) (m broker.Move, err error) {
	if err := r.Validate(); err != nil {
		return m, err
	}
	if err := b.alive(ctx); err != nil {
		return m, err
	}
	began := time.Now()
	if err := b.ensure(ctx, r.Queue); err != nil {
		return m, err
	}
	next, err := b.changeMove(ctx, c, r.Queue, func(is moveRec) (moveRec, bool, error) {
		asked := r
		if !r.Now.IsZero() {
			asked.Now = r.Now.Add(b.since(began)) // the other's clock went on meanwhile
		}
		return is.begun(&asked), r.State == broker.Leaving, is.Begins(int64(is.now)*1000, &r)
	})
	if err != nil {
		return m, err
	}
	next.OnWay = next.OnWay && r.State == broker.Leaving
	return next.describe(r.Queue), nil
}

// begun is what becomes of the record is when a move begins, or goes on.
func (m *moveRec) begun(b *broker.MoveBegin) moveRec {
	next := moveRec{turned: b.Turn, now: m.now, seq: m.seq}
	next.ID, next.State, next.Peer, next.Batch = b.ID, b.State, b.Peer, b.Batch
	same := m.State != 0 && m.ID == b.ID
	if same {
		next = *m
		next.State = b.State
	}
	switch {
	case b.State == broker.Leaving:
		next.Runner, next.Until = b.Runner, int64(m.now)*1000+int64(jobstate.MoveLasts(b.TTL))
	case !same:
		next.delta, next.shift = int64(m.now)-b.Now.UnixMicro(), int64(m.seq-b.Seq)
	}
	return next
}

// EndMove implements broker.Mover.
func (b *Broker) EndMove(ctx context.Context, c broker.Call, r broker.MoveEnd) error {
	if err := b.alive(ctx); err != nil {
		return err
	}
	if err := broker.ValidName(r.Queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	_, err := b.changeMove(ctx, c, r.Queue, func(is moveRec) (moveRec, bool, error) {
		to, err := is.Ends(&r)
		next := is
		next.State = to
		switch {
		case err != nil:
		case to == 0:
			next = moveRec{}
		case to == broker.Arrived && !is.settled:
			next.settled, next.fresh = true, is.now
		}
		return next, false, err
	})
	return err
}

// moveBytes is about what payloads, results and error texts of one batch have:
// few enough that the script takes a few milliseconds.
const moveBytes = 256 << 10

// takeJobs is how many jobs one script takes or puts.
const takeJobs = 64

// TakeMoved implements broker.Mover. A batch has at most 64 jobs.
func (b *Broker) TakeMoved(ctx context.Context, c broker.Call, r broker.MoveTake) (batch broker.MoveBatch, err error) {
	if err := b.alive(ctx); err != nil {
		return batch, err
	}
	if err := broker.ValidName(r.Queue); err != nil {
		return batch, fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	most := r.Max
	if most <= 0 || most > takeJobs {
		most = takeJobs
	}
	for try := 0; ; try++ {
		p := newPacker(broker.ID{}).id(r.ID).id(r.Runner).u64(micros(jobstate.MoveLasts(r.TTL))).u64(int64(r.Batch)).u32(most).u32(moveBytes)
		u, err := b.call(ctx, b.s.take, r.Queue, p)
		settings := false
		if err == nil {
			if batch, settings = u.moved(r.Queue); u.err != nil || !settings {
				batch.Done = batch.Done && r.Batch != batch.Number
				return batch, u.err
			}
			err = b.leaveSettings(ctx, c, &r)
		}
		if errors.Is(err, broker.ErrConflict) || errors.Is(err, errNoQueue) {
			err = b.sayConflict(ctx, r.Queue, err, func(m *moveRec) error { return m.Takes(int64(m.now)*1000, &r) })
		}
		if err != nil && (!errors.Is(err, errAgain) || try == moveTries) {
			return broker.MoveBatch{}, err
		}
	}
}

// errAgain says that a call which was refused may take place now.
var errAgain = fmt.Errorf("%w: somebody else changes it all the time", broker.ErrConflict)

// sayConflict says why a script has refused a call about a move.
func (b *Broker) sayConflict(ctx context.Context, queue string, refused error, why func(*moveRec) error) error {
	m, err := b.readMove(ctx, queue)
	if err != nil {
		return err
	}
	if err := why(&m); err != nil {
		return err
	}
	if errors.Is(refused, broker.ErrConflict) {
		return errAgain
	}
	return refused
}

// PutMoved implements broker.Mover. A batch arrives in parts of at most 64 jobs,
// each once: its number says that it is whole, and the record how much of it is here.
func (b *Broker) PutMoved(ctx context.Context, c broker.Call, r broker.MovePut) (a broker.MovePutAnswer, err error) {
	if err := b.alive(ctx); err != nil {
		return a, err
	}
	if err := broker.ValidName(r.Queue); err != nil {
		return a, fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	for try := 0; ; try++ {
		m, err := b.readMove(ctx, r.Queue)
		if err != nil {
			return a, err
		}
		if arrived, err := m.Puts(&r); err != nil || arrived {
			return a, err
		}
		if err := jobstate.CheckPut(&r); err != nil {
			return a, err
		}
		err = b.putParts(ctx, c, &r, &m, &a)
		if !errors.Is(err, broker.ErrConflict) || try == moveTries {
			return a, err
		}
	}
}

// putParts puts what is not here yet of a batch.
func (b *Broker) putParts(ctx context.Context, c broker.Call, r *broker.MovePut, m *moveRec, a *broker.MovePutAnswer) error {
	batch := &r.Batch
	all, settings := len(batch.Jobs)+len(batch.Keys)+len(batch.Signals), len(batch.Settings)+len(batch.Starts) > 0
	for at := m.put; at < all || !settings; {
		id := c.ID
		if !id.IsZero() {
			id[0], id[1] = id[0]^byte(at>>8), id[1]^byte(at)
		}
		p := newPacker(id).id(r.ID).u64(int64(batch.Number)).u32(at)
		u, err := b.call(ctx, b.s.put, r.Queue, p.part(batch, m, at, settings))
		if err != nil {
			return err
		}
		here := u.uint(4)
		a.Known, a.Duplicates = a.Known+int(u.uint(4)), a.Duplicates+int(u.uint(4))
		if here == 1<<32-1 || u.err != nil {
			return u.err
		}
		at = int(here)
	}
	return b.adoptSettings(ctx, c, r, m)
}

// part packs the next part of a batch as lua/put.lua reads it.
func (p packer) part(b *broker.MoveBatch, m *moveRec, at int, settings bool) packer {
	jobs := b.Jobs[min(at, len(b.Jobs)):]
	keys := b.Keys[min(max(at-len(b.Jobs), 0), len(b.Keys)):]
	signals := b.Signals[min(max(at-len(b.Jobs)-len(b.Keys), 0), len(b.Signals)):]
	var list packer
	n := 0
	for n < min(len(jobs), takeJobs) && (n == 0 || len(list) < moveBytes) {
		list = list.moved(&jobs[n], m)
		n++
	}
	last := n == len(jobs)
	if !last {
		keys, signals = nil, nil
	}
	flags := byte(0)
	if last && !settings {
		if flags = 1; b.Paused {
			flags |= 2
		}
	}
	p = append(p.u8(flags).u32(n), list...).u32(len(keys))
	for i := range keys {
		k := &keys[i]
		p = p.str(k.Task).str(k.Key).id(k.ID).id(broker.ID(k.Digest)).u64(m.micros(k.Until, up))
	}
	p = p.u32(len(signals))
	for _, s := range signals {
		p = p.id(s.Batch).u32(int(s.Ordinal))
	}
	return p
}

// away reads the answer to a call that would change a job which has left.
func (u *unpacker) away(queue string) error {
	state, job, id, peer := broker.MoveState(u.u8()), u.uint(4), u.id(), string(u.text())
	return &broker.FullError{
		Queue: queue, RetryAfter: time.Second,
		Text: fmt.Sprintf("job %s, which holds the key of job %d, is not here any more: queue %s %s", id, job, queue, said(state, peer)),
	}
}
