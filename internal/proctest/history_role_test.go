//go:build linux

package proctest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// historian makes random calls about jobs that the historians of other processes
// make calls about at the same time, and notes each before it is made and once it
// has returned.
type historian struct {
	*teller
	plan   plan
	broker broker.Broker

	mu     sync.Mutex
	calls  int
	tokens map[int][]broker.Token // that somebody saw, by job
}

// historyWindow is how many jobs are in use at a time.
const historyWindow = 24

func runHistorian(t *teller, p plan) error {
	c, err := openStore(p)
	if err != nil {
		return err
	}
	h := &historian{teller: t, plan: p, broker: c.Broker(), tokens: map[int][]broker.Token{}}
	ctx, stop := untilTold(func(order) {})
	defer stop()
	var wg sync.WaitGroup
	failed := make(chan error, p.Concurrency+1)
	for range p.Concurrency {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := h.step(context.WithoutCancel(ctx)); err != nil {
					failed <- err
					stop()
				}
			}
		})
	}
	wg.Go(func() { failed <- h.upkeep(ctx) })
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	h.line(record{Verb: doClose, At: now()})
	return c.Close()
}

// upkeep ends leases whose time is over.
func (h *historian) upkeep(ctx context.Context) error {
	for {
		if _, err := h.broker.Maintain(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// jobs are some of those in use now: the window moves on, so that each job has a
// short life with many in it.
func (h *historian) jobs() []int {
	done := float64(now()-h.plan.Begun) / float64(h.plan.Span)
	first := int(min(max(done, 0), 1) * float64(h.plan.Jobs-historyWindow))
	picked := rand.Perm(historyWindow)[:1+rand.IntN(4)]
	for i := range picked {
		picked[i] += first
	}
	return picked
}

// step makes one call.
func (h *historian) step(ctx context.Context) error {
	jobs := h.jobs()
	switch n := rand.IntN(100); {
	case n < 10:
		return h.enqueue(ctx, jobs)
	case n < 35:
		return h.claim(ctx, jobs)
	case n < 65:
		return h.settle(ctx, jobs)
	case n < 74:
		return h.extend(ctx, jobs)
	case n < 84:
		return h.get(ctx, jobs)
	case n < 88:
		return h.command(ctx, jobs[0], doCancel, broker.CancelJobs)
	case n < 97:
		return h.command(ctx, jobs[0], doRequeue, broker.RequeueJobs)
	default:
		if jobs[0]%2 == 0 { // the others are never deleted: they are all there at the end
			return h.command(ctx, jobs[0], doDelete, broker.DeleteJobs)
		}
		return nil
	}
}

// call notes a call and returns what notes its return.
func (h *historian) call(r record) (done func(parts []part)) {
	h.mu.Lock()
	h.calls++
	r.Call = h.calls
	h.mu.Unlock()
	r.At = now()
	h.line(r)
	return func(parts []part) {
		h.line(record{Call: r.Call, At: now(), Parts: parts})
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, p := range parts { // used only once it is noted where they come from
			if p.Token != 0 && !slices.Contains(h.tokens[p.Job], p.Token) {
				h.tokens[p.Job] = append(h.tokens[p.Job], p.Token)
			}
		}
	}
}

func asked(jobs []int) (parts []part) {
	for _, job := range jobs {
		parts = append(parts, part{Job: job})
	}
	return parts
}

// leases are tokens of jobs: most often the last one that this process saw.
func (h *historian) leases(jobs []int) (parts []part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, job := range jobs {
		if known := h.tokens[job]; len(known) > 0 {
			back := 0
			if rand.IntN(8) == 0 {
				back = rand.IntN(len(known))
			}
			parts = append(parts, part{Job: job, Token: known[len(known)-1-back]})
		}
	}
	return parts
}

func (h *historian) enqueue(ctx context.Context, jobs []int) error {
	done := h.call(record{Verb: doEnqueue, Parts: asked(jobs)})
	var list []broker.NewJob
	for _, job := range jobs {
		list = append(list, broker.NewJob{ID: historyID(job), Task: fmt.Sprintf("j%d", job), Payload: []byte("x"), MaxAttempts: historyMax, Retain: time.Hour})
	}
	got, err := h.broker.Enqueue(ctx, broker.NewCall(), historyQueue, list)
	if err != nil {
		return err
	}
	var parts []part
	for i, g := range got {
		if g.ID != historyID(jobs[i]) {
			return fmt.Errorf("the enqueue of %v was answered %v", historyID(jobs[i]), g.ID)
		}
		parts = append(parts, part{Job: jobs[i], OK: !g.Existing})
	}
	done(parts)
	return nil
}

func (h *historian) claim(ctx context.Context, jobs []int) error {
	r := broker.ClaimRequest{Queues: []string{historyQueue}, Max: len(jobs), TTL: 20 * time.Second, Worker: h.plan.Name, Remote: rand.IntN(4) == 0}
	if rand.IntN(6) == 0 {
		r.TTL = time.Millisecond + rand.N(20*time.Millisecond)
	}
	for _, job := range jobs {
		r.Tasks = append(r.Tasks, fmt.Sprintf("j%d", job))
	}
	done := h.call(record{Verb: doClaim, Parts: asked(jobs), TTL: r.TTL, Remote: r.Remote})
	got, err := h.broker.Claim(ctx, broker.NewCall(), r)
	if err != nil {
		return err
	}
	var parts []part
	taken := map[int]bool{}
	for _, l := range got.Leases {
		job := historyJob(l.Job.ID)
		taken[job] = true
		parts = append(parts, part{Job: job, OK: true, Token: l.Token, Attempt: l.Job.Attempt})
	}
	for _, job := range jobs {
		if !taken[job] && !got.More {
			parts = append(parts, part{Job: job})
		}
	}
	done(parts)
	return nil
}

var historyKinds = []broker.SettleKind{
	broker.Ack, broker.Ack, broker.Nack, broker.Nack, broker.Nack, broker.Release, broker.Snooze, broker.Bury, broker.Cancel,
}

func (h *historian) settle(ctx context.Context, jobs []int) error {
	parts := h.leases(jobs)
	if len(parts) == 0 {
		return nil
	}
	var list []broker.Settlement
	for i := range parts {
		p := &parts[i]
		p.Kind = historyKinds[rand.IntN(len(historyKinds))]
		list = append(list, broker.Settlement{Ref: broker.Ref{Queue: historyQueue, ID: historyID(p.Job)}, Token: p.Token, Kind: p.Kind})
	}
	done := h.call(record{Verb: doSettle, Parts: parts})
	got, err := h.broker.Settle(ctx, broker.NewCall(), list)
	if err != nil {
		return err
	}
	var answers []part
	for i := range got {
		answers = append(answers, settledAs(parts[i].Job, &got[i]))
	}
	done(answers)
	return nil
}

func (h *historian) extend(ctx context.Context, jobs []int) error {
	parts := h.leases(jobs)
	if len(parts) == 0 {
		return nil
	}
	r := broker.ExtendRequest{TTL: 20 * time.Second}
	if rand.IntN(6) == 0 {
		r.TTL = time.Millisecond + rand.N(20*time.Millisecond)
	}
	for _, p := range parts {
		r.Leases = append(r.Leases, broker.Extension{Ref: broker.Ref{Queue: historyQueue, ID: historyID(p.Job)}, Token: p.Token})
	}
	done := h.call(record{Verb: doExtend, Parts: parts, TTL: r.TTL})
	got, err := h.broker.Extend(ctx, r)
	if err != nil {
		return err
	}
	var answers []part
	for i, b := range got {
		answers = append(answers, part{Job: parts[i].Job, OK: b.Status != broker.Lost, Asked: b.Status == broker.CancelAsked})
	}
	done(answers)
	return nil
}

func (h *historian) get(ctx context.Context, jobs []int) error {
	done := h.call(record{Verb: doGet, Parts: asked(jobs)})
	var refs []broker.Ref
	for _, job := range jobs {
		refs = append(refs, broker.Ref{Queue: historyQueue, ID: historyID(job)})
	}
	got, err := h.broker.Get(ctx, refs)
	if err != nil {
		return err
	}
	parts := seen(got)
	for i := range parts {
		parts[i].Job = jobs[i]
	}
	done(parts)
	return nil
}

func (h *historian) command(ctx context.Context, job int, verb string, kind broker.CommandKind) error {
	done := h.call(record{Verb: verb, Parts: asked([]int{job})})
	step, err := h.broker.Apply(ctx, broker.NewCall(), broker.Command{Kind: kind, Filter: spool.Filter{Queue: historyQueue, IDs: []broker.ID{historyID(job)}}})
	if err != nil {
		return err
	}
	if step.Cursor != "" {
		return fmt.Errorf("a command for one job is not at its end after a step: %+v", step)
	}
	done([]part{{Job: job, OK: step.Changed == 1}})
	return nil
}
