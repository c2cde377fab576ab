package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spoolq/spool/internal/rare"
)

// Open opens the log in o.Dir, or creates it when the directory is missing,
// empty, or a creation that was cut short. Nothing of the log is read yet; the
// read position is that of Start. A poisoned store opens: Poisoned says so.
// Open takes LOCK for a moment and waits for it.
//
// The error wraps ErrNotStore when the directory holds something else or its
// CURRENT is missing or garbled, ErrUnsupported for a newer level or an unfit
// file system, ErrCorrupt when the checkpoint is damaged.
func Open(o Options) (*Log, error) {
	if o.FirstSegmentBytes == 0 {
		o.FirstSegmentBytes = defaultFirstSegment
	}
	if n := o.FirstSegmentBytes; n < headSize || n > maxFirstSegment {
		return nil, fmt.Errorf("open journal: segment size %d is outside %d to %d", n, headSize, maxFirstSegment)
	}
	l := &Log{o: o, sys: o.Sys, dir: o.Dir, pid: o.Sys.PID(), prepare: make(chan struct{}, 1)}
	l.files = fileCache{sys: o.Sys, dir: o.Dir, open: map[FileID]*openFile{}}
	l.rollSize = 256
	if err := l.open(); err != nil {
		err = errors.Join(err, l.files.close(), l.closeLocks())
		if l.control != nil {
			err = errors.Join(err, l.control.close())
		}
		return nil, fmt.Errorf("open journal in %s: %w", o.Dir, err)
	}
	return l, nil
}

func (l *Log) open() error {
	if err := l.makeDir(); err != nil {
		return err
	}
	if err := l.openLocks(); err != nil {
		return err
	}
	if err := l.lock.Lock(); err != nil {
		return err
	}
	err := l.openLocked()
	if uerr := l.lock.Unlock(); err == nil {
		err = uerr
	}
	if err != nil {
		return err
	}
	_, _, err = l.Start()
	return err
}

// makeDir makes the directory when it is missing, and refuses one that cannot
// hold a store or holds something else. It changes nothing else.
func (l *Log) makeDir() error {
	unfit := func(err error) error {
		if errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		return err
	}
	if _, err := l.sys.Stat(l.dir); errors.Is(err, fs.ErrNotExist) {
		// What cannot hold the directory is refused before it is there.
		if err := l.sys.CheckMount(filepath.Dir(filepath.Clean(l.dir)), l.o.AllowUnsafeFS); err != nil {
			return unfit(err)
		}
	}
	if err := l.sys.Mkdir(l.dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := l.sys.CheckDir(l.dir, l.o.AllowUnsafeFS); err != nil {
		return unfit(err)
	}
	_, err := l.sys.Stat(join(l.dir, currentName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.checkUnborn(); err != nil {
		if _, err := l.sys.Stat(join(l.dir, currentName)); err == nil {
			return nil // somebody else finished the creation while this one looked
		}
		return err
	}
	return l.sys.SyncDir(filepath.Dir(filepath.Clean(l.dir))) // who made it may have died before
}

// checkUnborn refuses a directory without CURRENT unless it is empty or a
// creation that was cut short. Hidden files and folders do not count.
func (l *Log) checkUnborn() error {
	names, err := l.sys.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case name == lockName || name == nextName || name == compactName || name == prepName || name == controlName:
		case name == currentTmp || name == "alive" || strings.HasPrefix(name, "."):
		case strings.HasSuffix(name, ".new"):
		case name == SegmentFile(1).Name():
			if err := l.checkBlank(name); err != nil {
				return err
			}
		case name == currentName:
			return nil // finished by somebody else meanwhile
		case ofStore(name):
			return lostCurrent("the file is missing, but there is " + name)
		default:
			return fmt.Errorf("%w: there is no CURRENT, but there is %q: use an empty directory", ErrNotStore, name)
		}
	}
	return nil
}

// checkBlank refuses a segment that holds anything.
func (l *Log) checkBlank(name string) error {
	f, err := l.sys.Open(join(l.dir, name), os.O_RDONLY)
	if err != nil {
		return err
	}
	off, err := firstNonzero(f, 0)
	_, ours := storeOf(f)
	if err = joinClose(err, f); err != nil {
		return err
	}
	switch {
	case off < 0:
		return nil
	case ours:
		return lostCurrent("the file is missing, but there is a log in " + name)
	}
	return fmt.Errorf("%w: %s is no log of a store: use an empty directory", ErrNotStore, name)
}

// ofStore reports whether only a store has a file of this name.
func ofStore(name string) bool {
	for _, ext := range []string{".log", ".idx", ".pay"} {
		if _, ok := parseNumber(name, ext); ok {
			return true
		}
	}
	return false
}

// lostCurrent is the error for a store whose CURRENT is of no use.
func lostCurrent(what string) error {
	rare.Reached(rare.CurrentLost)
	return fmt.Errorf("%w: %w", ErrNotStore, &CorruptError{File: currentName, What: what})
}

// openLocked does the part of Open that LOCK covers.
func (l *Log) openLocked() error {
	if err := l.probeLock(); err != nil {
		return err
	}
	cur, err := readCurrent(l.sys, l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		cur, err = l.create()
	}
	if err != nil {
		return err
	}
	l.cur, l.store, l.seed = cur, cur.StoreID, seedOf(cur.StoreID)
	l.control, err = openControl(l.sys, join(l.dir, controlName), cur.StoreID)
	if err != nil {
		return fmt.Errorf("open CONTROL: %w", diskFull(err))
	}
	if !l.control.valid() {
		return l.rebuildControl()
	}
	poisoned, err := l.exists(poisonName)
	if poisoned {
		l.control.store(ctlPoison, flagSet)
	}
	return err
}

// probeLock makes sure that file locks exclude each other here.
func (l *Log) probeLock() error {
	same, err := l.lock.SameAs(join(l.dir, lockName))
	if err != nil || !same {
		return fmt.Errorf("%w: LOCK was replaced while it was opened (%v)", ErrNotStore, err)
	}
	f, err := l.sys.Open(join(l.dir, lockName), os.O_RDWR)
	if err != nil {
		return err
	}
	ok, err := f.TryLock()
	if err = joinClose(err, f); err != nil {
		return err
	}
	if ok {
		return fmt.Errorf("%w: file locks do not exclude each other on this file system", ErrUnsupported)
	}
	return nil
}

// create makes a new store in the order that an interruption cannot spoil: the
// segment, the directory, CURRENT. The head of segment 1 is written by the
// first CatchUp, after CURRENT is durable; so a segment that holds anything
// proves that CURRENT existed.
func (l *Log) create() (Current, error) {
	if err := l.checkUnborn(); err != nil {
		return Current{}, err
	}
	if err := l.sys.SyncDir(l.dir); err != nil {
		return Current{}, err
	}
	if err := l.createSegment(1, nil, l.o.FirstSegmentBytes); err != nil {
		return Current{}, err
	}
	cur := Current{Level: FormatLevel, Generation: 1, First: 1}
	l.sys.Rand(cur.StoreID[:])
	return cur, l.writeCurrent(cur)
}
