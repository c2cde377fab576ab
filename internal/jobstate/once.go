package jobstate

import (
	"fmt"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// The verbs of this file take a call's id, the same when it is made again. What
// changed something is remembered with its answer, by a record behind those of
// the change: made again within [CallRetry], it writes nothing and answers what
// it did. What was refused, or changed nothing, is not: it is judged anew, as if
// it had never come. The zero id is none.

// verb is how the answers of a sort of calls are written and read.
type verb[A any] struct {
	is    callKind
	or    callKind                                    // another kind of the same sort; 0 for none
	write func(b []byte, answer A) (callKind, []byte) // kind 0: this is not worth remembering
	read  func(kind callKind, r *reader) A
}

// once makes a call, unless it is remembered.
func once[A any](s *State, w *Writer, now Now, id broker.ID, v *verb[A], decide func() (A, error)) (answer A, again bool, err error) {
	if id.IsZero() {
		answer, err = decide()
		return answer, false, err
	}
	if n := s.calls.find(id, now.Steady); n != 0 {
		kind := s.calls.at(n).kind
		if kind != v.is && kind != v.or {
			rare.Reached(rare.CallIDReused)
			return answer, false, fmt.Errorf("%w: call id %s was that of another call: %v", broker.ErrInvalid, id, kind)
		}
		rare.Reached(rare.CallRepeated)
		r := &reader{b: s.calls.answer(n)}
		answer = v.read(kind, r)
		return answer, true, r.err
	}
	was := w.n
	answer, err = decide()
	if err != nil || w.n == was {
		return answer, false, err
	}
	kind, b := v.write(s.answer[:0], answer)
	if kind != 0 {
		s.remember(w, id, kind, b)
		s.answer = b[:0]
	}
	return answer, false, nil
}

var (
	enqueueVerb = &verb[[]broker.Enqueued]{is: callAdded, or: callEnqueue, write: enqueueAnswer, read: readEnqueueAnswer}
	claimVerb   = &verb[[]Ticket]{is: callClaim, write: claimAnswer, read: func(_ callKind, r *reader) (list []Ticket) {
		r.leases(func(queue string, id broker.ID, token broker.Token) {
			list = append(list, Ticket{Job: broker.Job{Queue: queue, ID: id, Token: token}})
		})
		return list
	}}
	settleVerb = &verb[[]broker.Settled]{is: callSettle, write: settleAnswer, read: func(_ callKind, r *reader) []broker.Settled { return r.settled() }}
	stepVerb   = &verb[broker.Step]{is: callStep, write: stepAnswer, read: func(_ callKind, r *reader) broker.Step { return r.step() }}

	configureVerb = &verb[struct{}]{
		is: callConfigure, write: func(b []byte, _ struct{}) (callKind, []byte) { return callConfigure, b },
		read: func(callKind, *reader) struct{} { return struct{}{} },
	}
	tickVerb = &verb[bool]{
		is: callTick, write: func(b []byte, _ bool) (callKind, []byte) { return callTick, b }, // one that is lost writes nothing
		read: func(callKind, *reader) bool { return true },
	}
)

// sameCount refuses a call whose id was that of another one: the answer that is
// remembered is not for all that this one asks.
func sameCount(id broker.ID, answered, asked int) error {
	if answered == asked {
		return nil
	}
	return fmt.Errorf("%w: call id %s was that of another call, of %d in place of %d", broker.ErrInvalid, id, answered, asked)
}

// EnqueueOnce is Enqueue for a call that may be made again.
func (s *State) EnqueueOnce(w *Writer, now Now, id broker.ID, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	answers, again, err := once(s, w, now, id, enqueueVerb, func() ([]broker.Enqueued, error) { return s.Enqueue(w, now, queue, jobs) })
	if again && err == nil {
		err = sameCount(id, len(answers), len(jobs))
	}
	return answers, err
}

// ClaimOnce is ClaimAny for a call that may be made again: then it returns those
// of its leases that are still held, whatever there is to take.
func (s *State) ClaimOnce(w *Writer, now Now, id broker.ID, r *broker.ClaimRequest, member string) (got []Ticket, more, again bool, err error) {
	got, again, err = once(s, w, now, id, claimVerb, func() (some []Ticket, _ error) {
		some, more = s.ClaimAny(w, now, r, member)
		return some, nil
	})
	if !again {
		return got, more, false, err
	}
	held := got[:0]
	for i := range got {
		if j := s.held(got[i].Job.Ref(), got[i].Job.Token); j != nil {
			held = append(held, s.ticket(j))
		}
	}
	return held, len(held) > 0, true, err // nobody has looked what else there is
}

// SettleOnce is Settle for all settlements of a call that may be made again.
func (s *State) SettleOnce(w *Writer, now Now, id broker.ID, list []broker.Settlement) ([]broker.Settled, error) {
	answers, again, err := once(s, w, now, id, settleVerb, func() ([]broker.Settled, error) {
		answers := make([]broker.Settled, len(list))
		for i := range list {
			answers[i] = s.Settle(w, now, &list[i])
		}
		return answers, nil
	})
	if again && err == nil {
		err = sameCount(id, len(answers), len(list))
	}
	return answers, err
}

// CommandOnce is Command for a step that may be made again; the next begins at
// cursor.
func (s *State) CommandOnce(w *Writer, now Now, id broker.ID, cmd *broker.Command, ids []broker.ID, cursor string) (broker.Step, error) {
	step, _, err := once(s, w, now, id, stepVerb, func() (broker.Step, error) {
		return broker.Step{Changed: s.Command(w, now, cmd, ids), Cursor: cursor}, nil
	})
	return step, err
}

// ConfigureOnce is Configure for a call that may be made again.
func (s *State) ConfigureOnce(w *Writer, now Now, id broker.ID, queue string, c *broker.Change) error {
	_, _, err := once(s, w, now, id, configureVerb, func() (struct{}, error) { return struct{}{}, s.Configure(w, queue, c) })
	return err
}

// TickOnce is Tick for a call that may be made again.
func (s *State) TickOnce(w *Writer, now Now, id broker.ID, t *broker.Tick) (won bool, err error) {
	won, _, err = once(s, w, now, id, tickVerb, func() (bool, error) { return s.Tick(w, now, t) })
	return won, err
}
