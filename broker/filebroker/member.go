package filebroker

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// member is this handle's life sign: a file in alive/ whose lock it holds. The
// file has a random name that is never used again. It is created, locked,
// probed and unlinked only under LOCK.
type member struct {
	name string // 16 hex digits
	file vfs.File
}

// memberName makes a random name, and its value as a number for the shared
// page.
func memberName(sys vfs.System) string {
	var b [8]byte
	sys.Rand(b[:])
	b[0] |= 1 // never all zeros
	return hex.EncodeToString(b[:])
}

func (b *handle) alivePath(name string) string { return filepath.Join(b.dir, "alive", name) }

// isMember says whether a file name in alive/ is that of a handle.
func isMember(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == 16
}

// join makes this handle a member. One that finds itself alone recovers the
// log, under LOCK, unless it is sure that there is nothing to recover.
func (b *handle) join() error {
	stop := b.watchdog()
	err := b.log.Lock()
	stop()
	if err != nil {
		return err
	}
	dead, live, err := b.census()
	if err == nil && live > 0 {
		err = b.log.Poisoned() // those who live have to leave first
	}
	if err == nil {
		err = b.enroll()
	}
	if err == nil && live == 0 {
		err = b.recoverIfDue()
	}
	b.log.Unlock()
	if err != nil || b.s == nil {
		return err
	}
	return b.settleDead(dead)
}

// smallStore is how much a handle that is alone reads at open in any case, in
// bytes, so that damage of a small store is refused there.
const smallStore = 1 << 20

// recoverIfDue recovers the log, which loads the state, unless the store is large,
// nobody died writing it since the machine started, and what is not known durable
// is on the disk. LOCK is held, and no other handle lives.
func (b *handle) recoverIfDue() error {
	if b.log.Poisoned() == nil {
		size, err := b.log.LoadBytes()
		if err != nil {
			return err
		}
		if size > b.cfg.small {
			if ok, err := b.log.Advance(); err != nil || ok {
				return err
			}
		}
	}
	return b.recover()
}

// recover loads the state and makes the end of the log trustworthy; LOCK is
// held, and no other handle lives.
func (b *handle) recover() error {
	ok, err := b.log.TryCompactLock()
	for try := 0; err == nil && !ok; try++ {
		// A child that was being forked as its parent died may hold it for a moment.
		if try == 50 {
			return fmt.Errorf("%w: a process that is no client of the store holds its COMPACT lock", journal.ErrUnsupported)
		}
		rare.Reached(rare.CompactLockInherited)
		time.Sleep(10 * time.Millisecond)
		ok, err = b.log.TryCompactLock()
	}
	if err != nil {
		return err
	}
	defer b.log.CompactUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	rare.Reached(rare.RecoveredAlone)
	b.lossy = b.log.Poisoned() != nil
	b.log.ClearClock() // the frame that it rests on may be lost
	b.lazy.spare = true
	if err := b.load(func() error { return b.log.Recover(b.apply) }); err != nil {
		return err
	}
	b.log.SetState(b.s.Room())
	return nil
}

// load builds the state from the checkpoint and what read hands out after it.
// After an error it is the one before, none while joining, so that nothing is
// decided by half of one: a handle that could not recover the log must not
// append to it. mu is held.
func (b *handle) load(read func() error) error {
	checkpoint, load, err := b.log.Start()
	if err != nil {
		return err
	}
	before := b.s
	b.loadedIn = b.log.Current().Generation
	b.stats.Loads.Add(1)
	b.s = jobstate.New(nil, nil)
	if before != nil { // else nobody waits for a change yet
		b.s.Tell(b.changed)
	}
	if checkpoint > 0 {
		err = load(b.s.Decode)
	}
	if err == nil {
		err = read()
	}
	if err != nil {
		b.s = before
		return err
	}
	b.s.Tell(b.changed)
	return nil
}

// census looks who is alive; LOCK is held.
func (b *handle) census() (dead []string, live int, err error) {
	dir := filepath.Join(b.dir, "alive")
	if err := b.sys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, 0, fmt.Errorf("make the alive directory: %w", err)
	}
	if err := b.sys.CheckDir(dir, b.cfg.AllowUnsafeFS); err != nil { // it may be a link to anywhere
		return nil, 0, err
	}
	names, err := b.handles()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		lives, err := b.alive(name)
		switch {
		case err != nil:
			return nil, 0, err
		case lives:
			live++
		default:
			dead = append(dead, name)
		}
	}
	return dead, live, nil
}

// handles lists the files of handles, and of locks that leases name, in alive/.
func (b *handle) handles() ([]string, error) {
	names, err := b.sys.ReadDir(filepath.Join(b.dir, "alive"))
	if err != nil {
		return nil, fmt.Errorf("list who is alive: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !isMember(name) }), nil
}

// enroll creates and locks this handle's file; LOCK is held.
func (b *handle) enroll() error {
	name := memberName(b.sys)
	f, err := b.lockFile(name)
	if err != nil {
		return err
	}
	b.member = member{name, f}
	return nil
}

// alive probes whether the handle of that name lives: whether its lock is
// held. A file that is missing proves nothing, and counts as dead here, like what
// is no file; its leases still end by their deadlines. An error is for what keeps
// it from looking: then nobody is known to be dead. LOCK is held.
func (b *handle) alive(name string) (bool, error) {
	if name == b.member.name {
		return true, nil
	}
	f, err := b.sys.Open(b.alivePath(name), os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EINVAL):
		return false, nil
	case err != nil:
		rare.Reached(rare.PeerNotProbed)
		return false, fmt.Errorf("look who is alive: %w", err)
	}
	defer f.Close() // nothing was written
	free, err := f.TryLock()
	if err != nil {
		return false, fmt.Errorf("look who is alive: %w", err)
	}
	return !free, nil
}

// mayLive is alive for who leaves alone whatever is not sure to be dead.
func (b *handle) mayLive(name string) bool {
	lives, err := b.alive(name)
	return lives || err != nil
}

// settleDead ends what dead handles held, and removes their files afterwards,
// so that a crash between the two only repeats it. Of a handle that held
// nothing there is nothing to record: its file goes at once.
func (b *handle) settleDead(names []string) error {
	var gone []string
	return b.submit(noContext, &op{
		class: journal.Settle, free: true, scrapes: true,
		decide: func(now jobstate.Now) {
			gone = gone[:0]
			for _, name := range names {
				switch {
				case !b.there(name) || b.mayLive(name):
				case b.s.Knows(name):
					b.s.Gone(&b.w, name)
					rare.Reached(rare.PeerDied)
					gone = append(gone, name)
				default:
					rare.Reached(rare.PeerLeftNothing)
					b.unlink([]string{name})
				}
			}
		},
		after: func() { b.unlink(gone) },
	})
}

// mourn ends what a handle held whose file was closed. The system tells of the
// close before it frees the lock, so the first probes can come too early.
func (b *handle) mourn(name string) {
	for wait := time.Millisecond; wait < time.Second && b.there(name); wait *= 2 {
		if err := b.settleDead([]string{name}); err != nil {
			b.report("settle the leases of a handle that ended", err)
		}
		if !b.there(name) {
			return
		}
		select {
		case <-time.After(wait):
		case <-b.closed:
			return
		}
	}
}

// there says whether a handle's file exists: one that is missing proves
// nothing about its owner.
func (b *handle) there(name string) bool {
	_, err := b.sys.Stat(b.alivePath(name))
	return err == nil
}

// unlink removes the files of handles that are gone. What cannot be removed
// now is found again by the next census.
func (b *handle) unlink(names []string) {
	for _, name := range names {
		for _, file := range [...]string{name, name + bellSuffix} {
			if err := b.sys.Remove(b.alivePath(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				b.slg.Warn("remove the file of a handle that is gone", "file", file, "error", err)
			}
		}
	}
}

// leave ends this handle: its leases expire and its file goes. When the store
// cannot be written any more, freeing the lock alone tells the others: the file
// stays, for whoever comes next to find.
func (b *handle) leave() (err error) {
	if b.member.file == nil {
		return nil
	}
	stop := b.watchdog()
	lockErr := b.log.Lock()
	stop()
	if lockErr == nil {
		forgotten := true
		b.mu.Lock()
		if b.lazy.asked.Load() {
			forgotten, err = b.retire()
		}
		b.mu.Unlock()
		if forgotten {
			b.unlink([]string{b.member.name})
		}
		b.bells.free(b)
	}
	err = errors.Join(err, b.member.file.Unlock(), b.member.file.Close(), b.bells.close())
	b.member.file = nil
	if lockErr == nil {
		b.log.Unlock()
	}
	return err
}

// resign gives up the life sign of a poisoned handle, and with it its leases.
// Reads go on until it is closed.
func (b *handle) resign() error {
	b.bells.stop()
	return b.member.file.Unlock()
}

// retire records the end of this handle, if anyone knew of it, and says whether
// nobody does any more. If not, others find out by the lock.
func (b *handle) retire() (forgotten bool, err error) {
	if b.log.Poisoned() != nil || b.catchUp() != nil {
		rare.Reached(rare.LeftUnsettled)
		return false, nil
	}
	if !b.s.Knows(b.member.name) {
		return true, nil
	}
	o := &op{class: journal.Settle, scrapes: true, decide: func(jobstate.Now) { b.s.Gone(&b.w, b.member.name) }}
	wait, err := b.commit([]*op{o})
	if err == nil && wait != nobody {
		err = b.log.Sync()
	}
	return err == nil, public(err)
}

// missed probes every known handle, for when the system could not say that one
// ended.
func (b *handle) missed() error {
	names, err := b.handles()
	if err != nil {
		return err
	}
	var suspects []string
	for _, name := range names {
		if !b.mayLive(name) {
			suspects = append(suspects, name)
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	rare.Reached(rare.PeerMissed)
	return b.settleDead(suspects)
}

// bellSuffix ends the name of a handle's bell file.
const bellSuffix = ".bell"
