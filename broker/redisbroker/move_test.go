package redisbroker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/internal/redistest"
)

// outside does for the goroutines of testing/synctest bubbles what waits for the
// network: so only who sleeps inside lets time pass there.
type outside struct {
	mu   sync.Mutex
	do   chan func()
	done chan bool
}

func newOutside(t *testing.T) *outside {
	o := &outside{do: make(chan func()), done: make(chan bool)}
	go func() {
		for f := range o.do {
			over := make(chan bool)
			go func() {
				defer close(over)
				f()
			}()
			<-over
			o.done <- true
		}
	}()
	t.Cleanup(func() { close(o.do) })
	return o
}

func (o *outside) call(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.do <- f
	<-o.done
}

// crossing is a transport for a broker inside a bubble. Nothing is heard through it.
type crossing struct {
	transport
	o *outside
}

func (c crossing) run(_ context.Context, s *script, queue string, calls [][]byte) (answers [][]byte, err error) {
	c.o.call(func() { answers, err = c.transport.run(context.Background(), s, queue, calls) })
	return answers, err
}

func (c crossing) listen(ctx context.Context, _ string, _ func([]byte)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c crossing) close() error { return nil } // others use it, too

// bubbleClock is the time of a bubble.
type bubbleClock struct{}

func (bubbleClock) Wall() time.Time          { return time.Now() }
func (bubbleClock) Monotonic() time.Duration { return time.Since(time.UnixMicro(epochMicros)) }

// onServer is a store on a server for brokers inside a bubble.
func (o *outside) onServer(t *testing.T, url string) brokertest.Harness {
	namespace := newNamespace()
	var real *Broker
	o.call(func() { real = open(t, url, namespace, nil) })
	t.Cleanup(func() { o.call(func() { _ = real.Close() }) })
	return brokertest.Harness{
		Reopen: true, Grain: time.Microsecond,
		Open: func() broker.Broker {
			return newBrokerWith(timed{crossing{real.t, o}, bubbleClock{}}, manualScripts())
		},
		Check: func(t testing.TB) {
			now := stopped{time.Now(), bubbleClock{}.Monotonic()}
			o.call(func() { proved(t, namespace, newBrokerWith(timed{real.t, now}, manualScripts())) })
		},
	}
}

// stopped is a clock that stands still.
type stopped struct {
	wall time.Time
	mono time.Duration
}

func (s stopped) Wall() time.Time          { return s.wall }
func (s stopped) Monotonic() time.Duration { return s.mono }

func inMemory(*testing.T) brokertest.Harness {
	b := membroker.New(membroker.Config{})
	return brokertest.Harness{Open: func() broker.Broker { return b.Another() }, Reopen: true}
}

func TestQueuesMove(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	o := newOutside(t)
	server := func(t *testing.T) brokertest.Harness { return o.onServer(t, s.URL()) }
	t.Run("from memory to Redis", func(t *testing.T) { brokertest.RunMovesInBubbles(t, inMemory, server) })
	t.Run("from Redis to memory", func(t *testing.T) { brokertest.RunMovesInBubbles(t, server, inMemory) })
	t.Run("from Redis to Redis", func(t *testing.T) { brokertest.RunMovesInBubbles(t, server, server) })
}

func TestQueuesMoveInAndOutOfACluster(t *testing.T) {
	slow(t)
	c, s := redistest.StartCluster(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	o := newOutside(t)
	cluster := func(t *testing.T) brokertest.Harness { return o.onServer(t, c.URL()) }
	server := func(t *testing.T) brokertest.Harness { return o.onServer(t, s.URL()) }
	t.Run("from a server to a cluster", func(t *testing.T) { brokertest.RunMovesInBubbles(t, server, cluster) })
	t.Run("from a cluster to a cluster", func(t *testing.T) { brokertest.RunMovesInBubbles(t, cluster, cluster) })
}

// On the machine's own clock, which no test shifts: cases about hours are left to
// memory, which has the state machine of directories.
func TestQueuesMoveBetweenADirectoryAndRedis(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{})
	server := func(t *testing.T) brokertest.Harness { return flowing(t, s.URL()) }
	directory := func(t *testing.T) brokertest.Harness {
		dir := t.TempDir()
		return brokertest.Harness{Reopen: true, Open: func() broker.Broker {
			b, err := filebroker.Open(dir, filebroker.Config{AllowUnsafeFS: true})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}}
	}
	t.Run("from a directory to Redis", func(t *testing.T) {
		t.Parallel()
		brokertest.RunMoves(t, directory, server)
	})
	t.Run("from Redis to a directory", func(t *testing.T) {
		t.Parallel()
		brokertest.RunMoves(t, server, directory)
	})
}

func TestRandomHistoriesOfAQueueThatMoves(t *testing.T) {
	slow(t)
	t.Parallel() // it mostly waits
	s := redistest.Start(t, redistest.Options{})
	o := newOutside(t)
	server := func(t *testing.T) brokertest.Harness { return o.onServer(t, s.URL()) }
	n, seed := number("SPOOL_HISTORIES", 15), uint64(number("SPOOL_SEED", 1))
	t.Run("between memory and Redis", func(t *testing.T) { brokertest.RunMovedHistoriesInBubbles(t, inMemory, server, n, seed) })
	t.Run("between Redis and memory", func(t *testing.T) { brokertest.RunMovedHistoriesInBubbles(t, server, inMemory, n, seed) })
	t.Run("between Redis and Redis", func(t *testing.T) { brokertest.RunMovedHistoriesInBubbles(t, server, server, n, seed) })
}
