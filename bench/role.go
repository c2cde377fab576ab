package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
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
	Jobs              int
	Took              time.Duration
	CPU               time.Duration
	Syncs             int64
	Commands, Scripts int64         // that a Redis server ran
	ServerCPU         time.Duration // of one that says so; it is in CPU, too
	First             time.Duration // from the open to the first job
	Memory            int64         // without that of an empty process, in bytes
	Err               string
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
		out, err = enqueueFor(context.Background(), q, nil, r.Slots, r.For)
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
	m := newMeter(q, nil)
	before := started.Load()
	pause(ctx, r.For)
	out.Jobs = int(started.Load() - before)
	m.read(&out)
	return out, end, nil
}
