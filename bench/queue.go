package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// queue is an open handle on a peer's queue. It is safe for concurrent use.
type queue interface {
	// enqueue adds one job and returns when it is as durable as the peer makes it.
	enqueue(payload []byte) error
	close() error
}

// batcher enqueues many jobs in one call.
type batcher interface {
	enqueueMany(n int, payload []byte) error
}

// taker claims and settles jobs one at a time.
type taker interface {
	// take claims a job; nil means that none is ready.
	take() (job any, err error)
	// ack settles it.
	ack(job any) error
}

// runner is a peer's own worker runtime: it calls started in one of slots
// goroutines for each job, and acks the job when that returns, until ctx ends.
type runner interface {
	run(ctx context.Context, slots int, started func()) error
}

// counter counts the syncs that answers waited for.
type counter interface {
	syncs() int64
}

// mode says how a queue is opened.
type mode struct {
	fresh   bool // nothing is to be left in it
	callers int  // how many goroutines will call it
}

// place is where a run keeps its things. It crosses to child processes.
type place struct {
	Dir    string            // of the queue
	Addr   map[string]string // of the servers, by name
	Schema string            // the file of goqite's schema
	Conns  int               // connections that one process may have

	servers map[string]*server // in the first process only; a peer without one finds nil
}

// peer is a queue under test.
type peer struct {
	name       string
	module     string // whose version is shown; "" for what this repository holds
	durability string // what an answer has waited for
	how        string // what is to be known of how it was run
	server     string // the one it needs; "" for none
	alone      bool   // only one process may open it
	deaf       bool   // its workers notice only what their own process enqueues
	pace       int    // jobs a second that its workers never reach; 0 means 200,000
	fills      int    // jobs a second that it can be filled with, when that is slow
	open       func(at place, m mode) (queue, error)
	disk       func(at place) (int64, error) // nil means the files of its directory
}

// payload is what every job carries: 100 bytes of JSON.
var payload = []byte(`{"to":"ada@example.com","subject":"welcome","template":17,"locale":"en","tracking":"xxxxxxxxxxxxxx"}`)

// email is the payload for peers that take no bytes.
type email struct {
	To       string `json:"to"`
	Subject  string `json:"subject"`
	Template int    `json:"template"`
	Locale   string `json:"locale"`
	Tracking string `json:"tracking"`
}

var mail = email{"ada@example.com", "welcome", 17, "en", "xxxxxxxxxxxxxx"}

// errNone says that a peer has no such operation, and why.
var errNone = errors.New("none")

func none(why string) error { return fmt.Errorf("%w: %s", errNone, why) }

// pollEvery is how often a worker asks a peer that can neither wait nor poll by
// itself.
const pollEvery = 10 * time.Millisecond

// runtime returns the peer's own runtime, or the plain loop that its users
// would write.
func runtimeOf(q queue) (func(ctx context.Context, slots int, started func()) error, error) {
	switch q := q.(type) {
	case runner:
		return q.run, nil
	case taker:
		return func(ctx context.Context, slots int, started func()) error { return poll(ctx, q, slots, started) }, nil
	}
	return nil, none("a log, without workers")
}

// poll runs slots goroutines that take, call and ack.
func poll(ctx context.Context, q taker, slots int, started func()) error {
	return together(slots, func() error {
		for ctx.Err() == nil {
			job, err := q.take()
			if err != nil {
				return err
			}
			if job == nil {
				pause(ctx, pollEvery)
				continue
			}
			started()
			if err := q.ack(job); err != nil {
				return err
			}
		}
		return nil
	})
}

// together calls fn in n goroutines and returns the first error.
func together(n int, fn func() error) error {
	errs := make(chan error, n)
	for range n {
		go func() { errs <- fn() }()
	}
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// fill makes n jobs wait.
func fill(ctx context.Context, q queue, n int) error {
	b, many := q.(batcher)
	if !many {
		return fillSingly(ctx, q, n)
	}
	for n > 0 && ctx.Err() == nil {
		k := min(n, 1000)
		if err := b.enqueueMany(k, payload); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		n -= k
	}
	return context.Cause(ctx)
}

func fillSingly(ctx context.Context, q queue, n int) error {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	err := together(64, func() error {
		for range left {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := q.enqueue(payload); err != nil {
				return fmt.Errorf("fill: %w", err)
			}
		}
		return nil
	})
	return err
}
