package brokertest

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
)

// never is the cursor of a schedule that does not fire again.
var never = broker.MaxTime

// Tick implements broker.Broker.
func (m *Model) Tick(ctx context.Context, _ broker.Call, t broker.Tick) (bool, time.Time, error) {
	if err := checkJobs(m.Caps(), t.Queue, t.Jobs); err != nil {
		return false, time.Time{}, err
	}
	if err := t.Validate(); err != nil {
		return false, time.Time{}, err
	}
	if err := m.begin(ctx); err != nil {
		return false, time.Time{}, err
	}
	s := m.s
	defer s.mu.Unlock()
	now := s.clock.Wall()
	if !s.rules.wins(s, t, now) {
		return false, now, nil
	}
	if err := s.checkMembers(t.Queue, t.Jobs); err != nil {
		return false, now, err
	}
	defer s.wake()
	next := t.Next
	if next.IsZero() {
		next = never
	}
	s.flow(t.Queue).cursors[t.Schedule] = next
	s.enqueueAll(t.Queue, t.Jobs)
	return true, now, nil
}

// wins reports whether t moves the cursor.
func (s *store) wins(t broker.Tick, now time.Time) bool {
	l, there := s.flow(t.Queue).settings[broker.SettingName{Kind: broker.ScheduleSetting, Name: t.Schedule}]
	return there && !l.paused &&
		s.flow(t.Queue).cursors[t.Schedule].Equal(t.Due) && !now.Before(t.Due) &&
		(t.Next.IsZero() || t.Next.After(t.Due))
}
