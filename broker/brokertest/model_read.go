package brokertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// copy returns j as a reader may have it.
func (j *job) copy() broker.Job {
	c := j.Job
	c.Payload, c.Result, c.Headers = bytes.Clone(j.Payload), bytes.Clone(j.Result), maps.Clone(j.Headers)
	c.Log = slices.Clone(j.Log)
	return c
}

// get returns a copy of the job, or one with State 0 that carries its name.
func (s *store) get(r broker.Ref) broker.Job {
	if j := s.find(r); j != nil {
		return j.copy()
	}
	return broker.Job{Queue: r.Queue, ID: r.ID}
}

// Get implements broker.Broker.
func (m *Model) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	var jobs []broker.Job
	for _, r := range refs {
		jobs = append(jobs, m.s.get(r))
	}
	return jobs, nil
}

// Await implements broker.Broker.
func (m *Model) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	var jobs []broker.Job
	err := m.wait(ctx, wait, func() (bool, time.Duration) {
		jobs = nil
		for _, r := range refs {
			if j := m.s.get(r); j.State == 0 || j.State.Final() {
				jobs = append(jobs, j)
			}
		}
		return len(jobs) > 0, 0
	})
	return jobs, err
}

// matches reports whether f chooses j, by all but its queue and states when
// those were looked at before.
func (s *store) matches(f broker.Filter, j *job) bool {
	age := s.age(j)
	return (f.Queue == "" || f.Queue == j.Queue) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, j.ID)) &&
		(len(f.States) == 0 || slices.Contains(f.States, j.State)) &&
		(f.Task == "" || f.Task == j.Task) &&
		(f.Tenant == "" || f.Tenant == j.Tenant) &&
		(f.Group == "" || f.Group == j.Group) &&
		(f.Reason == "" || f.Reason == j.Reason) &&
		(f.Key == "" || f.Key == j.Key) &&
		strings.Contains(j.Error, f.ErrorContains) &&
		(f.OlderThan == 0 || age >= f.OlderThan) &&
		(f.NewerThan == 0 || age < f.NewerThan)
}

// age is how long j has been in its state: of one that became due, by the clock
// that it waited for.
func (s *store) age(j *job) time.Duration {
	if j.becameDue {
		return s.nowOf(j).Sub(j.RunAt)
	}
	return s.now().Sub(j.entered.at)
}

// List implements broker.Broker. A cursor is the mark of the last job given.
func (m *Model) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	if f.Settings || f.Reason != "" || f.Queue == "" || len(f.States) != 1 || n < 1 || n > broker.MaxPageJobs {
		return broker.Page{}, fmt.Errorf("%w: list wants a queue, one state, and 1 to %d jobs", broker.ErrInvalid, broker.MaxPageJobs)
	}
	after, err := parseMark(cursor)
	if err != nil {
		return broker.Page{}, err
	}
	if err := m.begin(ctx); err != nil {
		return broker.Page{}, err
	}
	defer m.s.mu.Unlock()
	var page broker.Page
	var last mark
	for _, j := range m.s.in(f.Queue, f.States[0]) {
		if !m.s.matches(f, j) || cursor != "" && !after.before(j.entered) {
			continue
		}
		if len(page.Jobs) == n {
			page.Cursor = last.String()
			break
		}
		page.Jobs = append(page.Jobs, j.copy())
		last = j.entered
	}
	return page, nil
}

func (m mark) String() string { return fmt.Sprintf("%d.%d", m.at.UnixNano(), m.seq) }

func parseMark(cursor string) (mark, error) {
	if cursor == "" {
		return mark{}, nil
	}
	a, b, _ := strings.Cut(cursor, ".")
	at, err1 := strconv.ParseInt(a, 10, 64)
	seq, err2 := strconv.ParseUint(b, 10, 64)
	if err1 != nil || err2 != nil {
		return mark{}, fmt.Errorf("%w: %.64q is not a cursor", broker.ErrInvalid, cursor)
	}
	return mark{time.Unix(0, at), seq}, nil
}

// Counts implements broker.Broker.
func (m *Model) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	totals := maps.Clone(m.s.totals)
	for q, paused := range m.s.paused {
		if paused && !slices.ContainsFunc(slices.Collect(maps.Keys(totals)), func(n taskName) bool { return n.queue == q }) {
			totals[taskName{q, ""}] = &broker.Totals{} // nobody shall overlook that it is paused
		}
	}
	var counts []broker.Count
	for name, t := range totals {
		if queue != "" && queue != name.queue {
			continue
		}
		c := broker.Count{Queue: name.queue, Task: name.task, Paused: m.s.paused[name.queue], Totals: *t}
		c.Depth, c.HighWater, c.Bytes = m.s.rules.depth(m.s, c.Queue), m.s.flow(c.Queue).high, m.s.bytes(c.Queue)
		for _, j := range m.s.jobs {
			if j.Queue == name.queue && j.Task == name.task {
				*stateCount(&c, j.State)++
			}
		}
		counts = append(counts, c)
	}
	slices.SortFunc(counts, func(a, b broker.Count) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Task, b.Task))
	})
	return counts, nil
}

func stateCount(c *broker.Count, s broker.State) *int64 {
	return [...]*int64{nil, &c.Scheduled, &c.Ready, &c.Leased, &c.Done, &c.Dead, &c.Cancelled}[s]
}

// Workers implements broker.Broker.
func (m *Model) Workers(ctx context.Context, queue string) ([]broker.Worker, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	return m.s.workers(queue), nil
}

// workers lists the registered workers by id. One that more than one handle
// registered stands once.
func (s *store) workers(queue string) []broker.Worker {
	byID := map[string]broker.Worker{}
	for _, h := range s.handles {
		maps.Copy(byID, h.workers)
	}
	var all []broker.Worker
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		w := byID[id]
		if queue != "" && !canRun(w.Queues, queue) {
			continue
		}
		w.Leases = 0
		for _, j := range s.in("", broker.Leased) {
			if j.Worker == id {
				w.Leases++
			}
		}
		all = append(all, w)
	}
	return all
}

// Health implements broker.Broker.
func (m *Model) Health(ctx context.Context) (broker.Health, error) {
	return broker.Health{Status: broker.Healthy}, m.alive(ctx)
}
