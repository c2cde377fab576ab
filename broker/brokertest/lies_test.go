package brokertest

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
)

// lie is a client that does or says one thing wrong of what the model does, and
// the topic in which the suite has to notice.
type lie struct {
	name  string
	topic string
	tell  func(m *Model) broker.Broker
}

var lies = []lie{
	{"a stale token is accepted", "lease", func(m *Model) broker.Broker { return staleSettler{m} }},
	{"every lease is held", "lease", func(m *Model) broker.Broker { return yesSayer{m} }},
	{"a batch is added job by job", "enqueue", func(m *Model) broker.Broker { return splitter{m} }},
	{"a claim takes any task", "claim", func(m *Model) broker.Broker { return omnivore{m} }},
	{"a claim does not wait", "wait", func(m *Model) broker.Broker { return hasty{m} }},
	{"a closed client keeps its leases and goes on", "close", func(m *Model) broker.Broker { return undead{m} }},
	{"a page of a list leaves out its last job", "list", func(m *Model) broker.Broker { return forgetful{m} }},
	{"numbers are those of the first question", "counts", func(m *Model) broker.Broker { return &stuck{Model: m} }},
	{"await does not see an end", "wait", func(m *Model) broker.Broker { return blind{m} }},
	{"a cancelled job is deleted", "cancel", func(m *Model) broker.Broker { return deleter{m} }},
	{"nothing says why", "explain", func(m *Model) broker.Broker { return silent{m} }},
	{"a watch tells of other queues", "watch", func(m *Model) broker.Broker { return gossip{m} }},
}

type staleSettler struct{ *Model }

func (b staleSettler) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	for i := range s {
		if jobs, err := b.Get(ctx, []broker.Ref{s[i].Ref}); err == nil {
			s[i].Token = jobs[0].Token
		}
	}
	return b.Model.Settle(ctx, c, s)
}

type yesSayer struct{ *Model }

func (b yesSayer) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	beats, err := b.Model.Extend(ctx, r)
	for i := range beats {
		beats[i].Status = broker.Held
	}
	return beats, err
}

type splitter struct{ *Model }

func (b splitter) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) (all []broker.Enqueued, err error) {
	for i := range jobs {
		one, err := b.Model.Enqueue(ctx, c, queue, jobs[i:i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

type omnivore struct{ *Model }

func (b omnivore) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	r.Tasks = nil
	return b.Model.Claim(ctx, c, r)
}

type hasty struct{ *Model }

func (b hasty) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	r.Wait = 0
	return b.Model.Claim(ctx, c, r)
}

type undead struct{ *Model }

func (b undead) Close() error { return nil }

type forgetful struct{ *Model }

func (b forgetful) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	page, err := b.Model.List(ctx, f, cursor, n)
	if page.Cursor != "" {
		page.Jobs = page.Jobs[:len(page.Jobs)-1]
	}
	return page, err
}

type stuck struct {
	*Model
	first []broker.Count
}

func (b *stuck) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	if b.first == nil {
		counts, err := b.Model.Counts(ctx, queue)
		if err != nil {
			return nil, err
		}
		b.first = counts
	}
	return b.first, nil
}

type blind struct{ *Model }

func (b blind) Await(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	jobs, err := b.Model.Await(ctx, refs, 0)
	return jobs, err
}

type deleter struct{ *Model }

func (b deleter) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	if cmd.Kind == broker.CancelJobs {
		cmd.Kind = broker.DeleteJobs
	}
	return b.Model.Apply(ctx, c, cmd)
}

type silent struct{ *Model }

func (b silent) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	e, err := b.Model.Explain(ctx, r)
	e.Reason = broker.WhyNone
	return e, err
}

type gossip struct{ *Model }

func (b gossip) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	f.Queue = ""
	return b.Model.Watch(ctx, f)
}
