package jobstate

import (
	"encoding/binary"
	"slices"

	"github.com/spoolq/spool/broker"
)

// callKind says what a remembered call was, and how its answer is written (part
// of the format):
//
//	1 added      n × id                             an enqueue that added every job
//	2 enqueue    n × (id, flags)
//	3 claim      n × (queue, uvarint n × (id, uvarint token))
//	4 settle     n × (uint8 state, uint8 error, uvarint n × (id, flags))
//	5 step       uvarint changed, cursor to the end
//	6 configure  nothing
//	7 tick       nothing: it was won
//
// A queue is a uvarint length and bytes. Flags are a uint8: 1 existing, 2
// differs. Errors are 0 none, 1 lease lost, 2 not found.
type callKind uint8

const (
	callAdded callKind = 1 + iota
	callEnqueue
	callClaim
	callSettle
	callStep
	callConfigure
	callTick
)

var callNames = [...]string{callAdded: "enqueue", callEnqueue: "enqueue", callClaim: "claim", callSettle: "settle", callStep: "step", callConfigure: "configure", callTick: "tick"}

func (k callKind) String() string {
	if int(k) < len(callNames) {
		return callNames[k]
	}
	return "unknown"
}

// validAnswer reports whether b is an answer of that kind.
func validAnswer(kind callKind, b []byte) bool {
	r := &reader{b: b, all: len(b)}
	switch kind {
	case callAdded:
		return len(b) > 0 && len(b)%16 == 0
	case callEnqueue:
		return len(b) > 0 && len(b)%17 == 0
	case callClaim:
		r.leases(func(string, broker.ID, broker.Token) {})
	case callSettle:
		r.settled()
	case callStep:
		r.step()
	case callConfigure, callTick:
		return len(b) == 0
	default:
		return false
	}
	return r.err == nil
}

const (
	aExisting = 1 << iota
	aDiffers
)

func appendEnqueued(b []byte, list []broker.Enqueued) []byte {
	for i := range list {
		a := &list[i]
		b = append(append(b, a.ID[:]...), b2u(a.Existing)*aExisting|b2u(a.Differs)*aDiffers)
	}
	return b
}

// enqueueAnswer writes the answer of an enqueue: of one that added every job, the
// ids.
func enqueueAnswer(b []byte, list []broker.Enqueued) (callKind, []byte) {
	for i := range list {
		if list[i].Existing || list[i].Differs {
			return callEnqueue, appendEnqueued(b, list)
		}
	}
	for i := range list {
		b = append(b, list[i].ID[:]...)
	}
	return callAdded, b
}

func (r *reader) enqueued(n int) []broker.Enqueued {
	if n == 0 {
		return nil
	}
	list := make([]broker.Enqueued, n)
	for i := range list {
		id, flags := r.id(), r.byte()
		list[i] = broker.Enqueued{ID: id, Existing: flags&aExisting != 0, Differs: flags&aDiffers != 0}
	}
	return list
}

func readEnqueueAnswer(kind callKind, r *reader) []broker.Enqueued {
	if kind == callEnqueue {
		return r.enqueued(len(r.b) / 17)
	}
	list := make([]broker.Enqueued, len(r.b)/16)
	for i := range list {
		list[i].ID = r.id()
	}
	return list
}

// claimAnswer writes what a claim took, nothing for one that took nothing.
func claimAnswer(b []byte, list []Ticket) (callKind, []byte) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Job.Queue == list[0].Job.Queue {
			n++
		}
		b = appendText(b, list[0].Job.Queue)
		b = binary.AppendUvarint(b, uint64(n))
		for i := range list[:n] {
			b = append(b, list[i].Job.ID[:]...)
			b = binary.AppendUvarint(b, uint64(list[i].Job.Token))
		}
		list = list[n:]
	}
	if len(b) == 0 {
		return 0, nil
	}
	return callClaim, b
}

func (r *reader) leases(fn func(queue string, id broker.ID, token broker.Token)) {
	for len(r.b) > 0 {
		queue := string(r.text())
		for range r.count(17) {
			id, token := r.id(), broker.Token(r.uint())
			if r.err == nil {
				fn(queue, id, token)
			}
		}
	}
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// settleErrors are what a settlement is refused with.
var settleErrors = [...]error{nil, broker.ErrLeaseLost, broker.ErrNotFound}

func settleAnswer(b []byte, list []broker.Settled) (callKind, []byte) {
	for i := range list {
		a := &list[i]
		b = append(b, byte(a.State), byte(slices.Index(settleErrors[:], a.Err)))
		b = binary.AppendUvarint(b, uint64(len(a.FollowUps)))
		b = appendEnqueued(b, a.FollowUps)
	}
	return callSettle, b
}

func (r *reader) settled() (list []broker.Settled) {
	for len(r.b) > 0 {
		state, code := broker.State(r.byte()), r.byte()
		n := r.count(17)
		if r.err == nil && (state > broker.Cancelled || int(code) >= len(settleErrors)) {
			r.bad("answer to a settlement")
		}
		if r.err != nil {
			return nil
		}
		list = append(list, broker.Settled{State: state, Err: settleErrors[code], FollowUps: r.enqueued(n)})
	}
	return list
}

func stepAnswer(b []byte, step broker.Step) (callKind, []byte) {
	b = binary.AppendUvarint(b, uint64(step.Changed))
	return callStep, append(b, step.Cursor...)
}

func (r *reader) step() broker.Step {
	step := broker.Step{Changed: int(r.uint() & (1<<31 - 1))}
	step.Cursor = string(r.b)
	r.b = nil
	return step
}
