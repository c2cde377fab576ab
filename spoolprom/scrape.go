package spoolprom

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// scrape is one reading of a store.
type scrape struct {
	ctx    context.Context
	client *spool.Client
	max    int // of limits, of schedules
	now    time.Time
	out    []prometheus.Metric
	all    []broker.Count // as they were read; nil when they could not be
	counts []broker.Count // the same, folded
}

// part reads one part and says whether it could.
func (s *scrape) part(name string, read func() error) {
	ok := read() == nil
	s.gauge(successDesc, number(ok), name)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *scrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.send(d, prometheus.GaugeValue, v, labels)
}

func (s *scrape) counter(d *prometheus.Desc, v int64, labels ...string) {
	s.send(d, prometheus.CounterValue, float64(v), labels)
}

func (s *scrape) send(d *prometheus.Desc, t prometheus.ValueType, v float64, labels []string) {
	for i := range labels {
		if !utf8.ValidString(labels[i]) { // a broker's server may hold anything
			labels[i] = strconv.Quote(labels[i])
		}
	}
	s.out = append(s.out, prometheus.MustNewConstMetric(d, t, v, labels...))
}

// statuses are those that a store can have.
var statuses = []broker.HealthStatus{broker.Healthy, broker.DiskFull, broker.Poisoned, broker.Corrupt, broker.Unreachable, broker.Degraded}

func (s *scrape) health() error {
	h, err := s.client.Health(s.ctx)
	if err != nil {
		return err
	}
	for _, status := range statuses {
		s.gauge(healthDesc, number(status == h.Status), string(status))
	}
	return nil
}

// sendCounts sends what is said of each task and each queue; counts are sorted.
func (s *scrape) sendCounts() {
	for i := range s.counts {
		c := &s.counts[i]
		if c.Task != "" { // else it is a queue in which no job ever was
			s.sendTask(c)
		}
		if first := i == 0 || s.counts[i-1].Queue != c.Queue; !first {
			continue
		}
		s.gauge(depthDesc, float64(c.Depth), c.Queue)
		s.gauge(bytesDesc, float64(c.Bytes), c.Queue)
		if c.Queue != Other {
			s.gauge(highWaterDesc, float64(c.HighWater), c.Queue)
			s.gauge(pausedDesc, number(c.Paused), c.Queue)
		}
	}
}

func (s *scrape) sendTask(c *broker.Count) {
	for _, state := range broker.States {
		s.gauge(jobsDesc, float64(c.Of(state)), c.Queue, c.Task, state.String())
	}
	t := &c.Totals
	for _, total := range [...]struct {
		desc  *prometheus.Desc
		value int64
	}{
		{enqueuedDesc, t.Enqueued}, {claimedDesc, t.Claimed}, {ackedDesc, t.Acked}, {failedDesc, t.Failed},
		{expiredDesc, t.Expired}, {diedDesc, t.Died}, {cancelledDesc, t.Cancelled}, {deletedDesc, t.Deleted},
	} {
		s.counter(total.desc, total.value, c.Queue, c.Task)
	}
}

// queues are those with a name of their own, and how many of their jobs are ready.
func (s *scrape) queues() (names []string, ready map[string]int64) {
	ready = map[string]int64{}
	for i := range s.counts {
		if c := &s.counts[i]; c.Queue != Other {
			if _, known := ready[c.Queue]; !known {
				names = append(names, c.Queue)
			}
			ready[c.Queue] += c.Ready
		}
	}
	return names, ready
}

// oldest asks each queue with a ready job for the one that is ready longest.
func (s *scrape) oldest() (failed error) {
	names, ready := s.queues()
	for _, queue := range names {
		age := 0.0
		if ready[queue] > 0 {
			page, err := s.client.Broker().List(s.ctx, broker.Filter{Queue: queue, States: []broker.State{broker.Ready}}, "", 1)
			if err != nil {
				failed = err
				continue
			}
			if len(page.Jobs) > 0 {
				age = max(0, s.now.Sub(page.Jobs[0].RunAt).Seconds())
			}
		}
		s.gauge(oldestDesc, age, queue)
	}
	return failed
}

func (s *scrape) workers() error {
	workers, err := s.client.Workers(s.ctx, "")
	if err != nil {
		return err
	}
	slots, leases := 0, 0
	for i := range workers {
		slots, leases = slots+workers[i].Concurrency, leases+workers[i].Leases
	}
	s.gauge(workersDesc, float64(len(workers)))
	s.gauge(slotsDesc, float64(slots))
	s.gauge(leasesDesc, float64(leases))
	crews := crewsOf(workers)
	names, _ := s.queues()
	for _, queue := range names {
		s.gauge(listenersDesc, crews.count(queue, ""), queue)
	}
	for i := range s.counts {
		if c := &s.counts[i]; c.Task != "" && c.Task != Other {
			s.gauge(servedDesc, crews.count(c.Queue, c.Task), c.Queue, c.Task)
		}
	}
	return nil
}

// crew are workers that take the same jobs, as those of one program do.
type crew struct {
	queues, tasks map[string]bool // nil: every one
	size          int
}

type crews []*crew

func crewsOf(workers []broker.Worker) (all crews) {
	known := map[string]*crew{}
	for i := range workers {
		w := &workers[i]
		key := strings.Join(w.Queues, "\x00") + "\x01" + strings.Join(w.Tasks, "\x00") // no name has these
		c := known[key]
		if c == nil {
			c = &crew{queues: set(w.Queues), tasks: set(w.Tasks)}
			known[key] = c
			all = append(all, c)
		}
		c.size++
	}
	return all
}

func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// count is how many listen to a queue and, unless task is "", handle the task.
func (cs crews) count(queue, task string) float64 {
	n := 0
	for _, c := range cs {
		if (c.queues == nil || c.queues[queue]) && (task == "" || c.tasks == nil || c.tasks[task]) {
			n += c.size
		}
	}
	return float64(n)
}
