//go:build !race

package filebroker

// thin is 1 but under the race detector.
const thin = 1
