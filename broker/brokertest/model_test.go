package brokertest

import (
	"context"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// noon is where the manual clocks of these tests start.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// modelHarness puts a model under test. The first client stays open, so the
// store outlives those that the suite opens.
func modelHarness(m *Model) Harness {
	return Harness{
		Open: func() broker.Broker { return m.Open() }, Reopen: true,
		Restart: func() {
			m.restart(func() {})
			m.Maintain(context.Background())
		},
		Kill: func(b broker.Broker) { b.Close() },
	}
}

// manual is a model, and its harness, with a clock that stands still.
func manual() (*Model, Harness) {
	c := NewManualClock(noon)
	m := NewModel(c)
	h := modelHarness(m)
	h.Clock, h.Advance, h.StepWall, h.Frozen = c, c.Advance, c.StepWall, true
	return m, h
}

// manualHarness is that of a model that breaks some rules, or (nil) none.
func manualHarness(broken func(r *rules)) Harness {
	m, h := manual()
	if broken != nil {
		broken(&m.s.rules)
	}
	return h
}

func TestModelKeepsTheContractInBubbles(t *testing.T) {
	RunInBubbles(t, func(t *testing.T) Harness { return modelHarness(NewModel(nil)) })
}

func TestModelKeepsTheContractOnAManualClock(t *testing.T) {
	Run(t, func(t *testing.T) Harness { return manualHarness(nil) })
}

func TestModelAgreesWithItself(t *testing.T) {
	RunHistories(t, func(t *testing.T) Harness { return manualHarness(nil) }, 100, 1)
	RunHistoriesInBubbles(t, func(t *testing.T) Harness { return modelHarness(NewModel(nil)) }, 20, 1000)
}
