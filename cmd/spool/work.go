package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cmd/spool/internal/command"
	"github.com/spoolq/spool/internal/text"
)

type workCmd struct {
	Exec        exact  `required:"" placeholder:"COMMAND" help:"Run by sh -c for each job."`
	Task        []name `short:"t" placeholder:"NAME" help:"Jobs of these tasks; of any when none is given. May be repeated."`
	Queue       []name `short:"q" placeholder:"NAME" help:"From these queues, in strict order; every queue when none is given. May be repeated."`
	Concurrency int    `short:"c" default:"1" placeholder:"N" help:"Run so many at a time (${default})."`
	Drain       bool   `help:"Stop when no job is ready and none runs here; say what is left."`
	RetryAfter  span   `default:"30s" placeholder:"DURATION" help:"When to try again after exit status 75 (${default})."`
	Grace       span   `default:"5s" placeholder:"DURATION" help:"Between SIGTERM and SIGKILL, when a job must stop (${default})."`
	Shutdown    span   `default:"25s" placeholder:"DURATION" help:"How long running jobs may go on after SIGTERM or Ctrl-C (${default})."`
	LeaseTTL    span   `name:"lease-ttl" default:"30s" placeholder:"DURATION" help:"How long a lease lasts without a heartbeat (${default})."`
	NoScheduler bool   `help:"Leave the schedules of the store to other workers."`
	Name        name   `default:"spool-work" placeholder:"NAME" help:"Who works, for other people to see (${default})."`
	Quiet       bool   `help:"Do not say how each job ended."`
}

// The exit statuses of a command that mean something.
const (
	statusLater = 75  // EX_TEMPFAIL of sysexits.h
	statusBury  = 100 // as qmail has it: a permanent failure
)

// Help is shown by spool work --help.
func (*workCmd) Help() string {
	return "The command gets the payload on its standard input and SPOOL_JOB_ID, SPOOL_QUEUE, SPOOL_TASK, SPOOL_ATTEMPT, SPOOL_MAX_ATTEMPTS and SPOOL_TOKEN in its environment. " +
		"Its exit status decides: 0 is done, with the first MiB of its output as the result; 75 tries again later, and the attempt does not count; 100 makes a dead letter at once; " +
		"any other is a failed attempt, kept with the end of its standard error and tried again with growing waits. " +
		"A timeout, a cancel or a lost lease stops its whole process group. A command that outlives a killed worker keeps its job until it ends. SIGTERM claims no more, lets running commands finish, and gives back the rest. " +
		"While it runs it enqueues what schedules are due."
}

// check refuses values that cannot be.
func (c *workCmd) check() error {
	if strings.TrimSpace(string(c.Exec)) == "" {
		return usagef("--exec is empty: a shell command would do")
	}
	if c.Concurrency < 1 {
		return usagef("--concurrency is %d: 1 or more would do", c.Concurrency)
	}
	for _, d := range []struct {
		flag  string
		value span
		least time.Duration
	}{{"retry-after", c.RetryAfter, 0}, {"grace", c.Grace, 0}, {"shutdown", c.Shutdown, 0}, {"lease-ttl", c.LeaseTTL, time.Second}} {
		if time.Duration(d.value) < d.least {
			return usagef("--%s is %v: %v or more would do", d.flag, time.Duration(d.value), d.least)
		}
	}
	return nil
}

// Run works until it is stopped, or until nothing is left with --drain.
func (c *workCmd) Run(a *app) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	client, err := a.open(ctx, creating, spool.Config{Logger: newLogger(a.errw, slog.LevelError)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	r := &report{app: a, quiet: c.Quiet, holds: holds{client: client}}
	if !c.Quiet {
		a.note("working %s; Ctrl-C stops", c.what())
		defer context.AfterFunc(ctx, func() {
			a.note("stopping: what runs has %v to finish; a second signal ends it at once", time.Duration(c.Shutdown))
		})()
	}
	if err := c.worker(client, a, r).Run(ctx); err != nil {
		return err
	}
	if err := r.sum(); err != nil || !c.Drain || c.Quiet || ctx.Err() != nil {
		return err
	}
	return c.leftBehind(ctx, a, client)
}

// what says which jobs are worked.
func (c *workCmd) what() string {
	tasks, queues := "any task", "every queue"
	if len(c.Task) > 0 {
		tasks = "task " + joinNames(c.Task)
	}
	if len(c.Queue) > 0 {
		queues = "queue " + joinNames(c.Queue)
	}
	return fmt.Sprintf("jobs of %s from %s, %d at a time", tasks, queues, c.Concurrency)
}

func joinNames(list []name) string {
	all := make([]string, len(list))
	for i, n := range list {
		all[i] = string(n)
	}
	return strings.Join(all, ", ")
}

// worker sets up a worker whose handler is the command.
func (c *workCmd) worker(client *spool.Client, a *app, r *report) *spool.Worker {
	cfg := spool.WorkerConfig{
		Name: string(c.Name), Concurrency: c.Concurrency, Drain: c.Drain, NoScheduler: c.NoScheduler,
		ShutdownTimeout: time.Duration(c.Shutdown), LeaseTTL: time.Duration(c.LeaseTTL),
		Hooks: spool.Hooks{Finished: r.finished},
	}
	if c.Shutdown == 0 {
		cfg.ShutdownTimeout = -1
	}
	for _, q := range c.Queue {
		cfg.Queues = append(cfg.Queues, spool.QueueConfig{Name: string(q)})
	}
	w := spool.NewWorker(client, cfg)
	stderr := &lockedWriter{w: a.errw}
	run := func(ctx context.Context, l *spool.Lease) error {
		lock, err := r.holds.take(ctx, l)
		if err != nil {
			return err
		}
		return c.run(ctx, l, lock, stderr)
	}
	if len(c.Task) == 0 {
		w.HandleAny(run)
		return w
	}
	for _, t := range c.Task {
		spool.Define[[]byte](string(t)).Handle(w, func(context.Context, []byte) error { return nil })
	}
	// Whatever a payload holds is the command's business: the handlers above
	// make the worker claim their tasks, and are never reached.
	w.Use(func(spool.Handler) spool.Handler { return run })
	return w
}

// run runs the command for one job. It inherits the lock.
func (c *workCmd) run(ctx context.Context, l *spool.Lease, lock []*os.File, stderr io.Writer) error {
	j := &l.Job
	cmd := command.Command{
		Shell: string(c.Exec), Stdin: j.Payload, Stderr: stderr, Grace: c.grace, Inherit: lock,
		Env: []string{
			"SPOOL_JOB_ID=" + j.ID.String(), "SPOOL_QUEUE=" + j.Queue, "SPOOL_TASK=" + j.Task,
			"SPOOL_ATTEMPT=" + strconv.Itoa(j.Attempt), "SPOOL_MAX_ATTEMPTS=" + strconv.Itoa(j.MaxAttempts),
			"SPOOL_TOKEN=" + l.Token.String(),
		},
	}
	r, err := cmd.Run(ctx)
	if err != nil {
		return err
	}
	return c.judge(ctx, l, r)
}

// grace is how long a command has between SIGTERM and SIGKILL. At the end of a
// shutdown the worker itself has no more than a tenth of its time left.
func (c *workCmd) grace(cause error) time.Duration {
	if errors.Is(cause, spool.ErrShutdown) {
		return min(time.Duration(c.Grace), max(time.Duration(c.Shutdown)/20, 50*time.Millisecond), time.Second)
	}
	return time.Duration(c.Grace)
}

// judge turns the end of a command into that of its job.
func (c *workCmd) judge(ctx context.Context, l *spool.Lease, r *command.Result) error {
	end := fmt.Sprintf("exit status %d", r.Code)
	if r.Signal != "" {
		end = "ended by a signal: " + r.Signal
	}
	failure := errors.New(end + tail(r.Tail))
	switch {
	case r.Code == 0:
		if r.StdoutCut {
			l.Log("the result was cut at " + text.Bytes(command.MaxStdout))
		}
		if len(r.Stdout) > 0 {
			return l.SetResult(r.Stdout)
		}
		return nil
	case ctx.Err() != nil:
		return failure // the worker knows why it stopped the command
	case r.Code == statusLater:
		return spool.Snooze(time.Duration(c.RetryAfter))
	case r.Code == statusBury:
		return spool.Bury(failure)
	}
	return failure
}

func tail(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return ": " + string(b)
}

// lockedWriter is a writer for many commands at a time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// report says how each job ended.
type report struct {
	app   *app
	quiet bool
	holds holds

	mu           sync.Mutex
	done, others int
	err          error // of the output
}

// finishedView is the end of one run as --json prints it.
type finishedView struct {
	ID      broker.ID `json:"id"`
	Queue   string    `json:"queue"`
	Task    string    `json:"task"`
	Attempt int       `json:"attempt"`
	Settled string    `json:"settled"` // "" when nothing was settled: the lease was lost
	State   string    `json:"state,omitempty"`
	Error   string    `json:"error,omitempty"`
	Seconds float64   `json:"seconds"`
}

func (r *report) finished(l *spool.Lease, o spool.Outcome) {
	if err := r.holds.release(l); err != nil {
		r.app.note("job %s: %s", l.Job.ID, plain(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := finishedView{ID: l.Job.ID, Queue: l.Job.Queue, Task: l.Job.Task, Attempt: l.Job.Attempt, Seconds: o.Duration.Seconds()}
	if o.Kind != 0 {
		v.Settled = o.Kind.String()
	}
	if o.State != 0 {
		v.State = o.State.String()
	}
	if o.Err != nil {
		v.Error = o.Err.Error()
	}
	if o.Kind == broker.Ack && o.State == broker.Done {
		r.done++
	} else {
		r.others++
	}
	switch {
	case r.quiet || r.err != nil:
	case r.app.json:
		if r.err = r.app.object(v); r.err == nil {
			r.err = r.app.out.Flush()
		}
	default:
		r.app.note("job %s %s: %s", v.ID, v.Task, ending(l, &o))
	}
}

// ending says in words how a run ended.
func ending(l *spool.Lease, o *spool.Outcome) string {
	words := map[broker.SettleKind]string{
		broker.Ack: "done", broker.Snooze: "put off", broker.Release: "given back", broker.Bury: "buried", broker.Cancel: "cancelled",
		broker.Nack: fmt.Sprintf("failed (attempt %d of %d), will be tried again", l.Job.Attempt, l.Job.MaxAttempts),
	}[o.Kind]
	switch {
	case o.Kind == 0:
		words = "not settled"
	case o.Kind == broker.Nack && o.State == broker.Dead:
		words = fmt.Sprintf("failed, dead after %s", text.Plural(int64(l.Job.Attempt), "attempt", "attempts"))
	}
	words += ", took " + text.Span(o.Duration)
	if o.Err != nil && o.Kind != broker.Snooze {
		words += ": " + text.Head([]byte(lastWords(plainText(o.Err.Error()))), 200)
	}
	return words
}

// lastWords is an error text in one line: its first, and, of more, its last.
func lastWords(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return lines[0] + " … " + lines[len(lines)-1]
}

// sum says how many jobs there were.
func (r *report) sum() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.quiet {
		r.app.note("%s done, %s otherwise", text.Plural(int64(r.done), "job", "jobs"), text.Plural(int64(r.others), "run ended", "runs ended"))
	}
	return r.err
}
