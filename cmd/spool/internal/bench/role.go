package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/internal/vfs"
)

// Role says what a process of a bench does. It crosses to the process as JSON.
type Role struct {
	Do    string // one of the role constants
	Store string
}

const (
	roleEnqueue = "enqueue" // enqueues for the time of each order
	roleWork    = "work"    // works, and says when each handler starts
	roleIdle    = "idle"    // works where nothing comes, and says what that costs
	roleBatch   = "batch"   // enqueues 100 at a time for the time of each order
	roleMany    = "many"    // works with 64 slots, and says how much it did in the time of each order
	roleOnce    = "once"    // enqueues one job, and ends
)

// order and report cross between the processes as lines of JSON.
type order struct{ For time.Duration }

type report struct {
	Jobs  int
	Took  time.Duration
	Syncs int64
	Calls []time.Duration
	CPU   time.Duration
}

// RunRole does what the role says, in this process, until the end of in.
func RunRole(r Role, unsafeFS bool, in io.Reader, out io.Writer) (err error) {
	s, err := openStore(r.Store, unsafeFS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.client.Close()) }()
	enc := json.NewEncoder(out)
	if err := enc.Encode(report{}); err != nil { // ready
		return err
	}
	orders := json.NewDecoder(in)
	switch r.Do {
	case roleEnqueue:
		return s.obey(orders, enc, func(o order) (report, error) {
			m, err := s.enqueueFor(context.Background(), 1, 1, o.For)
			return report{Jobs: m.jobs, Took: m.took, Syncs: m.syncs, Calls: m.calls}, err
		})
	case roleBatch:
		return s.obey(orders, enc, func(o order) (report, error) {
			m, err := s.enqueueFor(context.Background(), 1, throughBatch, o.For)
			return report{Jobs: m.jobs, Took: m.took, Syncs: m.syncs, Calls: m.calls}, err
		})
	case roleMany:
		return s.many(orders, enc)
	case roleOnce:
		_, err := s.client.Enqueue(context.Background(), spool.Raw(task, payload()))
		return err
	case roleWork:
		return s.work(orders, func() error { return enc.Encode(vfs.OS().Monotonic()) })
	case roleIdle:
		return s.idle(orders, enc)
	}
	return fmt.Errorf("no such role: %q", r.Do)
}

// obey answers each order with a report.
func (s *store) obey(orders *json.Decoder, enc *json.Encoder, do func(order) (report, error)) error {
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r, err := do(o)
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
}

// work runs a worker until the end of the orders; started is called as each
// handler starts.
func (s *store) work(orders *json.Decoder, started func() error) error {
	ctx, stop := context.WithCancelCause(context.Background())
	go func() {
		var o order
		stop(orders.Decode(&o))
	}()
	w := spool.NewWorker(s.client, spool.WorkerConfig{Concurrency: 1})
	spool.Define[[]byte](task).Handle(w, func(context.Context, []byte) error {
		if err := started(); err != nil {
			stop(err)
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		return err
	}
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// idle runs a worker and reports the CPU time that an order's time cost.
func (s *store) idle(orders *json.Decoder, enc *json.Encoder) error {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		w := spool.NewWorker(s.client, spool.WorkerConfig{Concurrency: 1})
		spool.Define[[]byte](task).Handle(w, func(context.Context, []byte) error { return nil })
		ended <- w.Run(ctx)
	}()
	err := s.obey(orders, enc, func(o order) (report, error) {
		before := cpuTime()
		err := pause(ctx, o.For)
		return report{CPU: cpuTime() - before}, err
	})
	stop()
	return errors.Join(err, <-ended)
}

// process is a role's process, as its parent sees it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder

	spare func() bool // ends that the process is killed with its context
}

// spawn starts a process and waits until its store is open. It ends with ctx at
// the latest.
func (b *Bench) spawn(ctx context.Context, r Role) (*process, error) {
	cmd, err := b.Command(r)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	p := &process{cmd: cmd}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.spare = context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	p.enc, p.dec = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	var ready report
	if err := p.hear(&ready); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

func (p *process) tell(o order) error {
	if err := p.enc.Encode(o); err != nil {
		return fmt.Errorf("tell a process: %w", err)
	}
	return nil
}

func (p *process) hear(v any) error {
	if err := p.dec.Decode(v); err != nil {
		return fmt.Errorf("hear from a process: %w", err)
	}
	return nil
}

// end tells the process to finish and waits for it.
func (p *process) end() error {
	p.spare()
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("end a process: %w", err)
	}
	return nil
}
