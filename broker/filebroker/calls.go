package filebroker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

// noContext is for what the broker does on its own.
var noContext = context.Background()

// recordBytes is about what a job's record takes beside its payload.
const recordBytes = 160

// Enqueue is Broker.Enqueue.
func (b *handle) Enqueue(ctx context.Context, _ broker.Call, queue string, jobs []broker.NewJob) (answers []broker.Enqueued, err error) {
	size, adds := 0, int64(0)
	for i := range jobs {
		size += jobs[i].Size() + recordBytes
		adds += jobstate.Adds(&jobs[i])
	}
	newOp := func() *op {
		o := &op{size: size, adds: adds, class: journal.Enqueue}
		o.decide = func(now jobstate.Now) { answers, o.err = b.s.Enqueue(&b.w, now, queue, jobs) }
		return o
	}
	o := newOp()
	if jobstate.Stateless(jobs) {
		o.stateless = func(now jobstate.Now) { answers, o.err = b.enqueueStateless(now, queue, jobs) }
	}
	err = b.do(ctx, o)
	if errors.Is(err, errNeedsState) {
		err = b.do(ctx, newOp())
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// Settle is Broker.Settle.
func (b *handle) Settle(ctx context.Context, _ broker.Call, list []broker.Settlement) ([]broker.Settled, error) {
	if err := jobstate.CheckSettle(list); err != nil {
		return nil, err
	}
	size := 0
	for i := range list {
		size += recordBytes/2 + len(list[i].Result) + min(len(list[i].Error), broker.MaxErrorBytes)
		for k := range list[i].FollowUps {
			size += list[i].FollowUps[k].Job.Size() + recordBytes
		}
	}
	answers := make([]broker.Settled, len(list))
	err := b.do(ctx, &op{size: size, class: journal.Settle, decide: func(now jobstate.Now) {
		for i := range list {
			answers[i] = b.s.Settle(&b.w, now, &list[i])
		}
	}})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// Extend is Broker.Extend.
func (b *handle) Extend(ctx context.Context, r broker.ExtendRequest) (beats []broker.Beat, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if r.TTL == 0 {
		r.TTL = broker.DefaultLeaseTTL
	}
	size := 1024 + r.Size()
	for i := range r.Leases {
		size += 96 + 2*min(len(r.Leases[i].Log), 100)
	}
	if r.Worker.ID != "" {
		for _, name := range slices.Concat(r.Worker.Queues, r.Worker.Tasks) {
			size += len(name) + 3
		}
	}
	err = b.do(ctx, &op{size: size, class: journal.Settle, free: true, decide: func(now jobstate.Now) {
		switch {
		case r.Worker.ID != "" && r.Leaving:
			b.s.Leave(&b.w, r.Worker.ID)
			delete(b.taking, r.Worker.ID)
		case r.Worker.ID != "":
			b.s.Register(&b.w, r.Worker, b.member.name)
			b.taking[r.Worker.ID] = filterOf(&r.Worker)
		}
		b.showFilter()
		beats = b.s.Extend(&b.w, now, r.TTL, r.Leases)
	}})
	if err != nil {
		return nil, err
	}
	return beats, nil
}

// Apply is Broker.Apply. The jobs are chosen before the commit, which
// looks again whether they can still be changed.
func (b *handle) Apply(ctx context.Context, _ broker.Call, cmd broker.Command) (step broker.Step, err error) {
	if err := jobstate.CheckCommand(&cmd); err != nil {
		return step, err
	}
	if err := b.want(ctx); err != nil {
		return step, err
	}
	var ids []broker.ID
	if cmd.Kind != broker.PauseQueue && cmd.Kind != broker.ResumeQueue {
		b.mu.Lock()
		b.readForwardLocked()
		if err := b.check(); err != nil {
			b.mu.Unlock()
			return step, err
		}
		found, next, err := b.s.Candidates(b.now(), &cmd)
		b.mu.Unlock()
		if err != nil {
			return step, err
		}
		step.Cursor = next
		for i := range found {
			if jobstate.ErrorMatches(&found[i], cmd.Filter.ErrorContains, b.read) {
				ids = append(ids, found[i].Job.ID)
			}
		}
		if len(ids) == 0 {
			return step, b.rest()
		}
	}
	err = b.do(ctx, &op{size: (recordBytes + len(cmd.Reason)) * (1 + len(ids)), class: journal.Settle, decide: func(now jobstate.Now) {
		step.Changed = b.s.Command(&b.w, now, &cmd, ids)
	}})
	if cmd.Kind == broker.DeleteJobs && b.log.Full() {
		b.room.wanted.Store(true) // what they took on the disk is given back by a compaction
		b.keeper.poke(false)
	}
	return step, err
}

// Maintain is Broker.Maintain.
func (b *handle) Maintain(ctx context.Context) (after time.Duration, err error) {
	if err := b.want(ctx); err != nil {
		return 0, err
	}
	const rest = 10 * time.Second
	if wait := b.untilDue(); wait > 0 {
		return min(wait, rest), b.compactIfDue(ctx)
	}
	more := false
	err = b.do(ctx, &op{size: 1000 * recordBytes, class: journal.Settle, free: true, decide: func(now jobstate.Now) {
		more = b.s.Upkeep(&b.w, now, 1000, b.alive)
	}})
	if more || err != nil {
		return 0, err
	}
	return min(b.untilDue(), rest), nil
}

// untilDue is how long until something expires.
func (b *handle) untilDue() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readForwardLocked()
	now := b.now()
	due := b.s.Due(now)
	if due == 0 {
		return time.Hour
	}
	return max(0, time.Duration(due-now.Steady))
}
