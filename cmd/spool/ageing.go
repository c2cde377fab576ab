package main

import (
	"time"

	"github.com/spoolq/spool/broker"
)

type ageingCmd struct {
	List  ageingListCmd  `cmd:"" help:"List the queues whose jobs rise as they wait."`
	Set   ageingSetCmd   `cmd:"" help:"Let waiting jobs rise, so that those of a low priority have their turn."`
	Clear ageingClearCmd `cmd:"" help:"Take an operator's ageing back: what a program declares holds again, else there is none."`
}

type ageingListCmd struct{ settingFlags }

// Run lists the ageing of queues.
func (c *ageingListCmd) Run(a *app) error {
	return a.listSettings(&c.settingFlags, broker.AgeingSetting)
}

type ageingSetCmd struct {
	Step span `arg:"" help:"A job that is ready for that long goes before one of the next higher priority that has just become ready: 10m."`
	setFlags
}

// Run sets the ageing.
func (c *ageingSetCmd) Run(a *app) error {
	to := broker.Setting{Ageing: time.Duration(c.Step)}
	return a.set(&c.setFlags, broker.AgeingSetting, "", func(*broker.Setting) broker.Setting { return to })
}

type ageingClearCmd struct{ clearFlags }

// Run clears the ageing.
func (c *ageingClearCmd) Run(a *app) error { return a.clear(&c.clearFlags, broker.AgeingSetting, "") }
