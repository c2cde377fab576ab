package filebroker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// Hold is Broker.Hold.
func (b *handle) Hold(ctx context.Context, ref broker.Ref, token broker.Token) (file *os.File, release func() error, err error) {
	name := memberName(b.sys)
	var lock vfs.File
	held := false
	o := &op{size: recordBytes, class: journal.Settle, free: true}
	o.decide = func(jobstate.Now) {
		if lock, o.err = b.lockFile(name); o.err != nil {
			return
		}
		if held = b.s.Hold(&b.w, ref, token, name); !held {
			o.err = fmt.Errorf("hold job %s: %w", ref.ID, broker.ErrLeaseLost)
		}
	}
	err = b.do(ctx, o)
	if lock == nil {
		return nil, nil, err
	}
	release = func() error {
		err := lock.Close()
		if held {
			return errors.Join(err, b.settleDead([]string{name}))
		}
		return errors.Join(err, b.sys.Remove(b.alivePath(name)))
	}
	if err == nil {
		if file, err = vfs.Inherit(lock); errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w: %w", broker.ErrUnsupported, err)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, release())
	}
	return file, release, nil
}

// lockFile makes and locks a file in alive/; LOCK is held.
func (b *handle) lockFile(name string) (vfs.File, error) {
	f, err := b.sys.Open(b.alivePath(name), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		rare.Reached(rare.LockFileRefused)
		return nil, fmt.Errorf("create a lock file: %w", err)
	}
	if ok, err := f.TryLock(); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("lock a lock file: taken=%v: %w", ok, err), f.Close())
	}
	return f, nil
}
