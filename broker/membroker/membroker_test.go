package membroker

import (
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
)

func TestKeepsTheContract(t *testing.T) {
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness {
		b := New(Config{})
		return brokertest.Harness{Open: func() broker.Broker { return b.Another() }}
	})
}

func TestRandomHistoriesMatchTheModel(t *testing.T) {
	brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness {
		b := New(Config{})
		return brokertest.Harness{Open: func() broker.Broker { return b.Another() }}
	}, 200, 1)
}
