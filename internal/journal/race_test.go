//go:build race

package journal

// thin is how many of the cases of an exhaustive test stand for one: they are
// of one goroutine each, so the race detector has nothing to find in most.
const thin = 7
