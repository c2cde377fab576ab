package journal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// recheck is how often LOCK and CONTROL are compared with their names: a store whose LOCK was
// replaced has two holders at a time.
const recheck = 100 * time.Millisecond

// Lock takes the append lock: one holder in all processes and goroutines. It
// waits as long as it takes and blocks an OS thread, so let one goroutine of a
// process call it. Waiters take turns (LOCK.next), so that nobody starves; when
// CONTROL shows nobody waiting, the turnstile is left out.
func (l *Log) Lock() error {
	return l.takeLock(true)
}

// TryLock is Lock without waiting.
func (l *Log) TryLock() (bool, error) {
	err := l.takeLock(false)
	if err == errTaken {
		return false, nil
	}
	return err == nil, err
}

// proven reports that the position is still the end of the log, because
// nobody else had a turn since this handle caught up, as CONTROL counts them.
func (l *Log) proven() bool {
	c, turn := l.control, l.turn.Load()
	end, ok := unpack(c.load(ctlEnd))
	return l.caught && turn-l.sawTurn <= 1 && c.load(ctlFlight) == 0 && ok && end == l.at.pos
}

var errTaken = errors.New("journal: the lock is taken")

// takeLock takes the append lock. It does not look at the read position, which
// may be in use by another goroutine. errTaken when wait is false and it is
// not free.
func (l *Log) takeLock(wait bool) error {
	if wait {
		l.mu.Lock()
	} else if !l.mu.TryLock() {
		return errTaken
	}
	ok, err := false, error(nil)
	if l.control.load(ctlQueue) == 0 {
		ok, err = l.lock.TryLock()
	}
	if !ok && err == nil {
		ok, err = l.queue(wait)
	}
	if err != nil || !ok {
		l.mu.Unlock()
		switch {
		case l.closed.Load():
			return ErrClosed
		case err != nil:
			return fmt.Errorf("take the append lock: %w", err)
		}
		return errTaken
	}
	return l.locked()
}

// queue takes LOCK through the turnstile.
func (l *Log) queue(wait bool) (ok bool, err error) {
	if wait {
		l.control.add(ctlQueue, 1)
		rare.Reached(rare.TurnAwaited)
		defer l.control.add(ctlQueue, -1)
	}
	if ok, err = take(l.next, wait); err != nil || !ok {
		return false, err
	}
	ok, err = take(l.lock, wait)
	if uerr := l.next.Unlock(); err == nil && uerr != nil {
		err = uerr
		if ok {
			err = errors.Join(err, l.lock.Unlock())
		}
	}
	return ok && err == nil, err
}

func take(f vfs.File, wait bool) (bool, error) {
	if wait {
		return true, f.Lock()
	}
	return f.TryLock()
}

// locked is what every holder does first. On an error LOCK is free again.
func (l *Log) locked() error {
	l.held.Store(true)
	err := l.checkLock()
	if err == nil && !l.control.valid() {
		err = l.rebuildControl()
	}
	if err != nil {
		l.Unlock()
		return err
	}
	c := l.control
	turn := max(c.load(ctlSeq)+1, 1) // 0 is no turn
	c.store(ctlSeq, turn)
	l.turn.Store(turn)
	c.store(ctlSince, uint64(l.sys.Monotonic()))
	c.store(ctlHolder, uint64(l.pid))
	return nil
}

// checkLock compares LOCK and CONTROL with their names, now and then, and
// refuses a handle that a fork took along.
func (l *Log) checkLock() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if l.sys.PID() != l.pid {
		rare.Reached(rare.UsedAfterFork)
		return fmt.Errorf("%w: this handle was opened by process %d, before a fork", ErrClosed, l.pid)
	}
	now := l.sys.Monotonic()
	if l.checked != 0 && now-l.checked <= recheck {
		return nil
	}
	for name, f := range map[string]vfs.File{lockName: l.lock, controlName: l.control.file} {
		same, err := f.SameAs(join(l.dir, name))
		if err != nil {
			return fmt.Errorf("check %s: %w", name, err)
		}
		if !same {
			rare.Reached(rare.LockReplaced)
			return fmt.Errorf("%w: %s was replaced while the store was open", ErrNotStore, name)
		}
	}
	l.checked = now
	return nil
}

// rebuildControl starts CONTROL anew. LOCK is held.
func (l *Log) rebuildControl() error {
	poisoned, err := l.exists(poisonName)
	if err != nil {
		return fmt.Errorf("rebuild CONTROL: %w", err)
	}
	rare.Reached(rare.ControlRebuilt)
	c := l.control
	c.rebuild(uint64(l.sys.Monotonic()) | 1<<62) // above what any handle remembers
	if poisoned {
		c.store(ctlPoison, flagSet)
	}
	for {
		cur, err := readCurrent(l.sys, l.dir)
		if err != nil {
			return fmt.Errorf("rebuild CONTROL: %w", err)
		}
		c.raiseWord(ctlGeneration, cur.Generation)
		if !l.moved(cur) {
			return nil // a Flip meanwhile was seen, or stored its number after us
		}
	}
}

// Unlock frees the append lock. It cannot fail: when the system refuses, the
// store is poisoned.
func (l *Log) Unlock() {
	l.held.Store(false)
	l.control.store(ctlHolder, 0)
	err := l.lock.Unlock()
	if err != nil {
		l.Poison(fmt.Errorf("free the append lock: %w", err))
	}
	l.mu.Unlock()
}

// Holder is who holds the append lock, and for how long, from CONTROL: a hint
// for a watchdog. Not ok when nobody seems to hold it.
func (l *Log) Holder() (pid int, held time.Duration, ok bool) {
	p := l.control.load(ctlHolder)
	if p == 0 || !l.control.valid() {
		return 0, 0, false
	}
	return int(p), l.sys.Monotonic() - time.Duration(l.control.load(ctlSince)), true
}

// HolderOf is Log.Holder for who is still waiting to open the log in dir.
func HolderOf(sys vfs.System, dir string) (pid int, held time.Duration, ok bool) {
	cur, err := readCurrent(sys, dir)
	if err != nil {
		return 0, 0, false
	}
	f, err := sys.Open(join(dir, controlName), os.O_RDONLY)
	if err != nil {
		return 0, 0, false
	}
	defer f.Close() // only read from
	words, ok, err := readWords(f, controlIdentity(sys, cur.StoreID))
	if err != nil || !ok || words[ctlHolder] == 0 {
		return 0, 0, false
	}
	return int(words[ctlHolder]), sys.Monotonic() - time.Duration(words[ctlSince]), true
}

// TryCompactLock takes COMPACT, held while a checkpoint is built, CURRENT
// flipped and files dropped, and by recovery and repair. It does not wait.
func (l *Log) TryCompactLock() (bool, error) {
	if l.closed.Load() {
		return false, ErrClosed
	}
	if !l.compMu.TryLock() {
		return false, nil
	}
	ok, err := l.compactLock.TryLock()
	if err != nil || !ok {
		l.compMu.Unlock()
		if err != nil {
			err = fmt.Errorf("take COMPACT: %w", err)
		}
		return false, err
	}
	l.compact.Store(true)
	return true, nil
}

// CompactGoesOn says, for Compactor, who holds COMPACT, and that it does not stand
// still. COMPACT is held.
func (l *Log) CompactGoesOn() {
	l.control.store(ctlAlive, uint64(l.sys.Monotonic()))
	l.control.store(ctlCompactor, uint64(l.pid))
}

// Compactor is who holds COMPACT, and how long ago it said that it goes on, from
// CONTROL: a hint, which may name a process that has ended. Not ok when nobody
// does who said so, and for the holder itself, which runs if it can ask.
func (l *Log) Compactor() (pid int, silent time.Duration, ok bool) {
	p := l.control.load(ctlCompactor)
	if p == 0 || !l.control.valid() || l.compact.Load() {
		return 0, 0, false
	}
	return int(p), l.sys.Monotonic() - time.Duration(l.control.load(ctlAlive)), true
}

// CompactUnlock frees COMPACT. When the system refuses, the store is poisoned.
func (l *Log) CompactUnlock() {
	l.control.store(ctlCompactor, 0)
	l.compact.Store(false)
	if err := l.compactLock.Unlock(); err != nil {
		l.Poison(fmt.Errorf("free COMPACT: %w", err))
	}
	l.compMu.Unlock()
}

const (
	lockName    = "LOCK"
	nextName    = "LOCK.next"
	compactName = "COMPACT"
	prepName    = "PREP"
	controlName = "CONTROL"
)

// openLocks opens the lock files, creating what is missing.
func (l *Log) openLocks() error {
	var err error
	if l.lock, err = l.sys.Open(join(l.dir, lockName), os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if l.next, err = l.sys.Open(join(l.dir, nextName), os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if l.compactLock, err = l.sys.Open(join(l.dir, compactName), os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	l.prepLock, err = l.sys.Open(join(l.dir, prepName), os.O_RDWR|os.O_CREATE)
	return err
}
