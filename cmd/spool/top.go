package main

import (
	"context"
	"os"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/cmd/spool/internal/top"
)

type topCmd struct {
	Every span `default:"1s" placeholder:"DURATION" help:"Between two looks (${default})."`
	Once  bool `help:"Print what there is, without a screen, and end."`
	Count int  `placeholder:"N" help:"With --json: end after so many samples; 0 goes on until it is stopped."`
}

// Help is shown by spool top --help.
func (*topCmd) Help() string {
	return "Shows queues, what fails, and workers, over and over: q quits, space stands still. With --json it prints a sample on each line."
}

// Run shows the store.
func (c *topCmd) Run(a *app) error {
	if time.Duration(c.Every) < 100*time.Millisecond {
		return usagef("--every is %v: 100ms or more would do", time.Duration(c.Every))
	}
	return a.with(reading, func(ctx context.Context, client *spool.Client) error {
		switch {
		case a.json:
			return c.lines(ctx, a, client)
		case c.Once:
			s, err := top.Take(ctx, client, a.now(), nil)
			if err != nil {
				return err
			}
			return a.printf("%s", top.Render(a.place(), s, 0, 0))
		}
		return top.Screen(ctx, client, a.place(), time.Duration(c.Every), os.Stdin, os.Stdout)
	})
}

// lines prints samples.
func (c *topCmd) lines(ctx context.Context, a *app, client *spool.Client) error {
	var last *top.Sample
	tick := time.NewTicker(time.Duration(c.Every))
	defer tick.Stop()
	for n := 1; ; n++ {
		s, err := top.Take(ctx, client, a.now(), last)
		if err != nil {
			return causeOf(ctx, err)
		}
		last = s
		if err := a.object(s); err != nil {
			return err
		}
		if err := a.out.Flush(); err != nil || n == c.Count || c.Once {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
