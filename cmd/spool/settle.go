package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// leaseFlags name a lease.
type leaseFlags struct {
	ID    jobID      `arg:"" name:"id" help:"Id of the job."`
	Token tokenValue `required:"" placeholder:"TOKEN" help:"The token that claim printed."`
	Queue name       `short:"q" placeholder:"NAME" help:"The job's queue; looked up when not given."`
}

// tokenValue is a token on the command line.
type tokenValue broker.Token

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *tokenValue) UnmarshalText(b []byte) error {
	token, err := broker.ParseToken(string(b))
	if err != nil {
		return err
	}
	*t = tokenValue(token)
	return nil
}

// find returns the job, by its queue or wherever it is.
func (f *leaseFlags) find(ctx context.Context, c *spool.Client) (broker.Job, error) {
	if f.Queue == "" {
		return c.Get(ctx, broker.ID(f.ID))
	}
	jobs, err := c.Broker().Get(ctx, []broker.Ref{{Queue: string(f.Queue), ID: broker.ID(f.ID)}})
	if err == nil && jobs[0].State == 0 {
		err = fmt.Errorf("get job %v in queue %s: %w", f.ID, f.Queue, spool.ErrNotFound)
	}
	if err != nil {
		return broker.Job{}, err
	}
	return jobs[0], nil
}

// settle opens the store, finds the lease, calls fn, and says where the job is
// then. The job that fn gets is as it was before.
func (f *leaseFlags) settle(a *app, did string, fn func(context.Context, *spool.Lease, *broker.Job) error) error {
	return a.with(changing, func(ctx context.Context, c *spool.Client) error {
		job, err := f.find(ctx, c)
		if err != nil {
			return err
		}
		ref := job.Ref()
		if err := fn(ctx, c.Lease(ref, broker.Token(f.Token)), &job); err != nil {
			return err
		}
		now, err := c.Broker().Get(ctx, []broker.Ref{ref})
		if err != nil {
			return err
		}
		if job = now[0]; job.State == 0 { // done, and not kept any longer
			job = broker.Job{Queue: ref.Queue, ID: ref.ID, State: broker.Done}
		}
		if a.json {
			return a.object(settledView{ID: job.ID, Queue: job.Queue, State: job.State, ExpiresAt: job.LeaseExpiresAt})
		}
		if job.State == broker.Leased {
			return a.printf("job %s %s: its lease ends %s", job.ID, did, text.When(job.LeaseExpiresAt, a.now()))
		}
		return a.printf("job %s %s: it is %s now", job.ID, did, state(&job))
	})
}

// settledView is the answer of a settlement as --json prints it.
type settledView struct {
	ID        broker.ID    `json:"id"`
	Queue     string       `json:"queue"`
	State     broker.State `json:"state"`
	ExpiresAt time.Time    `json:"expires_at,omitzero"`
}

type extendCmd struct {
	leaseFlags
	TTL     span  `name:"ttl" default:"30s" placeholder:"DURATION" help:"From now (${default})."`
	Note    exact `placeholder:"TEXT" help:"Where the work stands, for other people to see."`
	Percent *int  `placeholder:"N" help:"How far the work is, 0 to 100."`
}

// Run extends the lease.
func (c *extendCmd) Run(a *app) error {
	if c.TTL <= 0 {
		return usagef("--ttl is %v: a duration above zero would do", time.Duration(c.TTL))
	}
	if c.Percent != nil && (*c.Percent < 0 || *c.Percent > 100) {
		return usagef("--percent is %d: 0 to 100 would do", *c.Percent)
	}
	return c.settle(a, "extended", func(ctx context.Context, l *spool.Lease, job *broker.Job) error {
		if c.Percent != nil || c.Note != "" {
			percent := 0
			if c.Percent != nil {
				percent = *c.Percent
			}
			l.Progress(percent, string(c.Note))
		}
		err := l.Extend(ctx, time.Duration(c.TTL))
		if errors.Is(err, spool.ErrCancelled) {
			a.note("the job is to be cancelled: stop, and nack it")
			return nil
		}
		return err
	})
}

type ackCmd struct {
	leaseFlags
	Result *exact `placeholder:"TEXT" help:"Result to keep with the job; - takes the input, byte for byte."`
}

// Run acks the job.
func (c *ackCmd) Run(a *app) error {
	var result []byte
	if c.Result != nil {
		result = []byte(*c.Result)
		if *c.Result == "-" {
			var err error
			if result, err = io.ReadAll(io.LimitReader(a.in, broker.MaxCallBytes+1)); err != nil {
				return fmt.Errorf("read the result: %w", err)
			}
		}
	}
	return c.settle(a, "acked", func(ctx context.Context, l *spool.Lease, job *broker.Job) error { return l.Ack(ctx, result) })
}

type nackCmd struct {
	leaseFlags
	Error exact `placeholder:"TEXT" help:"What went wrong; it is kept with the job."`
	Delay *span `placeholder:"DURATION" help:"When to try again; by default 1s, doubling with each failure up to 1h."`
}

// Run nacks the job.
func (c *nackCmd) Run(a *app) error {
	if c.Delay != nil && *c.Delay < 0 {
		return usagef("--delay is negative: a duration from now on would do")
	}
	return c.settle(a, "nacked", func(ctx context.Context, l *spool.Lease, job *broker.Job) error {
		if c.Delay != nil {
			return l.Nack(ctx, time.Duration(*c.Delay), cause(c.Error))
		}
		return l.Nack(ctx, spool.Exponential{}.Delay(max(job.Attempt, 1), nil), cause(c.Error))
	})
}

type buryCmd struct {
	leaseFlags
	Error exact `placeholder:"TEXT" help:"Why; it is kept with the job."`
}

// Run buries the job.
func (c *buryCmd) Run(a *app) error {
	return c.settle(a, "buried", func(ctx context.Context, l *spool.Lease, job *broker.Job) error { return l.Bury(ctx, cause(c.Error)) })
}

// cause is the error that a flag gives; nil when it is empty.
func cause(text exact) error {
	if text == "" {
		return nil
	}
	return errors.New(string(text))
}
