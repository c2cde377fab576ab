package brokertest

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// cancelEndings say how a running job that was told to stop ends.
var cancelEndings = []struct {
	kind   broker.SettleKind // 0: its lease runs out
	state  broker.State
	reason string
}{
	{broker.Ack, broker.Done, broker.ReasonAcked},
	{broker.Nack, broker.Cancelled, broker.ReasonCancelled},
	{broker.Snooze, broker.Cancelled, broker.ReasonCancelled},
	{broker.Release, broker.Cancelled, broker.ReasonCancelled},
	{broker.Bury, broker.Cancelled, broker.ReasonCancelled},
	{broker.Cancel, broker.Cancelled, broker.ReasonCancelled},
	{0, broker.Cancelled, broker.ReasonCancelled},
}

var cancelRules = []rule{
	{"a waiting job is cancelled at once", func(f *fixture) {
		for _, delay := range []time.Duration{0, time.Hour} {
			ref := f.addOne(with(func(n *broker.NewJob) { n.Delay = delay }))
			c := broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue, IDs: []broker.ID{ref.ID}}, Reason: "by ada"}
			want(f, "changed", f.apply(c), 1)
			j := f.wantState(ref, broker.Cancelled, broker.ReasonCancelled)
			want(f, "text", j.Error, "by ada")
			want(f, "attempt", j.Attempt, 0)
			f.wantTime("finished at", j.FinishedAt, f.now())
			want(f, "changed by a repeat", f.apply(c), 0)
		}
		f.none()
		f.pass(2 * tick)
		f.none()
	}},
	{"a job that waits for its retry is cancelled at once", func(f *fixture) {
		l := f.leased(plain())
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick})
		want(f, "changed", f.command(broker.CancelJobs), 1)
		f.advance(tick)
		f.none()
		f.wantState(l.Job.Ref(), broker.Cancelled, broker.ReasonCancelled)
	}},
	{"a running job is told, and counted once", func(f *fixture) {
		l := f.leased(plain())
		c := broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}, Reason: "by ada"}
		want(f, "changed", f.apply(c), 1)
		j := f.wantState(l.Job.Ref(), broker.Leased, broker.ReasonCancelAsked)
		want(f, "cancel requested", j.CancelRequested, true)
		want(f, "changed by a repeat", f.apply(c), 0)
		beat := f.beat(l, time.Minute)
		want(f, "status", beat.Status, broker.CancelAsked)
		want(f, "status of the next beat", f.beat(l, time.Minute).Status, broker.CancelAsked)
		want(f, "total cancelled", f.count(queue, task).Totals.Cancelled, 0)
		f.end(l, broker.Cancel)
		j = f.wantState(l.Job.Ref(), broker.Cancelled, broker.ReasonCancelled)
		want(f, "text", j.Error, "by ada")
		want(f, "total cancelled", f.count(queue, task).Totals.Cancelled, 1)
	}},
	{"a running job that was told ends cancelled, or done when it finished", func(f *fixture) {
		for _, e := range cancelEndings {
			ref := f.addOne(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
			l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
			f.command(broker.CancelJobs, ref.ID)
			if e.kind == 0 {
				f.pass(tick)
			} else {
				want(f, e.kind.String(), f.settle(l, broker.Settlement{Kind: e.kind, Delay: time.Hour}).State, e.state)
			}
			j := f.wantState(ref, e.state, e.reason)
			want(f, "attempt", j.Attempt, 1)
			want(f, "cancel requested", j.CancelRequested, false)
			f.pass(tick)
			f.none()
		}
	}},
	{"what ends a told job still counts as what it was", func(f *fixture) {
		f.addMany(3)
		leases := exactly(f, "leases", f.take(f.b, broker.ClaimRequest{TTL: tick}).Leases, 3)
		f.command(broker.CancelJobs)
		f.end(leases[0], broker.Nack)
		f.end(leases[1], broker.Bury)
		f.pass(tick)
		t := f.count(queue, task).Totals
		want(f, "totals", t, broker.Totals{Enqueued: 3, Claimed: 3, Failed: 2, Expired: 1, Cancelled: 3})
		want(f, "failures", f.get(leases[0].Job.Ref()).Failures, 1)
	}},
	{"a settlement answers with the state that its job ended in, also when that is dropped", func(f *fixture) {
		for _, e := range cancelEndings[:6] {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = -1 }))
			f.command(broker.CancelJobs)
			want(f, e.kind.String(), f.end(l, e.kind).State, e.state)
			f.wantGone(l.Job.Ref())
		}
	}},
	{"a final job is not cancelled", func(f *fixture) {
		jobs := everyState(f)
		for _, s := range []broker.State{broker.Done, broker.Dead, broker.Cancelled} {
			before := f.get(broker.Ref{Queue: queue, ID: jobs[s].ID})
			want(f, "changed", f.command(broker.CancelJobs, jobs[s].ID), 0)
			if diff := diffJobs(before, f.get(before.Ref())); diff != "" {
				f.Errorf("%v: %s", s, diff)
			}
		}
	}},
	{"a text of the operator replaces none of the failure when it is empty", func(f *fixture) {
		l := f.leased(plain())
		f.settle(l, broker.Settlement{Kind: broker.Nack, Error: "boom"})
		f.command(broker.CancelJobs)
		want(f, "text", f.wantState(l.Job.Ref(), broker.Cancelled, broker.ReasonCancelled).Error, "boom")
	}},
}

var commandRules = []rule{
	{"a requeue brings back dead and cancelled jobs, and no others", func(f *fixture) {
		jobs := everyState(f)
		want(f, "changed", f.command(broker.RequeueJobs), 2)
		want(f, "changed by a repeat", f.command(broker.RequeueJobs), 0)
		for s, n := range jobs {
			got := f.get(broker.Ref{Queue: queue, ID: n.ID})
			back := s == broker.Dead || s == broker.Cancelled
			want(f, s.String()+" is requeued", got.Reason == broker.ReasonRequeued, back)
			if back {
				want(f, "state", got.State, broker.Ready)
				f.wantTime("run at", got.RunAt, f.now())
			} else {
				want(f, "state", got.State, s)
			}
		}
	}},
	{"a delete removes every job but the leased", func(f *fixture) {
		jobs := everyState(f)
		want(f, "changed", f.command(broker.DeleteJobs), 5)
		want(f, "changed by a repeat", f.command(broker.DeleteJobs), 0)
		for s, n := range jobs {
			want(f, s.String()+" is there", f.get(broker.Ref{Queue: queue, ID: n.ID}).State == broker.Leased, s == broker.Leased)
		}
		c := f.count(queue, task)
		want(f, "total deleted", c.Totals.Deleted, 5)
		want(f, "jobs left", c.Scheduled+c.Ready+c.Leased+c.Done+c.Dead+c.Cancelled, 1)
		f.pass(2 * time.Hour)
	}},
	{"a command changes the states that it names", func(f *fixture) {
		jobs := everyState(f)
		for _, s := range []broker.State{broker.Scheduled, broker.Done, broker.Leased} {
			n := f.apply(broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: queue, States: []broker.State{s}}})
			wanted := 1
			if s == broker.Leased {
				wanted = 0
			}
			want(f, "deleted "+s.String(), n, wanted)
		}
		n := f.apply(broker.Command{Kind: broker.RequeueJobs, Filter: broker.Filter{Queue: queue, States: []broker.State{broker.Dead}}})
		want(f, "requeued", n, 1)
		f.wantState(broker.Ref{Queue: queue, ID: jobs[broker.Cancelled].ID}, broker.Cancelled, broker.ReasonCancelled)
	}},
	{"a command changes what its filter chooses", func(f *fixture) {
		for _, c := range filterCases(f) {
			n := f.apply(broker.Command{Kind: broker.RequeueJobs, Filter: c.filter})
			want(f, c.name, n, len(c.chosen))
			leases := f.claim(100)
			want(f, c.name+": claimed", len(leases), len(c.chosen))
			for _, l := range leases {
				f.settle(l, broker.Settlement{Kind: broker.Bury, Error: l.Job.Error})
			}
		}
	}},
	{"a command goes on in bounded steps until all is changed", func(f *fixture) {
		for _, limit := range []int{1, 3, 10, 0} {
			f.addMany(10)
			want(f, "cancelled", f.apply(broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}, Limit: limit}), 10)
			want(f, "deleted", f.apply(broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: queue}, Limit: limit}), 10)
		}
	}},
	{"a step with a limit changes no more than that", func(f *fixture) {
		f.addMany(5)
		step, err := f.b.Apply(f.ctx, broker.NewCall(), broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}, Limit: 2})
		f.must("apply", err)
		want(f, "changed", step.Changed, 2)
		want(f, "cursor is empty", step.Cursor == "", false)
		want(f, "cancelled", f.count(queue, task).Cancelled, 2)
	}},
	{"a batch that one step completes is reached by a later step, and not by the same", func(f *fixture) {
		c := broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: queue, States: []broker.State{broker.Ready}}}
		refs := f.add(queue, append(batch(2), plain())...)
		want(f, "deleted by one step", f.apply(c), 3)
		f.wantState(refs[0], broker.Ready, broker.ReasonBatch)
		f.command(broker.DeleteJobs)
		refs = f.add(queue, append(batch(2), plain())...)
		c.Limit = 1
		want(f, "deleted one by one", f.apply(c), 4)
		f.wantGone(refs[0])
	}},
	{"a requeue keeps the order of the deaths", func(f *fixture) {
		refs := f.addMany(4)
		leases := f.all(4)
		for _, i := range []int{2, 0, 3, 1} {
			f.advance(tick / 20)
			f.end(leases[i], broker.Bury)
		}
		f.apply(broker.Command{Kind: broker.RequeueJobs, Filter: broker.Filter{Queue: queue}, Limit: 3})
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 2, 0, 3, 1)
	}},
	{"dead letters that fail again can be requeued again, and none is doubled", func(f *fixture) {
		refs := f.add(queue, manyOnce(50)...)
		for range 3 {
			for _, l := range f.claim(100) {
				f.end(l, broker.Nack)
			}
			want(f, "dead", f.count(queue, task).Dead, int64(len(refs)))
			want(f, "requeued", f.apply(broker.Command{Kind: broker.RequeueJobs, Filter: broker.Filter{Queue: queue}, Limit: 7}), len(refs))
			want(f, "requeued by a second press", f.command(broker.RequeueJobs), 0)
		}
		want(f, "ready", f.count(queue, task).Ready, int64(len(refs)))
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, int64(len(refs)))
	}},
	{"a command stays in its queue", func(f *fixture) {
		f.addMany(2)
		other := f.add("other", plain())
		want(f, "deleted", f.command(broker.DeleteJobs), 2)
		f.wantState(other[0], broker.Ready, "")
	}},
	{"a command on a queue that nobody knows changes nothing", func(f *fixture) {
		for _, kind := range []broker.CommandKind{broker.CancelJobs, broker.RequeueJobs, broker.DeleteJobs} {
			want(f, fmt.Sprint("command ", kind), f.command(kind), 0)
		}
		counts, err := f.b.Counts(f.ctx, "")
		f.must("counts", err)
		want(f, "rows of counts", len(counts), 0)
	}},
	{"a command that can never be right is refused", func(f *fixture) {
		for what, c := range map[string]broker.Command{
			"no queue":         {Kind: broker.CancelJobs},
			"a bad queue":      {Kind: broker.CancelJobs, Filter: broker.Filter{Queue: "a/b"}},
			"no kind":          {Filter: broker.Filter{Queue: queue}},
			"an unknown kind":  {Kind: broker.ResumeQueue + 1, Filter: broker.Filter{Queue: queue}},
			"a negative limit": {Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}, Limit: -1},
			"pause of nothing": {Kind: broker.PauseQueue},
		} {
			_, err := f.b.Apply(f.ctx, broker.NewCall(), c)
			f.wantErr(what, err, broker.ErrInvalid)
		}
	}},
}

// manyOnce makes n jobs that may run once.
func manyOnce(n int) (jobs []broker.NewJob) {
	for range n {
		jobs = append(jobs, with(func(n *broker.NewJob) { n.MaxAttempts = 1 }))
	}
	return jobs
}

var pauseRules = []rule{
	{"nothing of a paused queue is claimed, whatever became ready", func(f *fixture) {
		f.add(queue, plain(), with(func(n *broker.NewJob) { n.Delay = tick / 2 }))
		f.take(f.b, broker.ClaimRequest{Max: 1, TTL: tick / 2})
		f.addMany(1)
		want(f, "changed", f.command(broker.PauseQueue), 1)
		f.none()
		f.pass(tick)
		f.none()
		want(f, "leases of every queue", len(f.take(f.open(), broker.ClaimRequest{}).Leases), 0)
		f.addMany(1)
		want(f, "ready", f.count(queue, task).Ready, 4)
		f.none()
		want(f, "changed", f.command(broker.ResumeQueue), 1)
		want(f, "leases after the resume", len(f.claim(100)), 4)
	}},
	{"a pause is counted once, and shown", func(f *fixture) {
		f.addMany(1)
		want(f, "paused", f.count(queue, task).Paused, false)
		want(f, "changed", f.command(broker.PauseQueue), 1)
		want(f, "changed by a repeat", f.command(broker.PauseQueue), 0)
		want(f, "paused", f.count(queue, task).Paused, true)
		want(f, "changed by a resume", f.command(broker.ResumeQueue), 1)
		want(f, "changed by a repeated resume", f.command(broker.ResumeQueue), 0)
		want(f, "paused", f.count(queue, task).Paused, false)
	}},
	{"a pause holds for jobs that come later, even the first", func(f *fixture) {
		want(f, "changed", f.command(broker.PauseQueue), 1)
		counts, err := f.b.Counts(f.ctx, "")
		f.must("counts", err)
		exactly(f, "rows before any job", counts, 1)
		want(f, "row before any job", counts[0], broker.Count{Queue: queue, Paused: true})
		f.addMany(1)
		f.none()
		want(f, "paused", f.count(queue, task).Paused, true)
		want(f, "row without a task", f.count(queue, ""), broker.Count{Queue: queue})
		f.command(broker.ResumeQueue)
		f.one()
	}},
	{"a pause leaves running jobs and other queues alone", func(f *fixture) {
		l := f.leased(plain())
		f.command(broker.PauseQueue)
		want(f, "status", f.beat(l, time.Minute).Status, broker.Held)
		f.end(l, broker.Ack)
		f.add("other", plain())
		want(f, "leases of the other", len(f.take(f.b, broker.ClaimRequest{}).Leases), 1)
	}},
	{"commands reach the jobs of a paused queue", func(f *fixture) {
		f.addMany(2)
		f.command(broker.PauseQueue)
		want(f, "cancelled", f.command(broker.CancelJobs), 2)
		want(f, "requeued", f.command(broker.RequeueJobs), 2)
		want(f, "deleted", f.command(broker.DeleteJobs), 2)
	}},
	{"pausing and resuming many times leaves it as it was", func(f *fixture) {
		f.addMany(1)
		for range 50 {
			f.command(broker.PauseQueue)
			f.none()
			f.command(broker.ResumeQueue)
			f.end(f.one(), broker.Release)
		}
	}},
}
