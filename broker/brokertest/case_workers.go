package brokertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// register sends the first heartbeat of a worker through a client.
func (f *fixture) register(b broker.Broker, w broker.Worker) {
	f.Helper()
	_, err := b.Extend(f.ctx, broker.ExtendRequest{Worker: w, TTL: time.Minute})
	f.must("extend", err)
}

// wantWorkers wants that a queue has the workers with these ids.
func (f *fixture) wantWorkers(queue string, ids ...string) []broker.Worker {
	f.Helper()
	workers, err := f.b.Workers(f.ctx, queue)
	f.must("workers", err)
	var got []string
	for _, w := range workers {
		got = append(got, w.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		f.Errorf("workers of %q are %v, want %v", queue, got, ids)
	}
	return workers
}

var workerRules = []rule{
	{"a worker is registered by its first heartbeat", func(f *fixture) {
		f.wantWorkers("")
		w := broker.Worker{ID: "w-1", Name: "mailer", Host: "h", PID: 7, Queues: []string{"a", "b"}, Tasks: []string{"t"}, Concurrency: 4, StartedAt: f.now()}
		f.register(f.open(), w)
		got := exactly(f, "workers", f.wantWorkers("", "w-1"), 1)
		f.wantTime("started at", got[0].StartedAt, w.StartedAt)
		got[0].StartedAt = w.StartedAt
		want(f, "worker", fmt.Sprintf("%+v", got[0]), fmt.Sprintf("%+v", w))
	}},
	{"another heartbeat replaces what is known of a worker", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w", Queues: []string{"a"}, Concurrency: 1})
		f.register(f.b, broker.Worker{ID: "w", Queues: []string{"b"}, Concurrency: 2})
		f.wantWorkers("a")
		want(f, "concurrency", exactly(f, "workers", f.wantWorkers("b", "w"), 1)[0].Concurrency, 2)
	}},
	{"a queue has the workers that listen to it", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w1", Queues: []string{"a"}})
		f.register(f.b, broker.Worker{ID: "w2", Queues: []string{"b", "a"}})
		f.register(f.b, broker.Worker{ID: "w3"})
		f.wantWorkers("", "w1", "w2", "w3")
		f.wantWorkers("a", "w1", "w2", "w3")
		f.wantWorkers("b", "w2", "w3")
		f.wantWorkers("c", "w3")
	}},
	{"a worker that leaves is gone", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w1"})
		f.register(f.b, broker.Worker{ID: "w2"})
		_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Worker: broker.Worker{ID: "w1"}, Leaving: true})
		f.must("extend", err)
		f.wantWorkers("", "w2")
		_, err = f.b.Extend(f.ctx, broker.ExtendRequest{Worker: broker.Worker{ID: "w1"}, Leaving: true})
		f.must("leave again", err)
	}},
	{"a worker is gone with its client", func(f *fixture) {
		other := f.open()
		f.register(other, broker.Worker{ID: "w1"})
		f.register(f.b, broker.Worker{ID: "w2"})
		f.must("close", other.Close())
		f.maintain()
		f.wantWorkers("", "w2")
	}},
	{"a heartbeat without an id registers nobody", func(f *fixture) {
		l := f.leased(plain())
		f.beat(l, time.Minute)
		f.wantWorkers("")
	}},
	{"a worker shows how many leases it holds", func(f *fixture) {
		f.addMany(5)
		f.register(f.b, broker.Worker{ID: "w1", Leases: 99})
		f.register(f.b, broker.Worker{ID: "w2"})
		l := exactly(f, "leases", f.take(f.b, broker.ClaimRequest{Worker: "w1", Max: 3}).Leases, 3)
		f.take(f.b, broker.ClaimRequest{Worker: "w2", Max: 1})
		f.end(l[0], broker.Ack)
		held := map[string]int{}
		for _, w := range f.wantWorkers("", "w1", "w2") {
			held[w.ID] = w.Leases
		}
		want(f, "held", fmt.Sprint(held), fmt.Sprint(map[string]int{"w1": 2, "w2": 1}))
	}},
}

// wantWhy wants a reason for which a job is not running.
func (f *fixture) wantWhy(r broker.Ref, reason string) broker.Explanation {
	f.Helper()
	e, err := f.b.Explain(f.ctx, r)
	f.must("explain", err)
	want(f, "reason", e.Reason, reason)
	if e.Text == "" {
		f.Errorf("no text for %s", reason)
	}
	return e
}

var explainRules = []rule{
	{"a job that is not known cannot be explained", func(f *fixture) {
		_, err := f.b.Explain(f.ctx, broker.Ref{Queue: queue, ID: broker.NewID()})
		f.wantErr("explain", err, broker.ErrNotFound)
	}},
	{"a scheduled job waits until its time", func(f *fixture) {
		ref := f.addOne(with(func(n *broker.NewJob) { n.Delay = time.Hour }))
		f.wantTime("until", f.wantWhy(ref, broker.WhyScheduled).Until, f.now().Add(time.Hour))
	}},
	{"a leased job is with its worker until its lease is over", func(f *fixture) {
		l := f.leased(plain())
		e := f.wantWhy(l.Job.Ref(), broker.WhyLeased)
		want(f, "worker", e.Worker, "w")
		f.wantTime("until", e.Until, l.ExpiresAt)
	}},
	{"a final job does not run any more", func(f *fixture) {
		for s, n := range everyState(f) {
			if s.Final() {
				f.wantWhy(broker.Ref{Queue: queue, ID: n.ID}, broker.WhyFinal)
			}
		}
	}},
	{"a job of a paused queue waits for the resume", func(f *fixture) {
		ref := f.addOne(plain())
		f.register(f.b, broker.Worker{ID: "w"})
		f.command(broker.PauseQueue)
		f.wantWhy(ref, broker.WhyPaused)
		f.command(broker.ResumeQueue)
		f.wantWhy(ref, broker.WhyNone)
	}},
	{"a job that no worker takes says so", func(f *fixture) {
		ref := f.addOne(plain())
		f.wantWhy(ref, broker.WhyNoWorker)
		f.register(f.b, broker.Worker{ID: "w1", Queues: []string{"other"}})
		f.register(f.b, broker.Worker{ID: "w2", Tasks: []string{"other"}})
		f.wantWhy(ref, broker.WhyNoWorker)
		f.register(f.b, broker.Worker{ID: "w3", Queues: []string{queue}, Tasks: []string{task}})
		f.wantWhy(ref, broker.WhyNone)
	}},
	{"a job behind others says behind how many", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		refs := f.add(queue, priorities(0, 0, 5)...)
		want(f, "behind", f.wantWhy(refs[1], broker.WhyBehind).Behind, 2)
		want(f, "behind", f.wantWhy(refs[0], broker.WhyBehind).Behind, 1)
		f.wantWhy(refs[2], broker.WhyNone)
	}},
	{"what a limit holds back is not in front of a job", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		f.set(running("slots", broker.PerQueue, 1))
		f.add(queue, priorities(5, 5, 5)...)
		f.one()
		ref := f.addOne(with(func(n *broker.NewJob) { n.Task = "u" }))
		f.wantWhy(ref, broker.WhyNone)
		want(f, "claim", f.one().Job.ID, ref.ID)
	}},
	{"what no worker takes is not in front of a job", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w", Tasks: []string{task}})
		refs := append(f.add(queue, with(func(n *broker.NewJob) { n.Task = "u" })), f.addMany(2)...)
		f.wantWhy(refs[1], broker.WhyNone)
		want(f, "behind", f.wantWhy(refs[2], broker.WhyBehind).Behind, 1)
		f.register(f.b, broker.Worker{ID: "v", Tasks: []string{"u"}})
		f.wantWhy(refs[0], broker.WhyNone) // of its own worker
		f.wantWhy(refs[1], broker.WhyNone)
	}},
	{"a job whose tenant has to wait for its turn is behind another", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		refs := append(f.flood("x", 3), f.flood("y", 1)...)
		f.one()
		f.wantWhy(refs[1], broker.WhyBehind)
		f.wantWhy(refs[3], broker.WhyNone)
		want(f, "claim", f.one().Job.ID, refs[3].ID)
		f.wantWhy(refs[1], broker.WhyNone)
	}},
	{"a store that works is healthy", func(f *fixture) {
		h, err := f.b.Health(f.ctx)
		f.must("health", err)
		want(f, "health", broker.Health{Status: h.Status, Text: h.Text}, broker.Health{Status: broker.Healthy})
	}},
	{"a broker says what it is and what it keeps", func(f *fixture) {
		c := f.b.Caps()
		if c.Broker == "" || c.Durability == "" || c.MaxBatch < 1 || c.MaxBytes < 1 || c.MaxBytes > broker.MaxCallBytes || c.Retry < 0 {
			f.Errorf("caps %+v", c)
		}
		want(f, "caps of another client", f.open().Caps(), c)
	}},
}

// wantEvent wants the next event to be this one. It waits for some seconds.
func (f *fixture) wantEvent(events <-chan broker.Event, r broker.Ref, s broker.State, reason string) {
	f.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			f.Fatalf("the events have ended")
		}
		want(f, "job of the event", broker.Ref{Queue: e.Queue, ID: e.ID}, r)
		want(f, "state of the event", e.State, s)
		want(f, "reason of the event", e.Reason, reason)
		if e.At.IsZero() {
			f.Errorf("an event without a time: %+v", e)
		}
	case <-time.After(10 * time.Second):
		f.Fatalf("no event of %v %q", s, reason)
	}
}

func (f *fixture) watch(filter broker.Filter) <-chan broker.Event {
	f.Helper()
	events, err := f.b.Watch(f.ctx, filter)
	f.must("watch", err)
	return events
}

var watchRules = []rule{
	{"a watch tells of every change, whoever makes it", func(f *fixture) {
		events := f.watch(broker.Filter{Queue: queue})
		f.b = f.open()
		ref := f.addOne(plain())
		f.wantEvent(events, ref, broker.Ready, "")
		l := f.one()
		f.wantEvent(events, ref, broker.Leased, "")
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: time.Hour})
		f.wantEvent(events, ref, broker.Scheduled, broker.ReasonRetry)
		f.command(broker.CancelJobs)
		f.wantEvent(events, ref, broker.Cancelled, broker.ReasonCancelled)
		f.command(broker.RequeueJobs)
		f.wantEvent(events, ref, broker.Ready, broker.ReasonRequeued)
		l = f.one()
		f.wantEvent(events, ref, broker.Leased, "")
		f.command(broker.CancelJobs)
		f.wantEvent(events, ref, broker.Leased, broker.ReasonCancelAsked)
		f.end(l, broker.Ack)
		f.wantEvent(events, ref, broker.Done, broker.ReasonAcked)
	}},
	{"a watch tells of expiries", func(f *fixture) {
		ref := f.addOne(plain())
		f.take(f.b, broker.ClaimRequest{TTL: tick})
		events := f.watch(broker.Filter{Queue: queue})
		f.pass(tick)
		f.wantEvent(events, ref, broker.Ready, broker.ReasonExpired)
	}},
	{"a watch tells of what its filter chooses", func(f *fixture) {
		a := with(func(n *broker.NewJob) { n.Task, n.Tenant, n.Group = "a", "x", "g" })
		b := plain()
		ra, rb := broker.Ref{Queue: queue, ID: a.ID}, broker.Ref{Queue: queue, ID: b.ID}
		all := f.watch(broker.Filter{})
		byTask, byTenant := f.watch(broker.Filter{Task: "a"}), f.watch(broker.Filter{Tenant: "x"})
		byGroup, byID := f.watch(broker.Filter{Group: "g"}), f.watch(broker.Filter{Queue: queue, IDs: []broker.ID{b.ID}})
		byReason := f.watch(broker.Filter{Reason: broker.ReasonCancelAsked})
		byState, other := f.watch(broker.Filter{States: []broker.State{broker.Leased}}), f.watch(broker.Filter{Queue: "other"})
		f.add(queue, b, a)
		rc := f.add("other", plain())[0]
		f.one()
		f.wantEvent(all, rb, broker.Ready, "")
		f.wantEvent(byTask, ra, broker.Ready, "")
		f.wantEvent(byTenant, ra, broker.Ready, "")
		f.wantEvent(byGroup, ra, broker.Ready, "")
		f.wantEvent(byID, rb, broker.Ready, "")
		f.wantEvent(byID, rb, broker.Leased, "")
		f.wantEvent(byState, rb, broker.Leased, "")
		f.wantEvent(other, rc, broker.Ready, "")
		f.command(broker.CancelJobs)
		f.wantEvent(byReason, rb, broker.Leased, broker.ReasonCancelAsked)
	}},
	{"a cancellation is told to who watches for nothing else", func(f *fixture) {
		events := f.watch(broker.Filter{Reason: broker.ReasonCancelAsked})
		f.b = f.open()
		ref := f.addOne(plain())
		f.one()
		f.command(broker.CancelJobs)
		f.wantEvent(events, ref, broker.Leased, broker.ReasonCancelAsked)
	}},
	{"a watch of settings is told of each change within a second, whoever makes it, and of nothing else", func(f *fixture) {
		all, one := f.watch(broker.Filter{Settings: true}), f.watch(broker.Filter{Settings: true, Queue: queue, Task: "any"})
		elsewhere, jobs := f.watch(broker.Filter{Settings: true, Queue: "other"}), f.watch(broker.Filter{})
		watching := f.b
		f.b = f.open()
		s := schedule("s", "* * * * *")
		is := func(events <-chan broker.Event, set broker.Setting) {
			f.Helper()
			f.wantSettingEvent(events, queue, nameOf(&set))
		}
		f.set(weight("x", 2))
		is(all, weight("x", 0))
		ref := f.addOne(plain())
		f.declare("p", s)
		is(all, s)
		f.declare("p", s, weight("x", 3))
		is(all, weight("x", 0))
		f.declare("p", s, weight("x", 3)) // as before: no change
		f.pause("s")
		is(all, s)
		f.pause("s")
		f.resume("s")
		is(all, s)
		f.tickTo("s", time.Time{}, f.now().Add(time.Hour))
		f.clear(weight("x", 0))
		is(all, weight("x", 0))
		f.b = watching
		f.declare("p", weight("x", 3))
		is(all, s)
		for _, set := range []broker.Setting{weight("x", 0), s, weight("x", 0), s, s, weight("x", 0), s} {
			is(one, set)
		}
		f.must("elsewhere", f.b.Configure(f.ctx, broker.NewCall(), "other", broker.Change{Set: []broker.Setting{ageing(time.Second)}}))
		f.wantSettingEvent(elsewhere, "other", broker.SettingName{Kind: broker.AgeingSetting})
		f.wantSettingEvent(all, "other", broker.SettingName{Kind: broker.AgeingSetting})
		f.wantEvent(jobs, ref, broker.Ready, "")
		f.idle()
		for i, events := range []<-chan broker.Event{all, one, elsewhere, jobs} {
			select {
			case e := <-events:
				f.Errorf("watch %d is told of %+v", i, e)
			default:
			}
		}
	}},
	{"a filter of a reason chooses no jobs", func(f *fixture) {
		f.addOne(plain())
		filter := broker.Filter{Queue: queue, Reason: broker.ReasonAcked}
		_, err := f.b.Apply(f.ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: filter})
		f.wantErr("apply", err, broker.ErrInvalid)
		filter.States = []broker.State{broker.Ready}
		_, err = f.b.List(f.ctx, filter, "", 1)
		f.wantErr("list", err, broker.ErrInvalid)
		want(f, "ready", f.count(queue, task).Ready, 1)
	}},
	{"a filter of settings chooses no jobs", func(f *fixture) {
		f.addOne(plain())
		filter := broker.Filter{Queue: queue, Settings: true}
		_, err := f.b.Apply(f.ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: filter})
		f.wantErr("apply", err, broker.ErrInvalid)
		filter.States = []broker.State{broker.Ready}
		_, err = f.b.List(f.ctx, filter, "", 1)
		f.wantErr("list", err, broker.ErrInvalid)
		want(f, "ready", f.count(queue, task).Ready, 1)
	}},
	{"a watch ends with its context", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		events, err := f.b.Watch(ctx, broker.Filter{})
		f.must("watch", err)
		cancel()
		f.wantClosed(events)
	}},
	{"a watch ends with its client", func(f *fixture) {
		other := f.open()
		events, err := other.Watch(f.ctx, broker.Filter{})
		f.must("watch", err)
		f.must("close", other.Close())
		f.wantClosed(events)
	}},
	{"a reader who reads nothing holds up nobody", func(f *fixture) {
		f.watch(broker.Filter{})
		for range 5 {
			f.addMany(200)
		}
		want(f, "ready", f.count(queue, task).Ready, 1000)
	}},
}

// wantSettingEvent wants the next event to be of a setting, within a second.
func (f *fixture) wantSettingEvent(events <-chan broker.Event, queue string, name broker.SettingName) {
	f.Helper()
	select {
	case e := <-events:
		if e.Queue != queue || e.Setting == nil || *e.Setting != name || !e.ID.IsZero() || e.State != 0 {
			f.Errorf("event %+v %v, want one of %v in %s", e, e.Setting, name, queue)
		}
		f.wantTime("time of the event", e.At, f.now())
	case <-time.After(time.Second):
		f.Errorf("no event of %v in %s", name, queue)
	}
}

// wantClosed wants that the events end.
func (f *fixture) wantClosed(events <-chan broker.Event) {
	f.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		case <-timeout:
			f.Fatalf("the events do not end")
		}
	}
}
