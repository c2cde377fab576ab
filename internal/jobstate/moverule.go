package jobstate

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// MoveRecord is what decides how the move of a queue may go on, whatever keeps
// it. See broker.Mover. The zero value is that of a queue without a record.
type MoveRecord struct {
	ID     broker.ID
	State  broker.MoveState // 0: there is no record
	Peer   string
	Batch  uint64 // the last that was taken, or put
	Part   bool   // a part of the batch behind it was put
	OnWay  bool   // the last batch is kept: it may not have arrived
	Runner broker.ID
	Until  int64 // the runner is waited for, nanoseconds on the steady clock
}

// Said says how a queue moves, for people; "" when it does not rest for that.
func (m *MoveRecord) Said() string {
	switch m.State {
	case broker.Leaving:
		return "moves to " + m.Peer
	case broker.Left:
		return "has moved to " + m.Peer
	case broker.Arriving:
		return "arrives from " + m.Peer
	}
	return ""
}

// about says what the record is of.
func (m *MoveRecord) about() string {
	if m.State == broker.Arrived {
		return "has arrived from " + m.Peer
	}
	return m.Said()
}

// Begins says why a move cannot begin, or go on, now.
func (m *MoveRecord) Begins(now int64, b *broker.MoveBegin) error {
	if m.State == 0 {
		return nil
	}
	refuse := func(why string, args ...any) error {
		return fmt.Errorf("%w: queue %s %s: %s", broker.ErrConflict, b.Queue, m.about(), fmt.Sprintf(why, args...))
	}
	same, turns := m.ID == b.ID, m.ID == b.Turn && !b.Turn.IsZero()
	if !same && m.OnWay && (!turns || m.Batch != b.TurnBatch) {
		return refuse("batch %d is on its way there", m.Batch)
	}
	leaves := m.State == broker.Leaving || m.State == broker.Left
	switch {
	case turns && m.Part:
		return refuse("a part of batch %d has arrived", m.Batch+1)
	case turns:
		return nil
	case same && leaves != (b.State == broker.Leaving):
		return refuse("it cannot go the other way")
	case same && b.State == broker.Leaving && m.Runner != b.Runner && now < m.Until:
		return refuse("another run of this move goes on; if it is gone, try again in %v", time.Duration(m.Until-now).Round(time.Millisecond))
	case same || m.State == broker.Arrived:
		return nil
	case m.State == broker.Left && b.State == broker.Arriving:
		return nil
	case m.State == broker.Left:
		return refuse("only there can more of it go, or from there")
	}
	return refuse("that move has to end first")
}

// under says why a call is not about this move in one of some states.
func (m *MoveRecord) under(queue string, id broker.ID, states ...broker.MoveState) error {
	switch {
	case m.State == 0:
		return fmt.Errorf("%w: queue %s has no record of a move", broker.ErrNotFound, queue)
	case m.ID != id:
		return fmt.Errorf("%w: queue %s %s by another move", broker.ErrConflict, queue, m.about())
	}
	for _, is := range states {
		if m.State == is {
			return nil
		}
	}
	return fmt.Errorf("%w: queue %s %s", broker.ErrConflict, queue, m.about())
}

// Takes says why a batch cannot be taken now.
func (m *MoveRecord) Takes(now int64, r *broker.MoveTake) error {
	if err := m.under(r.Queue, r.ID, broker.Leaving); err != nil {
		return err
	}
	switch {
	case m.Runner != r.Runner && now < m.Until:
		return fmt.Errorf("%w: queue %s %s: another run of this move goes on", broker.ErrConflict, r.Queue, m.Said())
	case r.Batch != m.Batch+1 && (r.Batch != m.Batch || m.Batch == 0):
		return fmt.Errorf("%w: queue %s is at batch %d of its move: %d is neither it nor the next", broker.ErrConflict, r.Queue, m.Batch, r.Batch)
	}
	return nil
}

// Puts says whether a batch is here already, or why it cannot be put.
func (m *MoveRecord) Puts(p *broker.MovePut) (arrived bool, err error) {
	if err := m.under(p.Queue, p.ID, broker.Arriving, broker.Arrived); err != nil {
		return false, err
	}
	switch n := p.Batch.Number; {
	case n <= m.Batch:
		return true, nil
	case n != m.Batch+1 || m.State != broker.Arriving:
		return false, fmt.Errorf("%w: queue %s %s and is at batch %d of that move, not before %d", broker.ErrConflict, p.Queue, m.about(), m.Batch, n)
	}
	return false, nil
}

// Ends says what the move's state is once it has ended at this side (0: its
// record is dropped), or why it cannot end.
func (m *MoveRecord) Ends(e *broker.MoveEnd) (broker.MoveState, error) {
	if err := m.under(e.Queue, e.ID, broker.Leaving, broker.Left, broker.Arriving, broker.Arrived); err != nil {
		return m.State, err
	}
	if m.Batch != e.Batch || m.Part {
		return m.State, fmt.Errorf("%w: queue %s is at batch %d of its move, not %d", broker.ErrConflict, e.Queue, m.Batch, e.Batch)
	}
	ended := m.State == broker.Left || m.State == broker.Arrived
	switch {
	case e.Forget && !ended && m.Batch > 0:
		return m.State, fmt.Errorf("%w: queue %s %s: that move has to end first", broker.ErrConflict, e.Queue, m.Said())
	case e.Forget:
		return 0, nil
	case m.State == broker.Leaving:
		return broker.Left, nil
	case m.State == broker.Arriving:
		return broker.Arrived, nil
	}
	return m.State, nil
}

// MoveLasts is how long a runner is waited for.
func MoveLasts(d time.Duration) time.Duration {
	if d <= 0 {
		return broker.MoveTTL
	}
	return d
}
