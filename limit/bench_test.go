package limit

import (
	"testing"
	"time"
)

// frozen is a clock that costs nothing to read.
type frozen struct{ at time.Time }

func (f frozen) Now() time.Time                               { return f.at }
func (frozen) Timer(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }
func BenchmarkTokenBucketAllow(b *testing.B) {
	benchmarkAllow(b, tokenBucket(b, "1000000000/s", 0, nil))
}
func BenchmarkTokenBucketAllowRefused(b *testing.B) { benchmarkAllow(b, tokenBucket(b, "1/h", 0, nil)) }
func BenchmarkLeakyBucketAllow(b *testing.B) {
	benchmarkAllow(b, leakyBucket(b, "1000000000/s", 5, nil))
}
func BenchmarkTokenBucketAllowWithoutTheClock(b *testing.B) {
	benchmarkAllow(b, tokenBucket(b, "1000000000/s", 0, frozen{time.Now()}))
}

func benchmarkAllow(b *testing.B, l *Limiter) {
	b.ReportAllocs()
	for b.Loop() {
		l.Allow()
	}
}

func BenchmarkTokenBucketAllowParallel(b *testing.B) {
	l := tokenBucket(b, "1000000000/s", 0, nil)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			l.Allow()
		}
	})
}

// BenchmarkRateAllow is the pure core, which is given the time.
func BenchmarkRateAllow(b *testing.B) {
	r, st, now := parse(b, "1000000/s"), State{}, int64(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		st, _, _ = r.Allow(st, now, 1)
	}
}

// BenchmarkClock is what reading the time costs on this machine: a part of every
// Allow of a limiter on the system's clock.
func BenchmarkClock(b *testing.B) {
	start, sum := time.Now(), time.Duration(0)
	for b.Loop() {
		sum += time.Since(start)
	}
}
