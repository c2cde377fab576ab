package brokertest

import (
	"time"

	"github.com/spoolq/spool/broker"
)

var settleRules = []rule{
	{"an ack ends a job as done", func(f *fixture) {
		l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
		a := f.settle(l, broker.Settlement{Kind: broker.Ack, Result: []byte("42")})
		want(f, "answer", a.State, broker.Done)
		j := f.wantState(l.Job.Ref(), broker.Done, broker.ReasonAcked)
		want(f, "result", string(j.Result), "42")
		want(f, "attempt", j.Attempt, 1)
		want(f, "worker", j.Worker, "w")
		want(f, "token", j.Token, l.Token)
		f.wantTime("finished at", j.FinishedAt, f.now())
		f.none()
	}},
	{"a nack tries again after its delay", func(f *fixture) {
		l := f.leased(plain())
		a := f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick, Error: "boom"})
		want(f, "answer", a.State, broker.Scheduled)
		j := f.wantState(l.Job.Ref(), broker.Scheduled, broker.ReasonRetry)
		want(f, "error", j.Error, "boom")
		want(f, "failures", j.Failures, 1)
		want(f, "attempt", j.Attempt, 1)
		f.wantTime("run at", j.RunAt, f.now().Add(tick))
		f.none()
		f.advance(tick)
		f.wantState(l.Job.Ref(), broker.Ready, broker.ReasonRetry)
		want(f, "attempt of the second run", f.one().Job.Attempt, 2)
	}},
	{"of two settlements of a lease in one call the first one holds", func(f *fixture) {
		l := f.leased(plain())
		s := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Nack, Error: "boom"}
		ack := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
		got, err := f.b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{s, ack})
		f.must("settle", err)
		want(f, "answers", len(got), 2)
		want(f, "state", got[0].State, broker.Ready)
		f.wantErr("ack", got[1].Err, broker.ErrLeaseLost)
		f.wantState(l.Job.Ref(), broker.Ready, broker.ReasonRetry)
		want(f, "attempt", f.one().Job.Attempt, 2)
		f.none()
	}},
	{"a nack without delay is ready at once", func(f *fixture) {
		l := f.leased(plain())
		want(f, "answer", f.end(l, broker.Nack).State, broker.Ready)
		j := f.wantState(l.Job.Ref(), broker.Ready, broker.ReasonRetry)
		f.wantTime("run at", j.RunAt, f.now())
	}},
	{"a nack keeps the last text, and none replaces it", func(f *fixture) {
		l := f.leased(plain())
		f.settle(l, broker.Settlement{Kind: broker.Nack, Error: "first"})
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Error: "second"})
		want(f, "error", f.get(l.Job.Ref()).Error, "second")
		f.settle(f.one(), broker.Settlement{Kind: broker.Nack})
		j := f.get(l.Job.Ref())
		want(f, "error", j.Error, "")
		want(f, "failures", j.Failures, 3)
	}},
	{"a snooze gives the attempt back", func(f *fixture) {
		l := f.leased(plain())
		a := f.settle(l, broker.Settlement{Kind: broker.Snooze, Delay: tick})
		want(f, "answer", a.State, broker.Scheduled)
		j := f.wantState(l.Job.Ref(), broker.Scheduled, broker.ReasonSnoozed)
		want(f, "attempt", j.Attempt, 0)
		want(f, "failures", j.Failures, 0)
		f.wantTime("run at", j.RunAt, f.now().Add(tick))
		f.advance(tick)
		want(f, "attempt of the second run", f.one().Job.Attempt, 1)
	}},
	{"a release gives job and attempt back as they were", func(f *fixture) {
		ref := f.addOne(plain())
		before := f.get(ref)
		l := f.one()
		f.advance(tick)
		want(f, "answer", f.end(l, broker.Release).State, broker.Ready)
		j := f.wantState(ref, broker.Ready, broker.ReasonReleased)
		want(f, "attempt", j.Attempt, 0)
		f.wantTime("run at", j.RunAt, before.RunAt)
	}},
	{"a bury makes a dead letter at once", func(f *fixture) {
		l := f.leased(plain())
		a := f.settle(l, broker.Settlement{Kind: broker.Bury, Error: "no such user"})
		want(f, "answer", a.State, broker.Dead)
		j := f.wantState(l.Job.Ref(), broker.Dead, broker.ReasonBuried)
		want(f, "error", j.Error, "no such user")
		want(f, "failures", j.Failures, 1)
		f.wantTime("finished at", j.FinishedAt, f.now())
	}},
	{"a cancel by the handler ends the job as cancelled", func(f *fixture) {
		l := f.leased(plain())
		a := f.settle(l, broker.Settlement{Kind: broker.Cancel, Error: "not wanted"})
		want(f, "answer", a.State, broker.Cancelled)
		j := f.wantState(l.Job.Ref(), broker.Cancelled, broker.ReasonCancelled)
		want(f, "error", j.Error, "not wanted")
		want(f, "failures", j.Failures, 0)
	}},
	{"each settlement of a call is judged alone, in order", func(f *fixture) {
		f.addMany(4)
		l := f.all(4)
		f.end(l[1], broker.Release)
		f.one()
		var call []broker.Settlement
		for i, kind := range []broker.SettleKind{broker.Bury, broker.Ack, broker.Nack, broker.Cancel} {
			call = append(call, broker.Settlement{Ref: l[i].Job.Ref(), Token: l[i].Token, Kind: kind})
		}
		call = append(call, broker.Settlement{Ref: broker.Ref{Queue: queue, ID: broker.NewID()}, Token: 1, Kind: broker.Ack})
		answers, err := f.b.Settle(f.ctx, broker.NewCall(), call)
		f.must("settle", err)
		exactly(f, "answers", answers, len(call))
		for i, s := range []broker.State{broker.Dead, 0, broker.Ready, broker.Cancelled, 0} {
			if s != 0 {
				f.must("settlement", answers[i].Err)
				want(f, "state", answers[i].State, s)
			}
		}
		f.wantErr("stale", answers[1].Err, broker.ErrLeaseLost)
		f.wantErr("unknown", answers[4].Err, broker.ErrNotFound)
	}},
	{"an empty call settles nothing", func(f *fixture) {
		answers, err := f.b.Settle(f.ctx, broker.NewCall(), nil)
		f.must("settle", err)
		want(f, "answers", len(answers), 0)
	}},
	{"a repeated settlement gives the same answer and changes nothing", func(f *fixture) {
		for kind := broker.Ack; kind <= broker.Cancel; kind++ {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
			s := broker.Settlement{Kind: kind, Delay: time.Hour, Error: "e", Result: []byte("r")}
			first := f.settle(l, s)
			before, totals := f.get(l.Job.Ref()), f.count(queue, task).Totals
			f.advance(tick / 4)
			for range 2 {
				again := f.settle(l, s)
				want(f, kind.String()+" repeated", again.State, first.State)
			}
			if diff := diffJobs(before, f.get(l.Job.Ref())); diff != "" {
				f.Errorf("%v repeated: %s", kind, diff)
			}
			want(f, "totals after a repeated "+kind.String(), f.count(queue, task).Totals, totals)
			f.command(broker.CancelJobs)
		}
	}},
	{"another settlement with a token that has settled is refused", func(f *fixture) {
		for kind := broker.Ack; kind <= broker.Cancel; kind++ {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
			f.settle(l, broker.Settlement{Kind: kind, Delay: time.Hour})
			before := f.get(l.Job.Ref())
			for other := broker.Ack; other <= broker.Cancel; other++ {
				if other != kind {
					f.wantErr(other.String()+" after "+kind.String(), f.try(l, broker.Settlement{Kind: other}).Err, broker.ErrLeaseLost)
				}
			}
			if diff := diffJobs(before, f.get(l.Job.Ref())); diff != "" {
				f.Errorf("after %v: %s", kind, diff)
			}
			want(f, "status of its lease", f.beat(l, time.Hour).Status, broker.Lost)
			f.command(broker.CancelJobs)
		}
	}},
	{"a settlement repeated after a command has moved its job changes nothing", func(f *fixture) {
		for _, kind := range []broker.CommandKind{broker.CancelJobs, broker.RequeueJobs} {
			l := f.leased(plain())
			s := broker.Settlement{Kind: broker.Bury}
			if kind == broker.CancelJobs {
				s = broker.Settlement{Kind: broker.Nack, Delay: time.Hour}
			}
			f.settle(l, s)
			want(f, "changed", f.command(kind), 1)
			before, totals := f.get(l.Job.Ref()), f.count(queue, task).Totals
			f.try(l, s) // whether it is recognised or refused is left open
			if diff := diffJobs(before, f.get(l.Job.Ref())); diff != "" {
				f.Errorf("before / after: %s", diff)
			}
			want(f, "totals", f.count(queue, task).Totals, totals)
			f.command(broker.DeleteJobs)
		}
	}},
	{"a job that is gone is not found", func(f *fixture) {
		l := f.leased(plain())
		f.end(l, broker.Ack)
		f.wantGone(l.Job.Ref())
		f.wantErr("a second ack", f.try(l, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrNotFound)
		dead := f.leased(plain())
		f.end(dead, broker.Bury)
		f.command(broker.DeleteJobs)
		f.wantErr("bury of a deleted job", f.try(dead, broker.Settlement{Kind: broker.Bury}).Err, broker.ErrNotFound)
		f.wantGone(dead.Job.Ref())
	}},
}

var attemptRules = []rule{
	{"a job runs as often as it may, then it is dead", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 3 }))
		for run := 1; run <= 3; run++ {
			l := f.one()
			want(f, "attempt", l.Job.Attempt, run)
			a := f.settle(l, broker.Settlement{Kind: broker.Nack, Error: "e"})
			want(f, "dead", a.State == broker.Dead, run == 3)
		}
		j := f.wantState(ref, broker.Dead, broker.ReasonAttempts)
		want(f, "failures", j.Failures, 3)
		f.none()
	}},
	{"the last nack makes a dead letter whatever its delay", func(f *fixture) {
		l := f.leased(with(func(n *broker.NewJob) { n.MaxAttempts = 1 }))
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: time.Hour})
		f.wantState(l.Job.Ref(), broker.Dead, broker.ReasonAttempts)
	}},
	{"a job that crashes its worker runs as often as it may, then it is dead", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 3 }))
		for run := 1; run <= 3; run++ {
			leases := f.take(f.b, broker.ClaimRequest{TTL: tick / 4}).Leases
			want(f, "leases", len(leases), 1)
			f.pass(tick / 4)
		}
		j := f.wantState(ref, broker.Dead, broker.ReasonCrashed)
		want(f, "attempt", j.Attempt, 3)
		f.none()
		c := f.count(queue, task)
		want(f, "total expired", c.Totals.Expired, 3)
		want(f, "total died", c.Totals.Died, 1)
		want(f, "total failed", c.Totals.Failed, 0)
	}},
	{"crashes and failures use the same attempts", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 2 }))
		f.take(f.b, broker.ClaimRequest{TTL: tick / 4})
		f.pass(tick / 4)
		f.end(f.one(), broker.Nack)
		f.wantState(ref, broker.Dead, broker.ReasonAttempts)
	}},
	{"snoozes use no attempt, however many", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 3 }))
		for range 400 {
			f.end(f.one(), broker.Snooze)
		}
		f.end(f.one(), broker.Nack)
		j := f.get(ref)
		want(f, "attempt", j.Attempt, 1)
		want(f, "max attempts", j.MaxAttempts, 3)
		l := f.one()
		want(f, "attempt", l.Job.Attempt, 2)
		f.end(l, broker.Ack)
	}},
	{"releases use no attempt, even the last", func(f *fixture) {
		f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 1 }))
		for range 20 {
			l := f.one()
			want(f, "attempt", l.Job.Attempt, 1)
			f.end(l, broker.Release)
		}
	}},
	{"a requeued job has fresh attempts and keeps its failures", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 2 }))
		for range 2 {
			f.settle(f.one(), broker.Settlement{Kind: broker.Nack, Error: "e"})
		}
		f.command(broker.RequeueJobs)
		j := f.wantState(ref, broker.Ready, broker.ReasonRequeued)
		want(f, "attempt", j.Attempt, 0)
		want(f, "failures", j.Failures, 2)
		want(f, "error", j.Error, "e")
		want(f, "finished", j.FinishedAt.IsZero(), true)
		want(f, "attempt of the next run", f.one().Job.Attempt, 1)
	}},
	{"a job that crashed to death runs again after a requeue", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 1 }))
		f.take(f.b, broker.ClaimRequest{TTL: tick / 4})
		f.pass(tick / 4)
		f.wantState(ref, broker.Dead, broker.ReasonCrashed)
		f.command(broker.RequeueJobs)
		f.end(f.one(), broker.Ack)
	}},
}
