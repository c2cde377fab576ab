package redisbroker

import (
	"context"
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

func (s *spreading) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	s.by.spread(queue)
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
	return s.Broker.Tick(ctx, c, t)
}

// spreadStore is an empty store on which every queue is spread over three parts.
func spreadStore(t testing.TB, url string) brokertest.Harness {
	clock, namespace := brokertest.NewManualClock(wall), newNamespace()
	by := &spreader{t: t, b: open(t, url, namespace, clock), parts: 3, done: map[string]bool{}}
	t.Cleanup(func() { _ = by.b.Close() })
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

func TestASpreadQueueKeepsTheContractAsFarAsItCan(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	for _, c := range brokertest.Cases() {
		t.Run(c.Topic+"/"+c.Name, func(t *testing.T) { c.Run(t, spreadStore(t, s.URL())) })
	}
}
