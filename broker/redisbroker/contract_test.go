package redisbroker

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// clocked is the real transport, whose calls carry the time of a test.
type clocked struct {
	*network
	clock *brokertest.ManualClock
}

func (c *clocked) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	timed := make([][]byte, len(calls))
	for i, call := range calls {
		timed[i] = binary.BigEndian.AppendUint64(call[:len(call):len(call)], uint64(c.clock.Wall().UnixMicro()))
		timed[i] = binary.BigEndian.AppendUint64(timed[i], uint64(c.clock.Monotonic().Microseconds()+epochMicros))
	}
	return c.network.run(ctx, s, queue, timed)
}

// networked is an empty store with a manual clock, reached by the real
// transport.
func networked(t *testing.T, url string) brokertest.Harness {
	clock := brokertest.NewManualClock(wall)
	server.mu.Lock()
	server.n++
	ns := "n" + string(rune('a'+server.n/26%26)) + string(rune('a'+server.n%26))
	server.mu.Unlock()
	open := func() broker.Broker {
		cfg := Config{Namespace: ns}
		to, err := parse(url, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		n, err := newNetwork(t.Context(), to, cfg.withDefaults(), namesOf(ns))
		if err != nil {
			t.Fatal(err)
		}
		return newBrokerWith(&clocked{n, clock}, manualScripts())
	}
	return brokertest.Harness{Open: open, Reopen: true, Clock: clock, Advance: clock.Advance, StepWall: clock.StepWall, Frozen: true}
}

func TestKeepsTheContractOnACluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return networked(t, c.URL()) })
}

// lossy starts a server whose replies, and the requests to it, are lost now
// and then, in the order in which scripts are called: none is spared.
func lossy(t *testing.T) string {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	var mu sync.Mutex
	n := 0
	t.Cleanup(func() {
		if n < 1000 {
			t.Errorf("only %d scripts were called", n)
		}
	})
	p.Judge(func(args []string) redistest.Verdict {
		if args[0] != "EVALSHA" && args[0] != "EVAL" {
			return redistest.Pass
		}
		mu.Lock()
		defer mu.Unlock()
		switch n++; {
		case n%5 == 0:
			return redistest.DropReply
		case n%31 == 0:
			return redistest.DropRequest
		}
		return redistest.Pass
	})
	return p.URL()
}

func TestKeepsTheContractWhileRepliesAreLost(t *testing.T) {
	url := lossy(t)
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return networked(t, url) })
}

func TestRandomHistoriesMatchTheModelWhileRepliesAreLost(t *testing.T) {
	url := lossy(t)
	brokertest.RunHistories(t, func(t *testing.T) brokertest.Harness { return networked(t, url) }, historyRuns()/3, historySeed())
}
