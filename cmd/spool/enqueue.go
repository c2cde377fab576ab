package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

type enqueueCmd struct {
	Task    name   `arg:"" help:"Name of the task."`
	Payload *exact `arg:"" optional:"" help:"JSON or any text; - takes all of the input, byte for byte. None is an empty payload."`
	Lines   bool   `help:"Add one job for each line of the input; empty lines are passed over."`

	jobFlags
}

// jobFlags are the options of a job.
type jobFlags struct {
	Queue           name     `short:"q" default:"default" placeholder:"NAME" help:"Queue (${default})."`
	Priority        int32    `short:"p" placeholder:"N" help:"Higher first; 0 when not given. Negative as --priority=-1."`
	Delay           *span    `xor:"due" placeholder:"DURATION" help:"Due that much later."`
	At              *instant `xor:"due" placeholder:"TIME" help:"Due at that time, as 2026-11-30T15:04:05Z."`
	Key             *exact   `placeholder:"TEXT" help:"Idempotency key: while its job is not finished, a repeat adds nothing and prints that job's id."`
	KeyFor          *span    `xor:"hold" placeholder:"DURATION" help:"Hold the key for that long, whatever becomes of the job."`
	KeyUntilStarted bool     `xor:"hold" help:"Hold the key until the job is claimed for the first time."`
	Tenant          *exact   `placeholder:"TEXT" help:"Who the job is for."`
	Group           *exact   `placeholder:"TEXT" help:"What per-group limits count by."`
	MaxAttempts     *int     `placeholder:"N" help:"Runs in all (20)."`
	Timeout         *span    `placeholder:"DURATION" help:"Of one run."`
	StartWithin     *span    `placeholder:"DURATION" help:"Cancel the job when it was not started that long after it was due."`
	Retain          *span    `placeholder:"DURATION" help:"Keep the finished job and its result that long."`
	Header          []pair   `short:"H" sep:"none" placeholder:"NAME=VALUE" help:"A pair that travels with the job; may be repeated."`
	ID              *jobID   `name:"id" placeholder:"UUID" help:"The job's id: enqueued twice, it is one job."`
}

// Help is shown by spool enqueue --help.
func (*enqueueCmd) Help() string {
	return "Prints the job's id when the job is durable. A payload of another program's JSON passes through unchanged; a handler written in Go reads it as JSON."
}

// options are the job's options but its id.
func (f *jobFlags) options() []spool.JobOption {
	opts := []spool.JobOption{spool.Queue(string(f.Queue)), spool.Priority(f.Priority)}
	for _, s := range []struct {
		value  *span
		option func(time.Duration) spool.JobOption
	}{{f.Delay, spool.Delay}, {f.KeyFor, spool.KeyWindow}, {f.Timeout, spool.Timeout}, {f.StartWithin, spool.StartWithin}, {f.Retain, spool.Retain}} {
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
	if f.At != nil {
		opts = append(opts, spool.At(time.Time(*f.At)))
	}
	if f.KeyUntilStarted {
		opts = append(opts, spool.KeyUntilStarted())
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
func (c *enqueueCmd) check() error {
	switch {
	case c.Lines && c.Payload != nil && *c.Payload != "-":
		return usagef("--lines takes the payloads from the input: leave %q out", *c.Payload)
	case c.Lines && (c.ID != nil || c.Key != nil):
		return usagef("--lines with --id or --key would make all lines one job")
	case c.Key == nil && (c.KeyFor != nil || c.KeyUntilStarted):
		return usagef("--key-for and --key-until-started say how long a key is held: give --key")
	case c.ID != nil && broker.ID(*c.ID).IsZero():
		return usagef("--id is zero, which names no job")
	}
	return nil
}

// Run adds the job or the jobs.
func (c *enqueueCmd) Run(a *app) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	opts := c.options()
	var payload []byte
	if !c.Lines && c.Payload != nil {
		if payload = []byte(*c.Payload); *c.Payload == "-" {
			if payload, err = io.ReadAll(io.LimitReader(a.in, broker.MaxCallBytes+1)); err != nil {
				return err
			}
		}
	}
	if err := c.try(payload, opts); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	client, err := a.open(creating, c.config())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if c.Lines {
		return c.lines(ctx, a, client, opts)
	}
	answers, err := client.Enqueue(ctx, spool.Raw(string(c.Task), payload, opts...))
	if err != nil {
		return err
	}
	if answers[0].Existing {
		a.note("nothing was added: job %s has that key or id already", answers[0].ID)
	}
	if answers[0].Differs {
		a.note("its payload is another than this one")
	}
	if err := c.print(a, answers); err != nil {
		return err
	}
	c.warn(ctx, a, client)
	return nil
}

// try makes the job without a store, so that what can never be right makes no
// directory.
func (c *enqueueCmd) try(payload []byte, opts []spool.JobOption) error {
	nowhere := spool.New(refuser{}, spool.Config{})
	_, err := nowhere.Enqueue(context.Background(), spool.Raw(string(c.Task), payload, opts...))
	if errors.Is(err, errNowhere) {
		return nil
	}
	return err
}

// config gives the job the id that the command line names.
func (c *enqueueCmd) config() spool.Config {
	if c.ID == nil {
		return spool.Config{}
	}
	return spool.Config{OnEnqueue: []func(spool.EnqueueFunc) spool.EnqueueFunc{func(next spool.EnqueueFunc) spool.EnqueueFunc {
		return func(ctx context.Context, queue string, jobs []broker.NewJob) ([]spool.Enqueued, error) {
			jobs[0].ID = broker.ID(*c.ID)
			return next(ctx, queue, jobs)
		}
	}}}
}

// enqueuedView is an answer as --json prints it.
type enqueuedView struct {
	spool.Enqueued
	Queue string `json:"queue"`
	Task  string `json:"task"`
}

func (c *enqueueCmd) print(a *app, answers []spool.Enqueued) error {
	for _, e := range answers {
		if a.json {
			if err := a.object(enqueuedView{e, string(c.Queue), string(c.Task)}); err != nil {
				return err
			}
		} else if err := a.printf("%s", e.ID); err != nil {
			return err
		}
	}
	return a.out.Flush()
}

// warn says when nobody would run the job. It was accepted, whatever comes of
// the question.
func (c *enqueueCmd) warn(ctx context.Context, a *app, client *spool.Client) {
	workers, err := client.Workers(ctx, string(c.Queue))
	if err != nil {
		a.note("whether a worker handles the task cannot be said: %s", plain(err))
		return
	}
	for _, w := range workers {
		if w.Tasks == nil || slices.Contains(w.Tasks, string(c.Task)) {
			return
		}
	}
	a.note("no live worker handles task %s of queue %s: the job waits until one does", c.Task, c.Queue)
}

// refuser is a broker that takes nothing.
type refuser struct{ broker.Broker }

var errNowhere = errors.New("nowhere")

func (refuser) Caps() broker.Caps { return broker.Caps{} }

func (refuser) Enqueue(context.Context, broker.Call, string, []broker.NewJob) ([]broker.Enqueued, error) {
	return nil, errNowhere
}
