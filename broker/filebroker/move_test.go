package filebroker

import (
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/broker/membroker"
)

// stores are the kinds of stores that queues move between in these tests.
var stores = map[string]func(t *testing.T) brokertest.Harness{
	"a directory": func(t *testing.T) brokertest.Harness { return onMachine(t, Config{}) },
	"memory": func(t *testing.T) brokertest.Harness {
		b := membroker.New(membroker.Config{})
		return brokertest.Harness{Open: func() broker.Broker { return b.Another() }, Reopen: true}
	},
}

func TestQueuesMove(t *testing.T) {
	for _, pair := range [][2]string{{"a directory", "a directory"}, {"a directory", "memory"}, {"memory", "a directory"}} {
		t.Run("from "+pair[0]+" to "+pair[1], func(t *testing.T) {
			brokertest.RunMovesInBubbles(t, stores[pair[0]], stores[pair[1]])
		})
	}
}

func TestRandomHistoriesOfAQueueThatMoves(t *testing.T) {
	brokertest.RunMovedHistoriesInBubbles(t, stores["a directory"], stores["memory"], 25, 1)
}
