package main

import (
	"context"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

type claimCmd struct {
	Queue []name `short:"q" placeholder:"NAME" help:"From these queues, in their order; every queue when none is given. May be repeated."`
	Task  []name `short:"t" placeholder:"NAME" help:"Of these tasks; of any when none is given. May be repeated."`
	Max   int    `short:"n" default:"1" placeholder:"N" help:"At most this many jobs (${default})."`
	TTL   span   `name:"ttl" default:"30s" placeholder:"DURATION" help:"How long the lease lasts without an extend (${default})."`
	Wait  span   `default:"0s" placeholder:"DURATION" help:"Wait that long for the first job."`
	Name  name   `default:"cli" placeholder:"NAME" help:"Who claims, for other people to see (${default})."`
}

// Help is shown by spool claim --help.
func (*claimCmd) Help() string {
	return "The lease outlives this command: extend it, and end it with ack, nack or bury, which want the job's id and the token. " +
		"Without that the job runs again when the lease ends. --json prints the exact payload. Exits with 4 when there is nothing to claim."
}

// Run claims.
func (c *claimCmd) Run(a *app) error {
	if c.TTL <= 0 {
		return usagef("--ttl is %v: a duration above zero would do", time.Duration(c.TTL))
	}
	return a.with(changing, func(ctx context.Context, client *spool.Client) error {
		leases, err := client.Claim(ctx, broker.ClaimRequest{
			Queues: plainNames(c.Queue), Tasks: plainNames(c.Task), Max: c.Max, TTL: time.Duration(c.TTL),
			Worker: string(c.Name), Wait: time.Duration(c.Wait), Remote: true,
		})
		switch {
		case ctx.Err() != nil && err != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case len(leases) == 0:
			a.note("nothing to claim: no job is ready that may run now; spool stats shows what waits")
			return errNothing
		case a.json:
			for _, l := range leases {
				if err := a.object(newLeaseView(l)); err != nil {
					return err
				}
			}
			return nil
		}
		now := a.now()
		w := a.table("ID", "TOKEN", "QUEUE", "TASK", "ATTEMPT", "LEASE ENDS", "PAYLOAD")
		for _, l := range leases {
			row(w, l.Job.ID.String(), l.Token.String(), l.Job.Queue, l.Job.Task, attempts(&l.Job), text.Ago(l.ExpiresAt, now), gist(&l.Job))
		}
		return w.Flush()
	})
}
