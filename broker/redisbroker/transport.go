package redisbroker

import "context"

// script is one transition of a queue, a Lua program that runs whole on the
// server. It takes any number of packed calls and returns as many packed
// answers, so that concurrent calls of a process travel as one script.
type script struct {
	name   string // of its file, for errors and counts
	source string
	writes bool // false: it may run on a replica, and at the memory limit
}

// transport brings scripts to the server that holds a queue's keys, whatever
// the weather: it loads them, follows moved slots, reconnects, and repeats
// with bounded backoff. A repeat is safe, since every call that changes
// something carries its call id. It is safe for concurrent use.
type transport interface {
	// run executes s on one queue. KEYS[1] is the queue's configuration, a
	// key that is always there; KEYS[2] one that never is: together they make
	// the server refuse a script while the queue's slot moves. ARGV are the
	// calls; answers come in their order, or none with an error. ErrUnknown is
	// returned when a reply was lost and could not be had again.
	run(ctx context.Context, s *script, queue string, calls [][]byte) (answers [][]byte, err error)

	// listen calls heard with the payload of each message published on the
	// queue's channel, and heard(nil) after each reconnect, since messages may
	// have been missed. It returns when ctx ends.
	listen(ctx context.Context, queue string, heard func(message []byte)) error

	close() error
}
