package brokertest

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// Clock is what a broker under test reads the time from. A vfs.Clock is one.
type Clock interface {
	// Wall is the wall clock, which can step.
	Wall() time.Time
	// Monotonic is the time since some fixed moment; it never steps.
	Monotonic() time.Duration
}

// Model is a broker that is obviously right: it keeps its jobs in one slice,
// looks through all of them for every question, and is what decides when the
// words of package broker leave room. It is one client's handle; Open makes
// another client of the same store. It keeps nothing when its process ends.
//
// Waiting uses package time, so that it works inside a testing/synctest
// bubble; everything else reads the clock given to NewModel.
type Model struct {
	s       *store
	closed  chan struct{}
	once    sync.Once
	workers map[string]broker.Worker // registered through this handle, by id
}

var _ broker.Broker = (*Model)(nil)

// store is what all handles of one Model share. Its mutex guards everything.
type store struct {
	mu       sync.Mutex
	clock    Clock
	base     time.Time     // wall time when the store was made
	start    time.Duration // monotonic time then
	rules    rules
	promoted time.Time // when it was last looked for what is due
	seq      uint64    // numbers places and entries into states
	sweep    uint64    // the number of the upkeep, closing or command under way, 0 for none
	jobs     []*job    // in the order of their enqueues
	keys     map[keyName]*keyRecord
	totals   map[taskName]*broker.Totals
	paused   map[string]bool
	flows    map[string]*flow // by queue
	reboot   bool             // the machine was restarted since the last claim
	epoch    *big.Rat         // when the epoch after its last restart began; nil for none
	given    uint64           // how often jobs were claimed
	handles  []*Model
	changed  chan struct{} // closed and replaced at every change
	watches  []*watch
}

// rules are the decisions that a self-test breaks, one at a time.
type rules struct {
	before func(s *store, a, b *job) bool   // claim order
	token  func(s *store, j *job) uint64    // the next token's lower half
	free   func(s *store, j *job)           // j gives back its key
	tally  func(total *int64)               // an event is counted
	due    func(now, at time.Time) bool     // what is due at at is due now
	valid  func(j *job, now time.Time) bool // j's lease is not over
	keep   func(s *store, j *job) time.Duration
	back   func(j *job)   // a start is given back
	wake   func(s *store) // waiting calls look again
	flowRules
}

type taskName struct{ queue, task string }

type keyName struct{ queue, task, key string }

// keyRecord says that a key is held.
type keyRecord struct {
	id      broker.ID
	payload []byte
	hold    broker.KeyHold
	until   time.Time // HoldFor: the end of the hold
}

// job is a job as the model keeps it. Job has what a reader sees.
type job struct {
	broker.Job
	hold      broker.KeyHold
	keyFor    time.Duration
	wall      bool              // RunAt is wall time: the job was enqueued with At
	place     uint64            // breaks ties of RunAt in the claim order
	entered   mark              // when it came into its state
	becameDue bool              // that is how it became ready
	sweep     uint64            // the upkeep, closing or command that brought it there; 0 for none
	claims    uint64            // ever
	holder    *Model            // whose end ends the lease; nil for a remote one
	settled   broker.SettleKind // the last settlement that Token made; 0 for none
	followUps []broker.Enqueued // what it was answered for them
	keep      time.Duration     // of a final job: how long from its end, see keepFor
	started   bool              // it was claimed and is not final since: it holds its ordered group
	waits     map[uint32]bool   // of a completion job that waits: the ordinals that it waits for
	// moved says that a command or upkeep has moved the job on since its last settlement.
	// Whether a repeat of that settlement is still recognised is left open.
	moved bool
}

// mark is a moment; seq orders equal ones.
type mark struct {
	at  time.Time
	seq uint64
}

func (m mark) before(o mark) bool {
	return m.at.Before(o.at) || m.at.Equal(o.at) && m.seq < o.seq
}

// NewModel makes an empty store and returns its first client. A nil clock is
// package time.
func NewModel(clock Clock) *Model {
	if clock == nil {
		clock = packageClock{time.Now()}
	}
	s := &store{
		clock: clock, base: clock.Wall(), start: clock.Monotonic(),
		rules: rightRules(),
		keys:  map[keyName]*keyRecord{}, totals: map[taskName]*broker.Totals{}, paused: map[string]bool{},
		flows:   map[string]*flow{},
		changed: make(chan struct{}),
	}
	return s.open()
}

func rightRules() rules {
	return rules{
		before: (*store).before,
		token:  func(s *store, _ *job) uint64 { return s.given },
		free:   (*store).freeKey,
		tally:  func(total *int64) { *total++ },
		due:    func(now, at time.Time) bool { return !now.Before(at) },
		valid:  func(j *job, now time.Time) bool { return now.Before(j.LeaseExpiresAt) },
		keep:   (*store).keepFor,
		back:   func(j *job) { j.Attempt-- },
		wake:   (*store).wakeAll,

		flowRules: rightFlowRules(),
	}
}

type packageClock struct{ start time.Time }

func (packageClock) Wall() time.Time { return time.Now().Round(0) }

func (c packageClock) Monotonic() time.Duration { return time.Since(c.start) }

// Open returns another client of the same store.
func (m *Model) Open() *Model {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return m.s.open()
}

func (s *store) open() *Model {
	m := &Model{s: s, closed: make(chan struct{}), workers: map[string]broker.Worker{}}
	s.handles = append(s.handles, m)
	return m
}

// Caps implements broker.Broker.
func (m *Model) Caps() broker.Caps {
	return broker.Caps{
		Broker: "model", Durability: "nothing: it ends with its process",
		OneCommit: true, MaxBatch: 1000, MaxBytes: broker.MaxCallBytes, HandleLeases: true,
	}
}

// Close implements broker.Broker.
func (m *Model) Close() error {
	m.once.Do(func() {
		s := m.s
		s.mu.Lock()
		defer s.mu.Unlock()
		close(m.closed)
		s.promote()
		s.handles = slices.DeleteFunc(s.handles, func(h *Model) bool { return h == m })
		defer s.sweeping()()
		for _, j := range s.in("", broker.Leased) {
			if j.holder == m {
				s.expire(j, broker.ReasonWorkerDied)
			}
		}
		s.wake()
	})
	return nil
}

// begin locks the store for one call and brings it up to now. The caller
// unlocks it unless an error is returned.
func (m *Model) begin(ctx context.Context) error {
	if err := m.alive(ctx); err != nil {
		return err
	}
	m.s.mu.Lock()
	m.s.promote()
	return nil
}

func (m *Model) alive(ctx context.Context) error {
	select {
	case <-m.closed:
		return fmt.Errorf("model: %w", broker.ErrClosed)
	default:
		return ctx.Err()
	}
}

// sweeping marks what is moved, until the returned function is called, as moved
// by one sweep: the order among those jobs is open. A sweep within another is
// part of that.
func (s *store) sweeping() (done func()) {
	if s.sweep != 0 {
		return func() {}
	}
	s.sweep = s.next()
	return func() { s.sweep = 0 }
}

func (s *store) next() uint64 { s.seq++; return s.seq }

func (s *store) wake() { s.rules.wake(s) }

// wakeAll tells every waiting call to look again.
func (s *store) wakeAll() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// enter moves j to a state now, for a reason.
func (s *store) enter(j *job, state broker.State, reason string) {
	if j.State == broker.Leased {
		j.LeaseExpiresAt, j.CancelRequested, j.holder = time.Time{}, false, nil
	}
	j.State, j.Reason, j.becameDue = state, reason, false
	j.entered, j.sweep = mark{s.now(), s.next()}, s.sweep
	if state != broker.Scheduled {
		j.waits = nil
	}
	if state.Final() {
		j.FinishedAt = s.now()
		if j.hold != broker.HoldFor {
			s.rules.free(s, j)
		}
		s.rules.leave(j)
	}
	f := s.flow(j.Queue)
	f.high = max(f.high, s.rules.depth(s, j.Queue))
	s.note(j)
}

// put gives j a new place: now, or after a delay.
func (s *store) put(j *job, delay time.Duration, reason string) {
	j.RunAt, j.wall, j.place = s.now().Add(delay), false, s.next()
	if delay > 0 {
		s.enter(j, broker.Scheduled, reason)
	} else {
		s.enter(j, broker.Ready, reason)
	}
}

// end moves j to a final state, and drops it when nothing keeps it.
func (s *store) end(j *job, state broker.State, reason string) {
	s.enter(j, state, reason)
	t := s.total(j)
	switch state {
	case broker.Done:
		s.rules.tally(&t.Acked)
	case broker.Dead:
		s.rules.tally(&t.Died)
	case broker.Cancelled:
		s.rules.tally(&t.Cancelled)
	}
	s.rules.ended(s, j)
	if j.keep = s.rules.keep(s, j); j.keep == 0 {
		s.remove(j)
	}
}

// keepFor is how long j is kept after its end; 0 means not at all and a
// negative time means until somebody deletes it.
func (s *store) keepFor(j *job) time.Duration {
	retain := j.Retain
	if retain == 0 {
		set := s.retention(j)
		if retain = [...]time.Duration{set.Done, set.Dead, set.Cancelled}[j.State-broker.Done]; retain != 0 && j.State == broker.Dead {
			return max(retain, 0)
		}
	}
	switch {
	case j.State == broker.Dead:
		return -1
	case retain != 0:
		return max(retain, 0)
	case j.State == broker.Done && !j.HasResult:
		return 0
	}
	return broker.DefaultRetain
}

// expire ends j's lease without a settlement.
func (s *store) expire(j *job, reason string) {
	s.rules.tally(&s.total(j).Expired)
	switch {
	case j.CancelRequested:
		s.end(j, broker.Cancelled, broker.ReasonCancelled)
	case j.Attempt >= j.MaxAttempts:
		s.end(j, broker.Dead, broker.ReasonCrashed)
	default:
		s.enter(j, broker.Ready, reason)
	}
}

func (s *store) remove(j *job) {
	s.jobs = slices.DeleteFunc(s.jobs, func(o *job) bool { return o == j })
	if j.hold != broker.HoldFor {
		s.rules.free(s, j)
	}
	s.rules.ended(s, j)
}

func (s *store) find(r broker.Ref) *job {
	for _, j := range s.jobs {
		if j.Queue == r.Queue && j.ID == r.ID {
			return j
		}
	}
	return nil
}

func (s *store) total(j *job) *broker.Totals {
	name := taskName{j.Queue, j.Task}
	if s.totals[name] == nil {
		s.totals[name] = &broker.Totals{}
	}
	return s.totals[name]
}

// in returns the jobs of a queue ("" means all) in one state, in the order in
// which they entered it.
func (s *store) in(queue string, state broker.State) []*job {
	var found []*job
	for _, j := range s.jobs {
		if (queue == "" || j.Queue == queue) && j.State == state {
			found = append(found, j)
		}
	}
	slices.SortFunc(found, func(a, b *job) int {
		if a.entered.before(b.entered) {
			return -1
		}
		return 1
	})
	return found
}
