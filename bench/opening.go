package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// measureOpen opens a queue and waits for its first job.
func (r *role) measureOpen(orders *bufio.Scanner) (out report) {
	fmt.Println("ready")
	orders.Scan()
	before, err := settledMemory()
	if err != nil {
		return report{Err: err.Error()}
	}
	begun, cpu := time.Now(), ownCPU()
	q, err := findPeer(r.Peer).open(r.Place, mode{callers: 1})
	first := time.Now()
	if err == nil {
		first, err = firstJob(q)
	}
	if err != nil {
		return report{Err: err.Error()}
	}
	out.First, out.CPU = first.Sub(begun), ownCPU()-cpu
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
