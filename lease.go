package spool

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// Lease is the time-bounded right to run one job. In a worker's handler it is
// had from LeaseFrom, the worker extends it, and the handler's return settles
// it; a handler that settles it by itself is taken at its word. A lease from
// Client.Claim or Client.Lease is the caller's to extend and to settle.
//
// Its methods are safe for concurrent use; its fields are for reading.
type Lease struct {
	Job       Job       // as it was claimed; of Client.Lease only Queue and ID
	Token     Token     // the fencing token: hand it to what must refuse a stale run
	ExpiresAt time.Time // on the broker's clock, when it was claimed

	client *Client
	ttl    time.Duration

	mu        sync.Mutex
	state     leaseState
	result    []byte
	followUps []broker.FollowUp
	progress  *broker.Progress // not sent yet
	lines     []string         // not sent yet
	dropped   int              // lines that did not fit
}

type leaseState uint8

const (
	leaseOpen     leaseState = iota
	leaseSettling            // a settlement by the caller is on its way
	leaseSettled             // by the caller
	leaseEnded               // the handler has returned: the worker settles
)

type leaseKey struct{}

// LeaseFrom returns the lease of the job whose handler got ctx, or a context
// made from it. It is never nil: outside a handler it returns a detached lease
// of no job, whose Progress, Log and SetResult do nothing and whose other
// methods return an error, so that handlers can be called in tests.
func LeaseFrom(ctx context.Context) *Lease {
	if l, ok := ctx.Value(leaseKey{}).(*Lease); ok {
		return l
	}
	return &Lease{}
}

func newLease(c *Client, l broker.Lease, ttl time.Duration) *Lease {
	return &Lease{Job: l.Job, Token: l.Token, ExpiresAt: l.ExpiresAt, client: c, ttl: ttl}
}

// Claim takes ready jobs without a worker: at most r.Max (0 means 1). The caller
// extends and settles each lease before it expires. It waits up to r.Wait for
// the first job; no lease is no error.
func (c *Client) Claim(ctx context.Context, r broker.ClaimRequest) ([]*Lease, error) {
	if r.Max == 0 {
		r.Max = 1
	}
	if r.TTL == 0 {
		r.TTL = broker.DefaultLeaseTTL
	}
	if r.Max < 0 || r.Max > broker.MaxClaimJobs || r.TTL < 0 || r.Wait < 0 || len(r.Tasks) > broker.MaxClaimTasks {
		return nil, fmt.Errorf("claim: %w: max %d, TTL %v, wait %v, %d tasks", ErrInvalid, r.Max, r.TTL, r.Wait, len(r.Tasks))
	}
	for _, name := range append(r.Queues[:len(r.Queues):len(r.Queues)], r.Tasks...) {
		if err := broker.ValidName(name); err != nil {
			return nil, fmt.Errorf("claim: %w: queue or task name %w", ErrInvalid, err)
		}
	}
	var got broker.Claimed
	err := c.repeat(ctx, func(call broker.Call) (err error) {
		got, err = c.broker.Claim(ctx, call, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	leases := make([]*Lease, len(got.Leases))
	for i, l := range got.Leases {
		leases[i] = newLease(c, l, r.TTL)
	}
	return leases, nil
}

// Lease names a lease that another part of the program, or another process,
// claimed: by queue, id and token. It makes no call; a wrong token shows when
// the lease is extended or settled.
func (c *Client) Lease(ref broker.Ref, token Token) *Lease {
	return &Lease{Job: Job{Queue: ref.Queue, ID: ref.ID}, Token: token, client: c, ttl: broker.DefaultLeaseTTL}
}

// Extend pushes the lease's expiry to ttl from now, by the broker's clock; 0
// means the TTL it was claimed with. ErrLeaseLost is returned when the lease is
// no longer the caller's; ErrCancelled when it is, but the job is to be
// cancelled: stop, and settle with Cancel.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.attached(); err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	if ttl < 0 || ttl > broker.MaxDelay {
		return fmt.Errorf("extend: %w: TTL %v", ErrInvalid, ttl)
	}
	if ttl == 0 {
		ttl = l.ttl
	}
	x := l.extension()
	beats, err := l.client.broker.Extend(ctx, broker.ExtendRequest{Leases: []broker.Extension{x}, TTL: ttl})
	if err == nil && len(beats) != 1 {
		err = fmt.Errorf("%d answers came back for one lease", len(beats))
	}
	if err != nil {
		l.putBack(x)
		return fmt.Errorf("extend job %s: %w", l.Job.ID, err)
	}
	switch beats[0].Status {
	case broker.Held:
		return nil
	case broker.CancelAsked:
		return fmt.Errorf("extend job %s: %w", l.Job.ID, ErrCancelled)
	}
	return fmt.Errorf("extend job %s: %w", l.Job.ID, ErrLeaseLost)
}

// Enqueue records follow-ups: jobs that are enqueued in the commit of this
// job's ack, and only if it is accepted. Until then they do not exist, and the
// answers hold only the ids that they will have (when a key of theirs is held
// by then, nothing is added). A capacity does not hold them up.
//
// A follow-up of a follow-up, and so on, is a chain: ErrInvalid is returned for
// the follow-up that would be the 1,001st of its chain.
func (l *Lease) Enqueue(ctx context.Context, jobs ...Spec) ([]Enqueued, error) {
	c, depth, err := l.encoder()
	if err != nil {
		return nil, fmt.Errorf("enqueue follow-ups: %w", err)
	}
	groups, err := c.prepare(jobs, depth)
	if err != nil {
		return nil, err
	}
	answers := make([]Enqueued, len(jobs))
	for _, g := range groups {
		got, err := l.client.intercept(l.record)(ctx, g.queue, g.jobs)
		if err == nil && len(got) != len(g.jobs) {
			err = fmt.Errorf("%d answers came back for %d jobs", len(got), len(g.jobs))
		}
		if err != nil {
			return answers, fmt.Errorf("enqueue follow-ups to %s: %w", g.queue, err)
		}
		for i, at := range g.at {
			answers[at] = got[i]
		}
	}
	return answers, nil
}

// maxDepth is how many follow-ups one chain may have: a chain that has no end is
// a mistake that would otherwise go on for ever.
const maxDepth = 1000

func (l *Lease) encoder() (c *Client, depth int, err error) {
	if err := l.attached(); err != nil {
		return nil, 0, err
	}
	if text := l.Job.Headers[headerDepth]; text != "" {
		if depth, err = strconv.Atoi(text); err != nil || depth < 0 {
			return nil, 0, fmt.Errorf("%w: header %s of job %s is %.64q, not a number", ErrInvalid, headerDepth, l.Job.ID, text)
		}
	}
	if depth >= maxDepth {
		return nil, 0, fmt.Errorf("%w: job %s is follow-up %d of its chain, and a chain ends there; to go on for ever use a schedule, or enqueue through the client", ErrInvalid, l.Job.ID, depth)
	}
	return l.client, depth + 1, nil
}

func (l *Lease) take(ctx context.Context, queue string, jobs []broker.NewJob) (int, error) {
	if _, err := l.client.intercept(l.record)(ctx, queue, jobs); err != nil {
		return 0, err
	}
	return len(jobs), nil
}

// record is the innermost EnqueueFunc of a lease.
func (l *Lease) record(_ context.Context, queue string, jobs []broker.NewJob) ([]Enqueued, error) {
	if err := l.client.recheck(jobs); err != nil {
		return nil, err
	}
	answers := make([]Enqueued, len(jobs))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != leaseOpen {
		return nil, fmt.Errorf("%w: job %s is settled already", ErrLeaseLost, l.Job.ID)
	}
	size := 0
	for _, f := range l.followUps {
		size += f.Job.Size()
	}
	for i := range jobs {
		size += jobs[i].Size()
	}
	// One ack carries them all, beside a result.
	caps := &l.client.caps
	if limit := caps.MaxBytes - min(l.client.payloadMax, caps.MaxBytes/2); len(l.followUps)+len(jobs) >= caps.MaxBatch || size > limit {
		return nil, fmt.Errorf("%w: follow-ups of one job are limited to %d jobs and %d bytes", ErrTooLarge, caps.MaxBatch-1, limit)
	}
	for i := range jobs {
		job := jobs[i]
		job.Payload = bytes.Clone(job.Payload) // the caller's again when this returns
		answers[i] = Enqueued{ID: job.ID}
		l.followUps = append(l.followUps, broker.FollowUp{Queue: queue, Job: job})
	}
	return answers, nil
}

func (l *Lease) attached() error {
	if l.client == nil {
		return fmt.Errorf("%w: the context is not a handler's", ErrLeaseLost)
	}
	return nil
}
