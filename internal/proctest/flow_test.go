//go:build linux

package proctest

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/cron"
	"github.com/spoolq/spool/internal/vfs"
)

// full is given by make proof.
var full = flag.Bool("full", false, "run the proofs at the size that they are stated for")

// size picks between what runs with every go test and what make proof runs.
func size[T any](short, whole T) T {
	if *full {
		return whole
	}
	return short
}

// The tasks of a flow worker.
var (
	even     = spool.Define[args]("even", spool.RateLimit("100/s burst 1"))
	slow     = spool.Define[args]("slow", spool.RateLimit("10/s burst 1"))
	plain    = spool.Define[args]("plain", spool.RateLimit("100/s")) // with a burst of 100
	bursty   = spool.Define[args]("bursty", spool.RateLimit("50/s burst 20"))
	byTenant = spool.Define[args]("by_tenant", spool.RateLimit("20/s burst 5", spool.PerTenant()))

	kept     = spool.Retain(time.Hour) // so that the store says when each was final
	again    = spool.Backoff(spool.Exponential{First: time.Millisecond, Max: 5 * time.Millisecond})
	alone    = spool.Define[args]("alone", spool.RunningLimit(1), kept, spool.MaxAttempts(1000), again)
	sequence = spool.Define[args]("sequence", spool.Ordered(), kept, spool.MaxAttempts(1000), again)

	tick = spool.Define[args]("tick", kept, spool.MaxAttempts(1000))
)

// The schedules of a flow worker. No downtime loses a tick.
var schedules = []spool.Schedule{
	{Name: "interval", Spec: "@every 400ms", Missed: cron.All, Cap: cron.MaxCap, Job: tick.With(args{})},
	{Name: "expression", Spec: "* * * * * *", Missed: cron.All, Cap: cron.MaxCap, Job: tick.With(args{})},
}

// flowRole runs a worker under limits, and tells of each run when it was
// claimed, when its handler returned and how it was settled.
type flowRole struct {
	*teller
	hurry atomic.Bool
}

func runFlow(t *teller, p plan) error {
	c, err := openStore(p)
	if err != nil {
		return err
	}
	r := &flowRole{teller: t}
	cfg := spool.WorkerConfig{
		Name: "flow", Concurrency: p.Concurrency, LeaseTTL: p.TTL,
		Hooks: spool.Hooks{Started: r.started, Finished: r.finished},
	}
	if p.Ticks {
		cfg.Schedules = schedules
	}
	w := spool.NewWorker(c, cfg)
	for _, task := range []*spool.Task[args]{even, slow, plain, bursty, byTenant, tick} {
		task.Handle(w, func(context.Context, args) error { return nil })
	}
	for _, task := range []*spool.Task[args]{alone, sequence} {
		task.Handle(w, r.work)
	}
	ctx, stop := untilTold(func(o order) {
		switch o.Do {
		case "hurry":
			r.hurry.Store(true)
		case "step":
			vfs.StepWall(o.For)
			r.tell(event{What: "stepped", Number: int64(time.Until(system.Wall()).Round(time.Minute))})
		}
	})
	defer stop()
	return errors.Join(w.Run(ctx), c.Close())
}

// work takes a while, and fails now and then.
func (r *flowRole) work(ctx context.Context, _ args) error {
	if !r.hurry.Load() {
		<-time.After(rand.N(25 * time.Millisecond)) // or it would never be killed in the middle
	}
	r.tell(r.event("return", spool.LeaseFrom(ctx)))
	if rand.IntN(10) == 0 {
		return errOnPurpose
	}
	return nil
}

func (r *flowRole) event(what string, l *spool.Lease) event {
	return event{
		What: what, Name: l.Job.Task, IDs: []spool.ID{l.Job.ID}, Token: l.Token, Attempt: l.Job.Attempt,
		Claimed: l.Job.ClaimedAt, Of: l.Job.Tenant + l.Job.Group,
	}
}

func (r *flowRole) started(l *spool.Lease) { r.tell(r.event("start", l)) }

func (r *flowRole) finished(l *spool.Lease, o spool.Outcome) {
	e := r.event("finish", l)
	e.Text = errText(o.Err)
	if o.Kind != 0 {
		e.What = o.Kind.String()
	}
	r.tell(e)
}
