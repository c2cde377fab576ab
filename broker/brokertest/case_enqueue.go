package brokertest

import (
	"math"
	"time"

	"github.com/spoolq/spool/broker"
)

var enqueueRules = []rule{
	{"a job comes back as it was enqueued", func(f *fixture) {
		n := full()
		ref := f.addOne(n)
		wanted := broker.Job{
			Queue: queue, ID: n.ID, Task: n.Task, State: broker.Scheduled, Priority: n.Priority,
			Tenant: n.Tenant, Group: n.Group, Ordered: n.Ordered, Key: n.Key, Payload: n.Payload, Headers: n.Headers,
			MaxAttempts: n.MaxAttempts, Timeout: n.Timeout, StartWithin: n.StartWithin, Retain: n.Retain,
			EnqueuedAt: f.now(), RunAt: f.now().Add(n.Delay),
		}
		got := f.get(ref)
		f.wantTime("enqueued at", got.EnqueuedAt, wanted.EnqueuedAt)
		f.wantTime("run at", got.RunAt, wanted.RunAt)
		got.EnqueuedAt, got.RunAt = wanted.EnqueuedAt, wanted.RunAt
		if diff := diffJobs(got, wanted); diff != "" {
			f.Errorf("got / want: %s", diff)
		}
		want(f, "token before any claim", got.Token, 0)
	}},
	{"what is not given has its default", func(f *fixture) {
		j := f.wantState(f.addOne(broker.NewJob{Task: task}), broker.Ready, "")
		want(f, "max attempts", j.MaxAttempts, broker.DefaultMaxAttempts)
		want(f, "attempt", j.Attempt, 0)
		want(f, "priority", j.Priority, 0)
		want(f, "retention", j.Retain, 0)
		f.wantTime("run at", j.RunAt, j.EnqueuedAt)
	}},
	{"the broker makes an id where none is given", func(f *fixture) {
		refs := f.add(queue, broker.NewJob{Task: task}, broker.NewJob{Task: task})
		if refs[0].ID.IsZero() || refs[1].ID.IsZero() || refs[0] == refs[1] {
			f.Errorf("ids %v and %v", refs[0].ID, refs[1].ID)
		}
		f.wantState(refs[1], broker.Ready, "")
	}},
	{"answers are in the order of the jobs", func(f *fixture) {
		jobs := []broker.NewJob{plain(), plain(), plain()}
		for i, a := range f.enqueue(queue, jobs...) {
			want(f, "id", a.ID, jobs[i].ID)
		}
	}},
	{"a known id is not added again", func(f *fixture) {
		n := with(func(n *broker.NewJob) { n.Payload = []byte("one") })
		ref := f.addOne(n)
		want(f, "repeat", f.enqueue(queue, n)[0], broker.Enqueued{ID: n.ID, Existing: true})
		other := n
		other.Payload, other.Priority = []byte("two"), 5
		want(f, "repeat with another payload", f.enqueue(queue, other)[0], broker.Enqueued{ID: n.ID, Existing: true, Differs: true})
		j := f.get(ref)
		want(f, "payload", string(j.Payload), "one")
		want(f, "priority", j.Priority, 0)
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 1)
	}},
	{"an id that stands twice in one batch is added once", func(f *fixture) {
		n := plain()
		answers := f.enqueue(queue, n, plain(), n)
		want(f, "first", answers[0], broker.Enqueued{ID: n.ID})
		want(f, "second", answers[2], broker.Enqueued{ID: n.ID, Existing: true})
		want(f, "ready", f.count(queue, task).Ready, 2)
	}},
	{"an id is known in every state of its job", func(f *fixture) {
		for state, n := range everyState(f) {
			a := f.enqueue(queue, n)[0]
			want(f, state.String(), a, broker.Enqueued{ID: n.ID, Existing: true})
			want(f, "state after the repeat", f.get(broker.Ref{Queue: queue, ID: n.ID}).State, state)
		}
	}},
	{"the same id in another queue is another job", func(f *fixture) {
		n := plain()
		f.add("a", n)
		f.add("b", n)
		f.end(f.takeOne(f.b, broker.ClaimRequest{Queues: []string{"a"}}), broker.Bury)
		f.wantState(broker.Ref{Queue: "a", ID: n.ID}, broker.Dead, broker.ReasonBuried)
		f.wantState(broker.Ref{Queue: "b", ID: n.ID}, broker.Ready, "")
	}},
	{"a batch with a bad job adds nothing", func(f *fixture) {
		jobs := []broker.NewJob{plain(), {ID: broker.NewID(), Task: "no spaces"}, plain()}
		_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
		f.wantErr("batch with a bad task name", err, broker.ErrInvalid)
		for _, n := range jobs {
			f.wantGone(broker.Ref{Queue: queue, ID: n.ID})
		}
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 0)
	}},
	{"an empty batch adds nothing", func(f *fixture) {
		f.enqueue(queue)
		counts, err := f.b.Counts(f.ctx, "")
		f.must("counts", err)
		want(f, "rows of counts", len(counts), 0)
	}},
	{"the caller owns payload and headers again", func(f *fixture) {
		n := with(func(n *broker.NewJob) { n.Payload, n.Headers = []byte("abc"), map[string]string{"h": "1"} })
		ref := f.addOne(n)
		n.Payload[0], n.Headers["h"] = 'X', "2"
		j := f.get(ref)
		want(f, "payload", string(j.Payload), "abc")
		want(f, "header", j.Headers["h"], "1")
		j.Payload[1], j.Headers["h"] = 'Y', "3"
		l := f.one()
		want(f, "payload", string(l.Job.Payload), "abc")
		want(f, "header", l.Job.Headers["h"], "1")
		l.Job.Payload[2] = 'Z'
		want(f, "payload", string(f.get(ref).Payload), "abc")
	}},
	{"priorities reach from end to end of an int32", func(f *fixture) {
		for _, p := range []int32{math.MinInt32, math.MaxInt32} {
			ref := f.addOne(with(func(n *broker.NewJob) { n.Priority = p }))
			want(f, "priority", f.get(ref).Priority, p)
		}
	}},
	{"another client sees a job at once", func(f *fixture) {
		other := f.open()
		ref := f.addOne(plain())
		jobs, err := other.Get(f.ctx, []broker.Ref{ref})
		f.must("get", err)
		exactly(f, "jobs", jobs, 1)
		want(f, "state for the other client", jobs[0].State, broker.Ready)
	}},
}

// full is a job with every field that can stand with the others, and without a batch.
func full() broker.NewJob {
	return broker.NewJob{
		ID: broker.NewID(), Task: "Send.e-mail_2", Payload: []byte(`{"n":9007199254740993}`),
		Headers: map[string]string{"spool.codec": "json", "trace": "00-ab"}, Priority: -7, Delay: 90 * time.Minute,
		Tenant: "acme", Group: "acme/eu", Ordered: true, Key: "k-1", KeyHold: broker.HoldFor, KeyFor: time.Hour,
		MaxAttempts: 3, Timeout: 45 * time.Second, StartWithin: 5 * time.Hour, Retain: 48 * time.Hour,
	}
}

// everyState makes one job in each state, all of which are kept, and returns
// them as they were enqueued.
func everyState(f *fixture) map[broker.State]broker.NewJob {
	f.Helper()
	jobs := map[broker.State]broker.NewJob{}
	for _, s := range broker.States {
		n := with(func(n *broker.NewJob) { n.Retain = time.Hour })
		if s == broker.Scheduled {
			n.Delay = time.Hour
		}
		jobs[s] = n
		f.addOne(n)
		if s != broker.Scheduled && s != broker.Ready {
			l := f.claimID(n.ID)
			switch s {
			case broker.Done:
				f.end(l, broker.Ack)
			case broker.Dead:
				f.end(l, broker.Bury)
			case broker.Cancelled:
				f.end(l, broker.Cancel)
			}
		}
	}
	return jobs
}

// claimID takes the job with this id and gives back whatever stands before it.
func (f *fixture) claimID(id broker.ID) broker.Lease {
	f.Helper()
	var found *broker.Lease
	for _, l := range f.claim(100) {
		if l.Job.ID == id {
			found = &l
		} else {
			f.end(l, broker.Release)
		}
	}
	if found == nil {
		f.Fatalf("claim did not take %v", id)
	}
	return *found
}
