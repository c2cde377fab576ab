package main

import (
	"strings"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// filterFlags choose jobs. None given means all; those given are joined by
// "and".
type filterFlags struct {
	Queue  name  `short:"q" placeholder:"NAME" help:"Of this queue."`
	Task   name  `short:"t" placeholder:"NAME" help:"Of this task."`
	Tenant exact `placeholder:"TEXT" help:"Of this tenant."`
	Group  exact `placeholder:"TEXT" help:"Of this group."`
	Key    exact `placeholder:"TEXT" help:"With this key."`
	Error  exact `placeholder:"TEXT" help:"Whose last error holds this text."`
	Older  span  `placeholder:"DURATION" help:"In their state for at least this long."`
	Newer  span  `placeholder:"DURATION" help:"In their state for at most this long."`
}

func (f *filterFlags) empty() bool { return *f == filterFlags{} }

func (f *filterFlags) filter() (spool.Filter, error) {
	for flag, d := range map[string]span{"older": f.Older, "newer": f.Newer} {
		if d < 0 {
			return spool.Filter{}, usagef("--%s is negative: a duration from now back would do", flag)
		}
	}
	return spool.Filter{
		Queue: string(f.Queue), Task: string(f.Task), Tenant: string(f.Tenant), Group: string(f.Group), Key: string(f.Key),
		ErrorContains: string(f.Error), OlderThan: time.Duration(f.Older), NewerThan: time.Duration(f.Newer),
	}, nil
}

// stateName is one of the six states on the command line.
type stateName broker.State

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *stateName) UnmarshalText(b []byte) error {
	state, err := broker.ParseState(string(b))
	if err != nil {
		return err
	}
	*s = stateName(state)
	return nil
}

func states(names []stateName) (s []broker.State) {
	for _, n := range names {
		s = append(s, broker.State(n))
	}
	return s
}

// jobID is a job's id on the command line.
type jobID broker.ID

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *jobID) UnmarshalText(b []byte) error {
	id, err := broker.ParseID(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	*i = jobID(id)
	return nil
}

// String returns the id as people write it.
func (i jobID) String() string { return broker.ID(i).String() }

// choice is jobs named by their ids, by a filter, or all of them by --all: a
// command that changes jobs never does it because nothing was said.
type choice struct {
	IDs []jobID `arg:"" optional:"" name:"id" help:"Ids of jobs."`
	filterFlags
	All bool `help:"Every job, when neither ids nor a filter are given."`
}

func (c *choice) filter() (spool.Filter, error) {
	f, err := c.filterFlags.filter()
	switch {
	case err != nil:
		return f, err
	case len(c.IDs) == 0 && c.empty() && !c.All:
		return f, usagef("which jobs? Ids, a filter such as --task or --queue, or --all would do")
	case c.All && (len(c.IDs) > 0 || !c.empty()):
		return f, usagef("--all means every job: leave it out, or the ids and the filter")
	}
	for _, id := range c.IDs {
		f.IDs = append(f.IDs, broker.ID(id))
	}
	return f, nil
}
