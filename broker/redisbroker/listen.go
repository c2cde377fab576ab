package redisbroker

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// quiet is how long the subscription's connection may be silent before it is
// asked whether it is there, and again before it is given up.
const quiet = 5 * time.Second

// ears is the one subscription of a process to a server. It connects with the
// first listener, and again whenever the connection is lost.
type ears struct {
	n      *network
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the subscription's goroutine has ended; nil before it began

	mu        sync.Mutex
	listeners map[string]map[*ear]bool // by channel
	sub       *redis.PubSub            // nil while there is no connection
}

// ear is one listener.
type ear struct{ heard func(message []byte) }

func newEars(n *network) *ears {
	e := &ears{n: n, listeners: map[string]map[*ear]bool{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// listen is transport.listen for a channel.
func (e *ears) listen(ctx context.Context, channel string, heard func(message []byte)) error {
	me := &ear{heard}
	if err := e.add(channel, me); err != nil {
		return err
	}
	defer e.remove(channel, me)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ctx.Done():
		return broker.ErrClosed
	}
}

// add makes me hear a channel. A channel that is subscribed already is
// subscribed once more: the server confirms each time, and that is when a
// listener can be told that it hears.
func (e *ears) add(channel string, me *ear) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return broker.ErrClosed
	}
	if e.listeners[channel] == nil {
		e.listeners[channel] = map[*ear]bool{}
	}
	e.listeners[channel][me] = true
	if e.done == nil {
		e.done = make(chan struct{})
		go e.serve()
	}
	if e.sub != nil {
		_ = e.sub.Subscribe(e.ctx, channel) // when it fails the connection is lost, which the reader notices
	}
	return nil
}

func (e *ears) remove(channel string, me *ear) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.listeners[channel], me)
	if len(e.listeners[channel]) > 0 {
		return
	}
	delete(e.listeners, channel)
	if e.sub != nil {
		_ = e.sub.Unsubscribe(e.ctx, channel)
	}
}

// close ends all listening. The connection must have been cut.
func (e *ears) close() {
	e.cancel()
	e.mu.Lock()
	done := e.done
	e.mu.Unlock()
	if done != nil {
		<-done
	}
}

// serve keeps a subscription as long as the transport lives.
func (e *ears) serve() {
	defer close(e.done)
	for failed := 1; e.ctx.Err() == nil; failed++ {
		if e.subscribe() {
			failed = 0
		}
		t := time.NewTimer(backoff(failed + 1))
		select {
		case <-t.C:
		case <-e.ctx.Done():
			t.Stop()
		}
	}
}

// subscribe hears until the connection is lost, and says whether it had one.
func (e *ears) subscribe() (connected bool) {
	sub := e.n.client.Subscribe(e.ctx)
	err := sub.Ping(e.ctx) // connects, and holds up nobody who wants to listen meanwhile
	e.mu.Lock()
	channels := slices.Collect(maps.Keys(e.listeners))
	if err == nil && len(channels) > 0 {
		err = sub.Subscribe(e.ctx, channels...)
	}
	e.sub = sub
	e.mu.Unlock()
	for err == nil {
		err = e.hear(sub)
		connected = connected || err == nil
	}
	e.mu.Lock()
	e.sub = nil
	e.mu.Unlock()
	_ = sub.Close()
	return connected
}

// hear waits for the next thing that the server says, and asks it to say
// something when it says nothing.
func (e *ears) hear(sub *redis.PubSub) error {
	said, err := sub.ReceiveTimeout(e.ctx, quiet)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		if err = sub.Ping(e.ctx); err == nil {
			said, err = sub.ReceiveTimeout(e.ctx, quiet)
		}
	}
	if err != nil {
		return err
	}
	switch said := said.(type) {
	case *redis.Message:
		e.tell(said.Channel, []byte(said.Payload))
	case *redis.Subscription:
		if said.Kind == "subscribe" {
			e.tell(said.Channel, nil)
		}
	}
	return nil
}

// tell calls the listeners of a channel. A message is never nil.
func (e *ears) tell(channel string, message []byte) {
	e.mu.Lock()
	all := make([]*ear, 0, len(e.listeners[channel]))
	for l := range e.listeners[channel] {
		all = append(all, l)
	}
	e.mu.Unlock()
	for _, l := range all {
		l.heard(message)
	}
}
