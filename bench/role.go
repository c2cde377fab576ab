package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
)

// role is what a child process does: it opens the queue, says "ready", waits for
// a line, does its part, and reports. It ends with its standard input.
type role struct {
	Do    string // one of the roles below
	Peer  string
	Place place
	For   time.Duration
	Slots int // goroutines
}

const (
	produceRole = "produce" // enqueue, one job a call
	workRole    = "work"    // run the peer's workers
	tellRole    = "tell"    // the same, and say when each job starts
	openRole    = "open"    // measure the opening
)

// report is what a child says at its end.
type report struct {
	Jobs   int
	Took   time.Duration
	CPU    time.Duration
	Syncs  int64
	First  time.Duration // from the open to the first job
	Memory int64         // without that of an empty process, in bytes
	Err    string
}

// child is a process that plays a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// spawn starts a child and waits until it is ready.
func spawn(r role) (*child, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, "role", string(text))}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := c.hear(); err != nil || line != "ready" {
		return nil, errors.Join(fmt.Errorf("child %s is not ready: %q", r.Do, line), err, c.end())
	}
	return c, nil
}

// spawnAll starts several, or none.
func spawnAll(roles ...role) (all []*child, err error) {
	for _, r := range roles {
		c, err := spawn(r)
		if err != nil {
			return nil, errors.Join(err, endAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func (c *child) tell() error {
	_, err := io.WriteString(c.in, "go\n")
	return err
}

func (c *child) hear() (string, error) {
	if !c.out.Scan() {
		return "", errors.Join(errors.New("child ended too early"), c.out.Err())
	}
	return c.out.Text(), nil
}

func (c *child) report() (r report, err error) {
	line, err := c.hear()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("report %q: %w", line, err)
	}
	if r.Err != "" {
		return r, fmt.Errorf("child: %s", r.Err)
	}
	return r, nil
}

// end closes the child's input and waits for its end.
func (c *child) end() error {
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

func endAll(all []*child) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.end())
	}
	return errors.Join(errs...)
}

// play is the whole of a child process.
func play(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	answer, end := r.act(orders)
	line, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	for orders.Scan() {
	}
	return end()
}

// act returns the report, and what is left to do at the end of the input.
func (r *role) act(orders *bufio.Scanner) (out report, end func() error) {
	end = func() error { return nil }
	if r.Do == openRole {
		return r.measureOpen(orders), end
	}
	q, err := findPeer(r.Peer).open(r.Place, mode{callers: r.Slots})
	if err != nil {
		return report{Err: err.Error()}, end
	}
	if r.Do == produceRole {
		fmt.Println("ready")
		orders.Scan()
		out, err = enqueueFor(context.Background(), q, r.Slots, r.For)
		end = q.close
	} else {
		out, end, err = r.work(q, orders)
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out, end
}

// work runs workers from before the child is ready, and counts for the time
// after the order.
func (r *role) work(q queue, orders *bufio.Scanner) (out report, end func() error, err error) {
	run, err := runtimeOf(q)
	if err != nil {
		return out, q.close, err
	}
	var started atomic.Int64
	note := func() { started.Add(1) }
	if r.Do == tellRole {
		note = func() { fmt.Println(int64(monotonic())) }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, r.Slots, note) }()
	end = func() error {
		cancel()
		return errors.Join(<-ended, q.close())
	}
	fmt.Println("ready")
	if orders.Scan(); r.Do == tellRole {
		return out, end, nil // the order is the end
	}
	m := newMeter(q)
	before := started.Load()
	pause(ctx, r.For)
	out.Jobs = int(started.Load() - before)
	m.read(&out)
	return out, end, nil
}

// measureOpen opens a queue and waits for its first job.
func (r *role) measureOpen(orders *bufio.Scanner) (out report) {
	fmt.Println("ready")
	orders.Scan()
	before, err := settledMemory()
	if err != nil {
		return report{Err: err.Error()}
	}
	begun := time.Now()
	q, err := findPeer(r.Peer).open(r.Place, mode{callers: 1})
	first := time.Now()
	if err == nil {
		first, err = firstJob(q)
	}
	if err != nil {
		return report{Err: err.Error()}
	}
	out.First = first.Sub(begun)
	after, err := settledMemory()
	if err != nil {
		return report{Err: err.Error()}
	}
	out.Memory = after - before
	runtime.KeepAlive(q) // and never close it: a process that ends is the harder case
	return out
}

// firstJob claims a job, or runs workers until one starts, and returns when that
// was; a log has no jobs to start.
func firstJob(q queue) (time.Time, error) {
	if t, ok := q.(taker); ok {
		job, err := t.take()
		if err == nil && job == nil {
			err = errors.New("no job is there")
		}
		return time.Now(), err
	}
	run, err := runtimeOf(q)
	if errors.Is(err, errNone) {
		return time.Now(), nil
	}
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	first, ended := make(chan time.Time, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, 1, func() {
			select {
			case first <- time.Now():
			default:
			}
			<-ctx.Done()
		})
	}()
	select {
	case at := <-first:
		cancel()
		return at, <-ended
	case err := <-ended:
		return time.Time{}, errors.Join(errors.New("the workers ended without a job"), err)
	}
}

// settledMemory is the memory of this process after all that can be given back
// is given back.
func settledMemory() (int64, error) {
	runtime.GC()
	debug.FreeOSMemory()
	return anonBytes(os.Getpid())
}

// meter measures what this process and one server use.
type meter struct {
	begun  time.Time
	cpu    time.Duration
	syncs  int64
	queue  queue
	server *server
}

func newMeter(q queue) *meter {
	m := &meter{queue: q, cpu: ownCPU(), syncs: syncsOf(q), begun: time.Now()}
	return m
}

// read sets the figures of a report that has its jobs.
func (m *meter) read(r *report) {
	r.Took, r.CPU, r.Syncs = time.Since(m.begun), ownCPU()-m.cpu, syncsOf(m.queue)-m.syncs
}

func syncsOf(q queue) int64 {
	if c, ok := q.(counter); ok {
		return c.syncs()
	}
	return 0
}
