package journal

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// PayloadWriter writes a payload file: bytes moved out of sparse segments. It
// belongs to one goroutine.
type PayloadWriter struct {
	l   *Log
	n   uint64
	f   vfs.File
	out []byte // not yet written
	off int64  // of what is appended next
	due int64  // where the file is synced next
	sum uint32
	err error

	moved []*Moved
	kept  kept
}

// kept is how far a payload file was at its last Keep.
type kept struct {
	off   int64
	due   int64
	sum   uint32
	parts int
	last  Moved // of the parts
}

// payloadChunk is how much is written at once.
const payloadChunk = 256 << 10

func payloadTmp(n uint64) string { return PayloadFile(n).Name() + ".tmp" }

// NewPayloadFile begins payload file n, which must not exist; numbers are
// never reused. COMPACT must be held until the Flip that names the file.
func (l *Log) NewPayloadFile(n uint64) (*PayloadWriter, error) {
	if !l.compact.Load() {
		return nil, ErrNotLocked
	}
	if n == 0 || n >= uint64(payloadBit) {
		return nil, fmt.Errorf("create payload file: number %d is out of range", n)
	}
	there, err := l.exists(PayloadFile(n).Name())
	if err != nil || there {
		return nil, fmt.Errorf("create payload file %d: %w", n, errors.Join(err, os.ErrExist))
	}
	f, err := l.sys.Open(join(l.dir, payloadTmp(n)), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("create payload file %d: %w", n, diskFull(err))
	}
	w := &PayloadWriter{l: l, n: n, f: f, sum: l.seed, due: syncPiece}
	var h [sideHeader]byte
	putSideHeader(h[:], payloadMagic, n, l.store)
	w.write(h[:])
	return w, nil
}

func (w *PayloadWriter) write(p []byte) {
	if w.err != nil {
		return
	}
	w.out = append(w.out, p...)
	w.off += int64(len(p))
	if len(w.out) >= payloadChunk {
		w.flush()
	}
}

// flush writes what has gathered, and syncs now and then.
func (w *PayloadWriter) flush() {
	if w.err != nil {
		return
	}
	_, err := w.f.WriteAt(w.out, w.off-int64(len(w.out)))
	w.out = w.out[:0]
	if err == nil && w.off >= w.due {
		w.due = w.off + syncPiece
		err = w.f.Sync()
	}
	if err != nil {
		w.err = fmt.Errorf("write payload file %d: %w", w.n, diskFull(err))
	}
}

// Size is how many bytes the file has so far.
func (w *PayloadWriter) Size() int64 { return w.off }

// Append adds p and returns its offset in the file. An error is final: Discard,
// or Back. It wraps ErrTooLarge when p would end beyond what an offset can say.
func (w *PayloadWriter) Append(p []byte) (off int64, err error) {
	off = w.off
	if w.err == nil && off+int64(len(p)) > maxOffset {
		w.err = fmt.Errorf("write payload file %d: %w", w.n, ErrTooLarge)
	}
	w.write(p)
	if w.err == nil {
		w.sum = sumOf(w.sum, p)
	}
	return off, w.err
}

// Move is Append of bytes that lay elsewhere, at from in a file, and keeps a
// note of that in the file: see ReadMoved. Calls go file by file, and forward in
// each.
func (w *PayloadWriter) Move(file FileID, from uint32, p []byte) error {
	off, err := w.Append(p)
	if err != nil {
		return err
	}
	last := len(w.moved) - 1
	if last < 0 || w.moved[last].From != file {
		w.moved = append(w.moved, &Moved{From: file, To: PayloadFile(w.n)})
		last++
	}
	w.moved[last].add(from, uint32(off), uint32(len(p)))
	return nil
}

// Keep makes sure that there is room for the table of what was moved so far, so
// that the file can be finished with that when there is none for more: see Back.
func (w *PayloadWriter) Keep() error {
	w.flush()
	if w.err != nil || w.off == w.kept.off || len(w.moved) == 0 {
		return w.err
	}
	room := 4 + sideFooter
	for _, m := range w.moved {
		room += movedHead + len(m.b)
	}
	if _, err := w.f.WriteAt(make([]byte, room), w.off); err != nil {
		w.err = fmt.Errorf("write payload file %d: %w", w.n, diskFull(err))
		return w.err
	}
	n := len(w.moved)
	w.kept = kept{w.off, w.due, w.sum, n, *w.moved[n-1]}
	return nil
}

// Back makes the file again what it was at the last Keep, after an error for which
// there was no room; Finish may follow. Not ok when nothing was kept, and after
// any other error.
func (w *PayloadWriter) Back() (ok bool) {
	k := w.kept
	if k.parts == 0 || !errors.Is(w.err, ErrDiskFull) {
		return false
	}
	rare.Reached(rare.PayloadFileCutShort)
	w.err, w.out = nil, w.out[:0]
	w.off, w.due, w.sum = k.off, k.due, k.sum
	w.moved = w.moved[:k.parts]
	*w.moved[k.parts-1] = k.last
	return true
}

// Moved is what Move was called for, one part for each file. It belongs to the
// caller after Finish.
func (w *PayloadWriter) Moved() []*Moved { return w.moved }

// Finish makes the file durable under its name. It is in use, and safe from
// Drop, once Flip has named it.
func (w *PayloadWriter) Finish() error {
	var table int64
	if len(w.moved) > 0 {
		table = w.off
		if _, err := w.Append(putMoved(w.moved, w.l.seed)); err != nil {
			return err
		}
	}
	foot := footer{number: w.n, length: w.off - sideHeader, sum: w.sum, end: table}
	var b [sideFooter]byte
	foot.put(b[:], payloadMagic, w.l.seed)
	w.write(b[:])
	if w.flush(); w.err != nil {
		return w.err
	}
	err := w.f.Truncate(w.off)
	if err == nil {
		err = w.f.Sync()
	}
	err = joinClose(err, w.f)
	w.f = nil
	if err == nil {
		err = w.l.sys.Rename(join(w.l.dir, payloadTmp(w.n)), join(w.l.dir, PayloadFile(w.n).Name()))
	}
	if err == nil {
		err = w.l.syncDir()
	}
	if err != nil {
		w.err = fmt.Errorf("finish payload file %d: %w", w.n, diskFull(err))
	}
	return w.err
}

// Discard gives up the file. After Finish it does nothing.
func (w *PayloadWriter) Discard() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	w.err = ErrClosed
	return errors.Join(err, w.l.sys.Remove(join(w.l.dir, payloadTmp(w.n))))
}

// verifyPayload reads a whole payload file, from the disk when drop is set.
func verifyPayload(sys vfs.System, dir string, store [16]byte, n uint64, drop bool) (size int64, err error) {
	name := PayloadFile(n).Name()
	f, err := sys.Open(join(dir, name), os.O_RDONLY)
	if err != nil {
		return 0, fmt.Errorf("verify %s: %w", name, err)
	}
	defer func() { err = joinClose(err, f) }()
	if drop {
		if err := f.DropCache(); err != nil {
			return 0, fmt.Errorf("verify %s: %w", name, err)
		}
	}
	foot, size, err := readEnds(f, name, payloadMagic, n, store)
	if err != nil {
		return size, err
	}
	if foot.length != size-sideHeader-sideFooter {
		return size, &CorruptError{File: name, Offset: size - sideFooter, What: "the content is not as long as the footer says"}
	}
	sum := seedOf(store)
	content := io.NewSectionReader(f, sideHeader, foot.length)
	buf := make([]byte, 256<<10)
	for {
		k, err := content.Read(buf)
		sum = sumOf(sum, buf[:k])
		if err == io.EOF {
			break
		}
		if err != nil {
			return size, fmt.Errorf("verify %s: %w", name, err)
		}
	}
	if sum != foot.sum {
		return size, &CorruptError{File: name, Offset: sideHeader, What: "checksum of the content"}
	}
	return size, nil
}
