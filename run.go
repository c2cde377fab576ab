package spool

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// maxUnsettled bounds the finished jobs whose settlement is on its way: their
// slots are free again, so that a sync of the store does not hold up the next
// jobs, but a crash makes them run again.
const maxUnsettled = 2048

// run is one Run of a worker. Its goroutines: the claim loop (Run's own), the
// slots (one per unit of concurrency), the settler, the heart, the watch for
// cancellations, the scheduler. They share what mu guards and poke each other
// through channels that hold one token.
type run struct {
	*Worker
	id       broker.ID
	started  time.Time
	self     broker.Worker // the registration
	handlers map[string]*taskHandler
	tasks    [][]string // of the claims, by MaxClaimTasks; one nil means any
	queues   queueChoice
	life     context.Context // Run's
	base     context.Context // of the handlers: Run's values, never cancelled
	ctx      context.Context // of settlements and heartbeats: ends with the run
	cancel   context.CancelFunc
	faults   faultLog

	loops sync.WaitGroup
	jobs  chan *work    // claimed, to the slots; never blocks
	poke  chan struct{} // to the claim loop: a slot or a settlement came free
	ready chan struct{} // to the settler: something is finished
	beat  chan struct{} // to the heart: beat now

	batch, unreported []*work // the settler's: being settled, and settled

	mu        sync.Mutex
	held      []*work        // every lease not settled yet; a work knows its place
	running   int            // in a slot, or on its way to one
	byQueue   map[string]int // the same by queue, for queues with a limit
	finished  []*work        // to be settled
	unsettled int            // finished, or being settled
	interrupt func()         // ends the waiting claim; nil when it need not end
	freed     bool           // a slot or a settlement came free since the claim was planned
	closed    bool           // the run is over: late handlers settle nothing
}

func newRun(ctx context.Context, w *Worker, handlers map[string]*taskHandler) *run {
	r := &run{
		Worker: w, id: broker.NewID(), started: time.Now(), handlers: handlers, queues: newQueueChoice(w.cfg.Queues),
		life: ctx, base: context.WithoutCancel(ctx), faults: faultLog{log: w.log},
		jobs: make(chan *work, w.cfg.Concurrency),
		poke: make(chan struct{}, 1), ready: make(chan struct{}, 1), beat: make(chan struct{}, 1),
		byQueue: map[string]int{},
	}
	r.ctx, r.cancel = context.WithCancel(r.base)
	r.self = r.register()
	r.tasks = [][]string{nil}
	if r.self.Tasks != nil {
		r.tasks = slices.Collect(slices.Chunk(r.self.Tasks, broker.MaxClaimTasks))
	}
	return r
}

// work runs the worker until ctx ends and the shutdown is over.
func (r *run) work(ctx context.Context, own declaration) error {
	releaseHouse := r.client.keepHouse(ctx)
	flowing, stopFlow := context.WithCancel(ctx)
	defer stopFlow()
	declared := make(chan struct{})
	r.loops.Go(func() { r.flowLoop(flowing, own, declared) })
	defer r.client.declared.set(r, nil)
	registered, over := make(chan struct{}), make(chan struct{})
	r.loops.Go(r.settleLoop)
	r.loops.Go(r.watchLoop)
	r.loops.Go(func() { r.beatLoop(registered) })
	go func() { r.loops.Wait(); close(over) }()
	var slots sync.WaitGroup
	slots.Add(r.cfg.Concurrency)
	for range r.cfg.Concurrency {
		go r.slot(&slots)
	}
	r.log.Info("worker started", "worker", r.cfg.Name, "id", r.self.ID, "concurrency", r.cfg.Concurrency)

	select {
	case <-registered: // or not: a fault does not keep the worker from starting
	case <-ctx.Done():
	}
	select {
	case <-declared: // the same
	case <-ctx.Done():
	}
	ended := r.claimLoop(ctx)
	stopFlow()
	left := r.shutdown()

	close(r.jobs) // the slots end; those of left jobs when their handlers do
	grace := r.grace()
	r.cancel()
	waitFor(over, grace)
	r.leave(grace)
	releaseHouse(grace)
	if len(left) > 0 {
		return &ShutdownError{Jobs: left}
	}
	slots.Wait()
	r.log.Info("worker stopped", "worker", r.cfg.Name, "id", r.self.ID)
	return ended
}

const maxGrace = 2 * time.Second

// grace is how long cancelled handlers have to return.
func (r *run) grace() time.Duration {
	if r.cfg.ShutdownTimeout < 0 {
		return maxGrace
	}
	return min(max(r.cfg.ShutdownTimeout/10, 100*time.Millisecond), maxGrace)
}

// shutdown waits for what runs and is unsettled, cancels it when its time is
// over, and returns the jobs that are left in the end.
func (r *run) shutdown() []Job {
	if !r.awaitIdle(max(r.cfg.ShutdownTimeout, 0)) {
		r.mu.Lock()
		for _, w := range r.held {
			rare.Reached(rare.ShutdownCancelled)
			w.cancel(ErrShutdown)
		}
		r.mu.Unlock()
		r.awaitIdle(r.grace())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var left []Job
	for _, w := range r.held {
		rare.Reached(rare.ShutdownLeft)
		left = append(left, w.Job)
	}
	return left
}

// awaitIdle waits until nothing runs and all is settled, at most for d.
func (r *run) awaitIdle(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for !r.idle() {
		select {
		case <-r.poke:
		case <-t.C:
			return r.idle()
		}
	}
	return true
}

func (r *run) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running == 0 && r.unsettled == 0
}

// notify leaves a token in ch.
func notify(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// fault notes the outcome of a call to the broker.
func (r *run) fault(call string, err error) {
	r.faults.note(call, err)
	if err != nil && r.cfg.Hooks.Fault != nil {
		r.hook(func() { r.cfg.Hooks.Fault(call, err) })
	}
}

// hook calls a hook of the user's; its panic is logged.
func (r *run) hook(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("hook panicked", "panic", p)
		}
	}()
	fn()
}

// register makes the worker's registration, with an id of this run alone.
func (r *run) register() broker.Worker {
	host, err := os.Hostname()
	if err != nil {
		host = "" // a registration without a host says less, no more
	}
	host = head(host, broker.MaxTagBytes)
	self := broker.Worker{
		ID: r.id.String(), Name: r.cfg.Name, Host: host, PID: os.Getpid(), Queues: r.queues.names,
		Concurrency: r.cfg.Concurrency, StartedAt: r.started,
	}
	if r.handlers[""] == nil {
		self.Tasks = slices.Sorted(maps.Keys(r.handlers))
	}
	return self
}
