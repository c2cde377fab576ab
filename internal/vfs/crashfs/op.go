package crashfs

import (
	"errors"
	"fmt"
)

var (
	// ErrKilled is returned by everything that a killed process does. Returned
	// by the function given to Inject, it kills the process before the
	// operation.
	ErrKilled = errors.New("crashfs: process killed")

	// ErrCrash is returned by everything that is done on a stopped machine.
	// Returned by the function given to Inject, it stops the machine before the
	// operation, as a power cut would; Machine.Crash tells what is left.
	ErrCrash = errors.New("crashfs: machine stopped")
)

// ShortWrite is an error that the function given to Inject can return: a write
// does its first N bytes and fails with Err, which can be ErrKilled or ErrCrash
// too. Without Err it is syscall.EIO. Any other operation fails with Err alone.
type ShortWrite struct {
	N   int
	Err error
}

// Error says how far the write goes.
func (e ShortWrite) Error() string {
	return fmt.Sprintf("short write of %d bytes: %v", e.N, e.Err)
}

// Unwrap returns Err.
func (e ShortWrite) Unwrap() error { return e.Err }

// OpKind says which method of a vfs interface an operation is.
type OpKind int

// The operations, named as the methods are.
const (
	OpOpen OpKind = iota
	OpRename
	OpRemove
	OpMkdir
	OpReadDir
	OpStat
	OpSyncDir
	OpCheckDir
	OpWatch
	OpReadAt
	OpWriteAt
	OpTruncate
	OpSize
	OpSync
	OpDropCache
	OpLock
	OpTryLock
	OpUnlock
	OpMap
	OpSameAs
	OpClose
	OpWatchDir
	OpWatchFile
)

var opNames = [...]string{
	"open", "rename", "remove", "mkdir", "readdir", "stat", "syncdir", "checkdir", "watch",
	"read", "write", "truncate", "size", "sync", "dropcache", "lock", "trylock", "unlock",
	"map", "sameas", "close", "watchdir", "watchfile",
}

// String is one word.
func (k OpKind) String() string {
	if k < 0 || int(k) >= len(opNames) {
		return fmt.Sprintf("op%d", int(k))
	}
	return opNames[k]
}

// Changes reports whether the operation can change what a power cut leaves. A
// test that crashes before each of these (and once at the end) meets every
// state of the disk.
func (k OpKind) Changes() bool {
	switch k {
	case OpOpen, OpRename, OpRemove, OpMkdir, OpSyncDir, OpWriteAt, OpTruncate, OpSync, OpDropCache, OpMap:
		return true
	}
	return false
}

// Op is one operation that is about to be done.
type Op struct {
	Kind    OpKind
	Process *Process
	Path    string // as it was given to Open or to the operation
	To      string // the new name of a rename
	Offset  int64  // of a read or write; the size for a truncation
	Length  int    // of a read, write or map
	Seq     int    // counts all operations of the machine, from 0
}

// String is one line for a log.
func (o Op) String() string {
	s := fmt.Sprintf("op %d of process %d: %s %s", o.Seq, o.Process.pid, o.Kind, o.Path)
	switch o.Kind {
	case OpRename:
		s += " to " + o.To
	case OpReadAt, OpWriteAt:
		s += fmt.Sprintf(" at %d, %d bytes", o.Offset, o.Length)
	case OpTruncate:
		s += fmt.Sprintf(" to %d", o.Offset)
	}
	return s
}
