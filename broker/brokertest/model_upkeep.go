package brokertest

import (
	"context"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// Maintain implements broker.Broker.
func (m *Model) Maintain(ctx context.Context) (time.Duration, error) {
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	s := m.s
	defer s.mu.Unlock()
	defer s.wake()
	defer s.sweeping()()
	now := s.now()
	for _, j := range s.in("", broker.Leased) {
		if !s.rules.valid(j, now) {
			s.expire(j, broker.ReasonExpired)
		}
	}
	for _, j := range s.in("", broker.Ready) {
		if s.late(j) {
			j.moved = true
			s.end(j, broker.Cancelled, broker.ReasonNotStarted)
		}
	}
	for _, j := range slices.Clone(s.jobs) {
		if j.State.Final() && j.keep >= 0 && !now.Before(j.FinishedAt.Add(j.keep)) {
			s.remove(j)
		}
	}
	return time.Second, nil
}

// late reports whether j was not started in time, by the clock of its due time.
func (s *store) late(j *job) bool {
	return j.StartWithin > 0 && j.Attempt == 0 && !s.nowOf(j).Before(j.RunAt.Add(j.StartWithin))
}
