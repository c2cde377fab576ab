package brokertest

import (
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// noon is where the manual clocks of these tests start.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// modelHarness puts a model under test. The first client stays open, so the
// store outlives those that the suite opens.
func modelHarness(m *Model) Harness {
	return Harness{Open: func() broker.Broker { return m.Open() }, Reopen: true}
}

// manualHarness is the same with a clock that stands still.
func manualHarness(broken func(r *rules)) Harness {
	c := NewManualClock(noon)
	m := NewModel(c)
	if broken != nil {
		broken(&m.s.rules)
	}
	return manual(m, c)
}

func manual(m *Model, c *ManualClock) Harness {
	h := modelHarness(m)
	h.Clock, h.Advance, h.StepWall, h.Frozen = c, c.Advance, c.StepWall, true
	return h
}

// epochHarness is the same for a broker whose buckets are empty after a restart.
func epochHarness() Harness {
	c := NewManualClock(noon)
	m := NewModel(c)
	m.s.epochs = true
	h := manual(m, c)
	h.Epochs = true
	return h
}

func TestModelKeepsTheContractInBubbles(t *testing.T) {
	RunInBubbles(t, func(t *testing.T) Harness { return modelHarness(NewModel(nil)) })
}

func TestModelKeepsTheContractOnAManualClock(t *testing.T) {
	Run(t, func(t *testing.T) Harness { return manualHarness(nil) })
}

func TestModelWithEpochsKeepsTheContract(t *testing.T) {
	Run(t, func(t *testing.T) Harness { return epochHarness() })
}

func TestModelAgreesWithItself(t *testing.T) {
	RunHistories(t, func(t *testing.T) Harness { return manualHarness(nil) }, 100, 1)
	RunHistoriesInBubbles(t, func(t *testing.T) Harness { return modelHarness(NewModel(nil)) }, 20, 1000)
	RunHistories(t, func(t *testing.T) Harness { return epochHarness() }, 20, 2000)
}
