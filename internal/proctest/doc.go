// Package proctest has no code. Its tests run the file broker, the Redis broker
// and the worker in processes of their own, on real directories and servers, and
// kill, stop and starve them: what a machine in memory cannot show.
//
// A test starts its own binary again (TestMain) with a plan that names a role:
// a client that follows orders, a worker, a producer. A process tells what it
// does as lines of JSON on its standard output, and ends when its standard
// input does, so that nothing outlives the test.
//
// The tests whose names begin with TestProof measure what is promised of time
// and flow. They have two sizes: make proof runs them at the one that they are
// stated for, and shows the figures.
package proctest
