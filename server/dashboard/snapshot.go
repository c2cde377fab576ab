package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// How old what all viewers share may be, and how long the store may take for it.
const (
	snapshotAge  = time.Second
	snapshotWait = 10 * time.Second
)

// snapshots are the last answers about the store as a whole: however many look,
// the store is asked once.
type snapshots struct {
	counts cached[[]broker.Count]
	health cached[broker.Health]
	guests cached[[]broker.Worker]
	rules  cached[[]broker.QueueSetting]
}

// cached is the last answer to one question.
type cached[T any] struct {
	mu    sync.Mutex
	value T
	err   error
	at    time.Time
}

func (c *cached[T]) get(ask func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) >= snapshotAge {
		ctx, cancel := context.WithTimeout(context.Background(), snapshotWait)
		defer cancel()
		c.value, c.err = ask(ctx)
		c.at = time.Now()
	}
	return c.value, c.err
}

func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}

// forget makes the next page ask anew, after a change.
func (s *snapshots) forget() {
	s.counts.forget()
	s.rules.forget()
}

func (d *Dashboard) counts() ([]broker.Count, error) {
	return d.snap.counts.get(func(ctx context.Context) ([]broker.Count, error) { return d.client.Counts(ctx, "") })
}

func (d *Dashboard) liveWorkers() ([]broker.Worker, error) {
	return d.snap.guests.get(func(ctx context.Context) ([]broker.Worker, error) { return d.client.Workers(ctx, "") })
}

func (d *Dashboard) settings() ([]broker.QueueSetting, error) {
	return d.snap.rules.get(func(ctx context.Context) ([]broker.QueueSetting, error) { return d.client.Settings(ctx, "") })
}

// health never fails: what keeps it from being found out is an answer, too.
func (d *Dashboard) health() broker.Health {
	h, err := d.snap.health.get(func(ctx context.Context) (broker.Health, error) {
		h, err := d.client.Health(ctx)
		if err != nil {
			h = broker.Health{Status: broker.Unreachable, Text: err.Error()}
		}
		return h, nil
	})
	if err != nil {
		h = broker.Health{Status: broker.Unreachable, Text: err.Error()}
	}
	return h
}

// queueCounts are the kept numbers of one queue.
type queueCounts struct {
	Name   string
	Paused bool
	Moving string
	Sum    broker.Count // over its tasks; Depth, HighWater and Bytes are the queue's
	Tasks  []broker.Count
}

// byQueue sorts counts, which come by queue and task, under their queues.
func byQueue(counts []broker.Count) (queues []queueCounts) {
	for _, c := range counts {
		if len(queues) == 0 || queues[len(queues)-1].Name != c.Queue {
			queues = append(queues, queueCounts{Name: c.Queue, Paused: c.Paused, Moving: c.Moving, Sum: broker.Count{
				Queue: c.Queue, Depth: c.Depth, HighWater: c.HighWater, Bytes: c.Bytes,
			}})
		}
		q := &queues[len(queues)-1]
		addCount(&q.Sum, &c)
		if c.Task != "" {
			q.Tasks = append(q.Tasks, c)
		}
	}
	return queues
}

// addCount adds the jobs and events of a task to a sum.
func addCount(sum, c *broker.Count) {
	sum.Scheduled += c.Scheduled
	sum.Ready += c.Ready
	sum.Leased += c.Leased
	sum.Done += c.Done
	sum.Dead += c.Dead
	sum.Cancelled += c.Cancelled
	t, o := &sum.Totals, &c.Totals
	t.Enqueued += o.Enqueued
	t.Claimed += o.Claimed
	t.Acked += o.Acked
	t.Failed += o.Failed
	t.Expired += o.Expired
	t.Died += o.Died
	t.Cancelled += o.Cancelled
	t.Deleted += o.Deleted
}

// stateCount is how many jobs are in a state.
type stateCount struct {
	State string
	N     int64
}

func statesOf(c *broker.Count) (all []stateCount) {
	for _, s := range broker.States {
		all = append(all, stateCount{s.String(), c.Of(s)})
	}
	return all
}
