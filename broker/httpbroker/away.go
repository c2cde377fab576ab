package httpbroker

import (
	"log/slog"
	"sync"
	"time"
)

// away notes whether the server answers, and tells the log when that changes:
// a call that is repeated says nothing else for minutes.
type away struct {
	log   *slog.Logger
	place string

	mu    sync.Mutex
	since time.Time // since when no attempt was answered; zero: the last one was
}

// missed takes in that an attempt has to be repeated, since nobody answered it.
func (a *away) missed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.since.IsZero() {
		return
	}
	a.since = time.Now()
	a.log.Warn("http: a call is repeated until the server answers", "server", a.place, "error", err)
}

// reached takes in that the server answered.
func (a *away) reached() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return
	}
	gone := time.Since(a.since)
	a.since = time.Time{}
	a.log.Info("http: the server answers again", "server", a.place, "after", gone)
}
