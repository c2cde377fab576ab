// Package fuzztest bounds what a parser may take of memory for one input, for
// the fuzz targets of all packages.
package fuzztest

import (
	"runtime/metrics"
	"testing"
)

// Room is the most that reading one input of a fuzz target may allocate, all
// that is freed again included. The inputs are a few KiB: who takes more believed
// a length field.
const Room = 64 << 20

// Bound runs fn and fails the test when more than [Room] bytes were allocated
// meanwhile, by any goroutine of the process.
func Bound(t testing.TB, fn func()) {
	t.Helper()
	before := allocated()
	fn()
	if n := allocated() - before; n > Room {
		t.Errorf("%d bytes were allocated to read one input, allowed are %d", n, Room)
	}
}

// allocated is what this process has allocated so far, in bytes.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
