package spool

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spoolq/spool/broker"
)

// RetryPolicy says how long a job waits after a failed attempt. It must be safe
// for concurrent use.
type RetryPolicy interface {
	// Delay returns the wait after attempt number n (1 is the first) failed
	// with err. A negative delay means none; a very long one is cut to 100
	// years.
	Delay(n int, err error) time.Duration
}

// RetryFunc is a function as a RetryPolicy.
type RetryFunc func(n int, err error) time.Duration

// Delay implements RetryPolicy.
func (f RetryFunc) Delay(n int, err error) time.Duration { return f(n, err) }

// Exponential waits First after the first failed attempt and Factor times as
// long after each further one, up to Max, less a random part of up to Jitter.
// The zero value waits 1 s doubling to 1 h, with a jitter of a quarter.
type Exponential struct {
	First  time.Duration // 0 means 1 s
	Factor float64       // 1 or more; 1 is a constant wait; 0 means 2
	Max    time.Duration // 0 means 1 h, or First when that is longer
	Jitter float64       // 0.25 makes a wait 75 to 100 % of its length; 0 means 0.25, negative means none
}

// Delay implements RetryPolicy. It never overflows and never exceeds Max.
func (e Exponential) Delay(n int, _ error) time.Duration {
	e = e.withDefaults()
	d := float64(e.First) * math.Pow(e.Factor, float64(max(n, 1)-1))
	if !(d < float64(e.Max)) { // also when it is infinite
		d = float64(e.Max)
	}
	if e.Jitter > 0 {
		d -= d * e.Jitter * rand.Float64()
	}
	return time.Duration(d)
}

func (e Exponential) withDefaults() Exponential {
	if e.First == 0 {
		e.First = time.Second
	}
	if e.Factor == 0 {
		e.Factor = 2
	}
	if e.Max == 0 {
		e.Max = max(time.Hour, e.First)
	}
	if e.Jitter == 0 {
		e.Jitter = 0.25
	}
	e.Max = min(e.Max, broker.MaxDelay)
	return e
}

func (e Exponential) validate() error {
	switch {
	case e.First < 0 || e.Max < 0:
		return fmt.Errorf("backoff has a negative time (first %v, max %v)", e.First, e.Max)
	case e.Factor != 0 && !(e.Factor >= 1): // also when it is not a number
		return fmt.Errorf("backoff factor %v is less than 1", e.Factor)
	case !(e.Jitter <= 1):
		return fmt.Errorf("backoff jitter %v is more than 1", e.Jitter)
	case e.Max != 0 && e.First > e.Max:
		return errors.New("backoff starts above its max")
	}
	return nil
}

// clampDelay brings a delay into what a broker accepts.
func clampDelay(d time.Duration) time.Duration { return min(max(d, 0), broker.MaxDelay) }
