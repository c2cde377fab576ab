package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// The exit codes; docs/cli.md lists them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2 // a bad flag, value, name or size: nothing was changed
	exitUnhealthy = 3 // the store is full, poisoned, corrupt, or of a format that this release does not know
	exitNotFound  = 4 // no store there, no such job, nothing to claim
	exitLeaseLost = 5 // the token is not the job's current one
	exitQueueFull = 6 // the queue's capacity has no room: nothing was added; later it may have
	exitInt       = 130
	exitTerm      = 143
)

// usageError is a command line that cannot be obeyed.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// noStore says that a directory holds no store.
type noStore struct{ dir string }

func (e *noStore) Error() string { return e.dir + " is not a store" }

// errNothing ends a command that found nothing, and has said so if anybody would wonder.
var errNothing = errors.New("nothing found")

// errSaid ends a command with exit code 1 that has said all there is to say.
var errSaid = errors.New("said already")

// errUnhealthy ends a command that has said what is wrong with the store.
var errUnhealthy = errors.New("unhealthy")

// outcomes maps errors to exit codes and to what to do about them. The first
// that fits decides.
var outcomes = []struct {
	is   error
	code int
	hint string
}{
	{spool.ErrCorrupt, exitUnhealthy, "spool verify says where; docs/recovery.md says what to do"},
	{spool.ErrPoisoned, exitUnhealthy, "look at the disk and the system's log first; then restart the programs that use the store"},
	{spool.ErrFull, exitUnhealthy, "make room where the store is (on the disk; for Redis in its memory), or work what waits"},
	{spool.ErrUnsupported, exitUnhealthy, ""},
	{syscall.ENOSPC, exitUnhealthy, "make room on the disk"},
	{spool.ErrLeaseLost, exitLeaseLost, "the lease ended, or the job was claimed again or settled: spool show ID says what it is now"},
	{spool.ErrNotFound, exitNotFound, "it never was there, was deleted, or is finished and no longer kept: spool list shows what is there"},
	{broker.ErrConflict, exitFailed, "it is not, or not any more, as this needs it: look at it with list, then decide again"},
	{spool.ErrTooLarge, exitUsage, ""},
	{spool.ErrInvalid, exitUsage, ""},
	{fs.ErrPermission, exitFailed, "ls -ld shows whose the directory is, and who may write to it"},
	{syscall.EROFS, exitFailed, "the file system is mounted read-only"},
	{spool.ErrClosed, exitFailed, ""},
}

// exitCode says on the standard error what is wrong and what to do, and returns
// the process's exit code.
func (a *app) exitCode(err error) int {
	var stopped interrupted
	var usage *usageError
	var none *noStore
	var unset *noSetting
	var full *broker.FullError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE):
		return exitOK // nobody reads on: that is how `| head` ends
	case errors.Is(err, errSaid):
		return exitFailed
	case errors.Is(err, errUnhealthy):
		return exitUnhealthy
	case errors.Is(err, errNothing):
		return exitNotFound
	case errors.As(err, &stopped):
		a.note("%v", stopped)
		if stopped.signal == os.Interrupt {
			return exitInt
		}
		return exitTerm
	case errors.As(err, &usage):
		a.note("%s", plain(usage))
		return exitUsage
	case errors.As(err, &none):
		a.note("%v: name one with --dir or SPOOL_DIR (spool enqueue makes one)", none)
		return exitNotFound
	case errors.As(err, &unset):
		a.note("%v", unset)
		return exitNotFound
	case unknownCaller(err):
		a.note("the server at %s asks for a credential, and was shown none or one that it does not know", a.place())
		a.note("put the secret into %s, or into the URL, as https://:SECRET@HOST; spool credential makes one, for the server's configuration", passwordEnv)
		return exitFailed
	case errors.As(err, &full):
		a.note("%s", plain(err))
		a.note("room comes as jobs are worked: --block waits for it, spool capacity changes it")
		return exitQueueFull
	}
	for _, o := range outcomes {
		if errors.Is(err, o.is) {
			a.note("%s", plain(err))
			if o.hint != "" {
				a.note("%s", o.hint)
			}
			return o.code
		}
	}
	a.note("%s", plain(err))
	return exitFailed
}

// unknownCaller says whether a server of spool serve answered that it does not
// know who asks.
func unknownCaller(err error) bool {
	var answered interface{ GetStatus() int }
	return errors.As(err, &answered) && answered.GetStatus() == http.StatusUnauthorized
}

// plain is an error's text without the library's name, which the tool's own
// precedes already.
func plain(err error) string { return plainText(err.Error()) }

func plainText(s string) string { return strings.ReplaceAll(s, "spool: ", "") }
