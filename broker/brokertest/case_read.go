package brokertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

var countRules = []rule{
	{"the numbers follow a job through its life", func(f *fixture) {
		f.add(queue, plain(), with(func(n *broker.NewJob) { n.Delay = tick }), with(func(n *broker.NewJob) { n.Task = "u" }))
		want(f, "at first", states(f.count(queue, task)), broker.Count{Queue: queue, Task: task, Scheduled: 1, Ready: 1, Totals: broker.Totals{Enqueued: 2}})
		f.advance(tick)
		want(f, "when due", f.count(queue, task).Ready, 2)
		leases := f.all(3)
		want(f, "when claimed", states(f.count(queue, task)), broker.Count{Queue: queue, Task: task, Leased: 2, Totals: broker.Totals{Enqueued: 2, Claimed: 2}})
		f.settle(leases[0], broker.Settlement{Kind: broker.Ack, Result: []byte("r")})
		for _, l := range leases[1:] {
			f.end(l, broker.Bury)
		}
		want(f, "at last", states(f.count(queue, task)), broker.Count{Queue: queue, Task: task, Done: 1, Dead: 1, Totals: broker.Totals{Enqueued: 2, Claimed: 2, Acked: 1, Failed: 1, Died: 1}})
		want(f, "of the other task", f.count(queue, "u").Totals, broker.Totals{Enqueued: 1, Claimed: 1, Failed: 1, Died: 1})
		f.command(broker.RequeueJobs)
		f.command(broker.DeleteJobs)
		want(f, "when all is gone", states(f.count(queue, task)), broker.Count{Queue: queue, Task: task, Totals: broker.Totals{Enqueued: 2, Claimed: 2, Acked: 1, Failed: 1, Died: 1, Deleted: 2}})
	}},
	{"the numbers of every way to end a run", func(f *fixture) {
		for kind := broker.Ack; kind <= broker.Cancel; kind++ {
			f.settle(f.leased(plain()), broker.Settlement{Kind: kind, Delay: time.Hour})
			f.command(broker.CancelJobs)
		}
		want(f, "totals", f.count(queue, task).Totals, broker.Totals{Enqueued: 6, Claimed: 6, Acked: 1, Failed: 2, Died: 1, Cancelled: 4})
	}},
	{"counts are sorted by queue and task, and can be had for one queue", func(f *fixture) {
		for _, q := range []string{"b", "a", "a-b", "a.b", "B"} {
			f.add(q, tasks("y", "x", "x2")...)
		}
		counts, err := f.b.Counts(f.ctx, "")
		f.must("counts", err)
		var got []string
		for _, c := range counts {
			got = append(got, c.Queue+" "+c.Task)
		}
		var wanted []string
		for _, q := range []string{"B", "a", "a-b", "a.b", "b"} {
			wanted = append(wanted, q+" x", q+" x2", q+" y")
		}
		if !slices.Equal(got, wanted) {
			f.Errorf("rows %v, want %v", got, wanted)
		}
		counts, err = f.b.Counts(f.ctx, "a")
		f.must("counts", err)
		want(f, "rows of one queue", len(counts), 3)
		counts, err = f.b.Counts(f.ctx, "nobody")
		f.must("counts", err)
		want(f, "rows of no queue", len(counts), 0)
	}},
	{"every client counts the same", func(f *fixture) {
		other := f.open()
		f.addMany(5)
		f.claim(2)
		counts, err := other.Counts(f.ctx, queue)
		f.must("counts", err)
		exactly(f, "rows", counts, 1)
		want(f, "numbers", counts[0], f.count(queue, task))
	}},
}

// states is a count without what the capacity of its queue counts.
func states(c broker.Count) broker.Count {
	c.Depth, c.HighWater, c.Bytes = 0, 0, 0
	return c
}

// filterCase is a filter and the jobs, by their numbers, that it chooses.
type filterCase struct {
	name   string
	filter broker.Filter
	chosen []int
}

// filterCases makes six dead letters and filters over them.
func filterCases(f *fixture) []filterCase {
	f.Helper()
	jobs := []broker.NewJob{
		{Task: "a", Tenant: "x", Group: "g", Key: "k0"}, {Task: "a", Tenant: "y"}, {Task: "b", Tenant: "x"},
		{Task: "a", Tenant: "x", Key: "k3"}, {Task: "b", Group: "g"}, {Task: "a"},
	}
	var refs []broker.Ref
	for i, n := range jobs {
		n.ID = broker.NewID()
		l := f.leased(n)
		refs = append(refs, l.Job.Ref())
		f.settle(l, broker.Settlement{Kind: broker.Bury, Error: fmt.Sprintf("error %d: 100%% of [x].*", i%3)})
	}
	q := broker.Filter{Queue: queue}
	filter := func(change func(f *broker.Filter)) broker.Filter { c := q; change(&c); return c }
	return []filterCase{
		{"all", q, []int{0, 1, 2, 3, 4, 5}},
		{"by id", filter(func(c *broker.Filter) { c.IDs = []broker.ID{refs[4].ID, refs[1].ID, broker.NewID()} }), []int{1, 4}},
		{"by task", filter(func(c *broker.Filter) { c.Task = "a" }), []int{0, 1, 3, 5}},
		{"by a task that no job has", filter(func(c *broker.Filter) { c.Task = "c" }), nil},
		{"by tenant", filter(func(c *broker.Filter) { c.Tenant = "x" }), []int{0, 2, 3}},
		{"by group", filter(func(c *broker.Filter) { c.Group = "g" }), []int{0, 4}},
		{"by key", filter(func(c *broker.Filter) { c.Key = "k3" }), []int{3}},
		{"by a part of the error", filter(func(c *broker.Filter) { c.ErrorContains = "error 1" }), []int{1, 4}},
		{"by a part that looks like a pattern", filter(func(c *broker.Filter) { c.ErrorContains = "% of [x].*" }), []int{0, 1, 2, 3, 4, 5}},
		{"by a part that is a pattern", filter(func(c *broker.Filter) { c.ErrorContains = "error .*" }), nil},
		{"by task and tenant", filter(func(c *broker.Filter) { c.Task, c.Tenant = "a", "x" }), []int{0, 3}},
		{"by all at once", filter(func(c *broker.Filter) {
			c.IDs, c.Task, c.Tenant, c.Group, c.Key, c.ErrorContains = []broker.ID{refs[0].ID}, "a", "x", "g", "k0", "0"
		}), []int{0}},
		{"by an age that none has", filter(func(c *broker.Filter) { c.OlderThan = time.Hour }), nil},
		{"by an age that all have", filter(func(c *broker.Filter) { c.NewerThan = time.Hour }), []int{0, 1, 2, 3, 4, 5}},
	}
}

var listRules = []rule{
	{"every state is listed in the order in which it was entered", func(f *fixture) {
		f.addMany(5)
		leases := f.all(5)
		refs := make([]broker.Ref, 5)
		for i, l := range leases {
			refs[i] = l.Job.Ref()
		}
		f.wantOrder("leased", jobIDs(f.in(broker.Leased)), refs, 0, 1, 2, 3, 4)
		for _, kind := range []broker.SettleKind{broker.Bury, broker.Cancel, broker.Release, broker.Ack} {
			for _, i := range []int{3, 1, 4} {
				f.settle(leases[i], broker.Settlement{Kind: kind, Result: []byte("r")})
			}
			state := map[broker.SettleKind]broker.State{
				broker.Bury: broker.Dead, broker.Cancel: broker.Cancelled, broker.Release: broker.Ready, broker.Ack: broker.Done,
			}[kind]
			f.wantOrder(state.String(), jobIDs(f.in(state)), refs, 3, 1, 4)
			if kind != broker.Ack {
				f.command(broker.RequeueJobs)
				for _, l := range f.claim(5) {
					leases[place(refs, l.Job.ID)] = l
				}
			}
		}
	}},
	{"what waits for its time is listed as it was enqueued, and as ready when due", func(f *fixture) {
		var jobs []broker.NewJob
		for i, d := range []time.Duration{3, 1, 2} {
			n := with(func(n *broker.NewJob) { n.Delay = d * tick / 4 })
			n.Task, n.Priority = []string{"t", "u", "t"}[i], []int32{2, 0, 1}[i]
			jobs = append(jobs, n)
		}
		refs := f.add(queue, jobs...)
		f.wantOrder("scheduled", jobIDs(f.in(broker.Scheduled)), refs, 0, 1, 2)
		f.advance(tick)
		refs = append(refs, f.addMany(1)...)
		f.wantOrder("scheduled", jobIDs(f.in(broker.Scheduled)), refs)
		f.wantOrder("ready", jobIDs(f.in(broker.Ready)), refs, 1, 2, 0, 3)
	}},
	{"what fell due before something else came back stands before it", func(f *fixture) {
		refs := f.addMany(1)
		f.take(f.b, broker.ClaimRequest{TTL: tick})
		refs = append(refs, f.addOne(with(func(n *broker.NewJob) { n.Delay = tick / 2 })))
		f.pass(tick)
		f.wantOrder("ready", jobIDs(f.in(broker.Ready)), refs, 1, 0)
		f.wantOrder("claims", leaseIDs(f.claim(2)), refs, 0, 1)
	}},
	{"pages follow each other without a gap or a double", func(f *fixture) {
		refs := f.addMany(23)
		order := make([]int, 23)
		for i := range order {
			order[i] = i
		}
		for _, n := range []int{1, 5, 22, 23, 24, broker.MaxPageJobs} {
			jobs := f.list(f.b, broker.Filter{Queue: queue, States: []broker.State{broker.Ready}}, n)
			f.wantOrder(fmt.Sprintf("pages of %d", n), jobIDs(jobs), refs, order...)
		}
	}},
	{"jobs that leave between two pages do not hide others", func(f *fixture) {
		refs := f.addMany(9)
		filter := broker.Filter{Queue: queue, States: []broker.State{broker.Ready}}
		page, err := f.b.List(f.ctx, filter, "", 3)
		f.must("list", err)
		f.wantOrder("first page", jobIDs(page.Jobs), refs, 0, 1, 2)
		f.command(broker.DeleteJobs, refs[0].ID, refs[2].ID, refs[4].ID)
		rest := f.listFrom(filter, page.Cursor, 3)
		f.wantOrder("the rest", jobIDs(rest), refs, 3, 5, 6, 7, 8)
	}},
	{"jobs that come between two pages stand behind", func(f *fixture) {
		refs := f.addMany(4)
		filter := broker.Filter{Queue: queue, States: []broker.State{broker.Ready}}
		page, err := f.b.List(f.ctx, filter, "", 2)
		f.must("list", err)
		refs = append(refs, f.add(queue, priorities(9, 0)...)...)
		f.wantOrder("the rest", jobIDs(f.listFrom(filter, page.Cursor, 2)), refs, 2, 3, 4, 5)
	}},
	{"a list shows what its filter chooses", func(f *fixture) {
		refs := []broker.Ref(nil)
		cases := filterCases(f)
		for _, j := range f.in(broker.Dead) {
			refs = append(refs, j.Ref())
		}
		for _, c := range cases {
			c.filter.States = []broker.State{broker.Dead}
			for _, n := range []int{1, 2, 100} {
				f.wantOrder(c.name, jobIDs(f.list(f.b, c.filter, n)), refs, c.chosen...)
			}
		}
	}},
	{"age counts from the last change of state", func(f *fixture) {
		for range 2 {
			f.end(f.leased(plain()), broker.Bury)
			f.advance(time.Minute)
		}
		for _, c := range []struct {
			older, newer time.Duration
			n            int
		}{{0, 0, 2}, {30 * time.Second, 0, 2}, {90 * time.Second, 0, 1}, {3 * time.Minute, 0, 0}, {0, 90 * time.Second, 1}, {30 * time.Second, 90 * time.Second, 1}, {0, time.Second, 0}} {
			filter := broker.Filter{Queue: queue, States: []broker.State{broker.Dead}, OlderThan: c.older, NewerThan: c.newer}
			want(f, fmt.Sprintf("older than %v, newer than %v", c.older, c.newer), len(f.list(f.b, filter, 10)), c.n)
		}
	}},
	{"the age of a ready job counts from when it was due", func(f *fixture) {
		f.addOne(with(func(n *broker.NewJob) { n.Delay = time.Minute }))
		f.advance(90 * time.Second)
		filter := broker.Filter{Queue: queue, States: []broker.State{broker.Ready}, OlderThan: 45 * time.Second}
		want(f, "older than 45s", len(f.list(f.b, filter, 10)), 0)
		f.advance(30 * time.Second)
		want(f, "older than 45s", len(f.list(f.b, filter, 10)), 1)
	}},
	{"a list that can never be right is refused", func(f *fixture) {
		ready := []broker.State{broker.Ready}
		for what, c := range map[string]struct {
			filter broker.Filter
			cursor string
			n      int
		}{
			"no queue":         {broker.Filter{States: ready}, "", 1},
			"no state":         {broker.Filter{Queue: queue}, "", 1},
			"two states":       {broker.Filter{Queue: queue, States: []broker.State{broker.Ready, broker.Dead}}, "", 1},
			"no jobs":          {broker.Filter{Queue: queue, States: ready}, "", 0},
			"too many jobs":    {broker.Filter{Queue: queue, States: ready}, "", broker.MaxPageJobs + 1},
			"a made-up cursor": {broker.Filter{Queue: queue, States: ready}, "no cursor", 1},
		} {
			_, err := f.b.List(f.ctx, c.filter, c.cursor, c.n)
			f.wantErr(what, err, broker.ErrInvalid)
		}
	}},
	{"a list and a command go on at another client, which leaves out nothing", func(f *fixture) {
		refs := f.addMany(30)
		for _, l := range f.claim(30) {
			f.end(l, broker.Bury)
		}
		f.command(broker.DeleteJobs, refs[0].ID, refs[1].ID, refs[2].ID) // the oldest of the list: who loads it later counts otherwise
		dead := broker.Filter{Queue: queue, States: []broker.State{broker.Dead}}
		page, err := f.b.List(f.ctx, dead, "", 5)
		f.must("list", err)
		exactly(f, "jobs", page.Jobs, 5)
		step, err := f.b.Apply(f.ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: dead, Limit: 10})
		f.must("delete", err)
		want(f, "changed", step.Changed, 10)
		other := f.open()
		seen := map[broker.ID]bool{}
		for cursor := page.Cursor; cursor != ""; cursor = page.Cursor { // its job is gone
			page, err = other.List(f.ctx, dead, cursor, 3)
			f.must("list at another client", err)
			for i := range page.Jobs {
				seen[page.Jobs[i].ID] = true
			}
		}
		want(f, "seen of those that are there", len(seen), 17)
		changed := 0
		for step.Cursor != "" {
			step, err = other.Apply(f.ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: dead, Limit: 3, Cursor: step.Cursor})
			f.must("delete at another client", err)
			changed += step.Changed
		}
		want(f, "changed at another client", changed, 17)
		want(f, "dead", f.count(queue, task).Dead, 0)
	}},
	{"a list of a queue that nobody knows is empty", func(f *fixture) {
		want(f, "jobs", len(f.in(broker.Ready)), 0)
	}},
	{"get answers in order, and with state 0 for what is not known", func(f *fixture) {
		refs := f.addMany(2)
		none := broker.Ref{Queue: "nobody", ID: refs[0].ID}
		jobs, err := f.b.Get(f.ctx, []broker.Ref{refs[1], none, refs[0], refs[1]})
		f.must("get", err)
		exactly(f, "jobs", jobs, 4)
		for i, r := range []broker.Ref{refs[1], none, refs[0], refs[1]} {
			want(f, "name", jobs[i].Ref(), r)
			want(f, "is known", jobs[i].State != 0, r != none)
		}
		jobs, err = f.b.Get(f.ctx, nil)
		f.must("get", err)
		want(f, "jobs of an empty call", len(jobs), 0)
	}},
}

// listFrom reads the rest of a list.
func (f *fixture) listFrom(filter broker.Filter, cursor string, n int) (jobs []broker.Job) {
	f.Helper()
	for cursor != "" {
		page, err := f.b.List(f.ctx, filter, cursor, n)
		f.must("list", err)
		jobs = append(jobs, page.Jobs...)
		cursor = page.Cursor
	}
	return jobs
}
