// Package disktest has no code. Its tests let the operating system and the disk
// fail under the file broker, in processes of their own: killed at each system
// call, each call failed or cut short, the power of a real file system cut, a
// disk that loses what it is given.
//
// A test starts its own binary again (TestMain) with a plan that names a role. A
// process tells what it does as lines of JSON on its standard output, and ends when
// its standard input does, so that nothing outlives the test.
//
// The tests have two sizes: make proof runs them at the one that docs/proof.md
// states (flag -full). What this machine cannot do, say mount a file system, is
// skipped with the reason.
package disktest
