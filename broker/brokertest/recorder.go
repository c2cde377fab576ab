package brokertest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder takes the place of a test's T and keeps what it is told instead of
// failing: a check that must be able to fail, or a history that is to be made
// shorter while it still fails. Safe for concurrent use.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
	skipped  bool
}

// recorded runs do with a recorder, and then its cleanups. It returns what failed.
func recorded(t testing.TB, do func(t testing.TB)) (failures []string, skipped bool) {
	r := &recorder{TB: t}
	async(func() { do(r) })()
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		async(last)()
	}
	return r.failures, r.skipped
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) {
	r.skipped = true
	runtime.Goexit()
}

func (r *recorder) Cleanup(do func()) { r.cleanups = append(r.cleanups, do) }
