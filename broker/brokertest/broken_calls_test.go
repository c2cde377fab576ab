package brokertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
)

// retry is how long a rememberer knows a call again.
const retry = 2 * time.Minute

// memory is what a store knows of the calls that were made, by their ids.
type memory struct {
	mu      sync.Mutex
	calls   map[broker.Call]*remembered
	forgets string // a verb that it does not remember
	retry   time.Duration
	late    time.Duration // how long it takes to remember
	ended   bool          // it returns leases that are over, too
	blurred bool          // it takes any call of a client for the same
}

type remembered struct {
	mu     sync.Mutex
	answer any // nil until there is one
	at     time.Time
}

// rememberer is a client of a store where a reply can be lost.
type rememberer struct {
	*Model
	mem *memory
}

func (b rememberer) Caps() broker.Caps {
	c := b.Model.Caps()
	c.Retry = retry
	return c
}

// once makes a call, or answers what it did when it was made before. Only an
// answer is remembered: an error has changed nothing.
func once[A any](b rememberer, verb string, c broker.Call, do func() (A, error)) (A, error) {
	if b.mem.forgets == verb {
		return do()
	}
	if b.mem.blurred {
		c = broker.Call{}
		copy(c.ID[:], verb)
	}
	r := b.mem.of(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.mem.knows(b, r) {
		return r.answer.(A), nil
	}
	answer, err := do()
	if err == nil {
		r.answer, r.at = answer, b.time()
	}
	return answer, err
}

func (m *memory) of(c broker.Call) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls[c] == nil {
		m.calls[c] = &remembered{}
	}
	return m.calls[c]
}

func (m *memory) knows(b rememberer, r *remembered) bool {
	return r.answer != nil && !b.time().Before(r.at.Add(m.late)) && b.time().Before(r.at.Add(m.retry))
}

func (b rememberer) time() time.Time {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.s.now()
}

func (b rememberer) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	return once(b, "enqueue", c, func() ([]broker.Enqueued, error) { return b.Model.Enqueue(ctx, c, queue, jobs) })
}

func (b rememberer) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	got, err := once(b, "claim", c, func() (broker.Claimed, error) { return b.Model.Claim(ctx, c, r) })
	if err == nil && !b.mem.ended {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		got.Leases = slices.DeleteFunc(slices.Clone(got.Leases), func(l broker.Lease) bool { return b.s.holds(l.Job.Ref(), l.Token) == nil })
	}
	return got, err
}

func (b rememberer) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	return once(b, "settle", c, func() ([]broker.Settled, error) { return b.Model.Settle(ctx, c, s) })
}

func (b rememberer) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	return once(b, "apply", c, func() (broker.Step, error) { return b.Model.Apply(ctx, c, cmd) })
}

func (b rememberer) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	_, err := once(b, "configure", c, func() (struct{}, error) { return struct{}{}, b.Model.Configure(ctx, c, queue, change) })
	return err
}

func (b rememberer) Tick(ctx context.Context, c broker.Call, t broker.Tick) (bool, time.Time, error) {
	type ticked struct {
		won bool
		now time.Time
	}
	a, err := once(b, "tick", c, func() (ticked, error) {
		won, now, err := b.Model.Tick(ctx, c, t)
		return ticked{won, now}, err
	})
	return a.won, a.now, err
}

// remembering is the harness of a store that remembers calls, but for what
// broken says.
func remembering(broken func(m *memory)) Harness {
	m := NewModel(nil)
	h := modelHarness(m)
	mem := &memory{calls: map[broker.Call]*remembered{}, retry: retry}
	broken(mem)
	h.Open = func() broker.Broker { return rememberer{m.Open(), mem} }
	h.Kill = nil
	return h
}

func TestTheSuiteFailsNoBrokerThatRemembersCalls(t *testing.T) {
	if failed := noticed(t, nil, func() Harness { return remembering(func(*memory) {}) }); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}

// TestTheSuiteNoticesAForgottenCall breaks the memory in every way: each is
// noticed, and each case about call ids notices one.
func TestTheSuiteNoticesAForgottenCall(t *testing.T) {
	alone := func(b broker.Broker) broker.Broker {
		r := b.(rememberer)
		return rememberer{r.Model, &memory{calls: map[broker.Call]*remembered{}, retry: retry}}
	}
	noticing := map[string]bool{}
	for name, harness := range map[string]func() Harness{
		"an enqueue is forgotten":                 func() Harness { return remembering(func(m *memory) { m.forgets = "enqueue" }) },
		"a claim is forgotten":                    func() Harness { return remembering(func(m *memory) { m.forgets = "claim" }) },
		"a settlement is forgotten":               func() Harness { return remembering(func(m *memory) { m.forgets = "settle" }) },
		"a command is forgotten":                  func() Harness { return remembering(func(m *memory) { m.forgets = "apply" }) },
		"a change of settings is forgotten":       func() Harness { return remembering(func(m *memory) { m.forgets = "configure" }) },
		"a tick is forgotten":                     func() Harness { return remembering(func(m *memory) { m.forgets = "tick" }) },
		"a call is forgotten after half the time": func() Harness { return remembering(func(m *memory) { m.retry /= 2 }) },
		"a call is not known at once":             func() Harness { return remembering(func(m *memory) { m.late = time.Millisecond }) },
		"a call is taken for another":             func() Harness { return remembering(func(m *memory) { m.blurred = true }) },
		"a lease that is over comes back":         func() Harness { return remembering(func(m *memory) { m.ended = true }) },
		"a client knows its own calls alone": func() Harness {
			h := remembering(func(*memory) {})
			open := h.Open
			h.Open = func() broker.Broker { return alone(open()) }
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := 0
			for _, c := range callCases() {
				synctest.Test(t, func(t *testing.T) {
					failures, _ := recorded(t, func(t testing.TB) { c.Run(t, bubble(harness())) })
					if len(failures) > 0 {
						noticing[c.Name] = true
						failed++
					}
				})
			}
			if failed == 0 {
				t.Error("no case failed")
			}
		})
	}
	for _, c := range callCases() {
		if !noticing[c.Name] {
			t.Errorf("%q noticed nothing", c.Name)
		}
	}
}

func callCases() []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool { return c.Topic != "call ids" })
}

// TestHistoriesNoticeAForgottenCall makes the calls of histories again, on a
// broker that remembers all sorts but one.
func TestHistoriesNoticeAForgottenCall(t *testing.T) {
	bubbles := func(forgets string) stage {
		return func(t *testing.T, run func(t *testing.T, h Harness)) {
			synctest.Test(t, func(t *testing.T) {
				h := bubble(remembering(func(m *memory) { m.forgets = forgets }))
				h.Repeats = true
				run(t, h)
			})
		}
	}
	for _, verb := range []string{"", "enqueue", "claim", "settle", "apply", "tick"} {
		failed := 0
		for seed := range uint64(20) {
			if failure := play(t, newScript(seed), bubbles(verb)); failure != "" {
				failed++
				if verb == "" {
					t.Errorf("seed %d: nothing is forgotten: %s", seed, failure)
				}
			}
		}
		if verb != "" && failed == 0 {
			t.Errorf("forgotten: %s, and no history noticed it", verb)
		}
	}
}
