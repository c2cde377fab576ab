package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/redisbroker"
)

type spreadCmd struct {
	List  spreadListCmd  `cmd:"" help:"List the queues that are spread."`
	Set   spreadSetCmd   `cmd:"" help:"Spread a queue that has no jobs over slots of a cluster."`
	Clear spreadClearCmd `cmd:"" help:"Gather a queue that has no jobs in one slot again."`
}

type spreadListCmd struct{ settingFlags }

// Run lists the queues that are spread.
func (c *spreadListCmd) Run(a *app) error {
	return a.onRedis(func(ctx context.Context, b *redisbroker.Broker) error {
		all, err := b.Spreads(ctx, string(c.Queue))
		if err != nil {
			return err
		}
		if a.json {
			for i := range all {
				if err := a.object(&all[i]); err != nil {
					return err
				}
			}
			return nil
		}
		if len(all) == 0 {
			return a.printf("no queue is spread")
		}
		w := a.table("QUEUE", "PARTS")
		for _, s := range all {
			row(w, s.Queue, strconv.Itoa(s.Parts))
		}
		return w.Flush()
	})
}

type spreadSetCmd struct {
	Queue name `arg:"" help:"The queue; it has no jobs, or is not there yet."`
	Parts int  `arg:"" help:"Over so many parts, 2 to 16: as many as the cluster has primaries, say."`
}

// Help is shown by spool spread set --help.
func (*spreadSetCmd) Help() string {
	return "One queue is one slot: one server of a cluster does all of its work. A queue that is spread is several, of which each has a slot and a part of the jobs. " +
		"Keys, ordered groups and batches hold exactly, since each is in one part. Order, priorities, ageing and the turns of tenants hold within a part alone. " +
		"Limits and capacities need one place and are refused, as are moves. A claim that finds nothing looks in every part."
}

// Run spreads a queue.
func (c *spreadSetCmd) Run(a *app) error {
	return a.onRedis(func(ctx context.Context, b *redisbroker.Broker) error {
		if err := b.SetSpread(ctx, string(c.Queue), c.Parts); err != nil {
			return err
		}
		return a.spread(redisbroker.Spread{Queue: string(c.Queue), Parts: c.Parts})
	})
}

type spreadClearCmd struct {
	Queue name `arg:"" help:"The queue; it has no jobs, not even finished ones."`
}

// Run gathers a queue.
func (c *spreadClearCmd) Run(a *app) error {
	return a.onRedis(func(ctx context.Context, b *redisbroker.Broker) error {
		if err := b.ClearSpread(ctx, string(c.Queue)); err != nil {
			return err
		}
		return a.spread(redisbroker.Spread{Queue: string(c.Queue), Parts: 1})
	})
}

// spread says how a queue is spread now.
func (a *app) spread(s redisbroker.Spread) error {
	switch {
	case a.json:
		return a.object(&s)
	case s.Parts == 1:
		return a.printf("queue %s is not spread", s.Queue)
	}
	return a.printf("queue %s is spread over %d parts", s.Queue, s.Parts)
}

// onRedis opens a broker on Redis: no other has queues that are spread.
func (a *app) onRedis(fn func(ctx context.Context, b *redisbroker.Broker) error) error {
	if !redisbroker.IsURL(a.url) {
		return usagef("spool spread is about queues on Redis: --broker redis+cluster://HOST names them, and %s is none", a.place())
	}
	return a.with(changing, func(ctx context.Context, c *spool.Client) error {
		b, ok := c.Broker().(*redisbroker.Broker)
		if !ok {
			return errors.Join(broker.ErrUnsupported, errors.New("spool spread is about queues on Redis"))
		}
		return causeOf(ctx, fn(ctx, b))
	})
}
