package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
)

// Settle implements broker.Broker.
func (m *Model) Settle(ctx context.Context, _ broker.Call, settlements []broker.Settlement) ([]broker.Settled, error) {
	if err := checkSettlements(m.Caps(), settlements); err != nil {
		return nil, err
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	defer m.s.wake()
	var answers []broker.Settled
	for i := range settlements {
		answers = append(answers, m.s.settle(&settlements[i]))
	}
	return answers, nil
}

func checkSettlements(c broker.Caps, settlements []broker.Settlement) error {
	n, size := len(settlements), 0
	for i, t := range settlements {
		switch {
		case t.Kind < broker.Ack || t.Kind > broker.Cancel:
			return fmt.Errorf("%w: settlement %d is of kind %d", broker.ErrInvalid, i, t.Kind)
		case t.Delay < 0 || t.Delay > broker.MaxDelay:
			return fmt.Errorf("%w: settlement %d has the delay %v", broker.ErrInvalid, i, t.Delay)
		case len(t.FollowUps) > 0 && t.Kind != broker.Ack:
			return fmt.Errorf("%w: settlement %d: only an ack takes follow-ups", broker.ErrInvalid, i)
		}
		n += len(t.FollowUps)
		size += len(t.Result) + len(broker.CutError(t.Error))
		for _, f := range t.FollowUps {
			if err := checkJobs(c, f.Queue, []broker.NewJob{f.Job}); err != nil {
				return fmt.Errorf("settlement %d: follow-up: %w", i, err)
			}
			size += f.Job.Size()
		}
	}
	if n > c.MaxBatch {
		return fmt.Errorf("%w: %d settlements and follow-ups in one call, the limit is %d", broker.ErrTooLarge, n, c.MaxBatch)
	}
	if size > c.MaxBytes {
		return fmt.Errorf("%w: %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, c.MaxBytes)
	}
	return nil
}

func (s *store) settle(t *broker.Settlement) broker.Settled {
	j := s.find(t.Ref)
	switch {
	case j == nil:
		return broker.Settled{Err: fmt.Errorf("model: %w", broker.ErrNotFound)}
	case j.settled == t.Kind && j.Token == t.Token && j.State != broker.Leased:
		return broker.Settled{State: j.State, FollowUps: j.repeat(t)}
	case s.holds(t.Ref, t.Token) == nil:
		return broker.Settled{State: j.State, Err: fmt.Errorf("model: %w", broker.ErrLeaseLost)}
	}
	j.settled = t.Kind
	j.followUps = nil
	s.judge(j, t)
	for i := range t.FollowUps {
		f := &t.FollowUps[i]
		j.followUps = append(j.followUps, s.enqueue(f.Queue, &f.Job))
	}
	return broker.Settled{State: j.State, FollowUps: slices.Clone(j.followUps)}
}

// repeat answers for the follow-ups of a settlement that took place before. It
// is taken for the same one when it names as many.
func (j *job) repeat(t *broker.Settlement) []broker.Enqueued {
	if len(t.FollowUps) != len(j.followUps) {
		return nil
	}
	return slices.Clone(j.followUps)
}

// judge does what a settlement of a valid lease asks for.
func (s *store) judge(j *job, t *broker.Settlement) {
	if t.Kind == broker.Nack || t.Kind == broker.Bury {
		j.Failures++
		s.rules.tally(&s.total(j).Failed)
	}
	switch {
	case t.Kind == broker.Ack:
		j.HasResult, j.Result = t.Result != nil, bytes.Clone(t.Result)
		s.end(j, broker.Done, broker.ReasonAcked)
	case t.Kind == broker.Cancel || j.CancelRequested:
		s.cancel(j, t.Error)
	case t.Kind == broker.Nack && j.Attempt < j.MaxAttempts:
		j.Error = broker.CutError(t.Error)
		s.put(j, t.Delay, broker.ReasonRetry)
	case t.Kind == broker.Nack:
		j.Error = broker.CutError(t.Error)
		s.end(j, broker.Dead, broker.ReasonAttempts)
	case t.Kind == broker.Bury:
		j.Error = broker.CutError(t.Error)
		s.end(j, broker.Dead, broker.ReasonBuried)
	case t.Kind == broker.Snooze:
		s.rules.back(j)
		s.put(j, t.Delay, broker.ReasonSnoozed)
	case t.Kind == broker.Release:
		s.rules.back(j)
		s.enter(j, broker.Ready, broker.ReasonReleased)
	}
}

// cancel ends j. A text is kept, none leaves the last one.
func (s *store) cancel(j *job, text string) {
	if text != "" {
		j.Error = broker.CutError(text)
	}
	s.end(j, broker.Cancelled, broker.ReasonCancelled)
}
