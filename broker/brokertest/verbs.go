package brokertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// The queue and the task of cases that need one each.
const (
	queue = "q"
	task  = "t"
)

// plain is a job with nothing but an id of its own and the usual task.
func plain() broker.NewJob { return broker.NewJob{ID: broker.NewID(), Task: task} }

// with is plain, changed.
func with(change func(n *broker.NewJob)) broker.NewJob {
	n := plain()
	change(&n)
	return n
}

// enqueue adds jobs to a queue and returns the answers.
func (f *fixture) enqueue(queue string, jobs ...broker.NewJob) []broker.Enqueued {
	f.Helper()
	answers, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
	f.must("enqueue", err)
	return exactly(f, "answers", answers, len(jobs))
}

// add adds jobs, which must be new, and returns their names. It makes as many
// calls as the broker's bounds ask for.
func (f *fixture) add(queue string, jobs ...broker.NewJob) []broker.Ref {
	f.Helper()
	var refs []broker.Ref
	if most := f.b.Caps().MaxBatch; len(jobs) > most {
		refs, jobs = f.add(queue, jobs[:len(jobs)-most]...), jobs[len(jobs)-most:]
	}
	for i, a := range f.enqueue(queue, jobs...) {
		if a.Existing || a.Differs {
			f.Fatalf("job %d was not added: %+v", i, a)
		}
		refs = append(refs, broker.Ref{Queue: queue, ID: a.ID})
	}
	return refs
}

// addOne adds one job to the usual queue.
func (f *fixture) addOne(n broker.NewJob) broker.Ref {
	f.Helper()
	return f.add(queue, n)[0]
}

// addMany adds n plain jobs to the usual queue.
func (f *fixture) addMany(n int) []broker.Ref {
	f.Helper()
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = plain()
	}
	return f.add(queue, jobs...)
}

// take is a claim that has to succeed, for whatever it finds.
func (f *fixture) take(b broker.Broker, r broker.ClaimRequest) broker.Claimed {
	f.Helper()
	if r.Max == 0 {
		r.Max = 100
	}
	if r.Worker == "" {
		r.Worker = "w"
	}
	got, err := b.Claim(f.ctx, broker.NewCall(), r)
	f.must("claim", err)
	if len(got.Leases) > r.Max {
		f.Fatalf("claim of %d took %d", r.Max, len(got.Leases))
	}
	return got
}

// takeOne is a claim that has to take exactly one job.
func (f *fixture) takeOne(b broker.Broker, r broker.ClaimRequest) broker.Lease {
	f.Helper()
	return exactly(f, "leases", f.take(b, r).Leases, 1)[0]
}

// claim takes up to limit jobs of the usual queue, in as many claims as the
// broker's bounds ask for.
func (f *fixture) claim(limit int) []broker.Lease {
	f.Helper()
	got := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: limit})
	for n := len(got.Leases); got.More && n > 0 && len(got.Leases) < limit; {
		rest := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: limit - len(got.Leases)})
		got.Leases, got.More, n = append(got.Leases, rest.Leases...), rest.More, len(rest.Leases)
	}
	return got.Leases
}

// one takes exactly one job of the usual queue.
func (f *fixture) one() broker.Lease {
	f.Helper()
	return exactly(f, "leases", f.claim(1), 1)[0]
}

// all takes exactly n jobs of the usual queue.
func (f *fixture) all(n int) []broker.Lease {
	f.Helper()
	return exactly(f, "leases", f.claim(n), n)
}

// none wants that nothing can be claimed from the usual queue.
func (f *fixture) none() {
	f.Helper()
	if leases := f.claim(1); len(leases) != 0 {
		f.Errorf("claim took %v (%s, attempt %d), want nothing", leases[0].Job.ID, leases[0].Job.Task, leases[0].Job.Attempt)
	}
}

// leased adds one job and takes it.
func (f *fixture) leased(n broker.NewJob) broker.Lease {
	f.Helper()
	ref := f.addOne(n)
	l := f.one()
	if l.Job.ID != ref.ID {
		f.Fatalf("claim took %v, want %v", l.Job.ID, ref.ID)
	}
	return l
}

// try settles one lease and returns the answer, be it a refusal.
func (f *fixture) try(l broker.Lease, s broker.Settlement) broker.Settled {
	f.Helper()
	s.Ref, s.Token = l.Job.Ref(), l.Token
	answers, err := f.b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{s})
	f.must(s.Kind.String(), err)
	return exactly(f, "answers", answers, 1)[0]
}

// settle settles one lease, which has to be accepted.
func (f *fixture) settle(l broker.Lease, s broker.Settlement) broker.Settled {
	f.Helper()
	a := f.try(l, s)
	f.must(s.Kind.String(), a.Err)
	return a
}

// end settles one lease in the given way.
func (f *fixture) end(l broker.Lease, kind broker.SettleKind) broker.Settled {
	f.Helper()
	return f.settle(l, broker.Settlement{Kind: kind})
}

// get reads one job; State is 0 when it is not known.
func (f *fixture) get(r broker.Ref) broker.Job {
	f.Helper()
	jobs, err := f.b.Get(f.ctx, []broker.Ref{r})
	f.must("get", err)
	return exactly(f, "jobs by get", jobs, 1)[0]
}

// wantState wants a job in a state for a reason, and returns it.
func (f *fixture) wantState(r broker.Ref, s broker.State, reason string) broker.Job {
	f.Helper()
	j := f.get(r)
	if j.State != s || j.Reason != reason {
		f.Errorf("job is %v (%q), want %v (%q)", j.State, j.Reason, s, reason)
	}
	return j
}

// wantGone wants that a job is not known.
func (f *fixture) wantGone(r broker.Ref) {
	f.Helper()
	if j := f.get(r); j.State != 0 {
		f.Errorf("job is %v (%q), want it gone", j.State, j.Reason)
	}
}

// apply runs a command to its end, in steps, and returns how many it changed.
func (f *fixture) apply(c broker.Command) int {
	f.Helper()
	changed := 0
	for range 10_000 {
		step, err := f.b.Apply(f.ctx, broker.NewCall(), c)
		f.must("apply", err)
		if c.Limit > 0 && step.Changed > c.Limit {
			f.Errorf("a step changed %d, the limit is %d", step.Changed, c.Limit)
		}
		changed += step.Changed
		if c.Cursor = step.Cursor; c.Cursor == "" {
			return changed
		}
	}
	f.Fatalf("the command does not end")
	return changed
}

// command runs a command on the usual queue.
func (f *fixture) command(kind broker.CommandKind, ids ...broker.ID) int {
	f.Helper()
	return f.apply(broker.Command{Kind: kind, Filter: broker.Filter{Queue: queue, IDs: ids}})
}

// maintain does the upkeep that is due now, through every step of it.
func (f *fixture) maintain() time.Duration {
	f.Helper()
	for range 1000 {
		after, err := f.b.Maintain(f.ctx)
		f.must("maintain", err)
		if after > 0 {
			return after
		}
	}
	f.Fatalf("upkeep does not end")
	return 0
}

// pass lets time pass and does the upkeep that is then due.
func (f *fixture) pass(d time.Duration) {
	f.Helper()
	f.advance(d)
	f.maintain()
}

// list reads a whole list in pages of n.
func (f *fixture) list(b broker.Broker, filter broker.Filter, n int) []broker.Job {
	f.Helper()
	var jobs []broker.Job
	cursor := ""
	for range 10_000 {
		page, err := b.List(f.ctx, filter, cursor, n)
		f.must("list", err)
		if len(page.Jobs) > n {
			f.Fatalf("a page of %d has %d jobs", n, len(page.Jobs))
		}
		jobs = append(jobs, page.Jobs...)
		if cursor = page.Cursor; cursor == "" {
			return jobs
		}
	}
	f.Fatalf("the list does not end")
	return nil
}

// in lists the jobs of the usual queue in one state.
func (f *fixture) in(s broker.State) []broker.Job {
	f.Helper()
	return f.list(f.b, broker.Filter{Queue: queue, States: []broker.State{s}}, 100)
}

// count reads the numbers of one task.
func (f *fixture) count(queue, task string) broker.Count {
	f.Helper()
	counts, err := f.b.Counts(f.ctx, queue)
	f.must("counts", err)
	for _, c := range counts {
		if c.Queue == queue && c.Task == task {
			return c
		}
	}
	return broker.Count{Queue: queue, Task: task}
}

// wantOrder compares jobs with the wanted ones, by their numbers in all.
func (f *fixture) wantOrder(what string, got []broker.ID, all []broker.Ref, order ...int) {
	f.Helper()
	var have []string
	for _, id := range got {
		n := slices.IndexFunc(all, func(r broker.Ref) bool { return r.ID == id })
		have = append(have, fmt.Sprint(n))
	}
	var wanted []string
	for _, n := range order {
		wanted = append(wanted, fmt.Sprint(n))
	}
	if !slices.Equal(have, wanted) {
		f.Errorf("%s: order %s, want %s", what, strings.Join(have, " "), strings.Join(wanted, " "))
	}
}

func leaseIDs(leases []broker.Lease) (ids []broker.ID) {
	for _, l := range leases {
		ids = append(ids, l.Job.ID)
	}
	return ids
}

func jobIDs(jobs []broker.Job) (ids []broker.ID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}
