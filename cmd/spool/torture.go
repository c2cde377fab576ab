package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spoolq/spool/cmd/spool/internal/crash"
	"github.com/spoolq/spool/internal/text"
)

type tortureCmd struct {
	Seconds int  `default:"60" placeholder:"N" help:"For how long processes are killed (${default})."`
	Kills   span `name:"kill-every" default:"300ms" placeholder:"DURATION" help:"Mean time between two kills (${default})."`
	Stop    bool `help:"Also stop processes with SIGSTOP at random, each for up to twice the time of a lease."`
	Clocks  bool `help:"Give each process, each time that it starts, a wall clock of its own that is off by up to a day (Linux on x86-64)."`
	Keep    bool `help:"Keep the directory also when nothing is wrong."`
}

// Help is shown by spool torture --help.
func (*tortureCmd) Help() string {
	return "Makes a store of its own inside --dir (by default ., not the store that other commands use), lets 4 producers and 4 workers at it, and kills any of them at random with SIGKILL, " +
		"sometimes all at once. Each notes outside the store what was acknowledged to it; at the end every job, state and counter is compared with the notes. " +
		"Exits with 1 and keeps the directory when anything is wrong. It tests processes that die, not power cuts: pull the plug for those."
}

// Run tortures.
func (c *tortureCmd) Run(a *app) (err error) {
	if c.Seconds < 1 || c.Kills <= 0 {
		return usagef("--seconds is %d and --kill-every %v: above zero would do", c.Seconds, time.Duration(c.Kills))
	}
	ctx, stop := interruptible()
	defer stop()
	dir, err := a.workplace()
	if err != nil {
		return err
	}
	r, err := newArena(dir, "spool-torture")
	if err != nil {
		return fmt.Errorf("make a directory for the run: %w", err)
	}
	a.note("torturing in %s for %d s", r.dir, c.Seconds)
	report, err := c.run(ctx, a, r)
	if err == nil && report.OK && !c.Keep {
		err = os.RemoveAll(r.dir)
	} else {
		a.note("the store and the notes of what was acknowledged are kept in %s", r.dir)
	}
	if err != nil {
		return err
	}
	if err := a.tortureReport(report); err != nil {
		return err
	}
	if !report.OK {
		return errSaid
	}
	return nil
}

const (
	tortureProcesses = 4 // of each role
	tortureTTL       = 3 * time.Second
	stopEvery        = 2 * time.Second // on average, each for up to two TTLs
	wallOff          = 24 * time.Hour  // at most
)

func (c *tortureCmd) run(ctx context.Context, a *app, r *arena) (*crash.Report, error) {
	f := &crash.Fleet{Command: func(p crash.Plan) (*exec.Cmd, error) {
		if c.Clocks {
			p.Wall = rand.N(2*wallOff) - wallOff
		}
		return a.selfCommand("crash-role", p)
	}}
	defer f.Close()
	plan := crash.Plan{
		Store: r.store, Ledgers: r.ledgers, Queues: []string{"anvil", "bellows", "crucible"}, Chaos: true,
		PerSecond: 250, Lanes: 6, TTL: tortureTTL, WorkHigh: 3 * time.Millisecond,
	}
	for i := range tortureProcesses {
		for _, role := range []string{crash.Producer, crash.Worker} {
			plan.Role, plan.Name = role, role+strconv.Itoa(i+1)
			f.Start(plan)
		}
	}
	begun := time.Now()
	if err := c.kill(ctx, a, f, crash.NewTally(r.ledgers)); err != nil {
		return nil, err
	}
	if err := f.Stop(ctx, crash.Producer); err != nil {
		return nil, err
	}
	a.note("no more kills: working what is left, then comparing")
	report, err := r.judge(ctx, a, f, 20*time.Second)
	if err != nil {
		return nil, err
	}
	report.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
	return report, nil
}

// kill kills for the time of the run and says how it goes.
func (c *tortureCmd) kill(ctx context.Context, a *app, f *crash.Fleet, tally *crash.Tally) error {
	end := time.NewTimer(time.Duration(c.Seconds) * time.Second)
	defer end.Stop()
	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	every := time.Duration(c.Kills)
	freeze := time.NewTicker(stopEvery)
	defer freeze.Stop()
	if !c.Stop {
		freeze.Stop()
	}
	for {
		next := time.NewTimer(every/2 + rand.N(every))
		select {
		case <-next.C:
			if rand.IntN(20) == 0 {
				f.KillAll(crash.Producer, crash.Worker)
			} else {
				f.Kill(crash.Producer, crash.Worker)
			}
		case <-freeze.C:
			if err := f.Freeze(rand.N(2*tortureTTL), crash.Producer, crash.Worker); err != nil {
				return err
			}
		case <-progress.C:
			if err := tally.Read(); err != nil {
				return err
			}
			a.note("%s kills, %s jobs enqueued, %s claims, %s settlements", text.Count(int64(f.Kills())), text.Count(int64(tally.Enqueued)), text.Count(int64(tally.Claims)), text.Count(int64(tally.Settled)))
		case <-end.C:
			next.Stop()
			return nil
		case <-ctx.Done():
			next.Stop()
			return context.Cause(ctx)
		}
		next.Stop()
	}
}

func (a *app) tortureReport(r *crash.Report) error {
	if a.json {
		return a.object(r)
	}
	w := a.table("WHAT HAPPENED", "", "", "WHAT MUST NOT HAPPEN", "")
	w2 := [][2]string{}
	for _, x := range r.Wrongs.List() {
		w2 = append(w2, [2]string{x.Name, text.Count(int64(x.Count))})
	}
	facts := []struct {
		name string
		n    int
	}{
		{"kills", r.Kills}, {"stops", r.Stops}, {"jobs enqueued", r.Enqueued}, {"claims", r.Claims}, {"settled", r.Settled}, {"redelivered", r.Redelivered},
		{"refused: lease lost", r.Refused}, {"done", r.Done}, {"dead", r.Dead}, {"cancelled", r.Cancelled}, {"deleted", r.Deleted}, {"waiting as they should", r.Waiting},
	}
	for i := range max(len(facts), len(w2)) {
		cells := make([]string, 5)
		if i < len(facts) {
			cells[0], cells[1] = facts[i].name, text.Count(int64(facts[i].n))
		}
		if i < len(w2) {
			cells[3], cells[4] = w2[i][0], w2[i][1]
		}
		row(w, cells...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.verdict(r)
}

// verdict ends the report of demo and torture.
func (a *app) verdict(r *crash.Report) error {
	for _, f := range r.Findings {
		if err := a.printf("WRONG: %s", text.Safe(f)); err != nil {
			return err
		}
	}
	if r.OK {
		return a.printf("\nOK: after %s kills in %.0f s everything that was acknowledged is there, in its state, once.", text.Count(int64(r.Kills)), r.Seconds)
	}
	return a.printf("\nNOT OK: %d things are wrong.", r.Sum())
}
