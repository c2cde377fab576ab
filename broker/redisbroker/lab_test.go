package redisbroker

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// timed is a transport whose calls carry the time of a manual clock, for scripts
// that read it there instead of asking the server.
type timed struct {
	transport
	clock brokertest.Clock
}

func (t timed) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	with := make([][]byte, len(calls))
	for i, c := range calls {
		c = binary.BigEndian.AppendUint64(c[:len(c):len(c)], uint64(t.clock.Wall().UnixMicro()))
		with[i] = binary.BigEndian.AppendUint64(c, uint64(t.clock.Monotonic().Microseconds()+epochMicros))
	}
	return t.transport.run(ctx, s, queue, with)
}

// manualTime is the part time.lua of scripts whose calls carry the time.
const manualTime = `
local Time = {}
function Time.read(arg)
	return unpack_('>I8I8', arg, #arg - 15)
end
`

// epochMicros makes the steady clock of a manual one begin with its wall clock.
const epochMicros = 1_600_000_000_000_000

// wall is where manual clocks begin.
var wall = time.UnixMicro(epochMicros + time.Hour.Microseconds()).UTC()

var manualScripts = sync.OnceValue(func() *scripts { return newScripts(manualTime) })

// open opens a client of a store; clock nil is the server's.
func open(t testing.TB, url, namespace string, clock *brokertest.ManualClock) *Broker {
	t.Helper()
	b, err := Open(context.Background(), url, Config{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	if clock == nil {
		return b
	}
	still := newBrokerWith(timed{b.t, clock}, manualScripts())
	still.hurry = func(time.Duration) time.Duration { return time.Minute } // no lease ends on it meanwhile
	still.since = func(time.Time) time.Duration { return 0 }               // no weather takes time on that clock
	return still
}

// stores counts the stores that tests have made.
var stores atomic.Int64

func newNamespace() string { return fmt.Sprintf("store%d", stores.Add(1)) }

// frozen is an empty store with a manual clock.
func frozen(t testing.TB, url string) brokertest.Harness {
	clock, namespace := brokertest.NewManualClock(wall), newNamespace()
	return brokertest.Harness{
		Open:   func() broker.Broker { return open(t, url, namespace, clock) },
		Reopen: true, Clock: clock, Advance: clock.Advance, StepWall: clock.StepWall, Frozen: true,
		Check: func(t testing.TB) {
			b := open(t, url, namespace, clock)
			defer b.Close()
			proved(t, namespace, b)
		},
	}
}

// flowing is an empty store with the server's clock.
func flowing(t testing.TB, url string) brokertest.Harness {
	namespace := newNamespace()
	return brokertest.Harness{Open: func() broker.Broker { return open(t, url, namespace, nil) }, Reopen: true}
}

func TestKeepsTheContract(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return frozen(t, s.URL()) })
}

// What calls that wait promise cannot be shown while the clock stands still. The
// other topics show the ways that scripts have for the server's own clock. Cases
// whose spans a loaded machine could not keep run on a frozen clock alone.
func TestKeepsTheContractInRealTime(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	topics := []string{"enqueue", "fidelity", "claim", "settle", "follow-ups", "wait", "watch", "close", "clients", "call ids"}
	for _, c := range brokertest.Cases() {
		if slices.Contains(topics, c.Topic) || strings.HasPrefix(c.Name, "a claim that waits") {
			t.Run(c.Topic+"/"+c.Name, func(t *testing.T) { c.Run(t, flowing(t, s.URL())) })
		}
	}
}

func TestKeepsTheContractInACluster(t *testing.T) {
	slow(t)
	t.Parallel() // it mostly waits
	c := redistest.StartCluster(t, redistest.Options{})
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return frozen(t, c.URL()) })
}

// Histories run as many, from a seed on, as SPOOL_HISTORIES and SPOOL_SEED say.
func TestRandomHistoriesMatchTheModel(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	usual := 40
	if testing.Short() {
		usual = 15
	}
	brokertest.RunHistories(t, func(t *testing.T) brokertest.Harness { return frozen(t, s.URL()) }, number("SPOOL_HISTORIES", usual), uint64(number("SPOOL_SEED", 1)))
}

func number(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}

// slow leaves a test that takes many seconds to the full run: .ci/run makes it.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: go test without -short runs it")
	}
}
