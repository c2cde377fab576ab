//go:build race

package filebroker

// thin is how many of the cases of an exhaustive test stand for one: most are
// of one goroutine each, so the race detector has little to find in them.
const thin = 7
