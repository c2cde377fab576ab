package membroker

import (
	"os"
	"strconv"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
)

// number reads a number from the environment: how many random histories are played,
// and the seed of the first.
func number(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

// inMemory is a store whose first client stays open, so that it outlives those
// that the suite opens. The end of a process is all that closing one does.
func inMemory(cfg Config) brokertest.Harness {
	b := New(cfg)
	return brokertest.Harness{
		Open: func() broker.Broker { return b.Another() }, Reopen: true,
		Kill: func(b broker.Broker) { b.Close() },
	}
}

func TestKeepsTheContract(t *testing.T) {
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness { return inMemory(Config{}) })
}

func TestKeepsTheContractWithCallsRemembered(t *testing.T) {
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness { return inMemory(Config{RememberCalls: true}) })
}

func TestRandomHistoriesMatchTheModel(t *testing.T) {
	brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness { return inMemory(Config{}) }, number("SPOOL_HISTORIES", 200), uint64(number("SPOOL_SEED", 1)))
}

func TestRandomHistoriesMatchTheModelWhileCallsAreMadeAgain(t *testing.T) {
	brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness {
		h := inMemory(Config{RememberCalls: true})
		h.Repeats = true
		return h
	}, number("SPOOL_HISTORIES", 100), uint64(number("SPOOL_SEED", 1)))
}

func TestQueuesMove(t *testing.T) {
	store := func(t *testing.T) brokertest.Harness { return inMemory(Config{}) }
	brokertest.RunMovesInBubbles(t, store, store)
}

func TestRandomHistoriesOfAQueueThatMoves(t *testing.T) {
	store := func(t *testing.T) brokertest.Harness { return inMemory(Config{}) }
	brokertest.RunMovedHistoriesInBubbles(t, store, store, 60, 1)
}
