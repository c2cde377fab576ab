package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spoolq/spool/internal/vfs"
)

// The tools open files for reading only, take no lock, create nothing and leave
// every byte as it was. On a store in use they see it as it was at some moment.

// retries is how often a tool begins again when compaction removes a file
// that it was about to read.
const retries = 100

// view is a store as a tool sees it: every file that matters, open.
type view struct {
	sys      vfs.System
	dir      string
	names    []string
	cur      Current
	curErr   error
	seed     uint32
	segments []uint64 // ascending
	files    map[uint64]vfs.File
	limit    Pos // published end, or noLimit
	promised Pos // up to where the log has to be sound, as far as CONTROL tells
	last     Pos // where its last frame begins, as CONTROL tells that
}

// openView opens the segments that are there, again when one is gone by the
// time it is opened. A CURRENT that cannot be used is curErr, and what it would
// say is guessed from the other files.
func openView(sys vfs.System, dir string) (*view, error) {
	for i := 0; ; i++ {
		v := &view{sys: sys, dir: dir, files: map[uint64]vfs.File{}, limit: noLimit}
		err := v.open()
		if err == nil {
			return v, nil
		}
		err = errors.Join(err, v.close())
		if !errors.Is(err, fs.ErrNotExist) || i == retries {
			return nil, err
		}
	}
}

func (v *view) open() error {
	var err error
	if v.names, err = v.sys.ReadDir(v.dir); err != nil {
		return err
	}
	v.cur, v.curErr = readCurrent(v.sys, v.dir)
	if errors.Is(v.curErr, fs.ErrNotExist) {
		v.curErr = lostCurrent("the file is missing")
	}
	for _, name := range v.names {
		n, ok := parseNumber(name, ".log")
		if !ok {
			continue
		}
		f, err := v.sys.Open(join(v.dir, name), os.O_RDONLY)
		if err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
		v.segments = append(v.segments, n)
		v.files[n] = f
	}
	slices.Sort(v.segments)
	if v.curErr != nil {
		if err := v.guess(); err != nil {
			return err
		}
	} else if now, err := readCurrent(v.sys, v.dir); err != nil || now.Generation != v.cur.Generation {
		return fmt.Errorf("CURRENT changed meanwhile: %w", fs.ErrNotExist)
	}
	v.seed = seedOf(v.cur.StoreID)
	return v.readControl()
}

// guess makes up for a lost CURRENT: the store's id from the first sound head,
// the newest sound checkpoint, every payload file.
func (v *view) guess() error {
	if errors.Is(v.curErr, ErrUnsupported) {
		return v.curErr
	}
	id, ok := v.guessStore()
	if !ok {
		return v.curErr
	}
	v.cur = Current{Level: FormatLevel, StoreID: id}
	v.cur.Checkpoint = v.newestCheckpoint((*view).soundCheckpoint)
	for _, name := range v.names {
		if n, ok := parseNumber(name, ".pay"); ok {
			v.cur.Payload = append(v.cur.Payload, n)
		}
	}
	slices.Sort(v.cur.Payload)
	v.cur.First = v.cur.Checkpoint + 1
	if v.cur.Checkpoint == 0 {
		v.cur.First = v.segments[0]
	}
	return nil
}

// guessStore takes the store's id from the first sound head.
func (v *view) guessStore() (id [16]byte, ok bool) {
	for _, n := range v.segments {
		if id, ok = storeOf(v.files[n]); ok {
			break
		}
	}
	return id, ok
}

// storeOf reads which store a segment belongs to; not ok without a sound head.
func storeOf(f vfs.File) (id [16]byte, ok bool) {
	b := make([]byte, headSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return id, false // too short to have a head
	}
	r := parseHead(b[headerSize:])
	var h header
	s, err := parseHeader(b, seedOf(r.store), &h)
	return r.store, s == sightFrame && err == nil && h.kind == KindHead
}

// newestCheckpoint is the number of the newest sound checkpoint, 0 for none.
func (v *view) newestCheckpoint(fit func(v *view, n uint64) bool) (newest uint64) {
	for _, name := range v.names {
		if n, ok := parseNumber(name, ".idx"); ok && n > newest && fit(v, n) {
			newest = n
		}
	}
	return newest
}

func (v *view) soundCheckpoint(n uint64) bool {
	k, err := openCheckpoint(v.sys, v.dir, v.cur.StoreID, n)
	if err != nil {
		return false
	}
	return k.read(func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }) == nil
}

// readControl takes the published end from CONTROL, when it is of this boot.
func (v *view) readControl() error {
	f, err := v.sys.Open(join(v.dir, controlName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open CONTROL: %w", err)
	}
	words, ok, err := readWords(f, controlIdentity(v.sys, v.cur.StoreID))
	if err = joinClose(err, f); err != nil {
		return fmt.Errorf("read CONTROL: %w", err)
	}
	if p, known := unpack(words[ctlEnd]); ok && known {
		v.limit, v.promised = p, p
		v.last, _ = unpack(words[ctlLast])
		if words[ctlPoison] == flagSet { // what was published since the last sync may be lost
			if v.promised, _ = unpack(words[ctlDurable]); p.Before(v.promised) {
				v.promised = Pos{} // garbage
			}
		}
	}
	return nil
}

// owed is up to where the log has to be sound when all before a position is: nowhere
// behind it once the last frame was read, see Log.reaches.
func (v *view) owed(read Pos) Pos {
	if v.last.Before(read) {
		return Pos{}
	}
	return v.promised
}

// readWords reads CONTROL without mapping it; not ok when it has not the
// identity.
func readWords(f vfs.File, identity [6]uint64) (words [controlSize / 8]uint64, ok bool, err error) {
	b := make([]byte, controlSize)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return words, n == controlSize && [6]uint64(words[:6]) == identity, err
}

func (v *view) close() error {
	var errs []error
	for _, f := range v.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Inspect hands out every frame of the store in order, heads and ends too,
// from the oldest segment that is there to the end of the log. It stops
// quietly at a torn tail; damage before it is a *CorruptError. fn's error ends
// it.
func Inspect(sys vfs.System, dir string, fn func(*Frame) error) error {
	var bad error
	x := examiner{frame: fn, found: func(f Finding) error {
		if !f.Kind.Damage() {
			return nil
		}
		bad = &CorruptError{File: f.File, Offset: f.Offset, What: f.What}
		return bad
	}}
	if _, err := x.run(sys, dir); err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return nil
}

// InspectCheckpoint hands the content of the current checkpoint to fn, n being
// its number, without opening the store; where CURRENT is lost, of the newest
// sound one. With no checkpoint fn is not called. Damage is a *CorruptError; a
// reader gives nothing unverified.
func InspectCheckpoint(sys vfs.System, dir string, fn func(n uint64, r io.Reader) error) error {
	for i := 0; ; i++ {
		v, err := openView(sys, dir)
		if err != nil {
			return fmt.Errorf("inspect checkpoint: %w", err)
		}
		cur := v.cur
		if err := v.close(); err != nil {
			return fmt.Errorf("inspect checkpoint: %w", err)
		}
		if cur.Checkpoint == 0 {
			return nil
		}
		k, err := openCheckpoint(sys, dir, cur.StoreID, cur.Checkpoint)
		if err == nil {
			err = k.read(func(r io.Reader) error { return fn(cur.Checkpoint, r) })
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) || i == retries {
			return err
		}
	}
}

// SalvageCheckpoint is InspectCheckpoint of the newest sound checkpoint, whatever
// CURRENT says, for a repair: each is the state at the end of its segment, named
// by CURRENT or not. Where none is sound the content of the newest is that of its
// blocks up to the first that is damaged.
func SalvageCheckpoint(sys vfs.System, dir string, fn func(n uint64, r io.Reader) error) error {
	v, err := openView(sys, dir)
	if err != nil {
		return fmt.Errorf("salvage checkpoint: %w", err)
	}
	n := v.newestCheckpoint((*view).soundCheckpoint)
	sound := n != 0
	if !sound {
		n = v.newestCheckpoint(func(*view, uint64) bool { return true })
	}
	if err := v.close(); err != nil || n == 0 {
		return err
	}
	k := &checkpoint{sys: sys, path: join(dir, checkpointName(n)), name: checkpointName(n), n: n, store: v.cur.StoreID, damaged: true}
	if sound {
		k, err = openCheckpoint(sys, dir, v.cur.StoreID, n)
	} else {
		err = k.checkHeader()
	}
	if err != nil {
		return err
	}
	return k.read(func(r io.Reader) error { return fn(n, r) })
}

// checkHeader is what openCheckpoint does for one whose end may be damaged.
func (k *checkpoint) checkHeader() error {
	f, err := k.sys.Open(k.path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	var b [sideHeader]byte
	if k.size, err = f.Size(); err == nil && k.size >= sideHeader {
		_, err = f.ReadAt(b[:], 0)
	}
	if err == nil {
		err = checkSideHeader(b[:], checkpointMagic, k.n, k.store)
	}
	return joinClose(err, f)
}

// InspectAt is Log.ReadAt without opening the store.
func InspectAt(sys vfs.System, dir string, id FileID, p []byte, off int64) error {
	f, err := sys.Open(join(dir, id.Name()), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("read %s: %w", id.Name(), err)
	}
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return f.Close()
	}
	if err == nil || err == io.EOF {
		err = &CorruptError{File: id.Name(), Offset: off + int64(n), What: "the file ends before the bytes that were asked for"}
	}
	return joinClose(err, f)
}
