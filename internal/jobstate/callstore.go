package jobstate

import (
	"github.com/spoolq/spool/broker"
)

// What a checkpoint has of remembered calls (part of the format; from version 4
// on, which is written only while there are some):
//
//	uint32 n × (id, uint8 kind, varint at, uvarint length, answer)
//
// in the order in which they were made; at is relative to the one before.
const checkpointWithCalls = 4

// remembers reports whether a call is remembered at the time of the last frame.
func (s *State) remembers() bool {
	return s.calls != nil && !s.calls.at(s.calls.last).over(s.clock)
}

func (s *State) encodeCalls(e *encoder) {
	n, before := uint32(0), int64(0)
	s.calls.each(s.clock, func(*call, []byte) { n++ })
	e.u32(n)
	s.calls.each(s.clock, func(k *call, answer []byte) {
		e.raw(k.id[:])
		e.u8(byte(k.kind))
		e.int(k.at - before)
		before = k.at
		e.uint(uint64(len(answer)))
		e.raw(answer)
		e.flush(1 << 16)
	})
}

func (s *State) decodeCalls(d *decoder) {
	before := int64(0)
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		id, kind, at := broker.ID(d.b16()), callKind(d.u8()), before+d.int()
		answer := []byte(d.text())
		switch {
		case d.err != nil:
			return
		case !validAnswer(kind, answer):
			d.fail("answer of a call")
			return
		case s.calls != nil && at < before || at > s.clock:
			d.fail("calls are out of order")
			return
		}
		if s.calls == nil {
			s.calls = &calls{}
		}
		s.calls.add(id, kind, at, answer)
		before = at
	}
}

// call describes a call record.
func (d *describer) call() {
	id, kind, answer := d.r.callRec()
	if d.r.err != nil {
		return
	}
	d.say("of", kind)
	d.say("id", id)
	r := &reader{b: answer}
	switch kind {
	case callAdded, callEnqueue:
		for _, a := range readEnqueueAnswer(kind, r) {
			d.rec.IDs = append(d.rec.IDs, a.ID)
		}
	case callClaim:
		r.leases(func(queue string, id broker.ID, token broker.Token) {
			d.rec.Queue = queue
			d.rec.IDs = append(d.rec.IDs, id)
			d.say("token", token)
		})
	case callSettle:
		for _, a := range r.settled() {
			d.say("state", a.State)
		}
	case callStep:
		step := r.step()
		d.say("changed", step.Changed)
	}
}
