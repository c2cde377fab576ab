package jobstate

import (
	"bytes"
	"iter"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// What a checkpoint has of moves (part of the format; from version 3 on, which
// is written only when there is one, or a later part):
//
//	uint32 n × (queue, uint8 state, id, turned, peer, uvarint batch, jobs, uint8 settled, runner, varint until, delta, uvarint base, first, room, varint fresh
//	  jobs      uvarint n × (entry, uint8 group, uint8 keyHeld, varint keyUntil)
//	  keys      uvarint n × (task, key, id, digest, varint until)
//	  signals   uvarint n × (id, uvarint ordinal)       on their way
//	  settings  uvarint n × (kind, name, varint due, uint8 paused, declared, operator)
//	  starts    uvarint n × (owner, id, varint at)
//	  uint8 paused
//	  signals   uvarint n × (id, uvarint ordinal)       not on their way yet
//	  told      uvarint n × (task, key, id)
//	  early     uvarint n × (id, uvarint n × uvarint ordinal))

const checkpointWithMoves = 3

// moves lists the queues that have a record of one.
func (s *State) moves() (queues []*queue) {
	for _, name := range s.Queues() {
		if q := s.queues[name]; q.move != nil {
			queues = append(queues, q)
		}
	}
	return queues
}

func (s *State) encodeMoves(e *encoder) {
	queues := s.moves()
	e.u32(uint32(len(queues)))
	for _, q := range queues {
		m := q.move
		e.str(q.name)
		e.u8(byte(m.state))
		e.raw(m.id[:])
		e.raw(m.turned[:])
		e.text(m.peer)
		e.uint(m.batch)
		e.uint(uint64(m.jobs))
		e.u8(b2u(m.settled))
		e.raw(m.runner[:])
		e.int(m.until)
		e.int(m.delta)
		e.uint(m.base)
		e.uint(m.first)
		e.uint(m.room)
		e.int(m.fresh)
		s.encodeOut(e, &m.out)
		e.signals(m.signals)
		e.told(m.told)
		e.early(m.early)
		e.flush(1 << 16)
	}
}

func (s *State) encodeOut(e *encoder, out *outbox) {
	e.uint(uint64(len(out.jobs)))
	seq := &sequence{lanes: map[uint32]uint64{}}
	for i := range out.jobs {
		o := &out.jobs[i]
		s.encodeEntry(e, seq, o.job)
		e.u8(b2u(o.group))
		e.u8(b2u(o.keyHeld))
		e.int(o.keyUntil)
		e.flush(1 << 16)
	}
	e.uint(uint64(len(out.keys)))
	for _, k := range out.keys {
		e.str(k.task)
		e.text(k.key)
		e.raw(k.id[:])
		e.raw(k.digest[:])
		e.int(k.until)
	}
	e.signals(out.signals)
	e.uint(uint64(len(out.settings)))
	for _, t := range out.settings {
		e.str(string(t.kind))
		e.str(t.name)
		e.int(t.due)
		e.u8(b2u(t.paused))
		e.setting(t.declared)
		e.setting(t.operator)
	}
	e.uint(uint64(len(out.starts)))
	for _, owner := range slices.Sorted(maps.Keys(out.starts)) {
		st := out.starts[owner]
		e.str(owner)
		e.raw(st.id[:])
		e.int(st.at)
	}
	e.u8(b2u(out.paused))
}

func (e *encoder) signals(list []signalOf) {
	e.uint(uint64(len(list)))
	for _, g := range list {
		e.raw(g.batch[:])
		e.uint(uint64(g.ordinal))
	}
}

func (e *encoder) told(told map[keyName]broker.ID) {
	e.uint(uint64(len(told)))
	for _, k := range slices.SortedFunc(maps.Keys(told), compareKeys) {
		e.str(k.task)
		e.text(k.key)
		id := told[k]
		e.raw(id[:])
		e.flush(1 << 16)
	}
}

func (e *encoder) early(early map[broker.ID][]uint32) {
	e.uint(uint64(len(early)))
	for _, id := range slices.SortedFunc(maps.Keys(early), func(a, b broker.ID) int { return bytes.Compare(a[:], b[:]) }) {
		e.raw(id[:])
		e.uint(uint64(len(early[id])))
		for _, n := range early[id] {
			e.uint(uint64(n))
		}
	}
}

func (s *State) decodeMoves(d *decoder) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		q, m := s.queues[d.str()], &move{}
		m.state = broker.MoveState(d.u8())
		m.id, m.turned, m.peer = d.b16(), d.b16(), d.text()
		m.batch, m.jobs, m.settled = d.uint(), int64(d.uint()), d.u8() != 0
		m.runner, m.until, m.delta = d.b16(), d.int(), d.int()
		m.base, m.first, m.room, m.fresh = d.uint(), d.uint(), d.uint(), d.int()
		if d.err == nil && (q == nil || m.state < broker.Leaving || m.state > broker.Arrived) {
			d.fail("move of no queue")
		}
		if d.err != nil {
			return
		}
		q.move = m
		s.decodeOut(d, q, &m.out)
		m.signals = d.signals()
		for k := d.uint(); k > 0 && d.err == nil; k-- {
			m.toldOf(keyName{d.str(), d.text()}, &heldKey{id: d.b16(), until: never})
		}
		for k := d.uint(); k > 0 && d.err == nil; k-- {
			if m.early == nil {
				m.early = map[broker.ID][]uint32{}
			}
			id := broker.ID(d.b16())
			for i := d.uint(); i > 0 && d.err == nil; i-- {
				m.early[id] = append(m.early[id], uint32(d.uint()))
			}
		}
	}
}

func (s *State) decodeOut(d *decoder, q *queue, out *outbox) {
	seq := &sequence{}
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		d.window(entryWindow)
		j := s.decodeEntry(d, q, seq)
		o := outgoing{job: j, group: d.u8() != 0, keyHeld: d.u8() != 0, keyUntil: d.int()}
		if d.err != nil {
			return
		}
		s.laneOf(j).refs++
		s.use(j)
		out.jobs = append(out.jobs, o)
	}
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		k := outKey{keyName: keyName{d.str(), d.text()}}
		k.id, k.digest, k.until = d.b16(), d.b16(), d.int()
		out.keys = append(out.keys, k)
	}
	out.signals = d.signals()
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		t := outSetting{settingName: settingName{broker.SettingKind(d.str()), d.str()}}
		t.due, t.paused, t.declared, t.operator = d.int(), d.u8() != 0, d.setting(), d.setting()
		out.settings = append(out.settings, t)
	}
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		if out.starts == nil {
			out.starts = map[string]start{}
		}
		owner := d.str()
		out.starts[owner] = start{d.b16(), d.int()}
	}
	out.paused = d.u8() != 0
}

func (d *decoder) signals() (list []signalOf) {
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		list = append(list, signalOf{d.b16(), uint32(d.uint())})
	}
	return list
}

// kept hands out every job that the state keeps: those of queues, and those
// that are on their way to another store.
func (q *queue) kept() iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for j := range q.jobs.all(&q.state.jobs) {
			if !yield(j) {
				return
			}
		}
		if q.move == nil {
			return
		}
		for _, o := range q.move.out.jobs {
			if !yield(o.job) {
				return
			}
		}
	}
}
