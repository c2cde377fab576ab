package jobstate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// outbox is what has left a queue and is on its way to the other side: none of
// it is the queue's any more, all of it is kept until it has arrived.
type outbox struct {
	jobs     []outgoing
	keys     []outKey
	signals  []signalOf
	settings []outSetting
	starts   map[string]start
	paused   bool
}

// outgoing is a job on its way. It is in no list, lane or index.
type outgoing struct {
	job      *job
	group    bool // it held its ordered group
	keyHeld  bool
	keyUntil int64
}

type outKey struct {
	keyName
	heldKey
}

// signalOf says that a member of a batch is final.
type signalOf struct {
	batch   broker.ID
	ordinal uint32
}

type outSetting struct {
	settingName
	setting
}

func (o *outbox) empty() bool {
	return len(o.jobs)+len(o.keys)+len(o.signals)+len(o.settings)+len(o.starts) == 0 && !o.paused
}

// OutJob is a job on its way, with the places of what the state does not hold.
type OutJob struct {
	Moved             broker.MovedJob
	Body, Err, Result Loc
}

// describeOut says what is on its way, and what is left.
func (s *State) describeOut(now Now, q *queue) (b broker.MoveBatch, out []OutJob) {
	m := q.move
	b = broker.MoveBatch{
		Number: m.batch, Now: time.Unix(0, now.Steady), Paused: m.out.paused,
		Left: int64(q.jobs.len()), Leased: int64(q.lists[broker.Leased].n),
	}
	for i := range m.out.jobs {
		out = append(out, s.outJob(&m.out.jobs[i]))
	}
	for _, k := range m.out.keys {
		b.Keys = append(b.Keys, broker.MovedKey{Task: k.task, Key: k.key, ID: k.id, Digest: k.digest, Until: nanos(k.until)})
	}
	for _, g := range m.out.signals {
		b.Signals = append(b.Signals, broker.MovedSignal{Batch: g.batch, Ordinal: g.ordinal})
	}
	for _, t := range m.out.settings {
		set := broker.MovedSetting{Kind: t.kind, Name: t.name, Due: nanos(t.due), Paused: t.paused}
		set.Declared, set.Operator = copied(t.declared), copied(t.operator)
		b.Settings = append(b.Settings, set)
	}
	for _, owner := range slices.Sorted(maps.Keys(m.out.starts)) {
		st := m.out.starts[owner]
		b.Starts = append(b.Starts, broker.MovedStart{Owner: owner, ID: st.id, At: nanos(st.at)})
	}
	return b, out
}

func copied(t *broker.Setting) *broker.Setting {
	if t == nil {
		return nil
	}
	c := copyOf(t)
	return &c
}

// outJob describes a job on its way.
func (s *State) outJob(o *outgoing) OutJob {
	j := o.job
	t, v := s.ticket(j), s.lifeOf(j)
	moved := broker.MovedJob{
		Job: t.Job, Place: nanos(j.place), Seq: j.seq(), ByWall: j.flags&byWall != 0, Later: j.flags&scheduled != 0,
		ChangedAt: nanos(s.changedAt(j)), Ended: v.ended, HoldsGroup: o.group, KeyHeld: o.keyHeld, KeyUntil: nanos(o.keyUntil),
		Signalled: j.flags&signalled != 0, Waits: j.flags&waitsBatch != 0,
	}
	if x := v.ext; x != nil {
		moved.KeepUntil, moved.KeyHold, moved.KeyFor, moved.KeyDigest = nanos(x.keepUntil), x.hold, time.Duration(x.keyFor), x.digest
		moved.BatchSize, moved.Seen = x.size, slices.Clone(x.seen)
	}
	return OutJob{moved, t.Body, t.Err, t.Result}
}

// Fill reads what a job on its way has outside the state, as Ticket.Fill.
// damaged says which errors of read mean that bytes are lost: a job that waits
// is then the dead letter that a claim would have made of it at a time, a text
// or result is left out.
func (o *OutJob) Fill(read func(Loc) ([]byte, error), damaged func(error) bool, at time.Time) (lost bool, err error) {
	j := &o.Moved
	body, err := read(o.Body)
	if err == nil {
		err = DecodeBody(body, &j.Job)
	}
	if err != nil && damaged(err) {
		lost, err = true, nil
		if !j.State.Final() {
			j.State, j.Reason, j.ChangedAt, j.Waits, j.Later, j.KeyHeld, j.HoldsGroup = broker.Dead, broker.ReasonDamaged, at, false, false, false, false
		}
	}
	if err != nil {
		return lost, fmt.Errorf("payload of job %s: %w", j.ID, err)
	}
	if !o.Err.Zero() {
		text, err := read(o.Err)
		if err != nil && !damaged(err) {
			return lost, fmt.Errorf("error text of job %s: %w", j.ID, err)
		}
		j.Error, lost = string(text), lost || err != nil
	}
	if !o.Result.Zero() {
		if j.Result, err = read(o.Result); err != nil && !damaged(err) {
			return lost, fmt.Errorf("result of job %s: %w", j.ID, err)
		}
		j.HasResult, lost = err == nil, lost || err != nil
	}
	return lost, nil
}
