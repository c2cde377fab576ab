package spool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// Defaults of a worker.
const (
	DefaultConcurrency     = 10
	DefaultShutdownTimeout = 25 * time.Second
)

// WorkerConfig sets up a worker. Its zero value works.
type WorkerConfig struct {
	// Name is for people, and owns what the worker declares (see Schedules); the
	// default is the program's name.
	Name string
	// Concurrency is how many jobs run at a time; 0 means DefaultConcurrency.
	Concurrency int
	// Queues to listen to; nil means every queue of the store. Without weights
	// their order is strict: a job of the first goes before one of the second.
	Queues []QueueConfig
	// ShutdownTimeout is how long running jobs may go on after Run's context
	// ended; 0 means DefaultShutdownTimeout, negative means not at all. Their
	// contexts are then cancelled, and they have a tenth of it more (100 ms to
	// 2 s; 2 s when it is negative) to return.
	ShutdownTimeout time.Duration
	// LeaseTTL is how long a lease lasts without a heartbeat (heartbeats come
	// three times as often), and so how long the jobs of a cut-off machine
	// wait; 0 means broker.DefaultLeaseTTL.
	LeaseTTL time.Duration
	// Schedules are declared to the store when the worker starts. Its name is
	// their owner, and that of its tasks' limits: what a worker of the same name
	// declared at an earlier start, and this one does not, is gone from the
	// store. So the last start decides, in a deploy as in a rollback, and
	// programs that declare different things need workers of different names.
	// The names of their limits (Bucket) and schedules must differ, too, within a
	// queue: else the last start takes the setting over, and logs a warning.
	Schedules []Schedule
	// NoScheduler makes the worker serve no schedules. By default every running
	// worker serves all schedules of the store, whoever declared them.
	NoScheduler bool
	// Drain makes Run return when no job is ready that it could take and none
	// of its own runs. Scheduled jobs, retries among them, are left.
	Drain bool
	// Logger is by default the client's.
	Logger *slog.Logger
	Hooks  Hooks
}

// QueueConfig says how a worker listens to one queue.
type QueueConfig struct {
	Name string
	// Weight is the queue's share of the claims that begin with it. When no
	// queue has a weight the order is strict; when one has, 0 means 1.
	Weight int
	// Concurrency is how many jobs of the queue run at a time in this worker;
	// 0 means only the worker's own limit.
	Concurrency int

	// What follows is declared to the store when the worker starts, as the limits
	// of its tasks are: it holds for every process until another start declares
	// something else, and an operator's setting goes before it. Nil and 0 declare
	// nothing.

	Capacity       *broker.Capacity  // of the queue
	TenantCapacity *broker.Capacity  // of each of its tenants
	Retention      *broker.Retention // of its finished jobs
	Ageing         time.Duration     // broker.Setting.Ageing
}

// settings returns what the queue's configuration declares.
func (q *QueueConfig) settings() (all []broker.Setting) {
	if q.Capacity != nil {
		all = append(all, broker.Setting{Kind: broker.CapacitySetting, Capacity: q.Capacity})
	}
	if q.TenantCapacity != nil {
		all = append(all, broker.Setting{Kind: broker.CapacitySetting, Name: broker.TenantCapacity, Capacity: q.TenantCapacity})
	}
	if q.Retention != nil {
		all = append(all, broker.Setting{Kind: broker.RetentionSetting, Retention: q.Retention})
	}
	if q.Ageing != 0 {
		all = append(all, broker.Setting{Kind: broker.AgeingSetting, Ageing: q.Ageing})
	}
	return all
}

// Hooks are called while a worker works, for metrics. They must return soon and
// be safe for concurrent use; a nil one is not called. The panic of one is
// logged.
type Hooks struct {
	Started  func(l *Lease)               // the handler is about to run
	Finished func(l *Lease, o Outcome)    // the settlement is durable, or there is none
	Fault    func(call string, err error) // a call to the broker failed; the worker goes on
}

// Outcome says how a run ended.
type Outcome struct {
	// Kind is how the job was settled; 0 means that the worker settled nothing:
	// the lease was lost, or the handler settled by itself.
	Kind broker.SettleKind
	// State is where the job is now; 0 when the worker did not learn it.
	State State
	// Err is what the handler returned (a panic is an error), or why the
	// settlement was refused.
	Err      error
	Duration time.Duration // of the handler
}

// Handler runs one job. Middleware sees the lease before its arguments are
// decoded.
type Handler func(ctx context.Context, l *Lease) error

// Worker runs the handlers of its tasks: set it up (NewWorker, Use, Handle),
// then Run it. It claims only jobs of its tasks, and only into free slots.
//
// A handler's context carries the values of Run's context, not its
// cancellation. It is cancelled with a cause (context.Cause): the job's timeout
// (context.DeadlineExceeded), ErrShutdown, ErrCancelled or ErrLeaseLost.
//
// A nil error acks the job. Any other is a failed attempt, retried by the
// task's Backoff until the attempts are used up, except:
//   - RetryAfter, Snooze, Bury and Cancel, found with errors.As, say it all;
//   - after ErrCancelled the job ends cancelled;
//   - after ErrShutdown the job is given back, and the attempt does not count;
//   - after ErrLeaseLost nothing is settled, whatever is returned.
//
// A panic, and a handler that ends its goroutine, is a failed attempt with the
// stack as its text. A panic in a goroutine that a handler started ends the
// process, as in any Go program; that run counts as crashed.
type Worker struct {
	client    *Client
	cfg       WorkerConfig
	schedules []broker.QueueSetting // what cfg.Schedules says
	log       *slog.Logger

	mu         sync.Mutex
	running    bool
	handlers   map[string]*taskHandler // "" handles every other task
	middleware []func(next Handler) Handler
}

type taskHandler struct {
	task   string
	run    Handler
	retry  RetryPolicy
	queue  string // of the declaration
	limits []taskLimit
}

// NewWorker returns a worker of c that handles nothing yet. It panics when the
// configuration is bad: a name, a negative number, a queue named twice, a
// schedule that cannot be read or never fires.
func NewWorker(c *Client, cfg WorkerConfig) *Worker {
	if cfg.Name == "" {
		cfg.Name = programName()
	}
	err := cfg.validate()
	var schedules []broker.QueueSetting
	if err == nil {
		schedules, err = cfg.scheduleSettings(c)
	}
	if err != nil {
		panic("spool: NewWorker: " + err.Error())
	}
	cfg.Concurrency = cmp.Or(cfg.Concurrency, DefaultConcurrency)
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, DefaultShutdownTimeout)
	cfg.LeaseTTL = cmp.Or(cfg.LeaseTTL, broker.DefaultLeaseTTL)
	cfg.Queues = slices.Clone(cfg.Queues)
	return &Worker{client: c, cfg: cfg, schedules: schedules, log: cmp.Or(cfg.Logger, c.log), handlers: map[string]*taskHandler{}}
}

func (cfg *WorkerConfig) validate() error {
	if err := broker.ValidName(cfg.Name); err != nil {
		return fmt.Errorf("worker name %w", err)
	}
	if cfg.Concurrency < 0 {
		return fmt.Errorf("concurrency %d is negative", cfg.Concurrency)
	}
	if cfg.LeaseTTL < 0 || cfg.LeaseTTL > broker.MaxDelay {
		return fmt.Errorf("lease TTL %v is not allowed", cfg.LeaseTTL)
	}
	if cfg.Queues != nil && len(cfg.Queues) == 0 {
		return fmt.Errorf("the list of queues is empty; nil means every queue")
	}
	seen := map[string]bool{}
	for _, q := range cfg.Queues {
		if err := broker.ValidName(q.Name); err != nil {
			return fmt.Errorf("queue name %w", err)
		}
		if seen[q.Name] {
			return fmt.Errorf("queue %s is named twice", q.Name)
		}
		seen[q.Name] = true
		if q.Weight < 0 || q.Concurrency < 0 {
			return fmt.Errorf("queue %s has a negative weight or concurrency", q.Name)
		}
		for _, s := range q.settings() {
			if err := s.Validate(); err != nil {
				return fmt.Errorf("queue %s: %w", q.Name, err)
			}
		}
	}
	return nil
}

// programName makes a valid name of the program's.
func programName() string {
	name := []byte(filepath.Base(os.Args[0]))
	for i, c := range name {
		if broker.ValidName(string(c)) != nil && c != '.' {
			name[i] = '_'
		}
	}
	name = name[:min(len(name), broker.MaxNameBytes)]
	if broker.ValidName(string(name)) != nil {
		return "worker"
	}
	return string(name)
}

// Use puts middleware around every handler; the first is the outermost. It
// panics while the worker runs.
func (w *Worker) Use(mw ...func(next Handler) Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		panic("spool: Use on a running worker")
	}
	w.middleware = append(w.middleware, mw...)
}

// HandleAny makes w take the jobs of every task that has no handler of its own
// on w, and run h for them, with the default backoff. The payload is
// l.Job.Payload.
func (w *Worker) HandleAny(h Handler) { w.handle(&taskSpec{retry: Exponential{}}, h) }

func (w *Worker) handle(spec *taskSpec, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	task := spec.job.Task
	if w.running {
		panic(fmt.Sprintf("spool: Handle(%q) on a running worker", task))
	}
	if w.handlers[task] != nil {
		panic(fmt.Sprintf("spool: task %q has two handlers on one worker", task))
	}
	added := &taskHandler{task: task, run: h, retry: spec.retry, queue: spec.queue, limits: spec.limits}
	if err := w.checkBuckets(added); err != nil {
		panic(fmt.Sprintf("spool: Handle(%q): %v", task, err))
	}
	w.handlers[task] = added
}

// start makes the handlers of one run.
func (w *Worker) start() (map[string]*taskHandler, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return nil, fmt.Errorf("%w: the worker runs already", ErrInvalid)
	}
	if len(w.handlers) == 0 {
		return nil, fmt.Errorf("%w: the worker handles no task: call Handle first", ErrInvalid)
	}
	if n := len(w.handlers); n > broker.MaxWorkerNames {
		return nil, fmt.Errorf("%w: the worker handles %d tasks, the limit is %d", ErrInvalid, n, broker.MaxWorkerNames)
	}
	w.running = true
	handlers := maps.Clone(w.handlers)
	for name, h := range handlers {
		run := h.run
		for i := len(w.middleware) - 1; i >= 0; i-- {
			run = w.middleware[i](run)
		}
		started := *h
		started.run = run
		handlers[name] = &started
	}
	return handlers, nil
}

func (w *Worker) stopped() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
}

// Run works until ctx ends, then claims no more, lets running jobs finish until
// the shutdown timeout, cancels those that still run, and gives back what they
// leave. It blocks; to serve beside it, run it in a goroutine and wait for its
// return before the client is closed.
//
// It returns nil after a clean shutdown (and when Drain found nothing more), a
// *ShutdownError when handlers ignored their cancellation or settlements could
// not be made in time, ErrInvalid when the worker has no handler or runs
// already, ErrClosed when the client was closed before it was stopped, and
// ErrCorrupt when the store is damaged, which only a repair mends that nobody may
// use the store for; with Drain also ErrUnsupported, of a queue that a newer version
// has written. No other fault of the broker ends it: it is logged once per
// change, and the worker tries again.
func (w *Worker) Run(ctx context.Context) error {
	handlers, err := w.start()
	if err != nil {
		return fmt.Errorf("run worker: %w", err)
	}
	defer w.stopped()
	return newRun(ctx, w, handlers).work(ctx, w.declaration(handlers))
}

// ShutdownError is returned by Run when jobs were left at its deadline. Their
// leases end by themselves; what their handlers return is dropped.
type ShutdownError struct {
	Jobs []Job
}

// Error lists the jobs, at most ten.
func (e *ShutdownError) Error() string {
	s := fmt.Sprintf("spool: worker stopped with %d jobs unsettled:", len(e.Jobs))
	for i, j := range e.Jobs {
		if i == 10 {
			return s + " …"
		}
		s += fmt.Sprintf(" %s/%s (%s)", j.Queue, j.ID, j.Task)
	}
	return s
}
