package server

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// bodies are those that are arriving, so that none holds up a server that stops.
type bodies struct {
	mu      sync.Mutex
	coming  map[*timelyBody]struct{}
	stopped bool
}

// lastBytes is how long what is on its way may take when the server stops. Tests
// shorten it.
var lastBytes = time.Second

// begin gives a request's body its time.
func (b *bodies) begin(t *timelyBody) {
	t.all = b
	b.mu.Lock()
	defer b.mu.Unlock()
	patience := bodyTimeout
	if b.stopped {
		patience = lastBytes
	}
	_ = t.ctl.SetReadDeadline(time.Now().Add(patience)) // not every connection has one
	b.coming[t] = struct{}{}
}

// end is for a body that has arrived, or of which nobody reads more. What follows
// one that has arrived, a long poll, has no deadline.
func (b *bodies) end(t *timelyBody, arrived bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.coming[t]; !ok {
		return
	}
	delete(b.coming, t)
	if arrived {
		_ = t.ctl.SetReadDeadline(time.Time{})
	}
}

// stop waits for nobody any more.
func (b *bodies) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for t := range b.coming {
		_ = t.ctl.SetReadDeadline(time.Now().Add(lastBytes))
	}
}

// timelyBody is a body with a deadline. One that does not arrive ends its
// connection: what would still come of it is no request, and is not waited for.
type timelyBody struct {
	io.ReadCloser
	all    *bodies
	ctl    *http.ResponseController
	header http.Header // of the answer
}

func (b *timelyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.all.end(b, true)
	default:
		b.header.Set("Connection", "close")
		b.all.end(b, false)
	}
	return n, err
}
