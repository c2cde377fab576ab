package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs"
)

// Repaired says what a repair saved and what is lost.
type Repaired struct {
	Original string    `json:"original,omitempty"` // where the damaged store is kept, untouched; "": nothing was damaged
	Jobs     int       `json:"jobs"`               // saved
	Lost     []LostJob `json:"lost"`               // known, but their payload is not readable
	Skipped  int       `json:"skipped"`            // records that rest on others that are lost
	// Checkpoint is one that could be read only in part, or not at all: jobs that stand
	// behind its damage and nowhere else are lost, and nobody can say which. 0: none.
	Checkpoint uint64    `json:"lost_checkpoint,omitempty"`
	Complete   bool      `json:"complete"` // what is damaged held nothing that other files do not hold
	Findings   []Finding `json:"findings"` // the damage
}

// LostJob is a job of which something is lost.
type LostJob struct {
	Queue string    `json:"queue"`
	ID    broker.ID `json:"id"`
	What  string    `json:"what"` // payload, error text or result
}

// Repair builds a new store in dir from everything that is still readable of a
// damaged one, and keeps the damaged one, untouched, beside it: its directory
// is renamed to dir.damaged-<time>. A job whose payload is lost becomes a dead
// letter with the reason damaged and an empty payload. All leases end, tokens
// go on above all that the log still names.
//
// Where nothing is damaged it does nothing. It refuses while any process has
// the store open.
func Repair(ctx context.Context, dir string) (r Repaired, err error) {
	abs, err := storeDir(dir)
	if err != nil {
		return r, err
	}
	sys := vfs.OS()
	unlock, err := lockOut(sys, abs)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	v, err := Verify(abs)
	if err != nil {
		return r, err
	}
	r.Findings = v.Findings
	if v.OK {
		r.Jobs, r.Complete = v.Jobs, true
		return r, nil
	}
	s, err := salvage(sys, abs, &r)
	if err != nil {
		return r, err
	}
	// What an earlier repair left when it did not get far is not for us to remove.
	fresh, err := os.MkdirTemp(filepath.Dir(abs), filepath.Base(abs)+".repair-*")
	if err != nil {
		return r, fmt.Errorf("make the directory of the new store: %w", err)
	}
	if err := rebuild(ctx, sys, abs, fresh, s, &r); err != nil {
		return r, err
	}
	r.Jobs = s.Len()
	r.Complete = len(r.Lost) == 0 && r.Skipped == 0 && !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Damage && f.Kind != string(journal.BadCurrent)
	})
	r.Original = abs + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
	if err := sys.Rename(abs, r.Original); err != nil {
		return r, fmt.Errorf("put the damaged store aside: %w", err)
	}
	if err := sys.Rename(fresh, abs); err != nil {
		return r, fmt.Errorf("put the repaired store in place (it is %s): %w", fresh, err)
	}
	return r, sys.SyncDir(filepath.Dir(abs))
}

// lockOut keeps every client of a store out, or says that there is one.
func lockOut(sys vfs.System, dir string) (unlock func() error, err error) {
	var held []vfs.File
	unlock = func() (err error) {
		for _, f := range held {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	lock := func(name string) error {
		f, err := sys.Open(filepath.Join(dir, name), os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		held = append(held, f)
		if ok, err := f.TryLock(); err != nil || !ok {
			return errors.Join(fmt.Errorf("%w: the store is in use (%s is locked): stop every process that uses it", broker.ErrUnsupported, name), err)
		}
		return nil
	}
	names, err := sys.ReadDir(filepath.Join(dir, "alive"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range append([]string{"LOCK", "COMPACT"}, names...) {
		if isMember(name) {
			name = filepath.Join("alive", name)
		} else if name != "LOCK" && name != "COMPACT" {
			continue
		}
		if err := lock(name); err != nil {
			return nil, errors.Join(err, unlock())
		}
	}
	return unlock, nil
}

// salvage builds a state from what is readable.
func salvage(sys vfs.System, dir string, r *Repaired) (*jobstate.State, error) {
	s := jobstate.New(nil, nil)
	var from uint64
	err := journal.SalvageCheckpoint(sys, dir, func(n uint64, b io.Reader) error {
		if err := s.Decode(b); err != nil {
			return err
		}
		from = n
		return nil
	})
	if errors.Is(err, jobstate.ErrNewer) {
		return nil, public(err)
	}
	if err != nil {
		s, from = salvageFirst(sys, dir, r)
	}
	_, err = journal.Salvage(sys, dir, func(f *journal.Frame) error {
		if f.Kind == journal.KindData && f.At.Segment > from {
			skipped, err := s.Salvage(f.Body, uint32(journal.SegmentFile(f.At.Segment)), f.BodyAt)
			r.Skipped += skipped
			return err
		}
		return nil
	})
	return s, public(err)
}

// salvageFirst is the first jobs of a checkpoint that is damaged, those before the
// damage; an empty state where none can be read.
func salvageFirst(sys vfs.System, dir string, r *Repaired) (s *jobstate.State, from uint64) {
	jobs := 0
	err := journal.SalvageCheckpoint(sys, dir, func(n uint64, b io.Reader) error {
		r.Checkpoint, jobs = n, jobstate.Readable(b)
		return nil
	})
	s = jobstate.New(nil, nil)
	if err != nil || jobs == 0 {
		return s, 0
	}
	err = journal.SalvageCheckpoint(sys, dir, func(n uint64, b io.Reader) error {
		from = n
		return s.DecodeFirst(b, jobs)
	})
	if err != nil {
		return jobstate.New(nil, nil), 0
	}
	return s, from
}

// rebuild writes a state and all that it refers to into a new store.
func rebuild(ctx context.Context, sys vfs.System, from, to string, s *jobstate.State, r *Repaired) error {
	b, err := Open(to, Config{AllowUnsafeFS: true})
	if err != nil {
		return err
	}
	err = b.cur.Load().adopt(ctx, s, func(l jobstate.Loc) ([]byte, error) { return readLoc(sys, from, l) }, r)
	return errors.Join(err, b.Close())
}

// adopt makes another store's state this empty store's, reading what it refers
// to with read.
func (b *handle) adopt(ctx context.Context, s *jobstate.State, read func(jobstate.Loc) ([]byte, error), r *Repaired) error {
	if err := b.want(ctx); err != nil {
		return err
	}
	ok, err := b.log.TryCompactLock()
	if err != nil || !ok {
		return errors.Join(errors.New("the new store is in use"), err)
	}
	defer b.log.CompactUnlock()
	sealed, err := b.seal(ctx)
	if err != nil {
		return public(err)
	}
	w, err := b.log.NewPayloadFile(sealed)
	if err != nil {
		return public(err)
	}
	failed := s.Reset(b.now(), func(ref broker.Ref, what string, l jobstate.Loc) (jobstate.Loc, bool, error) {
		p, err := read(l)
		if err != nil {
			r.Lost = append(r.Lost, LostJob{Queue: ref.Queue, ID: ref.ID, What: what})
			p = nil
		}
		if err := ctx.Err(); err != nil {
			return l, false, err
		}
		if p == nil {
			p = emptyBody
		}
		off, werr := w.Append(p)
		return jobstate.Loc{File: uint32(journal.PayloadFile(sealed)), Off: uint32(off), Len: uint32(len(p)), Sum: jobstate.Checksum(p)}, err == nil, werr
	})
	if failed != nil {
		return errors.Join(public(failed), w.Discard())
	}
	if err := w.Finish(); err != nil {
		return public(err)
	}
	if err := b.flip(noContext, s, sealed); err != nil {
		return public(err)
	}
	// What this handle told of the clock and of capacities is not of that state.
	if err := b.log.Lock(); err != nil {
		return public(err)
	}
	b.log.ClearClock()
	b.log.Unlock()
	return nil
}

// emptyBody stands for a body that is lost: no timeout, no headers, no payload.
var emptyBody = []byte{0, 0}
