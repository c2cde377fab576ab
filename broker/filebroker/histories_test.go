package filebroker

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// histories is how many random histories a test plays: SPOOL_HISTORIES, or so many.
func histories(usual int) int { return numberIn("SPOOL_HISTORIES", usual) }

// firstHistory is the seed of the first: SPOOL_SEED, or 1.
func firstHistory() uint64 { return uint64(numberIn("SPOOL_SEED", 1)) }

func numberIn(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

// compactor compacts the store at every second upkeep.
type compactor struct {
	*Broker
	t       *testing.T
	upkeeps int
}

func (c *compactor) Maintain(ctx context.Context) (time.Duration, error) {
	if c.upkeeps++; c.upkeeps%2 == 0 {
		if _, err := c.Compact(ctx); err != nil {
			c.t.Errorf("compact: %v", err)
		}
	}
	return c.Broker.Maintain(ctx)
}

// Close reads on before: a handle that a compaction has overtaken does not load the
// state only to end its leases, and leaves that to who comes next.
func (c *compactor) Close() error {
	_, _ = c.Counts(context.Background(), "") // of no use after a kill
	return c.Broker.Close()
}

// compactedOften is a harness whose clients compact all the time.
func compactedOften(t *testing.T, cfg Config) brokertest.Harness {
	h := onMachine(t, cfg)
	h.Unordered = true
	open, kill, of := h.Open, h.Kill, map[broker.Broker]broker.Broker{}
	h.Open = func() broker.Broker {
		b := open()
		c := &compactor{Broker: b.(*Broker), t: t}
		of[c] = b
		return c
	}
	h.Kill = func(b broker.Broker) { kill(of[b]) }
	return h
}

// cutOff is a harness whose machine restarts by a power cut, which takes whatever
// was not synced. What the histories look at by then was synced before.
func cutOff(t *testing.T, cfg Config) brokertest.Harness {
	m := &present{crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})}
	h := onMachineOf(t, m, cfg)
	h.Restart = func() {
		c := cfg
		c.sys, c.segment, c.Logger = m.Process(), 64<<10, slog.New(slog.DiscardHandler)
		b, err := Open("/jobs", c)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.cur.Load().log.Sync(); err != nil {
			t.Fatal(err)
		}
		m.Machine = m.Crash(crashfs.KeepNone)
		_ = b.Close() // it stays behind with the machine that is gone
	}
	return h
}

// TestRandomHistoriesMatchTheModelWithAnyOptions plays the same histories with
// every set of options: each is compared with the model after every step, and so
// each shows what all the others show, and what memory shows.
func TestRandomHistoriesMatchTheModelWithAnyOptions(t *testing.T) {
	repeated := func(t *testing.T, cfg Config) brokertest.Harness {
		h := compactedOften(t, cfg)
		h.Repeats = true
		return h
	}
	for _, c := range []struct {
		name string
		on   func(t *testing.T, cfg Config) brokertest.Harness
		cfg  Config
	}{
		{"small segments", onMachine, Config{segment: labSegment}},
		{"small segments, compacted all the time", compactedOften, Config{segment: labSegment}},
		{"calls made again, compacted all the time", repeated, Config{segment: labSegment, RememberCalls: true}},
		{"synced now and then", onMachine, Config{Sync: SyncInterval, SyncEvery: time.Second}},
		{"never synced", onMachine, Config{Sync: SyncNever, segment: labSegment}},
		{"a power cut in place of a restart", cutOff, Config{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness { return c.on(t, c.cfg) }, histories(12), firstHistory())
		})
	}
}
