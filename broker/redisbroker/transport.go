package redisbroker

import (
	"context"

	"github.com/spoolq/spool/broker"
)

// script is one transition of a queue, a Lua program that runs whole on the
// server. It takes any number of packed calls and returns as many packed
// answers, so that concurrent calls of a process travel as one script.
type script struct {
	name   string // of its file, for errors and counts
	source string
	// durable says that an answer is a promise: it waits for whom
	// Config.WaitReplicas and WaitDisk name.
	durable bool

	// flights is how many runs of one queue may be out at a time; 0 means 1. A
	// second one keeps the server busy while the client makes the next, where what
	// a run costs beside its calls is little.
	flights int

	// most bounds the weight of the calls that travel together, so that one run
	// stays under about 4 ms; 0 means 256. weigh says what a call weighs, as a
	// rule its jobs; nil: every call weighs 1. A call that weighs more than most
	// travels alone.
	most  int
	weigh func(call []byte) int
}

// transport brings scripts to the server that holds a queue's keys, whatever
// the weather: it loads them, follows moved slots, reconnects, and repeats
// with bounded backoff. A repeat is safe, since every call that changes
// something carries its call id. It is safe for concurrent use.
//
// It repeats a call for at most broker.Caps.Retry (see retryFor) after the
// first time, and only to a server that has just answered. One that stands still
// even so (stopped, swapped out) runs what reached it when it goes on: scripts
// remember a call id for some minutes longer than retryFor, so that such a
// repeat is still known.
type transport interface {
	// run executes s on one queue. KEYS[1] is the queue's configuration, a
	// key that is always there; KEYS[2] one that never is: together they make
	// the server refuse a script while the queue's slot moves. ARGV are the
	// calls; answers come in their order, or none with an error. Calls that
	// others make of the same script and queue meanwhile may travel with them,
	// in any order and cut into several runs: each call is judged alone.
	//
	// Errors: ErrUnknown when a reply was lost and could not be had again, or
	// too few replicas confirmed (Config.WaitReplicas); ErrFull when the
	// server's memory is; ErrClosed; the context's error when it ended before
	// the calls were sent. But for ErrUnknown nothing took place.
	run(ctx context.Context, s *script, queue string, calls [][]byte) (answers [][]byte, err error)

	// listen calls heard with the payload of each message published on the
	// queue's channel, and heard(nil) each time that it is (again) sure to hear
	// all that follows, since messages may have been missed before. It returns
	// when ctx ends or the transport is closed. heard must not block: one
	// connection serves all listeners.
	//
	// Scripts say PUBLISH, in a cluster too, never SPUBLISH: a process then
	// listens with one connection to any one node, whatever slot moves where.
	// A message costs each node of a cluster a few bytes; it is sent only to
	// wake somebody who is known to wait.
	listen(ctx context.Context, queue string, heard func(message []byte)) error

	// durability says what an acknowledged call survives, for Caps.Durability.
	durability() string

	// health is Broker.Health.
	health(ctx context.Context) (broker.Health, error)

	close() error
}
