package spoolprom

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// HooksConfig sets up NewHooks. Its zero value works.
type HooksConfig struct {
	// Buckets are the classic ones of run and wait times, in seconds; nil means
	// from 1 ms to an hour and a half. Native histograms are kept beside them.
	Buckets []float64
	// MaxTasks is how many tasks have a name of their own; 0 means
	// DefaultMaxTasks. Those that run later are observed as "_other".
	MaxTasks int
	// Next is called after each observation.
	Next spool.Hooks
}

// NewHooks registers the metrics of workers with r and returns the hooks that
// observe them: set them as WorkerConfig.Hooks. Workers of one process share the
// metrics when they are given one r; the first call's configuration holds. It
// panics when r has other metrics under these names.
//
// What is observed is of this process, and begins with it.
func NewHooks(r prometheus.Registerer, cfg HooksConfig) spool.Hooks {
	m := newRuns(cfg)
	if err := r.Register(m); err != nil {
		var there prometheus.AlreadyRegisteredError
		if !errors.As(err, &there) {
			panic("spoolprom: NewHooks: " + err.Error())
		}
		m = there.ExistingCollector.(*runs) // no other collector has these descriptions
	}
	next := cfg.Next
	return spool.Hooks{
		Started: func(l *spool.Lease) {
			m.started(l)
			if next.Started != nil {
				next.Started(l)
			}
		},
		Finished: func(l *spool.Lease, o spool.Outcome) {
			m.finished(l, o)
			if next.Finished != nil {
				next.Finished(l, o)
			}
		},
		Fault: func(call string, err error) {
			sort, _, _ := strings.Cut(call, " ") // a schedule's name follows
			m.faults.WithLabelValues(sort).Inc()
			if next.Fault != nil {
				next.Fault(call, err)
			}
		},
	}
}

// runs are the metrics of the workers of a process.
type runs struct {
	wait, run, attempts *prometheus.HistogramVec
	ended, faults       *prometheus.CounterVec
	active              *prometheus.Desc
	max                 int

	mu      sync.Mutex
	tasks   map[string]bool         // with a name of their own
	current map[*spool.Lease]string // the task's name; of runs that are not over
	running map[string]int          // of them, by that name
}

func newRuns(cfg HooksConfig) *runs {
	buckets := cfg.Buckets
	if buckets == nil {
		buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 5400}
	}
	m := &runs{max: cfg.MaxTasks, tasks: map[string]bool{}, current: map[*spool.Lease]string{}, running: map[string]int{}}
	if m.max <= 0 {
		m.max = DefaultMaxTasks
	}
	m.wait = histogram("spool_worker_wait_seconds", "Time from when a job was due to its claim, on the broker's clock.", buckets, "task")
	m.run = histogram("spool_worker_run_seconds", "Time that a handler took.", buckets, "task", "outcome")
	m.attempts = histogram("spool_worker_attempts", "Attempts that a job had taken when it ended done, dead or cancelled.", []float64{1, 2, 3, 5, 10, 20}, "task")
	m.ended = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spool_worker_runs_total",
		Help: "Runs that ended, by how they were settled; none when the lease was lost or the handler settled it.",
	}, []string{"task", "outcome"})
	m.faults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spool_worker_faults_total", Help: "Calls of the worker to its broker that failed.",
	}, []string{"call"})
	m.active = prometheus.NewDesc("spool_worker_active", "Runs that have begun and are not settled.", []string{"task"}, nil)
	return m
}

// histogram is a classic one and a native one in one.
func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

// vecs are the metrics that are kept by themselves.
func (m *runs) vecs() []prometheus.Collector {
	return []prometheus.Collector{m.wait, m.run, m.attempts, m.ended, m.faults}
}

// Describe implements prometheus.Collector.
func (m *runs) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vecs() {
		v.Describe(ch)
	}
	ch <- m.active
}

// Collect implements prometheus.Collector.
func (m *runs) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vecs() {
		v.Collect(ch)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for task, n := range m.running {
		ch <- prometheus.MustNewConstMetric(m.active, prometheus.GaugeValue, float64(n), task)
	}
}

// name is what a task goes by; mu is held.
func (m *runs) name(task string) string {
	if !m.tasks[task] {
		if len(m.tasks) >= m.max || task == Other {
			return Other
		}
		m.tasks[task] = true
	}
	return task
}

func (m *runs) started(l *spool.Lease) {
	m.mu.Lock()
	task := m.name(l.Job.Task)
	m.current[l] = task
	m.running[task]++
	m.mu.Unlock()
	m.wait.WithLabelValues(task).Observe(max(0, l.Job.ClaimedAt.Sub(l.Job.RunAt).Seconds()))
}

// finished observes a run. One whose context ended before its handler was called
// was never started.
func (m *runs) finished(l *spool.Lease, o spool.Outcome) {
	m.mu.Lock()
	task, began := m.current[l]
	if began {
		delete(m.current, l)
		m.running[task]--
	} else {
		task = m.name(l.Job.Task)
	}
	m.mu.Unlock()
	outcome := "none"
	if o.Kind != 0 {
		outcome = o.Kind.String()
	}
	m.ended.WithLabelValues(task, outcome).Inc()
	if began {
		m.run.WithLabelValues(task, outcome).Observe(o.Duration.Seconds())
	}
	switch o.State {
	case broker.Done, broker.Dead, broker.Cancelled:
		m.attempts.WithLabelValues(task).Observe(float64(l.Job.Attempt))
	}
}
