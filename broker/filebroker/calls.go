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
func (b *handle) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) (answers []broker.Enqueued, err error) {
	id := b.callID(c)
	size, adds := b.answerBytes(len(jobs)), b.callAdds(len(jobs))
	for i := range jobs {
		size += jobs[i].Size() + recordBytes
		adds += jobstate.Adds(&jobs[i])
	}
	newOp := func() *op {
		o := &op{size: size, adds: adds, class: journal.Enqueue}
		o.decide = func(now jobstate.Now) { answers, o.err = b.s.EnqueueOnce(&b.w, now, id, queue, jobs) }
		return o
	}
	o := newOp()
	if id.IsZero() && jobstate.Stateless(jobs) {
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
func (b *handle) Settle(ctx context.Context, c broker.Call, list []broker.Settlement) (answers []broker.Settled, err error) {
	if err := jobstate.CheckSettle(list); err != nil {
		return nil, err
	}
	size := b.answerBytes(len(list))
	for i := range list {
		size += b.answerBytes(len(list[i].FollowUps)) + recordBytes/2 + len(list[i].Result) + min(len(list[i].Error), broker.MaxErrorBytes)
		for k := range list[i].FollowUps {
			size += list[i].FollowUps[k].Job.Size() + recordBytes
		}
	}
	o := &op{size: size, class: journal.Settle}
	o.decide = func(now jobstate.Now) { answers, o.err = b.s.SettleOnce(&b.w, now, b.callID(c), list) }
	if err := b.do(ctx, o); err != nil {
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
func (b *handle) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (step broker.Step, err error) {
	if err := jobstate.CheckCommand(&cmd); err != nil {
		return step, err
	}
	if err := b.want(ctx); err != nil {
		return step, err
	}
	id, next := b.callID(c), ""
	var ids []broker.ID
	if cmd.Kind != broker.PauseQueue && cmd.Kind != broker.ResumeQueue {
		b.mu.Lock()
		b.readForwardLocked()
		if err := b.check(); err != nil {
			b.mu.Unlock()
			return step, err
		}
		now := b.now()
		var found []jobstate.Ticket
		if id.IsZero() || !b.s.KnowsCall(now, id) {
			found, next, err = b.s.Candidates(now, &cmd)
		}
		b.mu.Unlock()
		if err != nil {
			return step, err
		}
		for i := range found {
			if jobstate.ErrorMatches(&found[i], cmd.Filter.ErrorContains, b.read) {
				ids = append(ids, found[i].Job.ID)
			}
		}
		if len(ids) == 0 && id.IsZero() { // else only the end of the log says whether it is a repeat
			return broker.Step{Cursor: next}, b.rest()
		}
	}
	o := &op{size: (recordBytes+len(cmd.Reason))*(1+len(ids)) + b.answerBytes(1), class: journal.Settle}
	o.decide = func(now jobstate.Now) { step, o.err = b.s.CommandOnce(&b.w, now, id, &cmd, ids, next) }
	err = b.do(ctx, o)
	if cmd.Kind == broker.DeleteJobs && b.log.Full() {
		b.room.wanted.Store(true) // what they took on the disk is given back by a compaction
		b.keeper.poke(false)
	}
	if err != nil {
		return broker.Step{}, err
	}
	return step, nil
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
		more = b.s.Upkeep(&b.w, now, 1000, b.mayLive)
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
