package brokertest

import (
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// now is the time for leases and delays: it goes on when wall time steps.
func (s *store) now() time.Time { return s.base.Add(s.clock.Monotonic() - s.start) }

// nowOf is the time on the clock that j waits for.
func (s *store) nowOf(j *job) time.Time {
	if j.wall {
		return s.clock.Wall()
	}
	return s.now()
}

// restart lets machine restart the machine, with no client left. The time goes
// on from its last value, or from the wall clock where that is ahead.
func (m *Model) restart(machine func()) {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.now()
	machine()
	if wall := s.clock.Wall(); wall.After(last) {
		last = wall
	}
	s.start = s.clock.Monotonic() - last.Sub(s.base)
	s.reboot = true
}

// promote makes ready what is due, what has been due for longest first.
func (s *store) promote() {
	now := s.now()
	since := func(j *job) time.Time { return now.Add(j.RunAt.Sub(s.nowOf(j))) }
	var due []*job
	for _, j := range s.jobs {
		if j.State == broker.Scheduled && j.waits == nil && s.rules.due(s.nowOf(j), j.RunAt) {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(a, b *job) int {
		if (mark{since(a), a.place}).before(mark{since(b), b.place}) {
			return -1
		}
		return 1
	})
	for _, j := range due {
		j.State, j.becameDue = broker.Ready, true
		entered := since(j)
		if entered.Before(s.promoted) {
			entered = s.promoted // the wall clock has stepped on
		}
		j.entered, j.sweep = mark{entered, s.next()}, 0
	}
	s.promoted = now
}
