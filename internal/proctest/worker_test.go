//go:build linux

package proctest

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spoolq/spool"
)

type args struct{}

// childArgs name the job whose follow-up it is.
type childArgs struct{ Of spool.ID }

// The tasks that a worker runs.
var (
	note  = spool.Define[args]("note")  // returns at once
	hold  = spool.Define[args]("hold")  // waits for the end of its context
	late  = spool.Define[args]("late")  // the same, and then acks by itself
	gate  = spool.Define[args]("gate")  // waits for the order "open", whatever its context says
	die   = spool.Define[args]("die")   // kills its process
	exit  = spool.Define[args]("exit")  // ends its process
	spawn = spool.Define[args]("spawn") // starts a command that outlives the process
	burn  = spool.Define[args]("burn")  // burns the processor until the order "open"
	storm = spool.Define[args]("storm") // starts commands all the time

	relay = spool.Define[args]("relay", spool.Retain(time.Hour), again) // its ack brings a child to each other queue
	child = spool.Define[childArgs]("child", spool.Retain(time.Hour))

	mixed = spool.Define[args]("mixed", spool.MaxAttempts(3), spool.Retain(time.Hour),
		spool.Backoff(spool.Exponential{First: 5 * time.Millisecond, Max: 50 * time.Millisecond})) // anything can happen
)

var errOnPurpose = errors.New("on purpose")

// workerRole runs a worker and tells what its handlers see.
type workerRole struct {
	*teller
	client *spool.Client
	open   chan struct{}
	once   sync.Once
}

func runWorker(t *teller, p plan) error {
	c, err := openStore(p)
	if err != nil {
		return err
	}
	r := &workerRole{teller: t, client: c, open: make(chan struct{})}
	w := spool.NewWorker(c, spool.WorkerConfig{
		Name: p.Name, Concurrency: p.Concurrency, LeaseTTL: p.TTL, ShutdownTimeout: p.Shutdown, Queues: queues(p.Queues),
		Hooks: spool.Hooks{Started: r.started, Finished: r.finished},
	})
	note.Handle(w, func(context.Context, args) error { return nil })
	hold.Handle(w, r.hold)
	late.Handle(w, r.late)
	gate.Handle(w, func(context.Context, args) error { <-r.open; return nil })
	die.Handle(w, func(context.Context, args) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {}
	})
	exit.Handle(w, func(context.Context, args) error { os.Exit(0); return nil })
	spawn.Handle(w, r.spawn)
	burn.Handle(w, func(context.Context, args) error {
		for !r.opened() {
		}
		return nil
	})
	storm.Handle(w, func(ctx context.Context, _ args) error {
		for ctx.Err() == nil {
			if err := exec.CommandContext(ctx, "true").Run(); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	mixed.Handle(w, func(context.Context, args) error {
		<-time.After(rand.N(60 * time.Millisecond)) // or it would never be killed in the middle
		return anything()
	})

	relay.Handle(w, r.relay)
	child.Handle(w, func(context.Context, childArgs) error { return nil })

	ctx, stop := untilTold(r.follow)
	defer stop()
	context.AfterFunc(ctx, func() { r.tell(event{What: "told"}) })
	err = w.Run(ctx)
	r.tell(event{What: "stopped", Text: errText(err)})
	return errors.Join(err, c.Close())
}

func queues(names []string) (list []spool.QueueConfig) {
	for _, name := range names {
		list = append(list, spool.QueueConfig{Name: name})
	}
	return list
}

// opened reports whether the order "open" has come.
func (r *workerRole) opened() bool {
	select {
	case <-r.open:
		return true
	default:
		return false
	}
}

// follow does what the test orders.
func (r *workerRole) follow(o order) {
	switch o.Do {
	case "open":
		r.once.Do(func() { close(r.open) })
	case "usage":
		r.tell(event{What: "usage", Number: int64(usage())})
	}
}

// usage is the processor time that this process has used.
func usage() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *workerRole) started(l *spool.Lease) {
	r.tell(event{What: "start", Name: l.Job.Task, IDs: []spool.ID{l.Job.ID}, Token: l.Token, Attempt: l.Job.Attempt})
}

func (r *workerRole) finished(l *spool.Lease, o spool.Outcome) {
	e := event{What: "finish", Name: l.Job.Task, IDs: []spool.ID{l.Job.ID}, Token: l.Token, Text: errText(o.Err), Is: sentinels(o.Err)}
	if o.Kind != 0 {
		e.What = o.Kind.String()
	}
	if o.State != 0 {
		e.State = o.State.String()
	}
	r.tell(e)
}

func (r *workerRole) hold(ctx context.Context, _ args) error {
	<-ctx.Done()
	l := spool.LeaseFrom(ctx)
	r.tell(event{What: "cause", IDs: []spool.ID{l.Job.ID}, Token: l.Token, Text: errText(context.Cause(ctx)), Is: sentinels(context.Cause(ctx))})
	return ctx.Err()
}

func (r *workerRole) late(ctx context.Context, _ args) error {
	<-ctx.Done()
	l := spool.LeaseFrom(ctx)
	err := l.Ack(context.WithoutCancel(ctx), nil)
	r.tell(event{What: "late ack", IDs: []spool.ID{l.Job.ID}, Token: l.Token, Text: errText(err), Is: sentinels(err)})
	return nil
}

func (r *workerRole) spawn(ctx context.Context, a args) error {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	r.tell(event{What: "spawned", Number: int64(cmd.Process.Pid)})
	return r.hold(ctx, a)
}

// relays are the queues of tasks that have follow-ups in one another.
var relays = []string{"a", "b", "c"}

func (r *workerRole) relay(ctx context.Context, _ args) error {
	l := spool.LeaseFrom(ctx)
	for _, q := range relays {
		if q == l.Job.Queue {
			continue
		}
		if _, err := l.Enqueue(ctx, child.With(childArgs{l.Job.ID}, spool.Queue(q))); err != nil {
			return err
		}
	}
	<-time.After(rand.N(40 * time.Millisecond)) // or it would never be killed in the middle
	return anything()
}

// anything is how a handler of mixed ends.
func anything() error {
	switch n := rand.IntN(100); {
	case n < 15:
		return errOnPurpose
	case n < 18:
		return spool.Bury(errOnPurpose)
	case n < 20:
		panic("on purpose, " + strconv.Itoa(n))
	}
	return nil
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
