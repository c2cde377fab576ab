package main

import (
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/limit"
)

type limitCmd struct {
	List  limitListCmd  `cmd:"" help:"List the limits, with who set them."`
	Set   limitSetCmd   `cmd:"" help:"Set a limit on the rate, or on the number of running jobs, of some tasks."`
	Clear limitClearCmd `cmd:"" help:"Take an operator's limit back: what a program declares holds again."`
}

type limitListCmd struct{ settingFlags }

// Run lists the limits.
func (c *limitListCmd) Run(a *app) error { return a.listSettings(&c.settingFlags, broker.LimitSetting) }

type limitSetCmd struct {
	Name    name   `arg:"" help:"Name of the limit: explain and list show it."`
	Task    []name `short:"t" required:"" placeholder:"NAME" help:"Tasks that it binds, counted together; may be repeated. A task is bound by at most 4 limits."`
	Rate    rate   `xor:"what" placeholder:"RATE" help:"So many claims in so much time: 10/s, 100/m, 0.5/s, 10/30s."`
	Burst   *int64 `placeholder:"N" help:"With --rate: so many at once; the count of the rate, rounded up, when not given."`
	Running *int   `xor:"what" placeholder:"N" help:"So many running jobs at a time."`
	Per     scope  `placeholder:"tenant|group" help:"Count each tenant, or each group, by itself; all jobs together when not given."`
	setFlags
}

// Help is shown by spool limit set --help.
func (*limitSetCmd) Help() string {
	return "A job over its limit is not claimed: it keeps its place, and no attempt is counted. The limit holds for all processes at once. " +
		"It wins over one of that name that a program declares, until it is cleared."
}

// Run sets the limit.
func (c *limitSetCmd) Run(a *app) error {
	switch {
	case c.Rate == (rate{}) && c.Running == nil:
		return usagef("a limit is either --rate, as 10/s, or --running, as 3")
	case c.Rate == (rate{}) && c.Burst != nil:
		return usagef("--burst goes with --rate")
	case c.Running != nil && *c.Running < 1:
		return usagef("--running is %d: 1 or more would do; spool pause stops a queue", *c.Running)
	case c.Burst != nil && *c.Burst < 1:
		return usagef("--burst is %d: 1 or more would do", *c.Burst)
	}
	l := &broker.Limit{Tasks: plainNames(c.Task), Per: broker.Scope(c.Per)}
	if c.Running != nil {
		l.Running = *c.Running
	} else {
		l.Count, l.Every, l.Burst = int64(c.Rate.Count), c.Rate.Per, int64(c.Rate.Burst)
		if c.Burst != nil {
			l.Burst = *c.Burst
		}
		r := limit.Rate{Count: c.Rate.Count, Per: c.Rate.Per, Burst: int(l.Burst)}
		if err := r.Validate(); err != nil {
			return usagef("%v", err)
		}
	}
	return a.set(&c.setFlags, broker.LimitSetting, string(c.Name), func(*broker.Setting) broker.Setting { return broker.Setting{Limit: l} })
}

type limitClearCmd struct {
	Name name `arg:"" help:"Name of the limit."`
	clearFlags
}

// Run clears the limit.
func (c *limitClearCmd) Run(a *app) error {
	return a.clear(&c.clearFlags, broker.LimitSetting, string(c.Name))
}

// rate is a rate on the command line.
type rate struct{ limit.Rate }

// scope says by what a limit counts, on the command line.
type scope broker.Scope

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *scope) UnmarshalText(b []byte) error {
	switch given := broker.Scope(b); given {
	case broker.PerTenant, broker.PerGroup:
		*s = scope(given)
		return nil
	}
	return usagef("%q is none of tenant, group", b)
}
