package brokertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// epoch is the model's only one: its store never goes through a crash.
const epoch = 1

// Claim implements broker.Broker.
func (m *Model) Claim(ctx context.Context, _ broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	switch {
	case r.Max < 1 || r.Max > broker.MaxClaimJobs:
		return broker.Claimed{}, fmt.Errorf("%w: claim of %d jobs, allowed are 1 to %d", broker.ErrInvalid, r.Max, broker.MaxClaimJobs)
	case len(r.Tasks) > broker.MaxClaimTasks:
		return broker.Claimed{}, fmt.Errorf("%w: claim names %d tasks, allowed are %d", broker.ErrInvalid, len(r.Tasks), broker.MaxClaimTasks)
	case len(r.Worker) > broker.MaxNameBytes:
		return broker.Claimed{}, fmt.Errorf("%w: worker id of %d bytes", broker.ErrInvalid, len(r.Worker))
	case r.TTL < 0 || r.Wait < 0:
		return broker.Claimed{}, fmt.Errorf("%w: claim has a negative duration", broker.ErrInvalid)
	}
	var got broker.Claimed
	err := m.wait(ctx, r.Wait, func() (bool, time.Duration) {
		got = m.s.claim(m, r)
		return len(got.Leases) > 0, m.s.look(r, got.NextDue)
	})
	return got, err
}

// wait calls look, under the mutex, until it is satisfied or d is over. look
// also says after how long it wants to look again, 0 for when something changes.
func (m *Model) wait(ctx context.Context, d time.Duration, look func() (ok bool, after time.Duration)) error {
	end := time.Now().Add(d)
	for {
		if err := m.begin(ctx); err != nil {
			return err
		}
		ok, after := look()
		if ok {
			m.s.wake()
		}
		changed := m.s.changed
		m.s.mu.Unlock()
		left := time.Until(end)
		if ok || left <= 0 {
			return nil
		}
		if after > 0 {
			left = min(left, after)
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		case <-m.closed:
		}
		timer.Stop()
	}
}

func (s *store) claim(m *Model, r broker.ClaimRequest) broker.Claimed {
	s.openEpoch()
	var got broker.Claimed
	room := broker.MaxCallBytes
	for _, queue := range s.queues(r) {
		served := map[int32]bool{}
		for j := s.best(queue, r); j != nil && !got.More; j = s.best(queue, r) {
			if got.More = len(got.Leases) == r.Max || room <= 0; !got.More {
				got.Leases = append(got.Leases, s.lease(m, j, r))
				room -= len(j.Payload)
				served[j.Priority] = true
			}
		}
		for priority := range served {
			s.rules.rest(s, queue, priority, r.Tasks)
		}
	}
	got.NextDue = s.nextDue(r)
	return got
}

// queues lists the queues of a request, in its order.
func (s *store) queues(r broker.ClaimRequest) []string {
	if r.Queues != nil {
		return r.Queues
	}
	var names []string
	for _, j := range s.jobs {
		if !slices.Contains(names, j.Queue) {
			names = append(names, j.Queue)
		}
	}
	slices.Sort(names)
	return names
}

// best is the job of a queue that r takes next, nil when it can take none.
func (s *store) best(queue string, r broker.ClaimRequest) *job {
	var best *job
	for _, j := range s.jobs {
		if s.wants(r, queue, j) && (best == nil || s.rules.before(s, j, best)) && s.blocks(j) == nil {
			best = j
		}
	}
	return best
}

// wants reports whether r would take j if nothing blocked it.
func (s *store) wants(r broker.ClaimRequest, queue string, j *job) bool {
	return j.Queue == queue && j.State == broker.Ready && canRun(r.Tasks, j.Task) && !s.paused[queue] && !s.late(j)
}

// look is after how long a claim that waits looks again, 0 for when something
// changes: at the next due time, or when a rate allows a claim.
func (s *store) look(r broker.ClaimRequest, next time.Duration) time.Duration {
	for _, queue := range s.queues(r) {
		for _, j := range s.jobs {
			if !s.wants(r, queue, j) {
				continue
			}
			for _, b := range s.blocks(j) {
				if after := b.until.Sub(s.now()); b.reason == broker.WhyRate && (next == 0 || after < next) {
					next = after
				}
			}
		}
	}
	return next
}

func canRun(tasks []string, task string) bool { return tasks == nil || slices.Contains(tasks, task) }

func (s *store) nextDue(r broker.ClaimRequest) time.Duration {
	var next time.Duration
	for _, queue := range s.queues(r) {
		for _, j := range s.in(queue, broker.Scheduled) {
			if j.waits != nil {
				continue
			}
			if after := j.RunAt.Sub(s.nowOf(j)); next == 0 || after < next {
				next = after
			}
		}
	}
	return next
}

func (s *store) lease(m *Model, j *job, r broker.ClaimRequest) broker.Lease {
	j.claims++
	s.given++
	j.Attempt++
	j.Token = broker.Token(epoch<<32 | s.rules.token(s, j))
	j.Worker, j.ClaimedAt, j.LeaseExpiresAt = r.Worker, s.now(), s.now().Add(ttl(r.TTL))
	j.Progress, j.Log, j.settled, j.moved = broker.Progress{}, nil, 0, false
	s.rules.tally(&s.total(j).Claimed)
	s.rules.charge(s, j)
	s.chargeRates(j)
	j.started = true
	s.enter(j, broker.Leased, "")
	if !r.Remote {
		j.holder = m
	}
	if j.hold == broker.HoldUntilStarted {
		s.rules.free(s, j)
	}
	return broker.Lease{Job: j.copy(), Token: j.Token, ExpiresAt: j.LeaseExpiresAt}
}

func ttl(d time.Duration) time.Duration {
	if d == 0 {
		return broker.DefaultLeaseTTL
	}
	return d
}

// holds returns the job that token is a valid lease of, or nil: a lease is over
// at its deadline, even before Maintain has noticed.
func (s *store) holds(r broker.Ref, token broker.Token) *job {
	j := s.find(r)
	if j == nil || j.State != broker.Leased || j.Token != token || !s.rules.valid(j, s.now()) {
		return nil
	}
	return j
}

// Extend implements broker.Broker.
func (m *Model) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	defer m.s.wake()
	if r.Worker.ID != "" {
		for _, h := range m.s.handles {
			delete(h.workers, r.Worker.ID) // the last client that registers a worker has it
		}
		if !r.Leaving {
			m.workers[r.Worker.ID] = r.Worker
		}
	}
	var beats []broker.Beat
	for _, x := range r.Leases {
		beats = append(beats, m.s.extend(x, ttl(r.TTL)))
	}
	return beats, nil
}

func (s *store) extend(x broker.Extension, ttl time.Duration) broker.Beat {
	j := s.holds(x.Ref, x.Token)
	if j == nil {
		return broker.Beat{Status: broker.Lost}
	}
	j.LeaseExpiresAt = s.now().Add(ttl)
	if x.Progress != nil {
		j.Progress = *x.Progress
		j.Progress.Percent = min(max(j.Progress.Percent, 0), 100)
		if len(j.Progress.Note) > broker.MaxNoteBytes {
			j.Progress.Note = j.Progress.Note[:broker.MaxNoteBytes]
		}
	}
	j.Log = append(j.Log, x.Log...)
	beat := broker.Beat{Status: broker.Held, ExpiresAt: j.LeaseExpiresAt}
	if j.CancelRequested {
		beat.Status = broker.CancelAsked
	}
	return beat
}
