package brokertest

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
)

// patience is how long a wait lasts that something should end before.
const patience = 20 * time.Second

// waiting is a call that waits in a goroutine.
type waiting struct {
	done   func()
	leases []broker.Lease
	jobs   []broker.Job
	err    error
}

// claiming starts a claim of one job that waits.
func (f *fixture) claiming(ctx context.Context, b broker.Broker) *waiting {
	w := &waiting{}
	w.done = async(func() {
		var got broker.Claimed
		got, w.err = b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 1, Worker: "w", Wait: patience})
		w.leases = got.Leases
	})
	f.idle()
	return w
}

// awaiting starts an Await.
func (f *fixture) awaiting(ctx context.Context, b broker.Broker, refs ...broker.Ref) *waiting {
	w := &waiting{}
	w.done = async(func() { w.jobs, w.err = b.Await(ctx, refs, patience) })
	f.idle()
	return w
}

// wakers are what makes a job claimable while somebody waits. prepare returns
// the step that does it.
var wakers = []struct {
	name    string
	prepare func(f *fixture) (step func())
}{
	{"an enqueue", func(f *fixture) func() { return func() { f.addOne(plain()) } }},
	{"a release", func(f *fixture) func() {
		l := f.leased(plain())
		return func() { f.end(l, broker.Release) }
	}},
	{"a nack without delay", func(f *fixture) func() {
		l := f.leased(plain())
		return func() { f.end(l, broker.Nack) }
	}},
	{"a requeue", func(f *fixture) func() {
		f.end(f.leased(plain()), broker.Bury)
		return func() { f.command(broker.RequeueJobs) }
	}},
	{"a resume", func(f *fixture) func() {
		f.addOne(plain())
		f.command(broker.PauseQueue)
		return func() { f.command(broker.ResumeQueue) }
	}},
	{"a follow-up", func(f *fixture) func() {
		l := f.leased(plain())
		return func() {
			f.settle(l, broker.Settlement{Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue, Job: plain()}}})
		}
	}},
	{"the end of the client that holds the lease", func(f *fixture) func() {
		if !f.b.Caps().HandleLeases {
			return func() { f.addOne(plain()) }
		}
		holder := f.open()
		f.addOne(plain())
		f.take(holder, broker.ClaimRequest{TTL: time.Hour})
		return func() { f.must("close", holder.Close()) }
	}},
}

var waitRules = []rule{
	{"a claim waits for the first job, whatever makes it ready", func(f *fixture) {
		for _, w := range wakers {
			step := w.prepare(f)
			start := time.Now()
			claim := f.claiming(f.ctx, f.open())
			step()
			claim.done()
			f.must(w.name, claim.err)
			want(f, "leases after "+w.name, len(claim.leases), 1)
			if took := time.Since(start); took > patience/2 {
				f.Errorf("%s: the claim took %v", w.name, took)
			}
			for _, l := range claim.leases {
				f.end(l, broker.Ack)
			}
		}
	}},
	{"a claim waits for a job that falls due", func(f *fixture) {
		f.needsTime()
		claim := f.claiming(f.ctx, f.b)
		f.add(queue, with(func(n *broker.NewJob) { n.Delay = time.Hour }), with(func(n *broker.NewJob) { n.Delay = tick }))
		start := time.Now()
		claim.done()
		f.must("claim", claim.err)
		want(f, "leases", len(claim.leases), 1)
		if took := time.Since(start); took < tick/2 || took > tick+longest {
			f.Errorf("the claim took %v, want %v", took, tick)
		}
	}},
	{"a claim waits less when an earlier job comes", func(f *fixture) {
		f.needsTime()
		f.addOne(with(func(n *broker.NewJob) { n.Delay = 6 * time.Hour }))
		claim := f.claiming(f.ctx, f.b)
		other := f.open()
		for _, d := range []time.Duration{10 * time.Second, tick} {
			_, err := other.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{{Task: task, Delay: d}})
			f.must("enqueue", err)
			f.idle()
		}
		start := time.Now()
		claim.done()
		f.must("claim", claim.err)
		want(f, "leases", len(claim.leases), 1)
		if took := time.Since(start); took > tick+longest {
			f.Errorf("the claim took %v, want %v", took, tick)
		}
	}},
	{"a claim that finds nothing comes back empty when its wait is over", func(f *fixture) {
		f.add("other", plain())
		got := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Wait: tick})
		want(f, "leases", len(got.Leases), 0)
	}},
	{"a claim that does not wait comes back at once", func(f *fixture) {
		start := time.Now()
		f.none()
		if took := time.Since(start); took > longest {
			f.Errorf("the claim took %v", took)
		}
	}},
	{"two claims that wait do not share a job", func(f *fixture) {
		a, b := f.claiming(f.ctx, f.b), f.claiming(f.ctx, f.open())
		f.addMany(2)
		a.done()
		b.done()
		f.must("claim", a.err)
		f.must("claim", b.err)
		want(f, "leases", len(a.leases), 1)
		want(f, "leases", len(b.leases), 1)
	}},
	{"a claim whose context ends takes nothing", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		claim := f.claiming(ctx, f.b)
		cancel()
		claim.done()
		f.wantErr("claim", claim.err, context.Canceled)
		f.addOne(plain())
		f.one()
	}},
	{"a call whose context has ended changes nothing", func(f *fixture) {
		l := f.leased(plain())
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, err := f.b.Enqueue(ctx, broker.NewCall(), queue, []broker.NewJob{plain()})
		f.wantErr("enqueue", err, context.Canceled)
		_, err = f.b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1})
		f.wantErr("claim", err, context.Canceled)
		_, err = f.b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}})
		f.wantErr("settle", err, context.Canceled)
		_, err = f.b.Apply(ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: queue}})
		f.wantErr("apply", err, context.Canceled)
		want(f, "numbers", states(f.count(queue, task)), broker.Count{Queue: queue, Task: task, Leased: 1, Totals: broker.Totals{Enqueued: 1, Claimed: 1}})
		f.end(l, broker.Ack)
	}},
	{"await returns the jobs that are final, at once", func(f *fixture) {
		jobs := everyState(f)
		var refs []broker.Ref
		for _, s := range broker.States {
			refs = append(refs, broker.Ref{Queue: queue, ID: jobs[s].ID})
		}
		got, err := f.b.Await(f.ctx, refs, patience)
		f.must("await", err)
		f.wantOrder("final", jobIDs(got), refs, 3, 4, 5)
	}},
	{"await returns a job that nobody knows with state 0, at once", func(f *fixture) {
		waits := f.addOne(plain())
		none := broker.Ref{Queue: queue, ID: broker.NewID()}
		got, err := f.b.Await(f.ctx, []broker.Ref{waits, none}, patience)
		f.must("await", err)
		exactly(f, "jobs", got, 1)
		want(f, "name", got[0].Ref(), none)
		want(f, "state", got[0].State, 0)
	}},
	{"await waits for the end, whatever it is", func(f *fixture) {
		for _, kind := range []broker.SettleKind{broker.Ack, broker.Bury, broker.Cancel} {
			l := f.leased(plain())
			w := f.awaiting(f.ctx, f.open(), l.Job.Ref())
			f.settle(l, broker.Settlement{Kind: kind, Result: []byte("r"), Error: "e"})
			w.done()
			f.must("await", w.err)
			exactly(f, "jobs", w.jobs, 1)
			if diff := diffJobs(w.jobs[0], f.get(l.Job.Ref())); diff != "" {
				f.Errorf("%v: await and get differ: %s", kind, diff)
			}
		}
	}},
	{"await returns a job that is dropped at its end with state 0", func(f *fixture) {
		l := f.leased(plain())
		w := f.awaiting(f.ctx, f.open(), l.Job.Ref())
		f.end(l, broker.Ack)
		w.done()
		f.must("await", w.err)
		want(f, "jobs", len(w.jobs), 1)
	}},
	{"await goes on waiting through retries", func(f *fixture) {
		l := f.leased(plain())
		w := f.awaiting(f.ctx, f.open(), l.Job.Ref())
		f.end(l, broker.Nack)
		f.idle()
		f.settle(f.one(), broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
		w.done()
		f.must("await", w.err)
		exactly(f, "jobs", w.jobs, 1)
		want(f, "state", w.jobs[0].State, broker.Done)
	}},
	{"await comes back empty when its wait is over", func(f *fixture) {
		ref := f.addOne(plain())
		got, err := f.b.Await(f.ctx, []broker.Ref{ref}, tick)
		f.must("await", err)
		want(f, "jobs", len(got), 0)
		got, err = f.b.Await(f.ctx, nil, tick)
		f.must("await of nothing", err)
		want(f, "jobs", len(got), 0)
	}},
	{"await ends with its context", func(f *fixture) {
		ref := f.addOne(plain())
		ctx, cancel := context.WithCancel(f.ctx)
		w := f.awaiting(ctx, f.b, ref)
		cancel()
		w.done()
		f.wantErr("await", w.err, context.Canceled)
	}},
}
