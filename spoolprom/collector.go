package spoolprom

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// Defaults of a collector.
const (
	DefaultMaxTasks = 1000
	DefaultMaxAge   = time.Second
	DefaultTimeout  = 5 * time.Second
)

// Config sets up a collector. Its zero value works.
type Config struct {
	// MaxTasks is how many tasks, counted in each queue, have a name of their own;
	// 0 means DefaultMaxTasks. Those that come later are counted together, under
	// the task "_other", and under the queue "_other" when their queue has no named
	// task. As many limits and as many schedules are shown, the first by name.
	MaxTasks int
	// MaxAge is for how long what was read serves other scrapes; 0 means
	// DefaultMaxAge, negative means that each scrape reads.
	MaxAge time.Duration
	// Timeout is how long a scrape may read; 0 means DefaultTimeout.
	Timeout time.Duration
}

// NewCollector returns a collector of the store that c has open. c stays the
// caller's: once it is closed, a scrape says that the store could not be read.
//
// Register it in one process or in all: what it sends of the store is the same
// everywhere. The series of a queue or task that is gone are 0 once and then
// absent. For several stores in one registry, give each a label:
// prometheus.WrapRegistererWith.
//
// A scrape reads the counts, the settings, the workers, and one job of each queue
// with a ready one. Scrapes at the same time read once.
func NewCollector(c *spool.Client, cfg Config) prometheus.Collector {
	if cfg.MaxTasks <= 0 {
		cfg.MaxTasks = DefaultMaxTasks
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	cfg.MaxAge = cmp.Or(cfg.MaxAge, DefaultMaxAge)
	return &collector{client: c, cfg: cfg, fold: newFold(cfg.MaxTasks)}
}

// collector is safe for concurrent use.
type collector struct {
	client *spool.Client
	cfg    Config

	mu     sync.Mutex // held while the store is read
	read   time.Time  // zero: never
	result []prometheus.Metric
	fold   *fold
	pairs  map[pair]bool   // that were there at the last reading
	queues map[string]bool // the same
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		ch <- m
	}
}

// metrics returns what was read last, or reads. The result is not changed later.
func (c *collector) metrics() []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() || time.Since(c.read) >= c.cfg.MaxAge {
		ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
		defer cancel()
		c.result = c.scrape(ctx)
		c.read = time.Now()
	}
	return c.result
}

// scrape reads the store, part by part: what cannot be read is missing, and said
// to be.
func (c *collector) scrape(ctx context.Context) []prometheus.Metric {
	s := &scrape{ctx: ctx, client: c.client, max: c.cfg.MaxTasks, now: time.Now()}
	s.gauge(infoDesc, 1, c.client.Broker().Caps().Broker)
	s.part("health", s.health)
	s.part("counts", func() error {
		counts, err := c.client.Counts(ctx, "")
		if err != nil {
			return err
		}
		s.all = counts
		folded, tasks, queues := c.fold.apply(counts)
		s.counts = folded
		s.gauge(foldedDesc, float64(tasks), "tasks")
		s.gauge(foldedDesc, float64(queues), "queues")
		s.sendCounts()
		c.leave(s)
		return nil
	})
	s.part("oldest", s.oldest)
	s.part("settings", s.settings)
	s.part("workers", s.workers)
	if b, ok := c.client.Broker().(fileBroker); ok {
		s.part("file", func() error { return s.file(b) })
	}
	return s.out
}

// leave sends zeros once for what was there at the last reading and is no more.
func (c *collector) leave(s *scrape) {
	pairs, queues := map[pair]bool{}, map[string]bool{}
	for i := range s.counts {
		pairs[of(&s.counts[i])], queues[s.counts[i].Queue] = true, true
	}
	for p := range c.pairs {
		if !pairs[p] && p.task != "" {
			for _, state := range broker.States {
				s.gauge(jobsDesc, 0, p.queue, p.task, state.String())
			}
		}
	}
	for q := range c.queues {
		if queues[q] {
			continue
		}
		for _, d := range []*prometheus.Desc{depthDesc, bytesDesc} {
			s.gauge(d, 0, q)
		}
		if q != Other {
			for _, d := range []*prometheus.Desc{highWaterDesc, pausedDesc, oldestDesc} {
				s.gauge(d, 0, q)
			}
		}
	}
	c.pairs, c.queues = pairs, queues
}
