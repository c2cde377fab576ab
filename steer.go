package spool

import (
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// steering is an error that says how its run is to be settled. It is found
// anywhere in the chain of what a handler returns.
type steering struct {
	kind  broker.SettleKind
	delay time.Duration
	err   error
}

func (s *steering) Error() string {
	switch {
	case s.err != nil:
		return s.err.Error()
	case s.kind == broker.Snooze:
		return fmt.Sprintf("snoozed for %v", s.delay)
	case s.kind == broker.Nack:
		return fmt.Sprintf("to be retried in %v", s.delay)
	case s.kind == broker.Bury:
		return "buried by its handler"
	}
	return "cancelled by its handler"
}

func (s *steering) Unwrap() error { return s.err }

// RetryAfter returns an error that makes the run a failed attempt and the next
// one due after d, in place of the task's backoff. The text of err is kept with
// the job; err may be nil.
func RetryAfter(d time.Duration, err error) error {
	return &steering{kind: broker.Nack, delay: clampDelay(d), err: err}
}

// Snooze returns an error that makes the job due again after d. It is no
// failure: the attempt does not count.
func Snooze(d time.Duration) error {
	return &steering{kind: broker.Snooze, delay: clampDelay(d)}
}

// Bury returns an error that makes the job a dead letter at once, whatever
// attempts it has left. err may be nil.
func Bury(err error) error { return &steering{kind: broker.Bury, err: err} }

// Cancel returns an error that ends the job cancelled: it is not to be run, and
// that is no failure. err may be nil.
func Cancel(err error) error { return &steering{kind: broker.Cancel, err: err} }

// steer finds the outermost steering error.
func steer(err error) *steering {
	var s *steering
	if errors.As(err, &s) {
		return s
	}
	return nil
}

// Steered reports how a run whose handler returned err is to be settled, when err
// says so: it came from RetryAfter (broker.Nack), Snooze, Bury or Cancel. Middleware
// can tell by it what is no failure.
func Steered(err error) (kind broker.SettleKind, ok bool) {
	if s := steer(err); s != nil {
		return s.kind, true
	}
	return 0, false
}
