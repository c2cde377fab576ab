package main

import (
	"time"

	"github.com/spoolq/spool"
)

// jobFlags are the options of a job that a schedule's job has as well.
type jobFlags struct {
	Queue           name   `short:"q" default:"default" placeholder:"NAME" help:"Queue (${default})."`
	Priority        int32  `short:"p" placeholder:"N" help:"Higher first; 0 when not given. Negative as --priority=-1."`
	Key             *exact `placeholder:"TEXT" help:"Idempotency key: while its job is not finished, a repeat adds nothing and gives that job's id."`
	KeyFor          *span  `xor:"hold" placeholder:"DURATION" help:"Hold the key for that long, whatever becomes of the job."`
	KeyUntilStarted bool   `xor:"hold" help:"Hold the key until the job is claimed for the first time."`
	Tenant          *exact `placeholder:"TEXT" help:"Who the job is for."`
	Group           *exact `placeholder:"TEXT" help:"What per-group limits count by; the tenant when not given."`
	Ordered         bool   `help:"Run the ordered jobs of one group one at a time, in their order: the next waits until this one is final, retries included."`
	MaxAttempts     *int   `placeholder:"N" help:"Runs in all (20)."`
	Timeout         *span  `placeholder:"DURATION" help:"Of one run."`
	StartWithin     *span  `placeholder:"DURATION" help:"Cancel the job when it was not started that long after it was due."`
	Retain          *span  `placeholder:"DURATION" help:"Keep the finished job and its result that long."`
	Header          []pair `short:"H" sep:"none" placeholder:"NAME=VALUE" help:"A pair that travels with the job; may be repeated."`
}

// options are the job's options.
func (f *jobFlags) options() []spool.JobOption {
	opts := []spool.JobOption{spool.Queue(string(f.Queue)), spool.Priority(f.Priority)}
	for _, s := range []struct {
		value  *span
		option func(time.Duration) spool.JobOption
	}{{f.KeyFor, spool.KeyWindow}, {f.Timeout, spool.Timeout}, {f.StartWithin, spool.StartWithin}, {f.Retain, spool.Retain}} {
		if s.value != nil {
			opts = append(opts, s.option(time.Duration(*s.value)))
		}
	}
	for _, s := range []struct {
		value  *exact
		option func(string) spool.JobOption
	}{{f.Key, spool.Key}, {f.Tenant, spool.Tenant}, {f.Group, spool.Group}} {
		if s.value != nil {
			opts = append(opts, s.option(string(*s.value)))
		}
	}
	if f.KeyUntilStarted {
		opts = append(opts, spool.KeyUntilStarted())
	}
	if f.Ordered {
		opts = append(opts, spool.Ordered())
	}
	if f.MaxAttempts != nil {
		opts = append(opts, spool.MaxAttempts(*f.MaxAttempts))
	}
	for _, h := range f.Header {
		opts = append(opts, spool.Header(h.name, h.value))
	}
	return opts
}

// check refuses what the options do not see.
func (f *jobFlags) check() error {
	if f.Key == nil && (f.KeyFor != nil || f.KeyUntilStarted) {
		return usagef("--key-for and --key-until-started say how long a key is held: give --key")
	}
	return nil
}
