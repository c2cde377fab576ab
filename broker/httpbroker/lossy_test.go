package httpbroker

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// errCut is what a caller sees of a connection that ends.
var errCut = errors.New("the connection was cut")

// lossy is a transport that cuts connections: of every three requests one does
// not arrive, and the answer of one is lost.
type lossy struct {
	http.RoundTripper
	n atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/queues/") { // caps, streams: those of once
		return l.RoundTripper.RoundTrip(r)
	}
	switch l.n.Add(1) % 3 {
	case 0:
		return nil, errCut
	case 1:
		resp, err := l.RoundTripper.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		return nil, errCut
	}
	return l.RoundTripper.RoundTrip(r)
}

// MakeLossy makes a broker that Open returned lose answers.
func MakeLossy(b any) {
	c := b.(*client)
	c.http.Transport, c.pause = &lossy{RoundTripper: c.http.Transport}, time.Millisecond
}
