package brokertest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
)

// neverFits begins what is said of a call that is larger than the capacity.
const neverFits = "more than the capacity"

// wantFull wants an enqueue to be refused whole because of the usual queue's
// capacity, or that of a tenant, and to be told to try again unless it neverFits.
func (f *fixture) wantFull(what, tenant string, jobs ...broker.NewJob) {
	f.Helper()
	before := f.depth()
	_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
	f.wantErr(what, err, broker.ErrFull)
	var full *broker.FullError
	if !errors.As(err, &full) {
		f.Fatalf("%s: error %v is no FullError", what, err)
	}
	if full.Queue != queue || full.Tenant != tenant || (full.RetryAfter == 0) != strings.HasPrefix(what, neverFits) {
		f.Errorf("%s: error of queue %q and tenant %q, again after %v", what, full.Queue, full.Tenant, full.RetryAfter)
	}
	want(f, what+": depth", f.depth(), before)
}

// depth is what the usual queue's capacity counts.
func (f *fixture) depth() int64 {
	f.Helper()
	counts, err := f.b.Counts(f.ctx, queue)
	f.must("counts", err)
	if len(counts) == 0 {
		return 0
	}
	return counts[0].Depth
}

// sized is a plain job with a payload of n bytes.
func sized(n int) broker.NewJob {
	return with(func(j *broker.NewJob) { j.Payload = bytes.Repeat([]byte("x"), n) })
}

var capacityRules = []rule{
	{"an enqueue over the capacity is refused whole", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 3}))
		f.addMany(2)
		a, b := plain(), plain()
		f.wantFull("two where one fits", "", a, b)
		f.wantGone(broker.Ref{Queue: queue, ID: a.ID})
		f.addMany(1)
		f.wantFull("one more", "", b)
		f.add("other", plain(), plain(), plain(), plain())
		want(f, "total enqueued", f.count(queue, task).Totals.Enqueued, 3)
	}},
	{"a capacity counts what is scheduled, ready and leased, and nothing that is final", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 3}))
		f.add(queue, with(func(n *broker.NewJob) { n.Delay = time.Hour }), plain(), plain())
		l := f.one()
		f.wantFull("three", "", plain())
		f.settle(l, broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
		f.addMany(1)
		f.wantFull("three again", "", plain())
		f.end(f.one(), broker.Bury)
		f.addMany(1)
		f.end(f.one(), broker.Cancel)
		f.addMany(1)
		f.wantFull("three once more", "", plain())
		f.command(broker.DeleteJobs)
		f.addMany(3)
	}},
	{"what is there already needs no room", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 2}))
		n := keyed("k", broker.HoldUntilFinal, 0)
		f.add(queue, n, plain())
		want(f, "a known id", f.enqueue(queue, n)[0].Existing, true)
		f.wantHeld("a held key", n, n.ID)
		replace := n
		replace.ID, replace.KeyRepeat, replace.Payload = broker.NewID(), broker.RepeatReplace, []byte("new")
		want(f, "a replaced payload", f.enqueue(queue, replace)[0].ID, n.ID)
		f.command(broker.DeleteJobs)
		a, b := keyed("k", broker.HoldUntilFinal, 0), keyed("k", broker.HoldUntilFinal, 0)
		f.enqueue(queue, a, a, b, plain())
		f.wantFull("one more", "", n, plain())
	}},
	{"a tenant's capacity counts each tenant by itself", func(f *fixture) {
		f.set(capacity(broker.TenantCapacity, broker.Capacity{Jobs: 2}))
		f.add(queue, of("x"), of("x"), of("y"), of(""))
		f.wantFull("a third", "x", of("x"))
		f.wantFull("a third among others", "y", of("z"), of("y"), of(""), of("y"))
		f.add(queue, of("z"), of("y"), of(""))
		f.end(f.one(), broker.Ack)
		f.add(queue, of("x"))
	}},
	{"the capacities of a queue and of its tenants hold together", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 3}), capacity(broker.TenantCapacity, broker.Capacity{Jobs: 2}))
		f.add(queue, of("x"), of("x"))
		f.wantFull("the tenant's", "x", of("x"))
		f.add(queue, of("y"))
		f.wantFull("the queue's", "", of("z"))
	}},
	{"bytes are counted as well", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Bytes: 50_000}))
		f.add(queue, sized(20_000), sized(20_000))
		f.wantFull("too many bytes", "", sized(20_000))
		f.addOne(sized(2_000))
		f.end(f.one(), broker.Ack)
		f.addOne(sized(20_000))
		headers := plain()
		headers.Headers = map[string]string{"h": string(bytes.Repeat([]byte("x"), broker.MaxHeaderBytes-1))}
		f.wantFull("too many bytes of headers", "", headers)
		f.set(capacity("", broker.Capacity{Jobs: 1000}), capacity(broker.TenantCapacity, broker.Capacity{Bytes: 50_000}))
		f.wantFull("too many bytes of a tenant", "", sized(20_000))
		f.addOne(with(func(n *broker.NewJob) { n.Tenant, n.Payload = "x", sized(40_000).Payload }))
	}},
	{"a capacity below what is there drops nothing, and refuses until there is room", func(f *fixture) {
		f.addMany(5)
		f.set(capacity("", broker.Capacity{Jobs: 3}))
		want(f, "depth", f.depth(), 5)
		for range 3 {
			f.wantFull("above", "", plain())
			f.end(f.one(), broker.Ack)
		}
		f.addMany(1)
		f.wantFull("at the capacity", "", plain())
		f.clear(capacity("", broker.Capacity{}))
		f.addMany(5)
	}},
	{"settlements, follow-ups, requeues and ticks go on in a full queue", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 2}), schedule("s", "@hourly"))
		due := f.now().Add(-time.Hour)
		want(f, "first tick", f.tickTo("s", time.Time{}, due), true)
		f.addMany(2)
		l := f.one()
		f.end(l, broker.Bury)
		f.addMany(1)
		want(f, "requeued", f.command(broker.RequeueJobs), 1)
		want(f, "depth after the requeue", f.depth(), 3)
		var follow []broker.FollowUp
		for range 3 {
			follow = append(follow, broker.FollowUp{Queue: queue, Job: plain()})
		}
		f.settle(f.one(), broker.Settlement{Kind: broker.Ack, FollowUps: follow})
		want(f, "depth after the follow-ups", f.depth(), 5)
		want(f, "tick", f.tickTo("s", due, due.Add(2*time.Hour), plain()), true)
		want(f, "depth after the tick", f.depth(), 6)
		f.end(f.one(), broker.Nack)
		f.wantFull("one more", "", plain())
	}},
	{"a full queue that drops the oldest takes the longest-waiting of the lowest priority", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 4, DropOldest: true}))
		refs := f.add(queue, priorities(1, 0, 5, 0)...)
		refs = append(refs, f.add(queue, priorities(0)...)...)
		j := f.wantState(refs[1], broker.Cancelled, broker.ReasonDropped)
		f.wantTime("finished at", j.FinishedAt, f.now())
		want(f, "total cancelled", f.count(queue, task).Totals.Cancelled, 1)
		refs = append(refs, f.add(queue, priorities(0, 0, 0)...)...)
		for _, i := range []int{3, 4, 0} {
			f.wantState(refs[i], broker.Cancelled, broker.ReasonDropped)
		}
		want(f, "depth", f.depth(), 4)
		f.wantOrder("claims", leaseIDs(f.claim(10)), refs, 2, 5, 6, 7)
	}},
	{"what waits longest is dropped by its place, not by its id or its enqueue", func(f *fixture) {
		refs := f.add(queue, plain(), with(func(n *broker.NewJob) { n.Delay = tick }), plain())
		f.end(f.one(), broker.Nack) // to the end
		f.advance(tick)
		refs = append(refs, f.addMany(1)...)
		f.set(capacity("", broker.Capacity{Jobs: 4, DropOldest: true}))
		for _, i := range []int{2, 0, 1, 3} {
			f.addOne(with(func(n *broker.NewJob) { n.Priority = 1 }))
			f.wantState(refs[i], broker.Cancelled, broker.ReasonDropped)
		}
	}},
	{"a job that holds its ordered group waits longer than the rest of the group, for a tenant's capacity as for the queue's", func(f *fixture) {
		ordered := func(n *broker.NewJob) { n.Group, n.Ordered = "g", true }
		for _, name := range []string{"", broker.TenantCapacity} {
			refs := f.add(queue, with(ordered), with(ordered))
			f.advance(tick)
			f.end(f.one(), broker.Nack) // to the end, and first of its group
			f.set(capacity(name, broker.Capacity{Jobs: 2, DropOldest: true}))
			f.addMany(1)
			f.wantState(refs[0], broker.Cancelled, broker.ReasonDropped)
			f.wantState(refs[1], broker.Ready, "")
			f.addMany(1)
			f.wantState(refs[1], broker.Cancelled, broker.ReasonDropped)
			f.clear(capacity(name, broker.Capacity{}))
			f.command(broker.DeleteJobs)
		}
	}},
	{"only what is ready is dropped, and nothing when that is not enough", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 4, DropOldest: true}))
		f.addMany(2)
		f.all(2)
		f.add(queue, with(func(n *broker.NewJob) { n.Delay = time.Hour }), plain())
		f.wantFull("two where one can go", "", plain(), plain())
		want(f, "ready", f.count(queue, task).Ready, 1)
		want(f, "cancelled", f.count(queue, task).Cancelled, 0)
		f.addMany(1)
		want(f, "cancelled", f.count(queue, task).Cancelled, 1)
		f.wantFull(neverFits, "", plain(), plain(), plain(), plain(), plain())
	}},
	{"a full tenant drops its own jobs alone", func(f *fixture) {
		f.set(capacity(broker.TenantCapacity, broker.Capacity{Jobs: 2, DropOldest: true}))
		refs := f.add(queue, of("y"), of("x"), of("x"), of("y"))
		refs = append(refs, f.add(queue, of("x"), of("z"))...)
		f.wantState(refs[1], broker.Cancelled, broker.ReasonDropped)
		want(f, "depth", f.depth(), 5)
		refs = append(refs, f.add(queue, of("x"), of("y"))...)
		f.wantState(refs[2], broker.Cancelled, broker.ReasonDropped)
		f.wantState(refs[0], broker.Cancelled, broker.ReasonDropped)
		f.wantFull(neverFits, "x", of("x"), of("x"), of("x"))
	}},
	{"enough is dropped for the bytes", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Bytes: 50_000, DropOldest: true}))
		refs := f.add(queue, sized(10), sized(20_000), sized(20_000))
		f.addOne(sized(40_000))
		for _, r := range refs {
			f.wantState(r, broker.Cancelled, broker.ReasonDropped)
		}
		f.wantFull(neverFits, "", sized(60_000))
		want(f, "depth", f.depth(), 1)
	}},
	{"a dropped job is told to whoever waits for it, and gives back its key", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 1, DropOldest: true}))
		n := keyed("k", broker.HoldUntilFinal, 0)
		ref := f.addOne(n)
		w := f.awaiting(f.ctx, f.open(), ref)
		events := f.watch(broker.Filter{States: []broker.State{broker.Cancelled}})
		f.addMany(1)
		w.done()
		f.must("await", w.err)
		want(f, "state", exactly(f, "jobs", w.jobs, 1)[0].State, broker.Cancelled)
		f.wantEvent(events, ref, broker.Cancelled, broker.ReasonDropped)
		f.wantFree("dropped", n)
	}},
	{"a dropped job is kept as its retention says", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 1, DropOldest: true}))
		ref := f.addOne(with(func(n *broker.NewJob) { n.Retain = -1 }))
		second := f.addMany(1)[0]
		f.wantGone(ref)
		f.addMany(1)
		f.wantState(second, broker.Cancelled, broker.ReasonDropped)
		want(f, "requeued", f.command(broker.RequeueJobs), 1)
		want(f, "depth", f.depth(), 2)
	}},
	{"the counts show depth, bytes and the most that there ever was", func(f *fixture) {
		row := func() string {
			counts, err := f.b.Counts(f.ctx, queue)
			f.must("counts", err)
			if len(counts) == 0 {
				return "no row"
			}
			for _, c := range counts[1:] {
				if c.Depth != counts[0].Depth || c.HighWater != counts[0].HighWater || c.Bytes != counts[0].Bytes {
					f.Errorf("rows of one queue differ: %+v", counts)
				}
			}
			return fmt.Sprint(counts[0].Depth, " ", counts[0].HighWater)
		}
		f.add(queue, sized(100), with(func(n *broker.NewJob) { n.Task, n.Delay = "u", time.Hour }), plain())
		want(f, "at first", row(), "3 3")
		small := f.count(queue, task).Bytes
		big := f.addOne(sized(10_000))
		want(f, "bytes of one more", f.count(queue, task).Bytes >= small+10_000, true)
		f.command(broker.DeleteJobs, big.ID)
		want(f, "bytes when it is gone", f.count(queue, task).Bytes, small)
		want(f, "then", row(), "3 4")
		f.all(2)
		want(f, "when claimed", row(), "3 4")
		f.command(broker.CancelJobs)
		want(f, "when cancelled", row(), "2 4")
		for _, j := range f.in(broker.Leased) {
			f.end(leaseOf(j), broker.Ack)
		}
		want(f, "at last", row(), "0 4")
		want(f, "bytes at last", f.count(queue, task).Bytes, 0)
		f.addMany(5)
		want(f, "the next flood", row(), "5 5")
	}},
	{"depth and its mark outlive the last client", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.add(queue, sized(1000), sized(500), plain())
		f.end(f.one(), broker.Ack)
		before := f.count(queue, task)
		f.must("close", f.b.Close())
		f.b = f.open()
		want(f, "numbers", f.count(queue, task), before)
		f.set(capacity("", broker.Capacity{Jobs: 2}))
		f.must("close", f.b.Close())
		f.b = f.open()
		f.wantFull("two are there", "", plain())
	}},
	{"several clients never fill a queue beyond its capacity", func(f *fixture) {
		f.set(capacity("", broker.Capacity{Jobs: 25}))
		var added atomic.Int64
		f.each(4, func(n int, b broker.Broker) {
			for range 20 {
				_, err := b.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{plain()})
				switch {
				case err == nil:
					added.Add(1)
				case !errors.Is(err, broker.ErrFull):
					f.Errorf("enqueue: %v", err)
				}
			}
		})
		want(f, "added", added.Load(), 25)
		want(f, "depth", f.depth(), 25)
		want(f, "high-water mark", f.count(queue, task).HighWater, 25)
	}},
}
