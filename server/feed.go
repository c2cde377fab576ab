package server

import (
	"context"
	"sync"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// feeds hand out events to streams. Streams that ask for the same share one watch
// of the store, and what it says is written once for all of them.
type feeds struct {
	broker broker.Broker
	mu     sync.Mutex
	open   map[string]*feed
}

type feed struct {
	stop    context.CancelFunc
	readers map[chan []byte]struct{}
}

// backlog is how many events a stream may be behind; it misses what is more.
const backlog = 256

func newFeeds(b broker.Broker) *feeds { return &feeds{broker: b, open: map[string]*feed{}} }

// join returns a channel of events as the stream has them, which is closed when
// there are none any more. name is the same for the same filter. leave has to be
// called.
func (f *feeds) join(name string, filter broker.Filter) (events <-chan []byte, leave func(), err error) {
	if events, leave := f.joinOpen(name); leave != nil {
		return events, leave, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	source, err := f.broker.Watch(ctx, filter)
	if err != nil {
		stop()
		return nil, nil, err
	}
	f.mu.Lock()
	one := &feed{stop: stop, readers: map[chan []byte]struct{}{}}
	events, leave = f.add(name, one)
	if f.open[name] == nil { // another may have been as quick: then this one is alone
		f.open[name] = one
	}
	f.mu.Unlock()
	go f.pass(name, one, source)
	return events, leave, nil
}

// joinOpen joins a feed that there is already.
func (f *feeds) joinOpen(name string) (events <-chan []byte, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.open[name]
	if one == nil {
		return nil, nil
	}
	return f.add(name, one)
}

// add adds a stream to a feed. mu is held.
func (f *feeds) add(name string, one *feed) (events <-chan []byte, leave func()) {
	c := make(chan []byte, backlog)
	one.readers[c] = struct{}{}
	return c, func() { f.leave(name, one, c) }
}

// leave takes a stream off its feed, which ends with the last one.
func (f *feeds) leave(name string, one *feed, c chan []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(one.readers, c)
	if len(one.readers) == 0 {
		f.end(name, one)
	}
}

// end ends a feed. mu is held.
func (f *feeds) end(name string, one *feed) {
	one.stop()
	if f.open[name] == one {
		delete(f.open, name)
	}
}

// pass hands out what a watch says. A stream that is too far behind waits for
// nobody, and nobody for it.
func (f *feeds) pass(name string, one *feed, source <-chan broker.Event) {
	for e := range source {
		b := frameOf(&e)
		f.mu.Lock()
		for c := range one.readers {
			select {
			case c <- b:
			default:
			}
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range one.readers {
		close(c)
	}
	clear(one.readers)
	f.end(name, one)
}

// frameOf is an event as a stream has it.
func frameOf(e *broker.Event) []byte {
	kind := "job"
	if e.Setting != nil {
		kind = "setting"
	}
	b := append([]byte("event: "), kind...)
	b = append(b, "\ndata: "...)
	b, _ = wire.Append(b, wire.EventOf(e)) // it writes itself, which never fails
	return append(b, "\n\n"...)
}
