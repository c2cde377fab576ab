package spool_test

import (
	"math"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

func TestExponential(t *testing.T) {
	still := spool.Exponential{Jitter: -1}
	for _, c := range []struct {
		name string
		e    spool.Exponential
		n    int
		want time.Duration
	}{
		{"starts at a second", still, 1, time.Second},
		{"doubles", still, 5, 16 * time.Second},
		{"stops at an hour", still, 13, time.Hour},
		{"never overflows", still, math.MaxInt32, time.Hour},
		{"takes no attempt for the first", still, 0, time.Second},
		{"takes a negative attempt for the first", still, math.MinInt, time.Second},
		{"is constant with factor 1", spool.Exponential{First: 3 * time.Second, Factor: 1, Jitter: -1}, 1000, 3 * time.Second},
		{"saturates a huge factor", spool.Exponential{Factor: math.MaxFloat64, Jitter: -1}, 9, time.Hour},
		{"saturates an infinite factor", spool.Exponential{Factor: math.Inf(1), Jitter: -1}, 2, time.Hour},
		{"has no max below its first", spool.Exponential{First: 2 * time.Hour, Jitter: -1}, 2, 2 * time.Hour},
		{"never goes beyond 100 years", spool.Exponential{First: math.MaxInt64, Max: math.MaxInt64, Jitter: -1}, 2, 100 * 365 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, "delay", c.e.Delay(c.n, nil), c.want)
		})
	}
}

func TestExponentialJitterStaysBelowTheDelay(t *testing.T) {
	low, high := time.Duration(math.MaxInt64), time.Duration(0)
	for range 10_000 {
		d := spool.Exponential{Jitter: 0.5}.Delay(4, nil)
		low, high = min(low, d), max(high, d)
	}
	if low < 4*time.Second || high > 8*time.Second {
		t.Fatalf("jitter of a half of 8s gives %v to %v", low, high)
	}
	if low > 4200*time.Millisecond || high < 7800*time.Millisecond {
		t.Fatalf("jitter of a half of 8s gives only %v to %v", low, high)
	}
}

func TestBackoffRefusesNonsense(t *testing.T) {
	for name, p := range map[string]spool.RetryPolicy{
		"no policy":       nil,
		"negative first":  spool.Exponential{First: -1},
		"negative max":    spool.Exponential{Max: -1},
		"shrinking":       spool.Exponential{Factor: 0.5},
		"not a number":    spool.Exponential{Factor: math.NaN()},
		"too much jitter": spool.Exponential{Jitter: 2},
		"jitter NaN":      spool.Exponential{Jitter: math.NaN()},
		"first above max": spool.Exponential{First: 2, Max: 1},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("Define took it")
				}
			}()
			spool.Define[int]("x", spool.Backoff(p))
		})
	}
}
