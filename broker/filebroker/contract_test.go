package filebroker

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// present is the machine of a harness that can restart it, as its clock.
type present struct{ *crashfs.Machine }

func (p *present) Wall() time.Time          { return p.Clock.Wall() }
func (p *present) Monotonic() time.Duration { return p.Clock.Monotonic() }
func (p *present) StepWall(d time.Duration) { p.Clock.Step(d) }
func (p *present) restart()                 { p.Machine = p.Crash(crashfs.KeepAll) }

// onMachine gives every client of the harness a process of its own on a
// machine in memory.
func onMachine(t *testing.T, cfg Config) brokertest.Harness {
	return onMachineOf(t, &present{crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})}, cfg)
}

func onMachineOf(t *testing.T, m *present, cfg Config) brokertest.Harness {
	cfg.segment = cmp.Or(cfg.segment, 64<<10)
	cfg.Logger = slog.New(slog.DiscardHandler)
	processes := map[broker.Broker]*crashfs.Process{}
	someoneDied := false
	return brokertest.Harness{
		Reopen:  true,
		Restart: m.restart,
		Kill: func(b broker.Broker) {
			synctest.Wait() // nobody waits for a sync that the dead one had begun
			processes[b].Kill()
			someoneDied = true
		},
		Clock:    m,
		StepWall: m.StepWall,
		Open: func() broker.Broker {
			c, p := cfg, m.Process()
			c.sys = p
			b, err := Open("/jobs", c)
			if err != nil {
				t.Fatal(err)
			}
			processes[b] = p
			if someoneDied { // who loads the state finds the dead at once; who watches, within milliseconds
				if err := b.cur.Load().want(context.Background()); err != nil {
					t.Fatal(err)
				}
				someoneDied = false
			}
			return b
		},
	}
}

func TestKeepsTheContract(t *testing.T) {
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness { return onMachine(t, Config{}) })
}

func TestRandomHistoriesMatchTheModel(t *testing.T) {
	brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness { return onMachine(t, Config{}) }, histories(40), firstHistory())
}
