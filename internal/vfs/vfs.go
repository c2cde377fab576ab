// Package vfs is the few operations on files, locks, clocks and random numbers
// that the store needs, so that tests can put a file system that forgets, a
// disk that fills up and a clock that steps in their place (package crashfs).
// It knows nothing of logs or jobs. The real one is OS().
//
// Paths are as the os package takes them. Errors are those of package os:
// errors.Is with fs.ErrNotExist, fs.ErrExist, syscall.ENOSPC and so on works.
package vfs

import (
	"io"
	"sync/atomic"
	"time"
)

// System is what the store asks of the operating system. Safe for concurrent
// use.
type System interface {
	FS
	Clock
	// Rand fills p with random bytes.
	Rand(p []byte)
	// PID is this process's id. It differs after a fork.
	PID() int
	// WaitWord waits as long as a word in mapped memory (File.Map) is old: until a
	// process that maps it calls WakeWord, and for d at most, when its error wraps
	// os.ErrDeadlineExceeded. It can return early without a cause. It holds a
	// thread. Where the system has no such thing its error wraps
	// errors.ErrUnsupported.
	WaitWord(w *atomic.Uint32, old uint32, d time.Duration) error
	// WakeWord ends every WaitWord for w, in all processes.
	WakeWord(w *atomic.Uint32)
}

// Clock reads the time.
type Clock interface {
	// Wall is the wall clock, which can step.
	Wall() time.Time
	// Monotonic is the time since some fixed moment of this boot, the same for
	// every process of the machine (also in another time namespace); it stands
	// still in suspend and never steps.
	Monotonic() time.Duration
	// BootID names this boot of the machine: another one after each restart,
	// the same in all its containers. It is zero where the system does not
	// tell; two zero ids may be two boots.
	BootID() [16]byte
	// Alarm returns an alarm clock, set to nothing yet. Where the system has no
	// such thing its error wraps errors.ErrUnsupported. Callers use a timer of
	// package time after this and any other error of an Alarm.
	Alarm() (Alarm, error)
}

// Alarm waits for a moment. In a process that is idle a timer of package time
// is late by up to a millisecond, and this by what it takes to wake a thread.
// Safe for concurrent use.
type Alarm interface {
	// Set makes Next return at a moment of Monotonic, not before, or at once when
	// that has passed. It takes the place of what was set.
	Set(at time.Duration) error
	// Next waits for a moment that was set, which another Set may have replaced
	// since. It holds no thread. It returns an error after Close.
	Next() error
	// Close ends a Next that waits.
	Close() error
}

// FS is a file system as the store sees it.
type FS interface {
	// Open opens a file with the flags of os.OpenFile (O_RDONLY, O_RDWR,
	// O_CREATE, O_EXCL, O_TRUNC; never O_APPEND), mode 0600, close-on-exec, and
	// without following a symbolic link in the last element (ELOOP). It refuses
	// a directory (EISDIR) and whatever else is not a regular file.
	// A new name is durable after SyncDir.
	Open(name string, flag int) (File, error)
	// Rename gives the file another name, which it replaces in one step. It is
	// durable after SyncDir of both directories; until then a power cut leaves
	// either name, never a half of each.
	Rename(oldname, newname string) error
	// Remove unlinks a file; whoever has it open goes on using it. It is durable
	// after SyncDir.
	Remove(name string) error
	// Mkdir makes one directory with mode 0700. It is durable after SyncDir of its parent.
	Mkdir(name string) error
	// ReadDir lists the names in a directory, sorted.
	ReadDir(name string) ([]string, error)
	// Stat describes what name is, without following a symbolic link.
	Stat(name string) (Info, error)
	// SyncDir makes the entries of a directory durable, not what they name.
	SyncDir(name string) error
	// CheckDir reports, as an error that says what to do, whether the directory is unfit to
	// hold a store: a network, FUSE or overlay file system, a read-only one, a directory
	// that others may write. allow passes over the kind of file system.
	CheckDir(name string, allow bool) error
	// CheckMount is the part of CheckDir about the file system that name is on, for a
	// directory that a store is to be made in.
	CheckMount(name string, allow bool) error
	// Watch starts to report what happens to files. Where the system has no
	// such thing its error wraps errors.ErrUnsupported. Callers poll after this
	// and any other error of a Watcher: they are hints.
	Watch() (Watcher, error)
}

// Info describes a file.
type Info struct {
	Size    int64
	Dir     bool
	Regular bool // neither a directory nor a link, pipe or device
}

// File is an open file, safe for concurrent use. After Close every method
// returns an error that wraps fs.ErrClosed.
type File interface {
	// ReadAt reads as io.ReaderAt says: io.EOF where the file ends before p does.
	io.ReaderAt
	// WriteAt writes all of p at off, in as few system calls as it takes. It
	// returns how much was written at least; after an error the whole range is
	// garbage.
	WriteAt(p []byte, off int64) (int, error)
	// Truncate sets the size; what it adds is zeros (without blocks behind them).
	Truncate(size int64) error
	// Size returns the current size.
	Size() (int64, error)
	// Sync makes the data written before it began, and the size, durable
	// (fdatasync). After an error nothing can be said of them, whatever a later
	// Sync returns.
	Sync() error
	// DropCache drops clean pages from the cache, so that the next read comes
	// from the disk. Where the system cannot, it does nothing.
	DropCache() error
	// Lock takes the file's exclusive lock (flock), waiting for it as long as
	// it takes. A lock belongs to this File: another File of the same file, in
	// this process or another, is kept out. To lock what this File has locked
	// changes nothing. The kernel frees it when the process ends, however it
	// ends. A waiting Lock holds a thread.
	Lock() error
	// TryLock is Lock without waiting; ok says whether it was taken.
	TryLock() (ok bool, err error)
	// Unlock frees the lock. Without one it does nothing.
	Unlock() error
	// Map maps the first n bytes, shared with every process that maps the
	// file; n is a multiple of 4096 and the file must be that long. The memory
	// is 8-byte aligned and valid until Close; to touch it later ends the
	// process. Nobody may truncate the file.
	Map(n int) ([]byte, error)
	// SameAs reports whether name still names this open file. No such name is
	// no error.
	SameAs(name string) (bool, error)
	// Close unlocks and closes. It does not wait for what other goroutines are
	// doing with the file.
	Close() error
}

// Watcher reports what happens to files. Dir, File and Close are safe for
// concurrent use with Next.
type Watcher interface {
	// Dir reports, from now on, each file of the directory that a writer
	// closed, be it because its process ended. In that case the report comes a
	// moment before the kernel frees the file's lock, so a TryLock that fails
	// says nothing yet: Lock, or try again.
	Dir(name string) error
	// File reports, from now on, each write to the file, whoever wrote.
	File(name string) error
	// Next waits for the next report. It returns an error after Close.
	Next() (WatchEvent, error)
	// Close ends the reports and a Next that waits.
	Close() error
}

// WatchEvent is one report of a Watcher. Reports can be merged, and a zero
// event means that some were lost: look at everything.
type WatchEvent struct {
	Dir    string // the directory, for a closed file
	Name   string // the file's name in Dir, or the path given to File
	Closed bool   // a writer closed it; else it was written
}
