package redisbroker

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// plainTransport brings calls to one server, one at a time.
type plainTransport struct {
	addr, ns string
	clock    *brokertest.ManualClock // nil: the server's
	mu       sync.Mutex
	conns    []*redistest.Conn
	ctx      context.Context
	cancel   context.CancelFunc
}

func newPlainTransport(addr, ns string, clock *brokertest.ManualClock) *plainTransport {
	ctx, cancel := context.WithCancel(context.Background())
	return &plainTransport{addr: addr, ns: ns, clock: clock, ctx: ctx, cancel: cancel}
}

func (p *plainTransport) conn() (*redistest.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.conns); n > 0 {
		c := p.conns[n-1]
		p.conns = p.conns[:n-1]
		return c, nil
	}
	return redistest.Dial(p.addr)
}

func (p *plainTransport) give(c *redistest.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
}

func (p *plainTransport) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := p.conn()
	if err != nil {
		return nil, err
	}
	defer p.give(c)
	n := namesOf(p.ns)(queue)
	sum := sha1.Sum([]byte(s.source))
	args := []any{"EVALSHA", hex.EncodeToString(sum[:]), 2, n.config, n.absent}
	for _, call := range calls {
		if p.clock != nil {
			call = binary.BigEndian.AppendUint64(call[:len(call):len(call)], uint64(p.clock.Wall().UnixMicro()))
			call = binary.BigEndian.AppendUint64(call, uint64(p.clock.Monotonic().Microseconds()+epochMicros))
		}
		args = append(args, string(call))
	}
	got, err := c.Do(args...)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		args[0], args[1] = "EVAL", s.source
		got, err = c.Do(args...)
	}
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", s.name, err)
	}
	var answers [][]byte
	for _, a := range got.([]any) {
		answers = append(answers, []byte(a.(string)))
	}
	return answers, nil
}

// epochMicros makes the steady clock of a manual one begin where its wall clock does.
const epochMicros = 1_600_000_000_000_000

func (p *plainTransport) listen(ctx context.Context, queue string, heard func([]byte)) error {
	c, err := redistest.Dial(p.addr)
	if err != nil {
		return err
	}
	return subscribe(ctx, p.addr, namesOf(p.ns)(queue).channel, heard, c)
}

func (p *plainTransport) durability() string { return "what the test's server keeps" }
func (p *plainTransport) health(context.Context) (broker.Health, error) {
	return broker.Health{Status: broker.Healthy}, nil
}

func (p *plainTransport) close() error {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	return nil
}

// manualTime is the part time.lua of scripts whose calls carry the time.
const manualTime = `
local Time = {}
function Time.read(arg)
	if not arg then arg = ARGV[1] end
	local wall, steady = struct.unpack('>I8I8', arg, #arg - 15)
	return wall, steady
end
`

var (
	realScripts   = sync.OnceValue(func() *scripts { return newScripts("") })
	manualScripts = sync.OnceValue(func() *scripts { return newScripts(manualTime) })
)

var server struct {
	once sync.Once
	addr string
	n    int
	mu   sync.Mutex
}

// wall is where manual clocks begin.
var wall = time.UnixMicro(epochMicros + 3_600_000_000).UTC()

// harness is an empty store with a manual clock, on a server.
func harness(s *redistest.Server) brokertest.Harness {
	clock := brokertest.NewManualClock(wall)
	server.mu.Lock()
	server.n++
	ns := fmt.Sprintf("t%d", server.n)
	server.mu.Unlock()
	return brokertest.Harness{
		Open:   func() broker.Broker { return newBrokerWith(newPlainTransport(s.Addr(), ns, clock), manualScripts()) },
		Reopen: true, Clock: clock, Advance: clock.Advance, StepWall: clock.StepWall, Frozen: true,
	}
}

func TestKeepsTheContract(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return harness(s) })
}

func TestKeepsTheContractInRealTime(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		h := harness(s)
		server.mu.Lock()
		server.n++
		ns := fmt.Sprintf("t%d", server.n)
		server.mu.Unlock()
		return brokertest.Harness{
			Open:   func() broker.Broker { return newBrokerWith(newPlainTransport(s.Addr(), ns, nil), realScripts()) },
			Reopen: h.Reopen,
		}
	})
}

func TestRandomHistoriesMatchTheModel(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	brokertest.RunHistories(t, func(t *testing.T) brokertest.Harness { return harness(s) }, historyRuns(), historySeed())
}

// TestRandomHistoriesMatchTheModel runs so many histories from so many on:
// SPOOL_HISTORIES and SPOOL_SEED say otherwise.
func historyRuns() int    { return number("SPOOL_HISTORIES", 60) }
func historySeed() uint64 { return uint64(number("SPOOL_SEED", 1)) }

func number(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}
