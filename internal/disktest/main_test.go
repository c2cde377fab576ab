//go:build linux && (amd64 || arm64)

package disktest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/internal/vfs"
)

var full = flag.Bool("full", false, "run the proofs at the size that they are stated for")

// planVar holds the plan of a process that is not the test itself.
const planVar = "SPOOL_DISKTEST_PLAN"

// plan says what a process does. Who reads it sees to the fields of its role.
type plan struct {
	Role   string
	Store  string
	NoSync bool
	Reboot bool // it comes after a restart of the machine
	Mends  bool // of a scenario: the fault passes, so everything has to work again
	Queue  string
}

// The roles.
const (
	asScenario = "scenario"
	asLoad     = "load"
	asClient   = "client"
	asProbe    = "probe"
)

var roles = map[string]func(plan) error{
	asScenario: runScenario,
	asLoad:     runLoad,
	asClient:   runClient,
	asProbe:    runProbe,
}

func TestMain(m *testing.M) {
	text := os.Getenv(planVar)
	if text == "" {
		os.Exit(m.Run())
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = roles[p.Role](p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// event is what a process tells of one call: once before it, when Err and Took
// are empty, and once after.
type event struct {
	Call   string
	Begun  bool           `json:",omitempty"` // it is about to be made
	By     string         `json:",omitempty"`
	Queue  string         `json:",omitempty"`
	IDs    []broker.ID    `json:",omitempty"` // jobs that are enqueued, claimed or settled
	Tokens []broker.Token `json:",omitempty"` // of their leases
	Follow broker.ID      `json:",omitzero"`  // of an ack: the job that follows
	Err    string         `json:",omitempty"`
	Is     []string       `json:",omitempty"` // the sentinel errors that Err stands for
	Took   time.Duration  `json:",omitempty"`
	At     time.Duration  `json:",omitempty"` // monotonic, the same clock in all processes
	Status string         `json:",omitempty"` // of a health
	Number int            `json:",omitempty"`
}

// is reports whether the call's error was one of the sentinels.
func (e *event) is(name string) bool {
	for _, n := range e.Is {
		if n == name {
			return true
		}
	}
	return false
}

var sentinels = map[string]error{
	"invalid": broker.ErrInvalid, "not found": broker.ErrNotFound, "lease lost": broker.ErrLeaseLost, "full": broker.ErrFull, "poisoned": broker.ErrPoisoned,
	"corrupt": broker.ErrCorrupt, "unsupported": broker.ErrUnsupported, "closed": broker.ErrClosed, "unknown": broker.ErrUnknown,
}

// said puts an error into an event.
func (e *event) said(err error) {
	if err == nil {
		return
	}
	e.Err = err.Error()
	for name, s := range sentinels {
		if errors.Is(err, s) {
			e.Is = append(e.Is, name)
		}
	}
}

var clock = vfs.OS()

// tell writes an event to the standard output in one write, so that a kill leaves
// it whole or not at all.
func tell(e event) {
	e.At = clock.Monotonic()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		fmt.Fprintln(os.Stderr, "tell:", err)
		os.Exit(1)
	}
}

// open opens a store wherever it lies: a container's temporary directory is an
// overlay.
func open(p plan) (*filebroker.Broker, error) { return openOn(p, p.on()) }

func openOn(p plan, sys vfs.System) (*filebroker.Broker, error) {
	cfg := filebroker.Config{AllowUnsafeFS: true, Logger: slog.New(slog.DiscardHandler)}
	if p.NoSync {
		cfg.Sync = filebroker.SyncNever
	}
	return filebroker.Open(p.Store, cfg.On(sys))
}

// on is the system that a plan runs on.
func (p *plan) on() vfs.System {
	if p.Reboot {
		return newBoot()
	}
	return vfs.OS()
}

// rebooted is this machine after a restart: its boot has another id, and its clock
// can go on at once to when the leases of the last boot end.
type rebooted struct {
	vfs.System
	id    [16]byte
	ahead atomic.Int64
}

func newBoot() *rebooted {
	r := &rebooted{System: vfs.OS()}
	r.Rand(r.id[:])
	return r
}

func (r *rebooted) BootID() [16]byte { return r.id }
func (r *rebooted) Monotonic() time.Duration {
	return r.System.Monotonic() + time.Duration(r.ahead.Load())
}
