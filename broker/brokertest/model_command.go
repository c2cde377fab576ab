package brokertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
)

// commandStates are the states that a command looks at, in this order.
var commandStates = map[broker.CommandKind][]broker.State{
	broker.CancelJobs:  {broker.Scheduled, broker.Ready, broker.Leased},
	broker.RequeueJobs: {broker.Dead, broker.Cancelled},
	broker.DeleteJobs:  {broker.Scheduled, broker.Ready, broker.Done, broker.Dead, broker.Cancelled},
}

// Apply implements broker.Broker. A step chooses the first jobs that the command
// still has to change: state by state, in the order of List. Its cursor names the
// state that the next step goes on with.
func (m *Model) Apply(ctx context.Context, _ broker.Call, c broker.Command) (broker.Step, error) {
	if err := checkCommand(c); err != nil {
		return broker.Step{}, err
	}
	if err := m.begin(ctx); err != nil {
		return broker.Step{}, err
	}
	s := m.s
	defer s.mu.Unlock()
	defer s.wake()
	if c.Kind == broker.PauseQueue || c.Kind == broker.ResumeQueue {
		return s.pause(c.Filter.Queue, c.Kind == broker.PauseQueue), nil
	}
	chosen, cursor := s.choose(c)
	defer s.sweeping()()
	for _, j := range chosen {
		s.command(c, j)
	}
	return broker.Step{Changed: len(chosen), Cursor: cursor}, nil
}

// choose lists the jobs of one step, and says where the next one goes on.
func (s *store) choose(c broker.Command) (chosen []*job, cursor string) {
	limit := c.Limit
	if limit == 0 {
		limit = 1000
	}
	states := commandStates[c.Kind]
	if i := slices.IndexFunc(states, func(s broker.State) bool { return s.String() == c.Cursor }); i > 0 {
		states = states[i:]
	}
	for _, state := range states {
		for _, j := range s.in(c.Filter.Queue, state) {
			if !s.matches(c.Filter, j) || j.CancelRequested {
				continue
			}
			if len(chosen) == limit {
				return chosen, state.String()
			}
			chosen = append(chosen, j)
		}
	}
	return chosen, ""
}

func checkCommand(c broker.Command) error {
	if err := broker.ValidName(c.Filter.Queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if c.Kind < broker.CancelJobs || c.Kind > broker.ResumeQueue || c.Limit < 0 || len(c.Reason) > broker.MaxReasonBytes || c.Filter.Settings || c.Filter.Reason != "" {
		return fmt.Errorf("%w: command %d with limit %d, of settings %v, of reason %q", broker.ErrInvalid, c.Kind, c.Limit, c.Filter.Settings, c.Filter.Reason)
	}
	return nil
}

// command changes one job.
func (s *store) command(c broker.Command, j *job) {
	j.moved = j.State != broker.Leased
	switch {
	case c.Kind == broker.RequeueJobs:
		s.requeue(j)
	case c.Kind == broker.DeleteJobs:
		s.rules.tally(&s.total(j).Deleted)
		s.remove(j)
	case j.State == broker.Leased:
		j.CancelRequested, j.Reason = true, broker.ReasonCancelAsked
		if c.Reason != "" {
			j.Error = broker.CutError(c.Reason)
		}
		s.note(j)
	default:
		s.cancel(j, c.Reason)
	}
}

func (s *store) pause(queue string, paused bool) broker.Step {
	if s.paused[queue] == paused {
		return broker.Step{}
	}
	s.paused[queue] = paused
	return broker.Step{Changed: 1}
}
