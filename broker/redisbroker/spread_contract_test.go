package redisbroker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// spreading is a client that spreads each queue which a call names before the call.
// It does so through a client of its own: its own one finds that out.
type spreading struct {
	*Broker
	by *spreader
}

// spreader spreads the queues of a store over parts.
type spreader struct {
	t     testing.TB
	b     *Broker
	parts int
	mu    sync.Mutex
	done  map[string]bool
	ids   map[broker.ID]uint64
	usual func(text []byte) uint64
}

func (s *spreader) spread(queues ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range queues {
		if s.done[q] || broker.ValidName(q) != nil {
			continue
		}
		s.done[q] = true
		if err := s.b.SetSpread(context.Background(), q, s.parts); err != nil {
			s.t.Errorf("queue %s is not spread: %v", q, err)
		}
	}
}

// chosen puts the ids that the suite chose, as a library makes them to fit, in the
// parts of the keys, ordered groups and batches of their jobs.
func (s *spreader) chosen(jobs []broker.NewJob, tick bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	together := -1 // where a batch is
	for i := range jobs {
		if part, err := wanted("", &jobs[i], s.parts); err == nil && part >= 0 && jobs[i].Ordered {
			together = part
		}
	}
	for i := range jobs {
		j := &jobs[i]
		part, err := wanted("", j, s.parts)
		switch {
		case tick:
			part = 0
		case err != nil || j.ID.IsZero():
			continue
		case j.BatchSize > 0 || !j.Batch.IsZero():
			part = max(together, 0)
		case part < 0:
			continue
		}
		if _, is := s.ids[j.ID]; !is {
			s.ids[j.ID] = uint64(part)
		}
	}
}

// hash is hashed, but for those ids.
func (s *spreader) hash(text []byte) uint64 {
	if len(text) == 16 {
		s.mu.Lock()
		part, is := s.ids[broker.ID(text)]
		s.mu.Unlock()
		if is {
			return part
		}
	}
	return s.usual(text)
}

func (s *spreading) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	s.by.spread(queue)
	s.by.chosen(jobs, false)
	return s.Broker.Enqueue(ctx, c, queue, jobs)
}

func (s *spreading) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	s.by.spread(r.Queues...)
	return s.Broker.Claim(ctx, c, r)
}

func (s *spreading) Settle(ctx context.Context, c broker.Call, list []broker.Settlement) ([]broker.Settled, error) {
	for i := range list {
		for k := range list[i].FollowUps {
			s.by.spread(list[i].FollowUps[k].Queue)
			s.by.chosen([]broker.NewJob{list[i].FollowUps[k].Job}, false)
		}
	}
	return s.Broker.Settle(ctx, c, list)
}

func (s *spreading) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	s.by.spread(cmd.Filter.Queue)
	return s.Broker.Apply(ctx, c, cmd)
}

func (s *spreading) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	s.by.spread(queue)
	return s.Broker.Configure(ctx, c, queue, change)
}

func (s *spreading) Tick(ctx context.Context, c broker.Call, t broker.Tick) (bool, time.Time, error) {
	s.by.spread(t.Queue)
	s.by.chosen(t.Jobs, true)
	return s.Broker.Tick(ctx, c, t)
}

// spreadStore is an empty store on which every queue is spread over three parts.
func spreadStore(t testing.TB, url string) brokertest.Harness {
	clock, namespace := brokertest.NewManualClock(wall), newNamespace()
	by := &spreader{t: t, b: open(t, url, namespace, clock), parts: 3, done: map[string]bool{}, ids: map[broker.ID]uint64{}, usual: hashed}
	hashed = by.hash
	t.Cleanup(func() {
		hashed = by.usual
		_ = by.b.Close()
	})
	return brokertest.Harness{
		Open:   func() broker.Broker { return &spreading{open(t, url, namespace, clock), by} },
		Reopen: true, Clock: clock, Advance: clock.Advance, StepWall: clock.StepWall, Frozen: true,
		Check: func(t testing.TB) {
			b := open(t, url, namespace, clock)
			defer b.Close()
			proved(t, namespace, b)
		},
	}
}

// inOnePart puts every job of a spread queue in one part.
func inOnePart(t *testing.T, part uint64) {
	was := hashed
	hashed = func([]byte) uint64 { return part }
	t.Cleanup(func() { hashed = was })
}

// unfit are the cases that a queue which is spread cannot pass, by why: limits and
// capacities need one place, and are refused; a job has a key or is ordered, not both.
var unfit = map[string][]string{
	"limits": nil, "rates": nil, "capacity": nil, // all of these topics
	"settings": {
		"a setting of every kind is in force as it was set", "versions of a program deployed over each other end with the last one's settings",
		"no more than four limits bind a task", "the caller owns what it gave and what it got", "another client sees and obeys a setting at once",
		"a queue's settings govern no other queue", "settings come before the first job, and add no row to the counts", "settings outlive the last client",
	},
	"explain":  {"what a limit holds back is not in front of a job"},
	"fairness": {"a tenant over its limit loses its turns and holds up nobody", "what a limit holds back waits, too: turns go on"},
	"ageing":   {"ageing passes over what is limited"},
	"batches":  {"a member that is dropped counts", "a batch counts in depth and totals"},
	"reasons": {
		"a job over a limit says which, and who holds it", "no more than ten holders are named", "a job over a rate says until when",
		"a pause and the want of a worker are told before a limit", "a limit on running jobs is told before a rate", "a limit that was lifted is no reason",
	},
	// These have a job with a key that is ordered.
	"enqueue":     {"a job comes back as it was enqueued"},
	"close":       {"what a store holds outlives the last of its clients"},
	"key repeats": {"a repeat that replaces changes payload, headers and timeout, and nothing else"},
}

func isUnfit(c brokertest.Case) bool {
	names, is := unfit[c.Topic]
	return is && (names == nil || slices.Contains(names, c.Name))
}

// Within one part all else of the contract holds, and nobody sees that it is one.
func TestWithinOnePartASpreadQueueKeepsTheContract(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	for _, c := range brokertest.Cases() {
		if isUnfit(c) {
			continue
		}
		t.Run(c.Topic+"/"+c.Name, func(t *testing.T) {
			part := uint64(1)
			if slices.Contains([]string{"schedules", "batches", "call ids", "settings"}, c.Topic) {
				part = 0 // where schedules tick
			}
			inOnePart(t, part)
			c.Run(t, spreadStore(t, s.URL()))
		})
	}
}

func TestASpreadQueueKeepsWhatNeedsNoOrderOverItsParts(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	for _, k := range brokertest.Cases() {
		if isUnfit(k) {
			continue
		}
		t.Run(k.Topic+"/"+k.Name, func(t *testing.T) { k.Run(t, spreadStore(t, c.URL())) })
	}
}
