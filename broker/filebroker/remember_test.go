package filebroker

import (
	"testing"

	"github.com/spoolq/spool/broker/brokertest"
)

func rememberCalls(c *Config) { c.RememberCalls = true }

func TestKeepsTheContractWithCallsRemembered(t *testing.T) {
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness { return onMachine(t, Config{RememberCalls: true}) })
}
