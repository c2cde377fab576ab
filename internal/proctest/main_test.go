//go:build linux

package proctest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/redisbroker"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/wallclock"
)

// planVar holds the plan of a process that is not the test itself.
const planVar = "SPOOL_PROCTEST_PLAN"

// plan says what a process does. Who reads it sees to the fields of its role.
type plan struct {
	Role   string
	Store  string // directory of the store, or the URL of a broker on Redis
	Ledger string // file to append events to, in place of standard output
	Name   string

	Queues      []string // of a worker; nil means every queue
	Concurrency int
	TTL         time.Duration
	Shutdown    time.Duration
	NoSync      bool
	Mount       string // of a client: where to mount a file system first
	Ticks       bool   // of a flow worker: it declares schedules
	Relay       bool   // of a producer: its jobs have follow-ups in the other queues
	Replicas    int    // on Redis: how many have to confirm
	Addr        string // of an HTTP server: where it listens
	Calls       int    // of a server: it kills itself before it answers this one; 0: never

	// Of a historian: it goes through so many jobs from a moment on, for so long.
	Jobs        int
	Begun, Span time.Duration

	// Wall is by how much the process's own wall clock is off. The monotonic
	// one, by which processes compare what they tell, stays right.
	Wall time.Duration
}

// The roles.
const (
	asClient   = "client"
	asWorker   = "worker"
	asProducer = "producer"
	asHammer   = "hammer"
	asFlow     = "flow"
	asServer   = "server"
	asHTTP     = "http server"

	asContender = "contender"
	asCompactor = "compactor"
	asHoarder   = "hoarder"
	asHistorian = "historian"
)

var roles = map[string]func(*teller, plan) error{
	asClient:   runClient,
	asWorker:   runWorker,
	asProducer: runProducer,
	asHammer:   runHammer,
	asFlow:     runFlow,
	asServer:   runServer,
	asHTTP:     runHTTP,

	asContender: runContender,
	asCompactor: runCompactor,
	asHoarder:   runHoarder,
	asHistorian: runHistorian,
}

func TestMain(m *testing.M) {
	text := os.Getenv(planVar)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := follow(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func follow(text string) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	if p.Wall != 0 {
		if err := wallclock.Move(p.Wall); err != nil {
			return err
		}
	}
	// Whoever execs a command must not pass the plan on.
	if err := os.Unsetenv(planVar); err != nil {
		return err
	}
	out := os.Stdout
	if p.Ledger != "" {
		var err error
		if out, err = os.OpenFile(p.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return err
		}
	}
	return roles[p.Role](&teller{out: out}, p)
}

// event is what a process tells. It crosses as one line of JSON.
type event struct {
	What    string
	At      time.Duration `json:",omitempty"` // on the clock that all processes share
	Name    string        `json:",omitempty"` // of the process or the task
	IDs     []spool.ID    `json:",omitempty"`
	Token   spool.Token   `json:",omitzero"`
	Attempt int           `json:",omitempty"`
	State   string        `json:",omitempty"`
	Text    string        `json:",omitempty"`
	Is      []string      `json:",omitempty"` // the sentinel errors that Text stands for
	Number  int64         `json:",omitempty"`
	Claimed time.Time     `json:",omitzero"`  // on the store's clock
	Of      string        `json:",omitempty"` // what its limit counts by

	Waits []time.Duration `json:",omitempty"` // of a contender's calls: p50, p99, the longest
}

func (e *event) id() spool.ID { return e.IDs[0] }

// order is what a process is told to do, one line of JSON on its standard input.
type order struct {
	Do    string
	Store string        `json:",omitempty"`
	Queue string        `json:",omitempty"`
	ID    spool.ID      `json:",omitzero"`
	Token spool.Token   `json:",omitzero"`
	N     int           `json:",omitempty"`
	For   time.Duration `json:",omitempty"`
}

var system = vfs.OS()

// now reads the clock that all processes share.
func now() time.Duration { return system.Monotonic() }

// teller writes events. A line is one write, so a kill leaves it whole or not
// at all.
type teller struct {
	mu  sync.Mutex
	out io.Writer
}

func (t *teller) tell(e event) {
	if e.At == 0 {
		e.At = now()
	}
	t.line(e)
}

// line writes a value as a line.
func (t *teller) line(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.out.Write(append(line, '\n')); err != nil {
		fmt.Fprintln(os.Stderr, "tell:", err)
		os.Exit(1)
	}
}

// orders reads the standard input and closes the channel at its end.
func orders() <-chan order {
	ch := make(chan order)
	go func() {
		defer close(ch)
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var o order
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				fmt.Fprintln(os.Stderr, "order:", err)
				os.Exit(1)
			}
			ch <- o
		}
	}()
	return ch
}

// untilTold is a context that ends with SIGTERM or the standard input; other is
// called for each order.
func untilTold(other func(order)) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() {
		for o := range orders() {
			other(o)
		}
		stop()
	}()
	return ctx, stop
}

func openStore(p plan) (*spool.Client, error) {
	switch {
	case httpbroker.IsURL(p.Store):
		return openHTTP(p)
	case strings.Contains(p.Store, "://"):
		return openRedis(p)
	}
	b, err := openDirectory(p)
	if err != nil {
		return nil, err
	}
	return spool.New(b, spool.Config{}), nil
}

func openDirectory(p plan) (*filebroker.Broker, error) {
	cfg := filebroker.Config{AllowUnsafeFS: true} // a container's temporary directory is an overlay
	if p.NoSync {
		cfg.Sync = filebroker.SyncNever
	}
	return filebroker.Open(p.Store, cfg)
}

// openHTTP is openRedis for a server of spool serve.
func openHTTP(p plan) (*spool.Client, error) {
	for begun := now(); ; <-time.After(20 * time.Millisecond) {
		b, err := httpbroker.Open(context.Background(), p.Store, httpbroker.Config{})
		if err == nil || now()-begun > patience {
			return spool.New(b, spool.Config{}), err
		}
	}
}

// openRedis tries again while the server is not there: whoever starts a process
// would start it again.
func openRedis(p plan) (*spool.Client, error) {
	for begun := now(); ; <-time.After(20 * time.Millisecond) {
		b, err := redisbroker.Open(context.Background(), p.Store, redisbroker.Config{WaitReplicas: p.Replicas})
		if err == nil {
			return spool.New(b, spool.Config{}), nil
		}
		if now()-begun > patience {
			return nil, err
		}
	}
}

// fullRun leaves a test of several seconds on servers to the full run, without the
// race detector, under which processes are killed before they have begun: .ci/run
// makes it.
func fullRun(t *testing.T) {
	t.Helper()
	if testing.Short() || raced {
		t.Skip("it takes long: go test without -short and -race runs it")
	}
}
