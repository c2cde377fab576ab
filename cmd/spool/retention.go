package main

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

type retentionCmd struct {
	List  retentionListCmd  `cmd:"" help:"List how long finished jobs are kept, with who set it."`
	Set   retentionSetCmd   `cmd:"" help:"Set how long finished jobs are kept, of a queue or a task of it."`
	Clear retentionClearCmd `cmd:"" help:"Take an operator's retention back: what a program declares holds again."`
}

type retentionListCmd struct{ settingFlags }

// Run lists the retentions.
func (c *retentionListCmd) Run(a *app) error {
	return a.listSettings(&c.settingFlags, broker.RetentionSetting)
}

type retentionSetCmd struct {
	Task      name  `short:"t" placeholder:"NAME" help:"Of this task alone; of every task that has none of its own when not given."`
	Done      *keep `placeholder:"DURATION" help:"Done jobs and their results: 90s, 1h, 30d, none (dropped at once) or default (dropped at once, an hour with a result)."`
	Dead      *keep `placeholder:"DURATION" help:"Dead letters, likewise; the default is for ever."`
	Cancelled *keep `placeholder:"DURATION" help:"Cancelled jobs, likewise; the default is an hour."`
	setFlags
}

// Help is shown by spool retention set --help.
func (*retentionSetCmd) Help() string {
	return "What is not given stays as it is. A job's own --retain comes first. It wins over what a program declares, until it is cleared."
}

// Run sets the retention.
func (c *retentionSetCmd) Run(a *app) error {
	if c.Done == nil && c.Dead == nil && c.Cancelled == nil {
		return usagef("how long? --done, --dead, --cancelled or several of them would do")
	}
	return a.set(&c.setFlags, broker.RetentionSetting, string(c.Task), func(old *broker.Setting) broker.Setting {
		r := &broker.Retention{}
		if old != nil {
			*r = *old.Retention
		}
		for _, f := range []struct {
			given *keep
			to    *time.Duration
		}{{c.Done, &r.Done}, {c.Dead, &r.Dead}, {c.Cancelled, &r.Cancelled}} {
			if f.given != nil {
				*f.to = time.Duration(*f.given)
			}
		}
		return broker.Setting{Retention: r}
	})
}

type retentionClearCmd struct {
	Task name `short:"t" placeholder:"NAME" help:"That of this task; that of every task when not given."`
	clearFlags
}

// Run clears the retention.
func (c *retentionClearCmd) Run(a *app) error {
	return a.clear(&c.clearFlags, broker.RetentionSetting, string(c.Task))
}

// keep is how long something is kept, on the command line: 0 is the default,
// negative not at all.
type keep time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *keep) UnmarshalText(b []byte) error {
	switch string(b) {
	case "none":
		*k = -1
		return nil
	case "default":
		*k = 0
		return nil
	}
	var s span
	if err := s.UnmarshalText(b); err != nil || s <= 0 {
		return fmt.Errorf("%q is no time to keep something: 90s, 1h, 30d, none or default would do", b)
	}
	*k = keep(s)
	return nil
}
