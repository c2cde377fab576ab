package brokertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// wantHolders wants an explanation to name exactly these jobs.
func (f *fixture) wantHolders(e broker.Explanation, holders ...broker.Ref) {
	f.Helper()
	byID := func(refs []broker.Ref) []string {
		var ids []string
		for _, r := range refs {
			ids = append(ids, fmt.Sprint(r))
		}
		return slices.Sorted(slices.Values(ids))
	}
	if got, wanted := byID(e.Holders), byID(holders); !slices.Equal(got, wanted) {
		f.Errorf("holders %v, want %v", got, wanted)
	}
}

var reasonRules = []rule{
	{"a job over a limit says which, and who holds it", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		f.set(running("slots", broker.PerTenant, 2))
		refs := f.add(queue, of("x"), of("x"), of("x"), of("x"), of("y"))
		leases := exactly(f, "leases", f.claim(3), 3)
		e := f.wantWhy(refs[2], broker.WhyLimit)
		want(f, "limit", e.Limit, "slots")
		f.wantHolders(e, refs[0], refs[1])
		f.wantHolders(f.wantWhy(refs[3], broker.WhyLimit), refs[0], refs[1])
		for _, l := range leases {
			f.end(l, broker.Ack)
		}
		f.wantWhy(refs[2], broker.WhyNone)
		f.wantWhy(refs[3], broker.WhyBehind)
	}},
	{"no more than ten holders are named", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		f.set(running("slots", broker.PerQueue, 15))
		refs := f.addMany(16)
		f.all(15)
		e := f.wantWhy(refs[15], broker.WhyLimit)
		want(f, "holders", len(e.Holders), 10)
		for _, r := range e.Holders {
			if n := place(refs, r.ID); n < 0 || n == 15 {
				f.Errorf("holder %v", r)
			}
		}
	}},
	{"a job of an ordered group says who holds that", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		refs := f.add(queue, ordered("g"), ordered("g"))
		l := f.one()
		f.wantHolders(f.wantWhy(refs[1], broker.WhyLimit), refs[0])
		f.settle(l, broker.Settlement{Kind: broker.Nack, Delay: tick})
		f.wantHolders(f.wantWhy(refs[1], broker.WhyLimit), refs[0])
		f.wantWhy(refs[0], broker.WhyScheduled)
		f.advance(tick)
		f.wantHolders(f.wantWhy(refs[1], broker.WhyLimit), refs[0])
		f.wantWhy(refs[0], broker.WhyNone)
		f.end(f.one(), broker.Ack)
		f.wantWhy(refs[1], broker.WhyNone)
	}},
	{"a job over a rate says until when", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		f.fresh(rated("speed", broker.PerTenant, 4, time.Minute, 2))
		refs := f.add(queue, of("x"), of("x"), of("x"), of("y"), of("x"))
		f.wantWhy(refs[0], broker.WhyNone)
		f.hold(3)
		for _, i := range []int{2, 4} {
			e := f.wantWhy(refs[i], broker.WhyRate)
			want(f, "limit", e.Limit, "speed")
			f.wantTime("until", e.Until, f.now().Add(15*time.Second))
		}
		f.advance(5 * time.Second)
		f.wantTime("until", f.wantWhy(refs[2], broker.WhyRate).Until, f.now().Add(10*time.Second))
		f.advance(10 * time.Second)
		f.wantWhy(refs[2], broker.WhyNone)
		f.wantWhy(refs[4], broker.WhyBehind)
	}},
	{"a completion job says that it waits for its batch", func(f *fixture) {
		refs := f.add(queue, batch(2)...)
		f.wantWhy(refs[0], broker.WhyBatch)
		f.register(f.b, broker.Worker{ID: "w"})
		f.command(broker.PauseQueue)
		f.wantWhy(refs[0], broker.WhyBatch)
		f.command(broker.ResumeQueue)
		for _, l := range f.all(2) {
			f.end(l, broker.Ack)
		}
		f.wantWhy(refs[0], broker.WhyNone)
	}},
	{"a pause and the want of a worker are told before a limit", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1))
		refs := f.addMany(2)
		f.one()
		f.wantWhy(refs[1], broker.WhyNoWorker)
		f.register(f.b, broker.Worker{ID: "w"})
		f.wantWhy(refs[1], broker.WhyLimit)
		f.command(broker.PauseQueue)
		f.wantWhy(refs[1], broker.WhyPaused)
	}},
	{"a limit on running jobs is told before a rate", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		f.fresh(running("slots", broker.PerQueue, 1), rated("speed", broker.PerQueue, 1, time.Minute, 1))
		refs := f.addMany(2)
		l := f.holdOne()
		f.wantWhy(refs[1], broker.WhyLimit)
		f.end(l, broker.Ack)
		f.wantWhy(refs[1], broker.WhyRate)
	}},
	{"a limit that was lifted is no reason", func(f *fixture) {
		f.register(f.b, broker.Worker{ID: "w"})
		f.set(running("slots", broker.PerQueue, 1))
		refs := f.addMany(2)
		f.one()
		f.wantWhy(refs[1], broker.WhyLimit)
		f.clear(running("slots", "", 1))
		f.wantWhy(refs[1], broker.WhyNone)
	}},
}
