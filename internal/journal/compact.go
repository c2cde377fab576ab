package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// checkpointWriter cuts a checkpoint's content into blocks.
type checkpointWriter struct {
	f    vfs.File
	off  int64
	due  int64 // where the file is synced next
	seed uint32
	sum  uint32
	n    int64
	buf  []byte // header space and content of the next block
	err  error
}

// Write is io.Writer.
func (w *checkpointWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 && w.err == nil {
		k := min(len(p), blockHeader+blockBytes-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		p = p[k:]
		if len(w.buf) == blockHeader+blockBytes {
			w.flush()
		}
	}
	return total - len(p), w.err
}

func (w *checkpointWriter) put(p []byte) {
	if w.err == nil {
		_, w.err = w.f.WriteAt(p, w.off)
		w.off += int64(len(p))
	}
	if w.err == nil && w.off >= w.due {
		w.due = w.off + syncPiece
		w.err = w.f.Sync()
	}
}

func (w *checkpointWriter) flush() {
	content := w.buf[blockHeader:]
	if len(content) == 0 {
		return
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(content)))
	binary.LittleEndian.PutUint32(w.buf[4:], sumOf(w.seed, content))
	w.sum = sumOf(w.sum, content)
	w.n += int64(len(content))
	w.put(w.buf)
	w.buf = w.buf[:blockHeader]
}

// WriteCheckpoint writes checkpoint n, the state at the start of segment n+1:
// durable under its name when nil is returned, in use once Flip has named it.
// n must be sealed and larger than the current checkpoint; COMPACT is held.
// write may be called again, from the start: when the disk is full, the
// checkpoint goes into the room that RESERVE keeps.
func (l *Log) WriteCheckpoint(n uint64, write func(io.Writer) error) error {
	if !l.compact.Load() {
		return ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	if cur := l.Current(); n <= cur.Checkpoint || n >= l.active() {
		return fmt.Errorf("write checkpoint %d: not a sealed segment after checkpoint %d", n, cur.Checkpoint)
	}
	foot, err := l.footerFor(n)
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", n, err)
	}
	tmp := join(l.dir, checkpointName(n)+".tmp")
	full := l.Full()
	if !full {
		err = l.fillCheckpoint(tmp, os.O_TRUNC, foot, write)
		full = noSpace(err)
	}
	if full {
		l.setFull(true)
		l.askPrepare(true)
		err = l.intoReserve(tmp, foot, write)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write checkpoint %d: %w", n, diskFull(err)), l.removeIfThere(tmp))
	}
	if err = l.sys.Rename(tmp, join(l.dir, checkpointName(n))); err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", n, err)
	}
	return nil
}

// footerFor is the footer of a checkpoint at the end of segment n, without the
// content's part.
func (l *Log) footerFor(n uint64) (footer, error) {
	h, r, s, err := l.headOf(n + 1)
	if err != nil {
		return footer{}, err
	}
	if s != sightFrame || r.prev != n {
		return footer{}, corruptAt(Pos{Segment: n + 1}, "the head of the segment after a sealed one is missing")
	}
	return footer{number: n, end: r.prevEnd, seq: h.seq - 1, lastSum: h.prev, epoch: h.epoch, flags: h.flags}, nil
}

func (l *Log) fillCheckpoint(path string, flag int, foot footer, write func(io.Writer) error) error {
	f, err := l.sys.Open(path, os.O_RDWR|os.O_CREATE|flag)
	if err != nil {
		return err
	}
	w := &checkpointWriter{f: f, seed: l.seed, sum: l.seed, due: syncPiece, buf: make([]byte, blockHeader, blockHeader+blockBytes)}
	var b [sideHeader]byte
	putSideHeader(b[:], checkpointMagic, foot.number, l.store)
	w.put(b[:])
	if err := write(w); err != nil {
		return joinClose(err, f)
	}
	w.flush()
	foot.length, foot.sum = w.n, w.sum
	foot.put(b[:], checkpointMagic, l.seed)
	w.put(b[:])
	err = w.err
	if err == nil {
		err = f.Truncate(w.off)
	}
	if err == nil {
		err = f.Sync()
	}
	return joinClose(err, f)
}

func (l *Log) removeIfThere(path string) error {
	if err := l.sys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Flip makes next what CURRENT says, durably: the commit point of compaction.
// Level, Generation and StoreID are filled in; First is Checkpoint+1 when 0.
// Before, the checkpoint and the payload files that are new are read back from
// the disk and verified. COMPACT is held, and CURRENT must still be the one that this
// handle knows (Refresh before starting). After an error CURRENT is the old one,
// or the store is poisoned.
func (l *Log) Flip(next Current) error {
	if !l.compact.Load() {
		return ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	cur := l.Current()
	now, err := readCurrent(l.sys, l.dir)
	if err != nil {
		return fmt.Errorf("flip: %w", err)
	}
	if now.Generation != cur.Generation || now.StoreID != cur.StoreID {
		rare.Reached(rare.FlipOvertaken)
		return fmt.Errorf("flip: CURRENT has generation %d, the work began from %d", now.Generation, cur.Generation)
	}
	next.Level, next.StoreID, next.Generation = cur.Level, cur.StoreID, cur.Generation+1
	if next.First == 0 {
		next.First = next.Checkpoint + 1
	}
	if next.Checkpoint < cur.Checkpoint || next.First > next.Checkpoint+1 || next.First < cur.First {
		return fmt.Errorf("flip: checkpoint %d and first segment %d do not follow %d and %d", next.Checkpoint, next.First, cur.Checkpoint, cur.First)
	}
	if err := l.verifyNext(next, cur); err != nil {
		return fmt.Errorf("flip: %w", err)
	}
	return l.commit(next)
}

// commit writes CURRENT and tells everybody.
func (l *Log) commit(next Current) error {
	if err := l.writeCurrent(next); err != nil {
		return err
	}
	l.control.raiseWord(ctlGeneration, next.Generation)
	l.forgetPeak(next.Checkpoint)
	l.control.store(ctlCover, 0) // it depends on how large the last checkpoint is
	l.curMu.Lock()
	l.cur = next
	l.curMu.Unlock()
	return nil
}

// verifyNext reads back what next names and cur does not.
func (l *Log) verifyNext(next, cur Current) error {
	if next.Checkpoint > 0 {
		f, err := l.sys.Open(join(l.dir, checkpointName(next.Checkpoint)), os.O_RDONLY)
		if err != nil {
			return err
		}
		if err := joinClose(f.DropCache(), f); err != nil {
			return err
		}
		k, err := openCheckpoint(l.sys, l.dir, l.store, next.Checkpoint)
		if err != nil {
			return err
		}
		if err := k.read(func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }); err != nil {
			return err
		}
		foot, err := l.footerFor(next.Checkpoint)
		if err != nil {
			return err
		}
		if foot.end != k.foot.end || foot.seq != k.foot.seq || foot.lastSum != k.foot.lastSum {
			return &CorruptError{File: k.name, Offset: k.size - sideFooter, What: "the checkpoint is of another log"}
		}
	}
	for _, n := range next.Payload {
		if slices.Contains(cur.Payload, n) {
			continue // it was verified when it was new; each payload is, when it is read
		}
		if _, err := verifyPayload(l.sys, l.dir, l.store, n, true); err != nil {
			return err
		}
	}
	return nil
}

// Drop unlinks what the current checkpoint makes needless: segments before
// First and payload files for which keep is false, other checkpoints, and
// what was left unfinished. Bytes that were cut (torn-) stay. COMPACT is held.
// removed counts files.
func (l *Log) Drop(keep func(FileID) bool) (removed int, err error) {
	if !l.compact.Load() {
		return 0, ErrNotLocked
	}
	if err := l.Poisoned(); err != nil {
		return 0, err
	}
	cur, err := readCurrent(l.sys, l.dir)
	if err != nil {
		return 0, fmt.Errorf("drop files: %w", err)
	}
	names, err := l.sys.ReadDir(l.dir)
	if err != nil {
		return 0, fmt.Errorf("drop files: %w", err)
	}
	prep := l.lent
	if !prep {
		if prep, err = l.tryPrep(); err != nil {
			return 0, fmt.Errorf("drop files: %w", err)
		}
		if prep {
			defer l.prepUnlock()
		}
	}
	if err := l.syncDir(); err != nil { // who flipped may have died before
		return 0, fmt.Errorf("drop files: %w", err)
	}
	gone := map[FileID]bool{}
	for _, name := range names {
		id, needless := needless(name, cur, prep, keep)
		if !needless {
			continue
		}
		if err := l.removeIfThere(join(l.dir, name)); err != nil {
			return removed, fmt.Errorf("drop %s: %w", name, err)
		}
		gone[id] = true
		removed++
	}
	l.files.drop(func(id FileID) bool { return gone[id] })
	if removed > 0 {
		err = l.syncDir()
	}
	return removed, err
}

// needless reports whether a file may go, and which segment or payload file it is.
func needless(name string, cur Current, prep bool, keep func(FileID) bool) (FileID, bool) {
	if n, ok := parseNumber(name, ".log"); ok {
		id := SegmentFile(n)
		return id, n < cur.First && n <= cur.Checkpoint && !keep(id)
	}
	if n, ok := parseNumber(name, ".pay"); ok {
		id := PayloadFile(n)
		return id, !keep(id) && !slices.Contains(cur.Payload, n)
	}
	if n, ok := parseNumber(name, ".idx"); ok {
		return 0, n != cur.Checkpoint
	}
	if strings.HasSuffix(name, ".new") {
		return 0, prep
	}
	return 0, strings.HasSuffix(name, ".tmp")
}
