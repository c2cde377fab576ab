package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs"
)

// Copied says what a backup or a restored store holds.
type Copied struct {
	Store string `json:"store"` // its directory
	Jobs  int    `json:"jobs"`
	Bytes int64  `json:"bytes"` // of its files
}

// Backup makes a copy of the store as it is at one moment during the call, in a
// new directory: all that was acknowledged before the call, and of what others do
// meanwhile, a first part of what they commit. Everybody goes on meanwhile, but
// for compactions, which it waits for and keeps waiting. The copy is read and verified, and durable, when its directory
// gets its name; until then it is called target.partial-<random>, and what was
// interrupted stays there. Restore makes a store of it.
//
// ErrInvalid when target holds anything, or lies in the store; ErrFull when
// there is no room for it.
func (b *Broker) Backup(ctx context.Context, target string) (Copied, error) {
	return through(b, func(h *handle) (Copied, error) { return h.backup(ctx, target) })
}

func (b *handle) backup(ctx context.Context, target string) (c Copied, err error) {
	target, err = freshDir(target)
	if err != nil {
		return c, err
	}
	if rel, err := filepath.Rel(b.dir, target); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return c, fmt.Errorf("%w: %s lies in the store itself: a directory elsewhere would do", broker.ErrInvalid, target)
	}
	if err := b.want(ctx); err != nil {
		return c, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	b.wg.Add(1)
	defer b.wg.Done()
	if err := b.keepFiles(ctx); err != nil {
		return c, public(err)
	}
	defer b.log.CompactUnlock()
	defer b.showCompaction()()
	end, err := b.durableEnd(ctx)
	if err != nil {
		return c, public(err)
	}
	return makeStore(b.sys, target, func(dir string) error {
		return public(b.log.CopyTo(dir, end, ctx.Err))
	})
}

// keepFiles takes COMPACT once whoever compacts is done, so that no file goes.
func (b *handle) keepFiles(ctx context.Context) error {
	for {
		ok, err := b.log.TryCompactLock()
		if ok || err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// durableEnd is the end of the log at a moment from now on, once all before it is
// durable.
func (b *handle) durableEnd(ctx context.Context) (end journal.Pos, err error) {
	if err := b.lockWithin(ctx); err != nil {
		return end, err
	}
	b.mu.Lock()
	err = b.catchUp()
	end = b.log.Pos()
	b.mu.Unlock()
	b.log.Unlock()
	if err == nil {
		err = b.log.Sync()
	}
	return end, err
}

// freshDir makes the name of a directory absolute that must not be there yet, or
// be empty.
func freshDir(name string) (string, error) {
	if name == "" {
		return "", errNoName
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	names, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", broker.ErrInvalid, err)
	case len(names) > 0:
		return "", fmt.Errorf("%w: %s is not empty: a new directory would do", broker.ErrInvalid, name)
	}
	return dir, nil
}

// makeStore makes a store beside its place with fill, verifies it, and gives it
// its name. What failed is removed.
func makeStore(sys vfs.System, dir string, fill func(dir string) error) (c Copied, err error) {
	partial, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".partial-*")
	if err != nil {
		return c, fmt.Errorf("make a directory for the copy: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := fill(partial); err != nil {
		return c, err
	}
	v, err := Verify(partial)
	if err != nil {
		return c, err
	}
	if !v.OK {
		return c, fmt.Errorf("%w: the copy is not sound: %+v", broker.ErrCorrupt, v.Findings)
	}
	c = Copied{Store: dir, Jobs: v.Jobs}
	if c.Bytes, err = dirBytes(partial); err != nil {
		return c, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty, or somebody has filled it
		return c, err
	}
	if err := sys.Rename(partial, dir); err != nil {
		return c, err
	}
	return c, sys.SyncDir(filepath.Dir(dir))
}

func dirBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// Restore makes a store in dir, which is empty or not there, of a backup, which
// stays as it is. Time has gone back for it: jobs that were enqueued since the
// backup are gone, and those that ended since wait again and run again. Leases of
// handles end as after a restart of the machine, remote ones at their deadlines.
// Tokens go on some thousands of epochs above the backup's, so that a lease that
// was given out since is refused; but for that, every program that uses the store
// must have ended. Schedules run what is missed since the backup by their policies.
//
// It has its name once it is durable and verified. ErrCorrupt when the backup is
// damaged, ErrInvalid when dir holds anything.
func Restore(ctx context.Context, backup, dir string, cfg Config) (c Copied, err error) {
	from, err := storeDir(backup)
	if err != nil {
		return c, err
	}
	if dir, err = freshDir(dir); err != nil {
		return c, err
	}
	v, err := Verify(from)
	if err != nil {
		return c, err
	}
	if !v.OK {
		return c, fmt.Errorf("%w: the backup is damaged: spool verify lists where: %s", broker.ErrCorrupt, v.Findings[0].What)
	}
	sys := vfs.OS()
	return makeStore(sys, dir, func(to string) error {
		if err := journal.CopyStore(sys, from, to, ctx.Err); err != nil {
			return public(err)
		}
		return beginLife(ctx, to, cfg)
	})
}

// beginLife makes a copied store one that goes on.
func beginLife(ctx context.Context, dir string, cfg Config) error {
	b, err := Open(dir, cfg)
	if err != nil {
		return err
	}
	h := b.cur.Load()
	if err = h.want(ctx); err == nil {
		err = h.submit(ctx, &op{class: journal.Settle, size: recordBytes, decide: h.newLife})
	}
	return errors.Join(public(err), b.Close())
}

// lifeEpochs is how many epochs a restored store leaves out at least, and less than
// twice as many at most: more than the store that was copied can have opened
// since. By chance, since a backup can be restored again.
const lifeEpochs = 1 << 12

// newLife ends the leases of the handles of another life, and leaves its epochs
// behind.
func (b *handle) newLife(jobstate.Now) {
	for _, name := range b.s.Members() {
		if name != b.member.name {
			b.s.Gone(&b.w, name)
		}
	}
	var random [2]byte
	b.sys.Rand(random[:])
	e := b.s.Epoch()
	next := e.Number + lifeEpochs + (uint32(random[0])<<8|uint32(random[1]))%lifeEpochs
	next = max(e.Number+1, min(next, maxEpoch)) // tokens stay below 2^53
	b.s.OpenEpoch(&b.w, next, "", e.Boot, e.Offset, true)
}

// maxEpoch is the largest that a token has room for.
const maxEpoch = 1<<21 - 1
