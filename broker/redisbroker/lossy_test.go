package redisbroker

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
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
	slow(t)
	t.Parallel() // it mostly waits
	url := lossy(t)
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return frozen(t, url) })
}

func TestRandomHistoriesMatchTheModelWhileRepliesAreLost(t *testing.T) {
	slow(t)
	t.Parallel() // it mostly waits
	url := lossy(t)
	brokertest.RunHistories(t, func(t *testing.T) brokertest.Harness { return frozen(t, url) }, number("SPOOL_HISTORIES", 40)/2, uint64(number("SPOOL_SEED", 1)))
}

// TestWithoutItsReplicaAStoreIsReadAndWorkedAndPromisesNothing: what is asked
// to be on a replica cannot be acknowledged; looking and claiming promise
// nothing, and go on.
func TestWithoutItsReplicaAStoreIsReadAndWorkedAndPromisesNothing(t *testing.T) {
	set := redistest.StartSentinel(t, redistest.Options{})
	b, err := Open(t.Context(), set.Primary.URL(), Config{WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	job := broker.NewJob{Task: "t"}
	job.MakeID()
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{job}); err != nil {
		t.Fatal(err)
	}
	set.Replica.Kill()
	other := broker.NewJob{Task: "t"}
	other.MakeID()
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{other}); !errors.Is(err, broker.ErrUnknown) {
		t.Errorf("enqueue: %v, want ErrUnknown", err)
	}
	got, err := b.Get(t.Context(), []broker.Ref{{Queue: "q", ID: job.ID}, {Queue: "q", ID: other.ID}})
	if err != nil || got[0].State != broker.Ready || got[1].State != broker.Ready {
		t.Errorf("get: %+v, %v", got, err)
	}
	c, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 2, TTL: time.Minute, Worker: "w"})
	if err != nil || len(c.Leases) != 2 {
		t.Fatalf("claim: %+v, %v", c, err)
	}
	_, err = b.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: c.Leases[0].Job.Ref(), Token: c.Leases[0].Token, Kind: broker.Ack}})
	if !errors.Is(err, broker.ErrUnknown) {
		t.Errorf("settle: %v, want ErrUnknown", err)
	}
}
