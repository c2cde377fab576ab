//go:build !race

package proctest

// raced says that the race detector slows the processes down.
const raced = false
