package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// host is the operating system. Its fields never change.
type host struct {
	boot   [16]byte
	offset time.Duration // what the time namespace adds to CLOCK_MONOTONIC
}

// OS returns the operating system itself. It reads the boot id once; all its
// values are alike.
func OS() System {
	return &host{boot: bootID(), offset: monotonicOffset()}
}

func (h *host) Rand(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // documented never to happen: the process ends first
	}
}

func (h *host) PID() int         { return os.Getpid() }
func (h *host) BootID() [16]byte { return h.boot }
func (h *host) Wall() time.Time  { return time.Now().Round(0).Add(time.Duration(wallStep.Load())) } // without Go's monotonic reading

// wallStep is what StepWall has added to the wall clock of this process.
var wallStep atomic.Int64

// StepWall steps the wall clock that every OS of this process reads, and no
// other process's, by d. It is for tests of several processes alone: package
// archtest keeps it out of the rest.
func StepWall(d time.Duration) { wallStep.Add(int64(d)) }

func (h *host) Rename(oldname, newname string) error {
	return patiently(func() error { return os.Rename(oldname, newname) })
}

func (h *host) Mkdir(name string) error {
	return os.Mkdir(name, 0o700)
}

func (h *host) ReadDir(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// refuseKind is the error for a directory on an unfit kind of file system.
func refuseKind(name, kind string) error {
	return fmt.Errorf("%s is on a file system of the kind %s, where locks or syncs cannot be relied on: "+
		"use a directory on a local disk, or allow this one by option: %w", name, kind, errors.ErrUnsupported)
}

// refuseReadOnly is the error for a directory that is mounted read-only.
func refuseReadOnly(name string) error {
	return fmt.Errorf("%s is on a file system that is mounted read-only: %w", name, syscall.EROFS)
}

// refuseLink is the error for a directory that is a symbolic link.
func refuseLink(name string) error {
	return fmt.Errorf("%s is a symbolic link: give the directory that it names", name)
}

// pathError wraps what an operation on name returned, as package os does.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// closeAfter closes c, which err made useless, and joins what that returns.
func closeAfter(c io.Closer, err error) error {
	return errors.Join(err, c.Close())
}
