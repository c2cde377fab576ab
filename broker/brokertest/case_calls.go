package brokertest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// needsRetry leaves out the case for a broker that cannot lose a reply, and so
// knows no call again.
func (f *fixture) needsRetry() {
	f.Helper()
	if f.b.Caps().Retry == 0 {
		f.Skipf("no reply of this broker can be lost")
	}
}

// callRules are about calls whose reply was lost: they are made again with the
// same id.
var callRules = []rule{
	{"a repeated enqueue answers what the first did and adds nothing, whatever became of its jobs", func(f *fixture) {
		f.needsRetry()
		key := keyed("k", broker.HoldUntilFinal, 0)
		key.ID = broker.ID{}
		c, jobs := broker.NewCall(), []broker.NewJob{{Task: task}, key, {Task: task, Delay: time.Hour}}
		first := f.enqueueAs(f.b, c, jobs...)
		for _, change := range []func(){
			func() {},
			func() { f.end(f.one(), broker.Ack) },
			func() { f.command(broker.CancelJobs) },
			func() { f.command(broker.DeleteJobs) },
		} {
			change()
			f.wantSame("enqueue", func() string { return fmt.Sprint(f.enqueueAs(f.b, c, jobs...)) }, fmt.Sprint(first))
		}
	}},
	{"a repeated enqueue replaces nothing again", func(f *fixture) {
		f.needsRetry()
		ref := f.addOne(again(keyed("k", broker.HoldUntilFinal, 0), broker.RepeatReplace, "one"))
		c, two := broker.NewCall(), again(keyed("k", broker.HoldUntilFinal, 0), broker.RepeatReplace, "two")
		first := f.enqueueAs(f.b, c, two)
		f.enqueue(queue, again(keyed("k", broker.HoldUntilFinal, 0), broker.RepeatReplace, "three"))
		f.wantSame("enqueue", func() string { return fmt.Sprint(f.enqueueAs(f.b, c, two)) }, fmt.Sprint(first))
		want(f, "payload", string(f.get(ref).Payload), "three")
	}},
	{"an enqueue with another call id is another enqueue", func(f *fixture) {
		f.needsRetry()
		jobs := []broker.NewJob{{Task: task}}
		a, b := f.enqueueAs(f.b, broker.NewCall(), jobs...), f.enqueueAs(f.b, broker.NewCall(), jobs...)
		want(f, "one id for both", a[0].ID == b[0].ID, false)
		want(f, "ready", f.count(queue, task).Ready, 2)
	}},
	{"an enqueue that is repeated while it is under way is made once", func(f *fixture) {
		f.needsRetry()
		c := broker.NewCall()
		var mu sync.Mutex
		ids := map[broker.ID]bool{}
		f.each(4, func(_ int, b broker.Broker) {
			answers, err := b.Enqueue(f.ctx, c, queue, []broker.NewJob{{Task: task}})
			if err != nil || len(answers) != 1 {
				f.Errorf("enqueue: %v, %d answers", err, len(answers))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[answers[0].ID] = true
		})
		want(f, "ids", len(ids), 1)
		want(f, "ready", f.count(queue, task).Ready, 1)
	}},
	{"a repeated claim returns the leases of the first that are still valid, and takes no others", func(f *fixture) {
		f.needsRetry()
		f.addMany(9)
		c, r := broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 5, Worker: "w", TTL: 4 * tick}
		leases := exactly(f, "leases", f.claimAs(c, r), 5)
		f.wantSame("claim", func() string { return leaseText(f.claimAs(c, r)) }, leaseText(leases))
		f.beats(time.Hour, leases[0], leases[1], leases[3], leases[4])
		f.end(leases[1], broker.Ack)
		f.end(leases[3], broker.Release)
		want(f, "claimed again", f.one().Job.ID, leases[3].Job.ID)
		f.pass(4 * tick) // the lease of 2 is over
		f.wantSame("claim", func() string { return leaseText(f.claimAs(c, r)) }, leaseText([]broker.Lease{leases[0], leases[4]}))
		f.end(leases[0], broker.Ack)
		f.end(leases[4], broker.Ack)
		f.wantSame("claim", func() string { return leaseText(f.claimAs(c, r)) }, "")
	}},
	{"a repeated settlement answers what the first did and changes nothing, whatever became of its job", func(f *fixture) {
		f.needsRetry()
		for _, kind := range []broker.SettleKind{broker.Ack, broker.Nack, broker.Snooze, broker.Release} {
			s := settlementOf(f.leased(plain()), kind)
			if kind == broker.Ack {
				s.FollowUps = []broker.FollowUp{{Queue: queue, Job: broker.NewJob{Task: task}}}
			}
			c := broker.NewCall()
			first := f.settleAs(c, s)
			f.must(kind.String(), first.Err)
			repeat := func() string { return fmt.Sprint(f.settleAs(c, s)) }
			f.wantSame(kind.String(), repeat, fmt.Sprint(first))
			l := f.one() // of the same job, or of its follow-up
			f.wantSame(kind.String(), repeat, fmt.Sprint(first))
			f.end(l, broker.Ack)
			f.wantSame(kind.String(), repeat, fmt.Sprint(first))
			f.none()
		}
	}},
	{"a repeated step of a command answers what the first did and changes nothing", func(f *fixture) {
		f.needsRetry()
		f.addMany(5)
		c, cancel := broker.NewCall(), broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}, Limit: 2}
		first := f.applyAs(c, cancel)
		want(f, "changed", first.Changed, 2)
		f.wantSame("cancel", func() string { return fmt.Sprint(f.applyAs(c, cancel)) }, fmt.Sprint(first))
		f.command(broker.RequeueJobs)
		f.wantSame("cancel", func() string { return fmt.Sprint(f.applyAs(c, cancel)) }, fmt.Sprint(first))
		c, pause := broker.NewCall(), broker.Command{Kind: broker.PauseQueue, Filter: broker.Filter{Queue: queue}}
		first = f.applyAs(c, pause)
		want(f, "changed by a pause", first, broker.Step{Changed: 1})
		f.command(broker.ResumeQueue)
		f.wantSame("pause", func() string { return fmt.Sprint(f.applyAs(c, pause)) }, fmt.Sprint(first))
	}},
	{"a repeated change of settings changes nothing, and is no conflict", func(f *fixture) {
		f.needsRetry()
		f.set(weight("x", 1))
		next := weight("x", 2)
		next.Revision = f.inForce(broker.WeightSetting, "x").Revision
		c, change := broker.NewCall(), broker.Change{Set: []broker.Setting{next}}
		for _, now := range []int{2, 3} {
			f.must("configure", f.b.Configure(f.ctx, c, queue, change))
			want(f, "weight", f.inForce(broker.WeightSetting, "x").Weight, now)
			f.set(weight("x", 3))
		}
	}},
	{"a repeated tick is won again, and moves and adds nothing", func(f *fixture) {
		f.needsRetry()
		due := f.scheduled()
		c, t := broker.NewCall(), broker.Tick{Queue: queue, Schedule: "s", Due: due, Next: due.Add(time.Minute), Jobs: []broker.NewJob{{Task: task}}}
		for n := range 3 {
			won, _, err := f.b.Tick(f.ctx, c, t)
			f.must("tick", err)
			want(f, "won", won, true)
			want(f, "depth", f.depth(), 1)
			if n == 1 {
				want(f, "the next", f.tickTo("s", due.Add(time.Minute), due.Add(2*time.Minute)), true)
			}
		}
		f.wantCursor("then", due.Add(2*time.Minute))
	}},
	{"a call is recognised for as long as the broker says", func(f *fixture) {
		f.needsRetry()
		f.needsShift()
		c := broker.NewCall()
		first := f.enqueueAs(f.b, c, broker.NewJob{Task: task})
		f.pass(f.b.Caps().Retry - time.Millisecond)
		f.wantSame("enqueue", func() string { return fmt.Sprint(f.enqueueAs(f.b, c, broker.NewJob{Task: task})) }, fmt.Sprint(first))
	}},
	{"a call is recognised from any client", func(f *fixture) {
		f.needsRetry()
		c := broker.NewCall()
		b := f.open()
		first := f.enqueueAs(b, c, broker.NewJob{Task: task})
		f.must("close", b.Close())
		f.wantSame("enqueue", func() string { return fmt.Sprint(f.enqueueAs(f.open(), c, broker.NewJob{Task: task})) }, fmt.Sprint(first))
	}},
}

// wantSame makes a call again, which has to answer what the first did and to
// change nothing.
func (f *fixture) wantSame(what string, call func() string, first string) {
	f.Helper()
	before := f.dump(queue)
	want(f, "repeat of "+what, call(), first)
	f.wantDump(before)
}

func (f *fixture) enqueueAs(b broker.Broker, c broker.Call, jobs ...broker.NewJob) []broker.Enqueued {
	f.Helper()
	answers, err := b.Enqueue(f.ctx, c, queue, slices.Clone(jobs))
	f.must("enqueue", err)
	return exactly(f, "answers", answers, len(jobs))
}

func (f *fixture) claimAs(c broker.Call, r broker.ClaimRequest) []broker.Lease {
	f.Helper()
	got, err := f.b.Claim(f.ctx, c, r)
	f.must("claim", err)
	return got.Leases
}

// leaseText shows leases, in the order of their jobs.
func leaseText(leases []broker.Lease) (text string) {
	for _, l := range leases {
		text += fmt.Sprintln(l.Job.ID, l.Token, l.Job.Attempt)
	}
	return text
}

func settlementOf(l broker.Lease, kind broker.SettleKind) broker.Settlement {
	return broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: kind}
}

func (f *fixture) settleAs(c broker.Call, s broker.Settlement) broker.Settled {
	f.Helper()
	answers, err := f.b.Settle(f.ctx, c, []broker.Settlement{s})
	f.must(s.Kind.String(), err)
	return exactly(f, "answers", answers, 1)[0]
}

func (f *fixture) applyAs(c broker.Call, cmd broker.Command) broker.Step {
	f.Helper()
	step, err := f.b.Apply(f.ctx, c, cmd)
	f.must("apply", err)
	return step
}
