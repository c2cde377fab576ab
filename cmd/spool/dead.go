package main

import (
	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

type deadCmd struct {
	List    deadListCmd    `cmd:"" help:"List dead letters, the longest dead first."`
	Requeue deadRequeueCmd `cmd:"" help:"Bring dead letters back, with fresh attempts."`
	Delete  deadDeleteCmd  `cmd:"" help:"Delete dead letters."`
}

type deadListCmd struct {
	filterFlags
	Limit int `short:"n" default:"50" placeholder:"N" help:"At most this many; 0 means all (${default})."`
}

// Run lists dead letters.
func (c *deadListCmd) Run(a *app) error {
	l := listCmd{filterFlags: c.filterFlags, State: []stateName{stateName(broker.Dead)}, Limit: c.Limit}
	return l.Run(a)
}

type deadRequeueCmd struct{ choice }

// Run requeues dead letters.
func (c *deadRequeueCmd) Run(a *app) error {
	return a.change(&c.choice, "requeued", broker.Command{Kind: broker.RequeueJobs, Filter: dead()})
}

type deadDeleteCmd struct{ choice }

// Run deletes dead letters.
func (c *deadDeleteCmd) Run(a *app) error {
	return a.change(&c.choice, "deleted", broker.Command{Kind: broker.DeleteJobs, Filter: dead()})
}

func dead() spool.Filter { return spool.Filter{States: []broker.State{broker.Dead}} }
