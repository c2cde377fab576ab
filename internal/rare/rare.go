// Package rare counts how often the rare places of the file queue were reached:
// what happens when a write fails, a process dies, a disk is full. A test suite
// that never gets to one of them proves nothing about it; `.ci/proof rare` lists
// those that no test reached, and fails.
//
// A count is one atomic addition, and nothing reads it in a program.
package rare

import "sync/atomic"

var counts [pathsEnd]atomic.Uint64

// Reached counts a path. It is safe for concurrent use, and allocates nothing.
func Reached(p Path) { counts[p].Add(1) }

// Count is how often a path was reached in this process.
func Count(p Path) uint64 { return counts[p].Load() }

// Paths yields every path.
func Paths(yield func(Path) bool) {
	for p := range pathsEnd {
		if !yield(p) {
			return
		}
	}
}
