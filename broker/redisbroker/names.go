package redisbroker

// names are those names of a queue in Redis that the transport needs to know.
type names struct {
	config  string // a key that is there as long as the queue is
	absent  string // a key that never is, of the same slot
	channel string // what the queue's scripts publish on
}
