package redisbroker

import (
	"sync"
	"testing"

	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

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
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return frozen(t, url) })
}

func TestRandomHistoriesMatchTheModelWhileRepliesAreLost(t *testing.T) {
	url := lossy(t)
	brokertest.RunHistories(t, func(t *testing.T) brokertest.Harness { return frozen(t, url) }, number("SPOOL_HISTORIES", 40)/2, uint64(number("SPOOL_SEED", 1)))
}
