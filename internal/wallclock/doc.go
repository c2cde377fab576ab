// Package wallclock gives a process a wall clock of its own, for tests of what
// clocks that are wrong or step do: torture, and the tests of processes.
package wallclock
