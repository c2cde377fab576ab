package redisbroker

import (
	"context"
	"os"
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
	part  int // where every job is; next: each in the next one
	last  uint64
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

// hash is hashed, but for those ids; of others each is in the next part, so that each
// run of a case is the same.
func (s *spreader) hash(text []byte) uint64 {
	if s.part != next {
		return uint64(s.part)
	} else if len(text) != 16 {
		return s.usual(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	part, is := s.ids[broker.ID(text)]
	if !is {
		s.last++
		part = s.last
		s.ids[broker.ID(text)] = part
	}
	return part
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

const next = -1

// spreadStore is an empty store on which every queue is spread over three parts.
func spreadStore(t testing.TB, url string, part int) brokertest.Harness {
	clock, namespace := brokertest.NewManualClock(wall), newNamespace()
	by := &spreader{t: t, b: open(t, url, namespace, clock), parts: 3, part: part, done: map[string]bool{}, ids: map[broker.ID]uint64{}, usual: hashed}
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

// apart are the cases that a queue passes within one part alone: they are about the
// order of jobs that are in several (of claims, lists, or a walk through a list, a part
// of which each step of a command takes), the turns of tenants, and ageing.
var apart = map[string][]string{
	"order": nil, "due": nil, "fairness": nil, "ageing": nil, // all of these topics
	"batches": {
		"a completion job keeps its priority and tenant, and runs as any job",
		"the order of a batch in its call does not matter, nor what else is in it",
	},
	"call ids": {
		"a repeated claim returns the leases of the first that are still valid, and takes no others",
		"a repeated step of a command answers what the first did and changes nothing",
	},
	"claim": {
		"a claim leaves alone the tasks that it does not name",
	},
	"commands": {
		"a batch that one step completes is reached by a later step, and not by the same",
		"a step with a limit changes no more than that",
	},
	"explain": {
		"a job behind others says behind how many",
		"a job whose tenant has to wait for its turn is behind another",
		"what no worker takes is not in front of a job",
	},
	"follow-ups": {
		"follow-ups of one call keep their order",
	},
	"key repeats": {
		"a repeat that debounces without a delay goes behind all",
		"a repeat that replaces keeps place and due time",
	},
	"list": {
		"a list and a command go on at another client, which leaves out nothing",
		"a list shows what its filter chooses",
		"every state is listed in the order in which it was entered",
		"jobs that come between two pages stand behind",
		"jobs that leave between two pages do not hide others",
		"pages follow each other without a gap or a double",
		"what waits for its time is listed as it was enqueued, and as ready when due",
	},
	"ordered groups": {
		"a holder that is ready again goes before the others of its lane, and takes their place",
		"a retry has its own place once what waited before it is gone",
		"the jobs of an ordered group run one at a time, in their order",
		"without a group, the tenant is the ordered group",
	},
	"retention": {
		"a job that is not started in time is cancelled and says so",
	},
	// These have a job whose id was chosen in one part, and what binds it in another.
	"keys":      {"a known id is recognised before a held key"},
	"schedules": {"a job of a tick that is there already is not added again"},
}

// in reports whether a list of cases has one.
func in(list map[string][]string, c brokertest.Case) bool {
	names, is := list[c.Topic]
	return is && (names == nil || slices.Contains(names, c.Name))
}

// some leaves most of the cases to SPOOL_PROOF, since they are many.
func some(c brokertest.Case) bool {
	return os.Getenv("SPOOL_PROOF") != "" || slotOf(c.Topic+c.Name)%12 == 0
}

// Within one part all else of the contract holds, and nobody sees that it is one.
func TestWithinOnePartASpreadQueueKeepsTheContract(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{})
	for _, c := range brokertest.Cases() {
		if in(unfit, c) || !some(c) {
			continue
		}
		t.Run(c.Topic+"/"+c.Name, func(t *testing.T) {
			part := 1
			if slices.Contains([]string{"schedules", "batches", "call ids", "settings"}, c.Topic) {
				part = 0 // where schedules tick
			}
			c.Run(t, spreadStore(t, s.URL(), part))
		})
	}
}

// Each job is in the next part, on a cluster of three nodes.
func TestASpreadQueueKeepsWhatNeedsNoOrderOverItsParts(t *testing.T) {
	slow(t)
	c := redistest.StartCluster(t, redistest.Options{})
	for _, k := range brokertest.Cases() {
		if in(unfit, k) || in(apart, k) || !some(k) {
			continue
		}
		t.Run(k.Topic+"/"+k.Name, func(t *testing.T) { k.Run(t, spreadStore(t, c.URL(), next)) })
	}
}
