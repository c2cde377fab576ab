package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// step is one step of a history. Steps name jobs by slots and leases by their
// age, so that a script still makes sense when others are left out.
type step interface {
	fmt.Stringer
	do(p *player)
}

// slot is a job of a history: its queue and id never change, but a job that is
// gone can be enqueued again.
type slot int

func (s slot) ref() broker.Ref {
	return broker.Ref{Queue: historyQueues[int(s)%len(historyQueues)], ID: slotJobs()[s].ID}
}

// slotJobs are jobs with the ids of the slots, known as new; the last byte of each
// says which slot it is of.
var slotJobs = sync.OnceValue(func() (all [historySlots]broker.NewJob) {
	for s := range all {
		for all[s].ID[15] != byte(s)+1 {
			all[s].MakeID()
		}
	}
	return all
})

// run names a lease of a slot: the last one given, one before, or (older than
// the oldest) one that never was.
type run struct {
	slot slot
	back int
}

type enqueueStep struct {
	client int
	slots  []slot
	jobs   []broker.NewJob
	at     bool // delays are given as times
	quiet  bool // nobody looks at the store before the next step
}

func (s enqueueStep) String() string {
	var jobs []string
	for i, n := range s.jobs {
		jobs = append(jobs, fmt.Sprintf("%d:%s", s.slots[i], jobText(n)))
	}
	return fmt.Sprintf("client %d: enqueue in %s, delays as times %v, unseen %v: %s", s.client, s.slots[0].ref().Queue, s.at, s.quiet, strings.Join(jobs, ", "))
}

// jobText shows what is not plain about a job.
func jobText(n broker.NewJob) string {
	text := n.Task
	for _, f := range []struct {
		name  string
		plain bool
		value any
	}{
		{"payload", len(n.Payload) == 0, string(n.Payload)}, {"priority", n.Priority == 0, n.Priority}, {"delay", n.Delay == 0, n.Delay},
		{"key", n.Key == "", n.Key}, {"hold", n.Key == "", n.KeyHold}, {"for", n.Key == "", n.KeyFor}, {"max", n.MaxAttempts == 0, n.MaxAttempts},
		{"retain", n.Retain == 0, n.Retain}, {"start-within", n.StartWithin == 0, n.StartWithin}, {"tenant", n.Tenant == "", n.Tenant},
		{"group", n.Group == "", n.Group}, {"ordered", !n.Ordered, n.Ordered}, {"repeat", n.KeyRepeat == 0, n.KeyRepeat},
		{"members", n.BatchSize == 0, n.BatchSize}, {"member", n.Batch.IsZero(), n.BatchOrdinal}, {"of", n.Batch.IsZero(), int(n.Batch[15]) - 1},
	} {
		if !f.plain {
			text += fmt.Sprintf(" %s=%v", f.name, f.value)
		}
	}
	return text
}

func (s enqueueStep) do(p *player) {
	queue, jobs := s.slots[0].ref().Queue, p.aged(s.jobs)
	for i := range jobs {
		if s.at && jobs[i].Delay > 0 {
			jobs[i].At, jobs[i].Delay = p.f.now().Add(jobs[i].Delay), 0
		}
	}
	if p.unclear(queue, jobs) {
		return
	}
	got, err := p.real(s.client).Enqueue(p.f.ctx, broker.NewCall(), queue, jobs)
	wanted, modelErr := p.model(s.client).Enqueue(p.f.ctx, broker.NewCall(), queue, jobs)
	p.sameError("enqueue", err, modelErr)
	same(p, "enqueue", got, wanted)
	for _, a := range wanted {
		p.added(queue, a)
	}
}

type claimStep struct {
	client int
	r      broker.ClaimRequest
}

func (s claimStep) String() string {
	return fmt.Sprintf("client %d: claim %d of %v %v, TTL %v, remote %v, worker %s", s.client, s.r.Max, s.r.Queues, s.r.Tasks, s.r.TTL, s.r.Remote, s.r.Worker)
}

func (s claimStep) do(p *player) {
	if !p.whole && s.r.Queues == nil {
		s.r.Queues = historyQueues // where every queue is asked, it is open when one that is new is
	}
	got, err := p.real(s.client).Claim(p.f.ctx, broker.NewCall(), s.r)
	for n := 0; n < 50 && got.More && err == nil && len(got.Leases) < s.r.Max; n++ { // it stopped at bounds of its own
		var rest broker.Claimed
		r := s.r
		r.Max -= len(got.Leases)
		rest, err = p.real(s.client).Claim(p.f.ctx, broker.NewCall(), r)
		got.Leases, got.More, got.NextDue = append(got.Leases, rest.Leases...), rest.More, rest.NextDue
	}
	wanted, modelErr := p.model(s.client).Claim(p.f.ctx, broker.NewCall(), s.r)
	p.sameError("claim", err, modelErr)
	same(p, "claim: jobs", slotsOf(leaseIDs(got.Leases)), slotsOf(leaseIDs(wanted.Leases)))
	if p.failed() {
		return
	}
	for i, l := range got.Leases {
		m := wanted.Leases[i]
		p.sameJob("claim", l.Job, m.Job)
		p.sameTime("claim: expiry", l.ExpiresAt, m.ExpiresAt)
		p.runs[l.Job.Ref()] = append(p.runs[l.Job.Ref()], tokens{l.Token, m.Token})
	}
	if wanted.More && !got.More {
		p.f.Errorf("claim: there is more, and the answer says there is not")
	}
	p.sameDue(s.r, got)
}

// sameDue checks NextDue within what the contract leaves open: whether it looks
// at tasks, at paused queues, and whether a full claim says it at all.
func (p *player) sameDue(r broker.ClaimRequest, got broker.Claimed) {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	earliest := p.m.s.nextDue(r)
	if got.More || earliest == 0 && got.NextDue == 0 {
		return
	}
	every := r
	every.Tasks = nil
	if p.m.s.look(every, earliest) != earliest {
		return // a rate allows a claim before; whether the answer says so, and of which tasks, is open
	}
	latest := time.Duration(0)
	for _, j := range p.m.s.jobs {
		useful := slices.Contains(p.m.s.queues(r), j.Queue) && canRun(r.Tasks, j.Task) && !p.m.s.paused[j.Queue]
		if after := j.RunAt.Sub(p.m.s.nowOf(j)); j.State == broker.Scheduled && j.waits == nil && useful && (latest == 0 || after < latest) {
			latest = after
		}
	}
	switch {
	case got.NextDue == 0 && latest != 0,
		got.NextDue != 0 && got.NextDue < earliest-time.Millisecond,
		latest != 0 && got.NextDue > latest+time.Millisecond:
		p.f.Errorf("claim: next due in %v, want %v to %v", got.NextDue, earliest, latest)
	}
}

type extendStep struct {
	client   int
	worker   broker.Worker
	leaving  bool
	runs     []run
	log      []string
	ttl      time.Duration
	progress *broker.Progress
}

func (s extendStep) String() string {
	return fmt.Sprintf("client %d: extend %v to %v, worker %q, leaving %v, progress %v, log %q", s.client, s.runs, s.ttl, s.worker.ID, s.leaving, s.progress, s.log)
}

func (s extendStep) do(p *player) {
	r := broker.ExtendRequest{Worker: s.worker, Leaving: s.leaving, TTL: s.ttl}
	m := r
	for _, run := range s.runs {
		t := p.tokens(run)
		r.Leases = append(r.Leases, broker.Extension{Ref: run.slot.ref(), Token: t.real, Progress: s.progress, Log: s.log})
		m.Leases = append(m.Leases, broker.Extension{Ref: run.slot.ref(), Token: t.model, Progress: s.progress, Log: s.log})
	}
	got, err := p.real(s.client).Extend(p.f.ctx, r)
	wanted, modelErr := p.model(s.client).Extend(p.f.ctx, m)
	p.sameError("extend", err, modelErr)
	if len(got) != len(wanted) {
		p.f.Errorf("extend: %d answers, want %d", len(got), len(wanted))
		return
	}
	for i := range got {
		want(p.f, "extend: status", got[i].Status, wanted[i].Status)
		if wanted[i].Status != broker.Lost {
			p.sameTime("extend: expiry", got[i].ExpiresAt, wanted[i].ExpiresAt)
		}
	}
}

type settlement struct {
	run run
	s   broker.Settlement
}

type settleStep struct {
	client int
	of     []settlement
}

func (s settleStep) String() string {
	var parts []string
	for _, o := range s.of {
		text := fmt.Sprintf("%v %v", o.s.Kind, o.run)
		if o.s.Delay > 0 {
			text += fmt.Sprintf(" delay=%v", o.s.Delay)
		}
		if o.s.Result != nil {
			text += " with a result"
		}
		for _, f := range o.s.FollowUps {
			text += fmt.Sprintf(" then %s/%v %s", f.Queue, f.Job.ID[15]-1, jobText(f.Job))
		}
		parts = append(parts, text)
	}
	return fmt.Sprintf("client %d: settle %s", s.client, strings.Join(parts, ", "))
}

func (s settleStep) do(p *player) {
	var real, model []broker.Settlement
	for _, o := range s.of {
		t := p.tokens(o.run)
		o.s.Ref, o.s.Token, o.s.FollowUps = o.run.slot.ref(), t.real, slices.Clone(o.s.FollowUps)
		for i := range o.s.FollowUps {
			o.s.FollowUps[i].Job = p.aged([]broker.NewJob{o.s.FollowUps[i].Job})[0]
		}
		real = append(real, o.s)
		o.s.Token = t.model
		model = append(model, o.s)
	}
	got, err := p.real(s.client).Settle(p.f.ctx, broker.NewCall(), real)
	wanted, modelErr := p.model(s.client).Settle(p.f.ctx, broker.NewCall(), model)
	p.sameError("settle", err, modelErr)
	if len(got) != len(wanted) {
		p.f.Errorf("settle: %d answers, want %d", len(got), len(wanted))
		return
	}
	for i := range got {
		if j := p.m.s.find(model[i].Ref); j != nil && j.moved && j.Token == model[i].Token {
			continue
		}
		p.sameError(fmt.Sprintf("settle: %v %v", model[i].Kind, s.of[i].run), got[i].Err, wanted[i].Err)
		if wanted[i].Err != nil {
			continue
		}
		want(p.f, "settle: state", got[i].State, wanted[i].State)
		done := lease{model[i].Ref, model[i].Token}
		if p.settled[done] {
			continue // what a repeat answers for follow-ups is a matter of the suite
		}
		p.settled[done] = true
		same(p, "settle: follow-ups", got[i].FollowUps, wanted[i].FollowUps)
		for n, a := range wanted[i].FollowUps {
			p.added(model[i].FollowUps[n].Queue, a)
		}
	}
	p.maintain() // what is given back may be too late to start
}

type commandStep struct {
	client int
	c      broker.Command
}

func (s commandStep) String() string {
	names := []string{"", "cancel", "requeue", "delete", "pause", "resume"}
	f := s.c.Filter
	text := fmt.Sprintf("client %d: %s in %s", s.client, names[s.c.Kind], f.Queue)
	for _, id := range f.IDs {
		text += fmt.Sprintf(" %d", id[15]-1)
	}
	return fmt.Sprintf("%s states=%v task=%q tenant=%q error=%q older=%v newer=%v limit=%d reason=%q",
		text, f.States, f.Task, f.Tenant, f.ErrorContains, f.OlderThan, f.NewerThan, s.c.Limit, s.c.Reason)
}

func (s commandStep) do(p *player) {
	c := s.c
	if p.batchWaits(c.Filter.Queue) {
		c.Limit = 0
	}
	defer p.m.sweepAll()()
	changed := [2]int{}
	for i, b := range []broker.Broker{p.real(s.client), p.model(s.client)} {
		f := *p.f
		f.b = b
		changed[i] = f.apply(c)
	}
	want(p.f, "command: changed", changed[0], changed[1])
}

// batchWaits reports whether a batch of a queue waits: a command may complete it,
// and whether a later step of the command looks at that state again is open.
func (p *player) batchWaits(queue string) bool {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	return slices.ContainsFunc(p.m.s.jobs, func(j *job) bool { return j.Queue == queue && j.waits != nil })
}

// passStep lets time pass. Upkeep follows at once, so that it makes no
// difference whether a broker does some of it in other calls.
type passStep time.Duration

func (s passStep) String() string {
	return fmt.Sprintf("%v pass, and the upkeep is done", time.Duration(s))
}

func (s passStep) do(p *player) {
	p.f.advance(time.Duration(s))
	if p.repeats != nil {
		p.repeats.passed += time.Duration(s)
	}
	p.maintain()
}

type explainStep struct {
	client int
	slots  []slot
}

func (s explainStep) String() string {
	return fmt.Sprintf("client %d: explain and await %v", s.client, s.slots)
}

func (s explainStep) do(p *player) {
	var refs []broker.Ref
	for _, slot := range s.slots {
		ref := slot.ref()
		refs = append(refs, ref)
		got, err := p.real(s.client).Explain(p.f.ctx, ref)
		wanted, modelErr := p.model(s.client).Explain(p.f.ctx, ref)
		p.sameError("explain", err, modelErr)
		if err == nil {
			p.sameReason(ref, got, wanted)
		}
	}
	got, err := p.real(s.client).Await(p.f.ctx, refs, 0)
	wanted, modelErr := p.model(s.client).Await(p.f.ctx, refs, 0)
	p.sameError("await", err, modelErr)
	same(p, "await: jobs", slotsOf(jobIDs(got)), slotsOf(jobIDs(wanted)))
	for i := 0; i < len(got) && !p.failed(); i++ {
		p.sameJob("await", got[i], wanted[i])
	}
}

// sameReason compares why a job is not running. How many are before it is open
// where its queue is not one plain line.
func (p *player) sameReason(ref broker.Ref, got, wanted broker.Explanation) {
	waits := func(e broker.Explanation) bool { return e.Reason == broker.WhyBehind || e.Reason == broker.WhyNone }
	if waits(got) && waits(wanted) && !p.oneLine(ref.Queue) {
		return
	}
	want(p.f, "explain: reason", got.Reason, wanted.Reason)
	want(p.f, "explain: behind", got.Behind, wanted.Behind)
	if wanted.Reason == broker.WhyRate {
		p.sameTime("explain: until", got.Until, wanted.Until)
	}
}

// oneLine reports whether the ready jobs of a queue are all of one tenant, and
// nothing but their priority and place decides.
func (p *player) oneLine(queue string) bool {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	ready := p.m.s.in(queue, broker.Ready)
	return p.m.s.setting(queue, broker.AgeingSetting, "") == nil && !slices.ContainsFunc(ready, func(j *job) bool {
		return j.Tenant != ready[0].Tenant || j.started && j.Ordered || p.m.s.blocks(j) != nil
	})
}

// same fails the history unless two answers are equal.
func same[V comparable](p *player, what string, got, wanted []V) {
	if !slices.Equal(got, wanted) {
		p.f.Errorf("%s: got %v, want %v", what, got, wanted)
	}
}

// contractErrors are what a call of a history can end with.
var contractErrors = []error{broker.ErrInvalid, broker.ErrTooLarge, broker.ErrNotFound, broker.ErrLeaseLost, broker.ErrFull, broker.ErrConflict, broker.ErrClosed}

// sameError fails the history unless both failed in the same way, or neither.
func (p *player) sameError(what string, got, wanted error) {
	for _, e := range contractErrors {
		if errors.Is(got, e) && errors.Is(wanted, e) {
			return
		}
	}
	if got != nil || wanted != nil {
		p.f.Errorf("%s: error %v, want %v", what, got, wanted)
	}
}

func (p *player) sameTime(what string, got, wanted time.Time) {
	p.f.wantTime(what, got, wanted)
}

func (p *player) sameJob(what string, got, wanted broker.Job) {
	if diff := diffJobs(got, wanted); diff != "" {
		p.f.Errorf("%s: %v, got / want: %s", what, got.Ref(), diff)
	}
}
