// Package membroker keeps a store in memory, for tests and demos: the same
// state machine as the file broker's, with nothing under it. What it holds is
// gone with the process. It reads no clock but package time, so that it works
// inside a testing/synctest bubble.
package membroker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/notify"
)

// Config is the configuration of New. The zero value works.
type Config struct {
	// RememberCalls makes the store remember calls by their ids for 2 minutes
	// (Caps.Retry): whoever makes one again, through whichever client, gets the
	// first answer, and nothing changes. It is for a server in front of the store.
	// A call that was refused, or changed nothing, is judged anew, as if it had not
	// come before; one without an id always is. A call takes about 56 bytes meanwhile,
	// and 16 more for each job beyond the first.
	RememberCalls bool
}

// store is what all clients share.
type store struct {
	mu      sync.Mutex
	s       *jobstate.State
	w       jobstate.Writer
	hub     notify.Hub
	chunks  map[uint32][]byte // the bodies that still hold something needed
	next    uint32            // number of the next chunk
	born    time.Time
	clients int // ever
	cfg     Config
}

// Broker is a client of a store in memory. It is safe for concurrent use.
type Broker struct {
	*store
	name   string
	closed chan struct{}
	once   sync.Once
}

var _ broker.Broker = (*Broker)(nil)

// New makes an empty store and returns its first client.
func New(cfg Config) *Broker {
	st := &store{cfg: cfg, chunks: map[uint32][]byte{}, next: 1, born: time.Now()}
	st.s = jobstate.New(func(c jobstate.Change) { st.hub.Changed(c) }, func(file uint32) { delete(st.chunks, file) })
	st.commit(func(jobstate.Now) { st.s.OpenEpoch(&st.w, 1, "", [16]byte{}, 0, false) })
	return st.client()
}

// Another returns another client of the same store, as another process would
// be: closing one ends its leases and its workers, and leaves the others.
func (b *Broker) Another() *Broker { return b.client() }

func (b *store) client() *Broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients++
	return &Broker{store: b, name: "client-" + strconv.Itoa(b.clients), closed: make(chan struct{})}
}

// now reads the clock. The steady one goes on from where the store began.
func (b *store) now() jobstate.Now {
	t := time.Now()
	return jobstate.Now{Wall: t.UnixNano(), Steady: b.born.UnixNano() + int64(t.Sub(b.born))}
}

// maxUpkeep is how many due jobs a call sees to beside its own business.
const maxUpkeep = 1000

// commit runs decide with what is due done before, and keeps what it wrote.
// The caller holds mu.
func (b *store) commit(decide func(now jobstate.Now)) {
	now := b.now()
	b.w.Reset(make([]byte, 0, 256), b.next, 0, now)
	b.s.Upkeep(&b.w, now, maxUpkeep, nil)
	decide(now)
	if b.w.Count() > 0 {
		if b.s.Uses()[b.next] != nil {
			b.chunks[b.next] = b.w.Body()
		}
		b.next++
		b.s.Wrote(&b.w)
	}
}

// callID is the id by which a call is remembered; zero for one that is not.
func (b *store) callID(c broker.Call) broker.ID {
	if !b.cfg.RememberCalls {
		return broker.ID{}
	}
	return c.ID
}

// begin takes the mutex, unless the broker is closed or ctx has ended.
func (b *Broker) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	select {
	case <-b.closed:
		b.mu.Unlock()
		return broker.ErrClosed
	default:
		return nil
	}
}

// read returns a copy of stored bytes.
func (b *store) read(l jobstate.Loc) ([]byte, error) {
	c := b.chunks[l.File]
	if uint64(l.Off)+uint64(l.Len) > uint64(len(c)) {
		return nil, fmt.Errorf("chunk %d ends before byte %d", l.File, l.Off+l.Len)
	}
	p := slices.Clone(c[l.Off : l.Off+l.Len])
	if p == nil {
		p = []byte{}
	}
	return p, nil
}

func (b *store) fill(tickets []jobstate.Ticket) ([]broker.Job, error) {
	jobs := make([]broker.Job, len(tickets))
	for i := range tickets {
		if err := tickets[i].Fill(b.read); err != nil {
			return nil, err
		}
		jobs[i] = tickets[i].Job
	}
	return jobs, nil
}

// Caps implements broker.Broker.
func (b *Broker) Caps() broker.Caps {
	c := broker.Caps{
		Broker: "memory", Durability: "nothing: what is enqueued is gone when the process ends",
		OneCommit: true, HandleLeases: true, MaxBatch: broker.MaxBatchJobs, MaxBytes: broker.MaxCallBytes,
	}
	if b.cfg.RememberCalls {
		c.Retry = jobstate.CallRetry
	}
	return c
}

// Enqueue implements broker.Broker.
func (b *Broker) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) (answers []broker.Enqueued, err error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	b.commit(func(now jobstate.Now) { answers, err = b.s.EnqueueOnce(&b.w, now, b.callID(c), queue, jobs) })
	return answers, err
}

// Claim implements broker.Broker.
func (b *Broker) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	if err := jobstate.CheckClaim(&r); err != nil {
		return broker.Claimed{}, err
	}
	deadline := time.Now().Add(r.Wait)
	for {
		got, idle, err := b.claim(ctx, b.callID(c), &r, time.Until(deadline))
		if err != nil || len(got.Leases) > 0 {
			return got, err
		}
		wait := time.Until(deadline)
		if idle == nil {
			if got.More && wait > 0 && ctx.Err() == nil {
				continue // it met only jobs that a limit holds back, and did not get through them
			}
			return got, nil
		}
		if got.NextDue > 0 {
			wait = min(wait, got.NextDue)
		}
		timer := time.NewTimer(wait)
		idle.Wait(ctx, b.closed, timer.C)
		timer.Stop()
		b.mu.Lock()
		b.hub.Done(idle)
		b.mu.Unlock()
	}
}

// claim tries once. When there is nothing to take, nothing more to look at and
// time to wait, it
// registers the caller as idle in the same critical section.
func (b *Broker) claim(ctx context.Context, id broker.ID, r *broker.ClaimRequest, wait time.Duration) (got broker.Claimed, idle *notify.Claim, err error) {
	if err := b.begin(ctx); err != nil {
		return got, nil, err
	}
	defer b.mu.Unlock()
	got.Asked = time.Now()
	var tickets []jobstate.Ticket
	again := false
	b.commit(func(now jobstate.Now) {
		member := b.name
		if r.Remote {
			member = ""
		}
		tickets, got.More, again, err = b.s.ClaimOnce(&b.w, now, id, r, member)
		got.NextDue = b.s.NextDueAny(now, r.Queues)
	})
	if err != nil {
		return got, nil, err
	}
	jobs, err := b.fill(tickets)
	if err != nil {
		return got, nil, err
	}
	for i := range jobs {
		got.Leases = append(got.Leases, broker.Lease{Job: jobs[i], Token: jobs[i].Token, ExpiresAt: jobs[i].LeaseExpiresAt})
	}
	if len(jobs) == 0 && !got.More && !again && wait > 0 {
		idle = b.hub.Idle(r.Queues, r.Tasks)
	}
	return got, idle, nil
}

// Extend implements broker.Broker.
func (b *Broker) Extend(ctx context.Context, r broker.ExtendRequest) (beats []broker.Beat, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if r.TTL == 0 {
		r.TTL = broker.DefaultLeaseTTL
	}
	b.commit(func(now jobstate.Now) {
		switch {
		case r.Worker.ID != "" && r.Leaving:
			b.s.Leave(&b.w, r.Worker.ID)
		case r.Worker.ID != "":
			b.s.Register(&b.w, r.Worker, b.name)
		}
		beats = b.s.Extend(&b.w, now, r.TTL, r.Leases)
	})
	return beats, nil
}

// Settle implements broker.Broker.
func (b *Broker) Settle(ctx context.Context, c broker.Call, list []broker.Settlement) (answers []broker.Settled, err error) {
	if err := jobstate.CheckSettle(list); err != nil {
		return nil, err
	}
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	b.commit(func(now jobstate.Now) { answers, err = b.s.SettleOnce(&b.w, now, b.callID(c), list) })
	return answers, err
}

// Apply implements broker.Broker.
func (b *Broker) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (step broker.Step, err error) {
	if err := jobstate.CheckCommand(&cmd); err != nil {
		return step, err
	}
	if err := b.begin(ctx); err != nil {
		return step, err
	}
	defer b.mu.Unlock()
	b.commit(func(now jobstate.Now) {
		var found []jobstate.Ticket
		next := ""
		if !b.s.KnowsCall(now, b.callID(c)) {
			if found, next, err = b.s.Candidates(now, &cmd); err != nil {
				return
			}
		}
		var ids []broker.ID
		for i := range found {
			if jobstate.ErrorMatches(&found[i], cmd.Filter.ErrorContains, b.read) {
				ids = append(ids, found[i].Job.ID)
			}
		}
		step, err = b.s.CommandOnce(&b.w, now, b.callID(c), &cmd, ids, next)
	})
	return step, err
}

// Maintain implements broker.Broker.
func (b *Broker) Maintain(ctx context.Context) (after time.Duration, err error) {
	if err := b.begin(ctx); err != nil {
		return 0, err
	}
	defer b.mu.Unlock()
	b.commit(func(now jobstate.Now) {
		after = time.Minute
		if due := b.s.Due(now); due > 0 {
			after = min(after, max(0, time.Duration(due-now.Steady)+1))
		}
	})
	return after, nil
}

// Close implements broker.Broker. When no client is left, nobody can reach
// what the store holds any more.
func (b *Broker) Close() error {
	b.once.Do(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.closed)
		b.commit(func(jobstate.Now) { b.s.Gone(&b.w, b.name) })
	})
	return nil
}
