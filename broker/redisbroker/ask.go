package redisbroker

import (
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// ask is one call of a request.
type ask struct {
	of     *request
	index  int // in the request
	call   []byte
	weight int
	first  time.Time // of its attempts; zero before
	lost   bool      // an attempt may have taken place
}

// request is what one caller asks: its calls, which may travel apart.
type request struct {
	answers [][]byte
	open    int   // calls without an outcome
	done    int   // calls with an answer
	err     error // the first, but ErrUnknown before any other
	left    error // why its caller leaves: the error of its context
	decided chan struct{}
}

// unknown is the outcome of a call of which no reply came.
func unknown(cause error) error {
	if errors.Is(cause, broker.ErrUnknown) {
		return cause
	}
	return fmt.Errorf("%w: %w", broker.ErrUnknown, cause)
}

// leave settles a call that is not on its way when its caller leaves.
func (a *ask) leave() {
	if a.lost {
		a.fail(unknown(a.of.left))
		return
	}
	a.fail(a.of.left)
}

// failed says whether the call is to be made again, or settles it. A refusal
// says nothing of an earlier attempt whose reply was lost.
func (a *ask) failed(f *failure, closed bool) (again bool) {
	if f.fate == lost {
		a.lost = true
	}
	switch {
	case f.fate == weak, f.fate == refused && !a.lost:
		a.fail(f.err)
	case a.of.left != nil:
		a.leave()
	case closed:
		a.close()
	case time.Since(a.first) < retryFor-backoffMost:
		return true
	case a.lost:
		a.fail(unknown(f.err))
	default:
		a.fail(fmt.Errorf("redis: the server could not be reached, or was not ready, for %s: %w", retryFor, f.err))
	}
	return false
}

// close settles a call when the transport is closed.
func (a *ask) close() {
	if a.lost {
		a.fail(unknown(broker.ErrClosed))
		return
	}
	a.fail(broker.ErrClosed)
}

func (a *ask) answer(b []byte) {
	a.of.answers[a.index] = b
	a.of.done++
	a.of.settled()
}

func (a *ask) fail(err error) {
	if a.of.err == nil || errors.Is(err, broker.ErrUnknown) {
		a.of.err = err
	}
	a.of.settled()
}

func (r *request) settled() {
	if r.open--; r.open == 0 {
		close(r.decided)
	}
}
