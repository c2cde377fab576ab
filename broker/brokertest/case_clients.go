package brokertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

var closeRules = []rule{
	{"closing twice is no error", func(f *fixture) {
		b := f.open()
		f.must("close", b.Close())
		f.must("close again", b.Close())
	}},
	{"every call of a closed client says so", func(f *fixture) {
		b := f.open()
		l := f.leased(plain())
		ref := l.Job.Ref()
		f.must("close", b.Close())
		ctx, c := f.ctx, broker.NewCall()
		for name, call := range map[string]func() error{
			"enqueue": func() error { _, err := b.Enqueue(ctx, c, queue, []broker.NewJob{plain()}); return err },
			"claim":   func() error { _, err := b.Claim(ctx, c, broker.ClaimRequest{Max: 1, Wait: patience}); return err },
			"extend": func() error {
				_, err := b.Extend(ctx, broker.ExtendRequest{Worker: broker.Worker{ID: "w"}})
				return err
			},
			"settle": func() error {
				_, err := b.Settle(ctx, c, []broker.Settlement{{Ref: ref, Token: l.Token, Kind: broker.Ack}})
				return err
			},
			"await": func() error { _, err := b.Await(ctx, []broker.Ref{ref}, patience); return err },
			"apply": func() error {
				_, err := b.Apply(ctx, c, broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}})
				return err
			},
			"maintain": func() error { _, err := b.Maintain(ctx); return err },
			"get":      func() error { _, err := b.Get(ctx, []broker.Ref{ref}); return err },
			"list": func() error {
				_, err := b.List(ctx, broker.Filter{Queue: queue, States: []broker.State{broker.Ready}}, "", 1)
				return err
			},
			"counts":  func() error { _, err := b.Counts(ctx, ""); return err },
			"workers": func() error { _, err := b.Workers(ctx, ""); return err },
			"explain": func() error { _, err := b.Explain(ctx, ref); return err },
			"watch":   func() error { _, err := b.Watch(ctx, broker.Filter{}); return err },
			"health":  func() error { _, err := b.Health(ctx); return err },
		} {
			f.wantErr(name, call(), broker.ErrClosed)
		}
		f.end(l, broker.Ack)
	}},
	{"calls that wait end when their client is closed", func(f *fixture) {
		ref := f.add("other", plain())[0]
		b := f.open()
		claim, await := f.claiming(f.ctx, b), f.awaiting(f.ctx, b, ref)
		f.must("close", b.Close())
		claim.done()
		await.done()
		f.wantErr("claim", claim.err, broker.ErrClosed)
		f.wantErr("await", await.err, broker.ErrClosed)
	}},
	{"closing one client leaves the others alone", func(f *fixture) {
		b := f.open()
		l := f.leased(plain())
		f.must("close", b.Close())
		want(f, "status", f.beat(l, time.Minute).Status, broker.Held)
		f.end(l, broker.Ack)
	}},
	{"what a store holds outlives the last of its clients", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		everyState(f)
		f.addOne(full())
		f.addOne(keyed("k", broker.HoldFor, time.Hour))
		f.add("paused", plain())
		f.apply(broker.Command{Kind: broker.PauseQueue, Filter: broker.Filter{Queue: "paused"}})
		for _, l := range f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Remote: true, TTL: time.Hour, Max: 1}).Leases {
			f.beat(l, time.Hour)
		}
		l := leaseOf(exactly(f, "leased", f.in(broker.Leased), 2)[0])
		f.command(broker.CancelJobs, l.Job.ID)
		f.end(l, broker.Cancel)
		before := f.dump(queue, "paused")
		f.must("close", f.b.Close())
		f.b = f.open()
		f.wantDump(before)
		f.b = f.open()
		f.wantDump(before)
	}},
}

// leaseOf makes a lease again out of a job that was read.
func leaseOf(j broker.Job) broker.Lease {
	return broker.Lease{Job: j, Token: j.Token, ExpiresAt: j.LeaseExpiresAt}
}

// dump is all that a store says of some queues.
type dump struct {
	queues []string
	jobs   []broker.Job
	counts []broker.Count
}

func (f *fixture) dump(queues ...string) dump {
	f.Helper()
	d := dump{queues: queues}
	for _, q := range queues {
		for _, s := range broker.States {
			d.jobs = append(d.jobs, f.list(f.b, broker.Filter{Queue: q, States: []broker.State{s}}, 100)...)
		}
		counts, err := f.b.Counts(f.ctx, q)
		f.must("counts", err)
		d.counts = append(d.counts, counts...)
	}
	return d
}

// wantDump wants that the store says what it said before, in the same order.
func (f *fixture) wantDump(before dump) {
	f.Helper()
	now := f.dump(before.queues...)
	if !slices.Equal(jobIDs(before.jobs), jobIDs(now.jobs)) {
		f.Errorf("jobs are now %v, were %v", jobIDs(now.jobs), jobIDs(before.jobs))
		return
	}
	for i := range before.jobs {
		if diff := diffJobs(before.jobs[i], now.jobs[i]); diff != "" {
			f.Errorf("%v before / now: %s", before.jobs[i].Ref(), diff)
		}
	}
	if !slices.Equal(before.counts, now.counts) {
		f.Errorf("numbers are now %+v, were %+v", now.counts, before.counts)
	}
}

// each runs do once for every client, all at the same time.
func (f *fixture) each(clients int, do func(n int, b broker.Broker)) {
	f.Helper()
	var wg sync.WaitGroup
	for n := range clients {
		b := f.open()
		wg.Go(func() { do(n, b) })
	}
	wg.Wait()
}

var clientRules = []rule{
	{"several clients claim every job exactly once", func(f *fixture) {
		const jobs, clients = 200, 4
		f.addMany(jobs)
		var mu sync.Mutex
		runs := map[broker.ID]int{}
		f.each(clients, func(n int, b broker.Broker) {
			for {
				got, err := b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 1 + n*3, Worker: "w"})
				if err != nil {
					f.Errorf("claim: %v", err)
				}
				if len(got.Leases) == 0 {
					return
				}
				var call []broker.Settlement
				mu.Lock()
				for _, l := range got.Leases {
					runs[l.Job.ID]++
					call = append(call, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
				}
				mu.Unlock()
				if _, err := b.Settle(f.ctx, broker.NewCall(), call); err != nil {
					f.Errorf("settle: %v", err)
				}
			}
		})
		want(f, "jobs that ran", len(runs), jobs)
		want(f, "total acked", f.count(queue, task).Totals.Acked, jobs)
		want(f, "total claimed", f.count(queue, task).Totals.Claimed, jobs)
	}},
	{"several clients that enqueue one id or key add one job", func(f *fixture) {
		for round := range 5 {
			n := keyed("k", broker.HoldUntilFinal, 0)
			var mu sync.Mutex
			added := map[bool]int{}
			names := map[broker.ID]bool{}
			f.each(4, func(i int, b broker.Broker) {
				n := n
				if round%2 == 0 {
					n.ID = broker.NewID()
				}
				answers, err := b.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{n})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || len(answers) != 1 {
					f.Errorf("enqueue: %v, %d answers", err, len(answers))
					return
				}
				added[answers[0].Existing]++
				names[answers[0].ID] = true
			})
			want(f, "new jobs", added[false], 1)
			want(f, "ids", len(names), 1)
			f.end(f.one(), broker.Ack)
		}
	}},
	{"several clients that settle one lease end it once", func(f *fixture) {
		for range 5 {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
			var mu sync.Mutex
			accepted := map[broker.SettleKind]bool{}
			kinds := []broker.SettleKind{broker.Ack, broker.Bury, broker.Cancel, broker.Nack}
			f.each(len(kinds), func(i int, b broker.Broker) {
				s := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: kinds[i], Delay: time.Hour}
				answers, err := b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{s})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && answers[0].Err == nil {
					accepted[kinds[i]] = true
				}
			})
			want(f, "settlements accepted", len(accepted), 1)
			f.command(broker.CancelJobs)
		}
	}},
	{"a cancel and an ack at the same time leave one end", func(f *fixture) {
		for range 10 {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = time.Hour }))
			f.each(2, func(i int, b broker.Broker) {
				var err error
				if i == 0 {
					_, err = b.Apply(f.ctx, broker.NewCall(), broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue, IDs: []broker.ID{l.Job.ID}}})
				} else {
					_, err = b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}})
				}
				if err != nil {
					f.Errorf("call %d: %v", i, err)
				}
			})
			f.wantState(l.Job.Ref(), broker.Done, broker.ReasonAcked)
		}
		t := f.count(queue, task).Totals
		want(f, "total acked", t.Acked, 10)
		want(f, "total cancelled", t.Cancelled, 0)
	}},
	{"several clients that open a store at the same time all work", func(f *fixture) {
		f.each(8, func(n int, b broker.Broker) {
			if _, err := b.Enqueue(f.ctx, broker.NewCall(), "first", []broker.NewJob{{Task: task}}); err != nil {
				f.Errorf("enqueue: %v", err)
			}
		})
		want(f, "ready", f.count("first", task).Ready, 8)
	}},
	{"a waiting client gets what another enqueues, job by job", func(f *fixture) {
		const jobs = 50
		ctx, cancel := context.WithTimeout(f.ctx, patience)
		defer cancel()
		got := 0
		b := f.open()
		done := async(func() {
			for got < jobs {
				c, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 1, Worker: "w", Wait: patience})
				if err != nil {
					f.Errorf("claim: %v", err)
					return
				}
				got += len(c.Leases)
			}
		})
		for range jobs {
			f.addMany(1)
		}
		done()
		want(f, "leases", got, jobs)
	}},
}

var clockRules = []rule{
	{"a wall clock that steps ends no lease and makes no delayed job due", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		for _, step := range []time.Duration{24 * time.Hour, -48 * time.Hour} {
			l := f.leased(plain())
			delayed := f.addOne(with(func(n *broker.NewJob) { n.Delay = time.Minute }))
			f.h.StepWall(step)
			f.maintain()
			f.wantState(l.Job.Ref(), broker.Leased, "")
			f.wantState(delayed, broker.Scheduled, "")
			want(f, "status", f.beat(l, time.Minute).Status, broker.Held)
			f.pass(time.Minute)
			f.wantState(l.Job.Ref(), broker.Ready, broker.ReasonExpired)
			f.wantState(delayed, broker.Ready, "")
			f.command(broker.DeleteJobs)
		}
	}},
	{"a job with a time waits for the wall clock", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		at := f.now().Add(time.Hour)
		ref := f.addOne(with(func(n *broker.NewJob) { n.At = at }))
		f.h.StepWall(-2 * time.Hour)
		f.pass(time.Hour)
		f.none()
		f.wantState(ref, broker.Scheduled, "")
		f.pass(2 * time.Hour)
		f.wantState(ref, broker.Ready, "")
		f.one()
	}},
	{"a job with a time that is not started in time is cancelled by the wall clock", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		inTime := func(n *broker.NewJob) { n.StartWithin = time.Hour }
		for _, released := range []bool{false, true} {
			late := f.addOne(with(func(n *broker.NewJob) { n.At = f.now().Add(time.Minute); inTime(n) }))
			f.pass(time.Minute)
			if released {
				f.end(f.one(), broker.Release)
			}
			ref := f.addOne(with(inTime))
			f.h.StepWall(-3 * time.Hour)
			f.pass(59 * time.Minute)
			f.wantState(ref, broker.Ready, "")
			f.pass(2 * time.Minute)
			f.wantState(ref, broker.Cancelled, broker.ReasonNotStarted)
			want(f, "state while the wall clock is back", f.get(late).State, broker.Ready)
			ref = f.addOne(with(inTime))
			f.h.StepWall(3*time.Hour - 90*time.Second)
			f.maintain()
			want(f, "state shortly before its end", f.get(late).State, broker.Ready)
			f.h.StepWall(30 * time.Second)
			f.maintain()
			f.wantState(late, broker.Cancelled, broker.ReasonNotStarted)
			f.wantState(ref, broker.Ready, "")
			f.h.StepWall(5 * time.Hour)
			f.maintain()
			f.wantState(ref, broker.Ready, "")
			f.command(broker.DeleteJobs)
		}
	}},
	{"a job that holds its ordered group takes the place of one that was due before", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		ordered := func(n *broker.NewJob) { n.Group, n.Ordered = "g", true }
		l := f.leased(with(ordered))
		f.h.StepWall(-time.Hour)
		refs := append(f.addMany(1), l.Job.Ref())
		refs = append(refs, f.addOne(with(func(n *broker.NewJob) { ordered(n); n.At = f.now().Add(tick / 2) })))
		f.end(l, broker.Nack)
		f.pass(tick)
		f.wantOrder("claims", leaseIDs(f.claim(3)), refs, 1, 0)
	}},
	{"a job ends once however the wall clock steps", func(f *fixture) {
		if f.h.StepWall == nil {
			f.Skipf("the wall clock cannot be stepped")
		}
		ref := f.addOne(with(func(n *broker.NewJob) { n.Retain = 100 * time.Hour }))
		f.h.StepWall(-time.Hour)
		f.end(f.one(), broker.Ack)
		f.h.StepWall(2 * time.Hour)
		f.maintain()
		f.none()
		f.wantState(ref, broker.Done, broker.ReasonAcked)
	}},
}
