package filebroker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// onMachine gives every client of the harness a process of its own on a
// machine in memory.
func onMachine(t *testing.T, cfg Config) brokertest.Harness {
	m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
	cfg.segment = 64 << 10
	cfg.Logger = slog.New(slog.DiscardHandler)
	return brokertest.Harness{
		Reopen:   true,
		Clock:    m.Clock,
		StepWall: m.Clock.Step,
		Open: func() broker.Broker {
			c := cfg
			c.sys = m.Process()
			b, err := Open("/jobs", c)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	}
}

func TestKeepsTheContract(t *testing.T) {
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness { return onMachine(t, Config{}) })
}

func TestRandomHistoriesMatchTheModel(t *testing.T) {
	brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness { return onMachine(t, Config{}) }, 80, 1)
}
