// Command spool works a durable job queue from the shell: it enqueues, runs a
// command for each job, looks into a store, mends it, measures it, and shows
// that nothing is lost. `spool --help` lists its commands, docs/cli.md its
// exit codes and what --json prints.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A closed pipe shall be an error of the write, so that the store is closed
	// properly. The channel is never read: full or not, the signal is caught.
	// (Ignoring it would be inherited by the commands that work runs.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], system()))
}
