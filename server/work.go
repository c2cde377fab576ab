package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

func (s *Server) workRoutes() {
	describe(s, route{
		method: http.MethodPost, path: "/v1/claim", id: "claim", tag: "work", scope: Work,
		summary: "Claim jobs to run",
		doc:     "Takes ready jobs and leases them to the caller; waits for the first as long as asked. A lease ends by its deadline: extend it while the job runs. What is taken has 8 MiB, or is one job more: then the answer says more.",
	}, s.claim)
	// Thousands of claims may wait: each holds a stack, which is half as large
	// without the framework's part of it.
	s.plain("POST /v1/claim", Work, func(r *http.Request) (any, error) {
		var in claimIn
		call, err := callOf(r)
		if err != nil {
			return nil, err
		}
		in.CallID = call.ID
		if err := short(r, &in.Body); err != nil {
			return nil, err
		}
		out, err := s.claim(r.Context(), &in)
		if err != nil {
			return nil, err
		}
		return out.Body, nil
	})
	register(s, route{
		method: http.MethodDelete, path: "/v1/claims/{call}", id: "stop-claim", tag: "work", scope: Work, status: http.StatusNoContent,
		summary: "End the wait of a claim",
		doc:     "The claim with that call id answers at once with what it has: for a worker that stops, so that no lease is lost on the way. Answers 404 when no such claim waits here.",
	}, s.stopClaim)
	register(s, route{
		method: http.MethodPost, path: "/v1/extend", id: "extend", tag: "work", scope: Work,
		summary: "Extend leases, and register a worker",
		doc:     "A worker's heartbeat: says of each lease whether it is still held, and whether the job is to be cancelled.",
	}, s.extend)
	register(s, route{
		method: http.MethodPost, path: "/v1/settle", id: "settle", tag: "work", scope: Work,
		summary: "Settle leases: ack, nack, snooze, release, bury, cancel",
		doc:     "Each settlement is judged alone, and its answer says what became of it. What is answered is durable.",
	}, s.settle)
}

type claimIn struct {
	Called
	Body wire.ClaimRequest
}

func (s *Server) claim(ctx context.Context, in *claimIn) (*answer[wire.Claimed], error) {
	r := in.Body.ClaimRequest()
	if err := checkClaim(&r); err != nil {
		return nil, err
	}
	if !in.Body.Unlisted {
		done, err := s.claimers.claim(ctx, &r)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	call := in.call()
	r.Wait = s.cut(r.Wait)
	outer := ctx
	if r.Wait > 0 {
		waiting, cancel := s.waiting(ctx)
		defer cancel()
		var done func()
		ctx, done = s.waits.begin(waiting, call.ID)
		defer done()
	}
	got, err := s.broker.Claim(ctx, call, r)
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		got, err = broker.Claimed{}, nil // its wait was ended
	}
	if err != nil {
		return nil, err
	}
	return &answer[wire.Claimed]{wire.ClaimedOf(&got)}, nil
}

func checkClaim(r *broker.ClaimRequest) error {
	for _, l := range [...]struct {
		field string
		names []string
	}{{"queue", r.Queues}, {"task", r.Tasks}} {
		for _, name := range l.names {
			if err := broker.ValidName(name); err != nil {
				return fmt.Errorf("%w: %s name %w", broker.ErrInvalid, l.field, err)
			}
		}
	}
	switch {
	case r.Max < 1 || r.Max > broker.MaxClaimJobs:
		return fmt.Errorf("%w: max is %d, allowed are 1 to %d", broker.ErrInvalid, r.Max, broker.MaxClaimJobs)
	case r.TTL < 0 || r.TTL > broker.MaxDelay:
		return fmt.Errorf("%w: ttl is %v, allowed are 0 (which means %v) to 100 years", broker.ErrInvalid, r.TTL, broker.DefaultLeaseTTL)
	case r.Wait < 0:
		return fmt.Errorf("%w: wait %v is negative", broker.ErrInvalid, r.Wait)
	}
	return nil
}

type stopClaimIn struct {
	Call broker.ID `path:"call" doc:"The call id of the claim."`
}

func (s *Server) stopClaim(_ context.Context, in *stopClaimIn) (*empty, error) {
	if !s.waits.end(in.Call) {
		return nil, wire.NewProblem("not_found", http.StatusNotFound, "No such claim waits here", "")
	}
	return nil, nil
}

type extendIn struct{ Body wire.ExtendRequest }

func (s *Server) extend(ctx context.Context, in *extendIn) (*answer[wire.Beats], error) {
	r, err := in.Body.ExtendRequest()
	if err != nil {
		return nil, err
	}
	if !r.Leaving && s.claimers.alive(&r.Worker) {
		r.Worker = broker.Worker{}
	}
	beats, err := s.broker.Extend(ctx, r)
	if err != nil {
		return nil, err
	}
	s.claimers.beat(&r.Worker, r.Leaving)
	return &answer[wire.Beats]{wire.BeatsOf(beats)}, nil
}

type settleIn struct {
	Called
	Body wire.SettleRequest
}

func (s *Server) settle(ctx context.Context, in *settleIn) (*answer[wire.SettleAnswer], error) {
	list := make([]broker.Settlement, len(in.Body.Settlements))
	for i := range in.Body.Settlements {
		one, err := in.Body.Settlements[i].Settlement()
		if err != nil {
			return nil, fmt.Errorf("settlement %d of %d: %w", i+1, len(list), err)
		}
		if one.Ref.Queue == "" {
			return nil, fmt.Errorf("settlement %d of %d: %w: queue name is empty", i+1, len(list), broker.ErrInvalid)
		}
		if n := len(one.Result); n > s.client.PayloadMax() {
			return nil, fmt.Errorf("settlement %d of %d: %w: result has %d bytes, the limit is %d", i+1, len(list), broker.ErrTooLarge, n, s.client.PayloadMax())
		}
		if err := s.checkFollowUps(one.FollowUps); err != nil {
			return nil, fmt.Errorf("settlement %d of %d: %w", i+1, len(list), err)
		}
		list[i] = one
	}
	answers, err := s.broker.Settle(ctx, in.call(), list)
	if err != nil {
		return nil, err
	}
	return &answer[wire.SettleAnswer]{wire.SettleAnswerOf(answers)}, nil
}

// checkFollowUps checks jobs that an ack brings, and gives ids to those that
// have none.
func (s *Server) checkFollowUps(list []broker.FollowUp) error {
	for i := range list {
		f := &list[i]
		if err := broker.ValidName(f.Queue); err != nil {
			return fmt.Errorf("%w: queue name of follow-up %d %w", broker.ErrInvalid, i+1, err)
		}
		if err := f.Job.Validate(s.client.PayloadMax()); err != nil {
			return fmt.Errorf("follow-up %d: %w", i+1, err)
		}
		if f.Job.ID.IsZero() {
			f.Job.MakeID()
		}
	}
	return nil
}

// beat is how often a stream says that it is alive.
const beat = 15 * time.Second
