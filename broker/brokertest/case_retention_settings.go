package brokertest

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// settled is how a job of a retention case ends.
type settled struct {
	what   string
	end    broker.Settlement
	kept   func(r broker.Retention) time.Duration // what the setting says of it
	unless time.Duration                          // what holds when the setting says 0; -1 for ever
}

var settleds = []settled{
	{"done", broker.Settlement{Kind: broker.Ack}, func(r broker.Retention) time.Duration { return r.Done }, 0},
	{"done with a result", broker.Settlement{Kind: broker.Ack, Result: []byte("r")}, func(r broker.Retention) time.Duration { return r.Done }, broker.DefaultRetain},
	{"cancelled", broker.Settlement{Kind: broker.Cancel}, func(r broker.Retention) time.Duration { return r.Cancelled }, broker.DefaultRetain},
	{"dead", broker.Settlement{Kind: broker.Bury}, func(r broker.Retention) time.Duration { return r.Dead }, -1},
}

var retentionSettingRules = []rule{
	{"a setting says how long finished jobs are kept that say nothing themselves", func(f *fixture) {
		f.needsShift()
		type kept struct {
			ref  broker.Ref
			what string
			span time.Duration
		}
		var all []kept
		for _, r := range []broker.Retention{
			{}, {Done: time.Minute}, {Dead: time.Minute}, {Cancelled: time.Minute}, {Done: -1, Dead: -1, Cancelled: -1},
			{Done: 5 * time.Hour, Dead: 6 * time.Hour, Cancelled: 7 * time.Hour},
		} {
			f.set(retention("", r))
			for _, s := range settleds {
				l := f.leased(plain())
				f.settle(l, s.end)
				k := kept{l.Job.Ref(), fmt.Sprintf("%s with %+v", s.what, r), s.kept(r)}
				if k.span == 0 {
					k.span = s.unless
				} else {
					k.span = max(k.span, 0)
				}
				all = append(all, k)
			}
		}
		passed := time.Duration(0)
		for _, step := range []time.Duration{0, time.Minute - time.Second, time.Second, time.Hour, 4 * time.Hour, time.Hour, time.Hour, 1000 * time.Hour} {
			f.pass(step)
			passed += step
			for _, k := range all {
				if got, still := f.get(k.ref).State != 0, k.span < 0 || k.span > passed; got != still {
					f.Errorf("%s, after %v: kept %v, want %v", k.what, passed, got, still)
				}
			}
		}
	}},
	{"a job's own retention goes before the setting", func(f *fixture) {
		f.needsShift()
		f.set(retention("", broker.Retention{Done: time.Hour, Dead: time.Minute, Cancelled: time.Hour}))
		var short, none, dead broker.Ref
		for _, c := range []struct {
			ref    *broker.Ref
			retain time.Duration
			kind   broker.SettleKind
		}{{&short, time.Minute, broker.Ack}, {&none, -1, broker.Cancel}, {&dead, time.Minute, broker.Bury}} {
			l := f.leased(with(func(n *broker.NewJob) { n.Retain = c.retain }))
			f.end(l, c.kind)
			*c.ref = l.Job.Ref()
		}
		f.wantGone(none)
		f.wantState(short, broker.Done, broker.ReasonAcked)
		f.pass(time.Minute)
		f.wantGone(short)
		f.wantState(dead, broker.Dead, broker.ReasonBuried)
	}},
	{"a task's setting goes before its queue's", func(f *fixture) {
		f.needsShift()
		f.set(retention("", broker.Retention{Done: time.Hour, Dead: time.Hour}), retention("mail", broker.Retention{Done: time.Minute}))
		mail, other := f.leased(with(func(n *broker.NewJob) { n.Task = "mail" })), f.leased(plain())
		f.end(mail, broker.Ack)
		f.end(other, broker.Ack)
		dead := f.leased(with(func(n *broker.NewJob) { n.Task = "mail" }))
		f.end(dead, broker.Bury)
		f.pass(time.Minute)
		f.wantGone(mail.Job.Ref())
		f.wantState(other.Job.Ref(), broker.Done, broker.ReasonAcked)
		f.pass(time.Hour)
		f.wantGone(other.Job.Ref())
		f.wantState(dead.Job.Ref(), broker.Dead, broker.ReasonBuried)
	}},
	{"what holds is what was set when the job ended", func(f *fixture) {
		f.needsShift()
		early := f.leased(plain())
		f.end(early, broker.Cancel)
		waiting := f.leased(plain())
		f.set(retention("", broker.Retention{Cancelled: time.Minute}))
		f.end(waiting, broker.Cancel)
		f.clear(retention("", broker.Retention{}))
		f.pass(time.Minute)
		f.wantState(early.Job.Ref(), broker.Cancelled, broker.ReasonCancelled)
		f.wantGone(waiting.Job.Ref())
		f.pass(broker.DefaultRetain)
		f.wantGone(early.Job.Ref())
	}},
	{"a requeued job is kept as is set when it ends again", func(f *fixture) {
		f.needsShift()
		f.set(retention("", broker.Retention{Dead: time.Minute}))
		l := f.leased(plain())
		f.end(l, broker.Bury)
		f.command(broker.RequeueJobs)
		f.pass(2 * time.Minute)
		f.wantState(l.Job.Ref(), broker.Ready, broker.ReasonRequeued)
		f.clear(retention("", broker.Retention{}))
		f.end(f.one(), broker.Bury)
		f.pass(100 * time.Hour)
		f.wantState(l.Job.Ref(), broker.Dead, broker.ReasonBuried)
	}},
	{"dead letters that go by their retention stay in the totals", func(f *fixture) {
		f.needsShift()
		f.set(retention("", broker.Retention{Dead: time.Minute}))
		for range 20 {
			f.end(f.leased(plain()), broker.Bury)
		}
		f.pass(time.Minute)
		c := f.count(queue, task)
		want(f, "dead", c.Dead, 0)
		want(f, "total died", c.Totals.Died, 20)
		want(f, "total deleted", c.Totals.Deleted, 0)
	}},
	{"a job shows the retention that it was given, not the setting", func(f *fixture) {
		f.set(retention("", broker.Retention{Cancelled: time.Hour}))
		l := f.leased(plain())
		f.end(l, broker.Cancel)
		want(f, "retention", f.get(l.Job.Ref()).Retain, 0)
	}},
	{"what a setting keeps outlives the last client", func(f *fixture) {
		f.needsShift()
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.set(retention("", broker.Retention{Done: time.Hour, Dead: time.Hour}))
		done, dead := f.leased(plain()), f.leased(with(func(n *broker.NewJob) { n.Priority = 1 }))
		f.end(done, broker.Ack)
		f.end(dead, broker.Bury)
		f.clear(retention("", broker.Retention{}))
		f.must("close", f.b.Close())
		f.b = f.open()
		f.pass(time.Hour - time.Second)
		f.wantState(done.Job.Ref(), broker.Done, broker.ReasonAcked)
		f.wantState(dead.Job.Ref(), broker.Dead, broker.ReasonBuried)
		f.pass(time.Second)
		f.wantGone(done.Job.Ref())
		f.wantGone(dead.Job.Ref())
	}},
}
