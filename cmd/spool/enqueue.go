package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/internal/text"
)

type enqueueCmd struct {
	Task    name   `arg:"" help:"Name of the task."`
	Payload *exact `arg:"" optional:"" help:"JSON or any text; - takes all of the input, byte for byte. None is an empty payload."`
	Lines   bool   `help:"Add one job for each line of the input; empty lines are passed over."`
	Block   bool   `help:"Wait for room when the queue is full."`

	jobFlags
	Delay    *span    `xor:"due" placeholder:"DURATION" help:"Due that much later."`
	At       *instant `xor:"due" placeholder:"TIME" help:"Due at that time, as 2026-11-30T15:04:05Z."`
	Replace  bool     `xor:"repeat" help:"With --key: when a job that waits holds the key, it gets this payload; its id, place and due time stay."`
	Debounce bool     `xor:"repeat" help:"With --key and --delay: likewise, and the new due time: it runs once the calls have stopped for so long."`
	ID       *jobID   `name:"id" placeholder:"UUID" help:"The job's id: enqueued twice, it is one job."`
}

// Help is shown by spool enqueue --help.
func (*enqueueCmd) Help() string {
	return "Prints the job's id when the job is durable. A payload of another program's JSON passes through unchanged; a handler written in Go reads it as JSON. " +
		"When the queue is full (spool capacity) nothing is added, and the exit code is 6."
}

// check refuses what the options do not see.
func (c *enqueueCmd) check() error {
	switch {
	case c.Lines && c.Payload != nil && *c.Payload != "-":
		return usagef("--lines takes the payloads from the input: leave %q out", *c.Payload)
	case c.Lines && (c.ID != nil || c.Key != nil):
		return usagef("--lines with --id or --key would make all lines one job")
	case c.Key == nil && (c.Replace || c.Debounce):
		return usagef("--replace and --debounce say what a repeat of a key does: give --key")
	case c.Debounce && c.Delay == nil && c.At == nil:
		return usagef("--debounce runs the job once calls have stopped for a time: give --delay")
	case c.ID != nil && broker.ID(*c.ID).IsZero():
		return usagef("--id is zero, which names no job")
	}
	return c.jobFlags.check()
}

// options are the job's options but its id.
func (c *enqueueCmd) options() []spool.JobOption {
	opts := c.jobFlags.options()
	if c.Delay != nil {
		opts = append(opts, spool.Delay(time.Duration(*c.Delay)))
	}
	if c.At != nil {
		opts = append(opts, spool.At(time.Time(*c.At)))
	}
	switch {
	case c.Replace:
		opts = append(opts, spool.Replace())
	case c.Debounce:
		opts = append(opts, spool.Debounce())
	}
	return opts
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

// Run adds the job or the jobs.
func (c *enqueueCmd) Run(a *app) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	opts := c.options()
	var payload []byte
	if !c.Lines && c.Payload != nil {
		if payload, err = c.Payload.payload(a.in); err != nil {
			return err
		}
	}
	spec := spool.Raw(string(c.Task), payload, opts...)
	var checked taker
	err = checked.try(func(ctx context.Context, client *spool.Client) error {
		_, err := client.Enqueue(ctx, spec)
		return err
	})
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	client, err := a.open(ctx, creating, c.config())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if c.Lines {
		return causeOf(ctx, c.lines(ctx, a, client, opts, checked.bytes))
	}
	answers, err := c.enqueue(ctx, a, client, spec)
	if err != nil {
		return causeOf(ctx, err)
	}
	c.repeated(a, answers[0])
	if err := c.print(a, answers); err != nil {
		return err
	}
	c.warn(ctx, a, client)
	return nil
}

// enqueue adds jobs; when the queue is full it waits for room, if that was
// asked for.
func (c *enqueueCmd) enqueue(ctx context.Context, a *app, client *spool.Client, jobs ...spool.Spec) ([]spool.Enqueued, error) {
	for said := false; ; said = true {
		answers, err := client.Enqueue(ctx, jobs...)
		var full *broker.FullError
		if !c.Block || !errors.As(err, &full) {
			return answers, err
		}
		if !said {
			a.note("waiting for room: %s", full.Text)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(min(max(full.RetryAfter, minRetry), maxRetry)):
		}
	}
}

// Bounds of the wait for room between two tries.
const (
	minRetry = 10 * time.Millisecond
	maxRetry = 30 * time.Second
)

// repeated says what became of a repeat of an id or a key.
func (c *enqueueCmd) repeated(a *app, e spool.Enqueued) {
	switch {
	case !e.Existing:
		return
	case c.Replace || c.Debounce:
		a.note("no job was added: job %s has that key already, and takes what is new if it waits still", e.ID)
		return
	}
	a.note("nothing was added: job %s has that key or id already", e.ID)
	if e.Differs {
		a.note("its payload is another than this one")
	}
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
// the questions.
func (c *enqueueCmd) warn(ctx context.Context, a *app, client *spool.Client) {
	moving, err := c.moving(ctx, a, client)
	if err == nil && moving != "" {
		if movedAway(moving) {
			a.note("queue %s %s: the job waits here, where none is given out; %s", c.Queue, text.Safe(moving), afterMove)
		} else {
			a.note("queue %s %s: the job waits until the move has ended", c.Queue, text.Safe(moving))
		}
		return
	}
	served := false
	if err == nil {
		served, err = c.served(ctx, client)
	}
	switch {
	case err != nil:
		a.note("whether a worker handles the task cannot be said: %s", plain(err))
	case !served:
		a.note("no live worker handles task %s of queue %s: the job waits until one does", c.Task, c.Queue)
	}
}

// maxAsked is the size of a directory, in bytes, up to which an enqueue loads
// its jobs to see whether the queue has moved; that takes some milliseconds.
const maxAsked = 16 << 20

// moving says how the queue moves to or from another store. A directory with
// many jobs is not asked: enqueue is quick in one of any size.
func (c *enqueueCmd) moving(ctx context.Context, a *app, client *spool.Client) (string, error) {
	if a.url == "" && dirBytes(a.dir) > maxAsked {
		return "", nil
	}
	counts, err := client.Counts(ctx, string(c.Queue))
	if err != nil || len(counts) == 0 {
		return "", err
	}
	return counts[0].Moving, nil
}

// dirBytes is the size of a directory's files, of those that can be seen.
func dirBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// served says whether a live worker handles the task. A store in a directory is
// asked for what it can tell without loading all its jobs.
func (c *enqueueCmd) served(ctx context.Context, client *spool.Client) (bool, error) {
	if b, ok := client.Broker().(*filebroker.Broker); ok {
		return b.Served(string(c.Queue), string(c.Task))
	}
	workers, err := client.Workers(ctx, string(c.Queue))
	return slices.ContainsFunc(workers, func(w broker.Worker) bool {
		return w.Tasks == nil || slices.Contains(w.Tasks, string(c.Task))
	}), err
}
