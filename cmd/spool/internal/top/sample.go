// Package top is the overview of a store in a terminal.
package top

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// Sample is what a store held at a moment, and how fast it went since the one
// before.
type Sample struct {
	At      time.Time     `json:"at"`
	Health  broker.Health `json:"health"`
	Queues  []Queue       `json:"queues"`
	Failing []Task        `json:"failing"` // by what failed since the sample before, then by dead letters
	Workers []Worker      `json:"workers"`
	Rates   Rates         `json:"rates"` // of all queues

	totals map[string]broker.Totals // by queue
	failed map[[2]string]int64      // by queue and task
}

// Queue is one queue now.
type Queue struct {
	Name      string `json:"name"`
	Paused    bool   `json:"paused"`
	Ready     int64  `json:"ready"`
	Scheduled int64  `json:"scheduled"`
	Leased    int64  `json:"leased"`
	Dead      int64  `json:"dead"`
	Depth     int64  `json:"depth"`
	HighWater int64  `json:"high_water"`
	Oldest    string `json:"oldest,omitempty"` // how long the job waits that does so longest; "" when none is ready
	Rates     Rates  `json:"rates"`
}

// Rates are a second.
type Rates struct {
	Enqueued float64 `json:"enqueued"`
	Acked    float64 `json:"acked"`
	Failed   float64 `json:"failed"`
}

// Task is one that fails.
type Task struct {
	Queue string  `json:"queue"`
	Task  string  `json:"task"`
	Rate  float64 `json:"failed"` // a second
	Dead  int64   `json:"dead"`
}

// Worker is one that lives.
type Worker struct {
	Name        string    `json:"name"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Running     int       `json:"running"`
	Concurrency int       `json:"concurrency"`
	StartedAt   time.Time `json:"started_at"`
}

// Take reads a store. before is the sample of a while ago, nil for the first.
func Take(ctx context.Context, c *spool.Client, now time.Time, before *Sample) (*Sample, error) {
	s := &Sample{
		At: now, Queues: []Queue{}, Failing: []Task{}, Workers: []Worker{},
		totals: map[string]broker.Totals{}, failed: map[[2]string]int64{},
	}
	var err error
	if s.Health, err = c.Health(ctx); err != nil {
		return nil, err
	}
	counts, err := c.Counts(ctx, "")
	if err != nil {
		return nil, err
	}
	workers, err := c.Workers(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range workers {
		w := &workers[i]
		s.Workers = append(s.Workers, Worker{w.Name, w.Host, w.PID, w.Leases, w.Concurrency, w.StartedAt})
	}
	s.count(counts, before)
	for i := range s.Queues {
		if err := s.Queues[i].age(ctx, c, now); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// count sums what is counted by queue and task.
func (s *Sample) count(counts []broker.Count, before *Sample) {
	for i := range counts {
		n := &counts[i]
		if len(s.Queues) == 0 || s.Queues[len(s.Queues)-1].Name != n.Queue {
			s.Queues = append(s.Queues, Queue{Name: n.Queue, Paused: n.Paused, Depth: n.Depth, HighWater: n.HighWater})
		}
		q := &s.Queues[len(s.Queues)-1]
		q.Ready, q.Scheduled, q.Leased, q.Dead = q.Ready+n.Ready, q.Scheduled+n.Scheduled, q.Leased+n.Leased, q.Dead+n.Dead
		t := s.totals[n.Queue]
		t.Enqueued, t.Acked, t.Failed = t.Enqueued+n.Totals.Enqueued, t.Acked+n.Totals.Acked, t.Failed+n.Totals.Failed
		s.totals[n.Queue] = t
		key := [2]string{n.Queue, n.Task}
		s.failed[key] = n.Totals.Failed
		rate := 0.0
		if before != nil {
			rate = s.rate(before, n.Totals.Failed-before.failed[key])
		}
		if rate > 0 || n.Dead > 0 {
			s.Failing = append(s.Failing, Task{n.Queue, n.Task, rate, n.Dead})
		}
	}
	slices.SortStableFunc(s.Failing, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Dead, a.Dead))
	})
	if before == nil {
		return
	}
	for i := range s.Queues {
		q := &s.Queues[i]
		was, is := before.totals[q.Name], s.totals[q.Name]
		q.Rates = Rates{s.rate(before, is.Enqueued-was.Enqueued), s.rate(before, is.Acked-was.Acked), s.rate(before, is.Failed-was.Failed)}
		s.Rates.Enqueued += q.Rates.Enqueued
		s.Rates.Acked += q.Rates.Acked
		s.Rates.Failed += q.Rates.Failed
	}
}

// rate is n a second since before.
func (s *Sample) rate(before *Sample, n int64) float64 {
	d := s.At.Sub(before.At).Seconds()
	if d <= 0 || n < 0 { // the store is another one, or the clock was set back
		return 0
	}
	return float64(n) / d
}

// age finds how long the oldest ready job waits.
func (q *Queue) age(ctx context.Context, c *spool.Client, now time.Time) error {
	if q.Ready == 0 {
		return nil
	}
	page, err := c.Broker().List(ctx, broker.Filter{Queue: q.Name, States: []broker.State{broker.Ready}}, "", 1)
	if err != nil || len(page.Jobs) == 0 {
		return err
	}
	q.Oldest = max(now.Sub(page.Jobs[0].RunAt), 0).Round(time.Second).String()
	return nil
}
