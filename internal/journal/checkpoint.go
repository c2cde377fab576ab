package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spoolq/spool/internal/vfs"
)

// These are part of the format.
const (
	checkpointMagic = "spoolidx"
	payloadMagic    = "spoolpay"
	sideVersion     = 1
	sideHeader      = 64
	sideFooter      = 64
	blockHeader     = 8
	maxBlock        = 256 << 10 // that is read
	blockBytes      = 32 << 10  // that is written: a repair loses what stands from a damaged block on
)

func checkpointName(n uint64) string { return fmt.Sprintf("%06d.idx", n) }

// putSideHeader writes the header of a checkpoint or payload file.
func putSideHeader(b []byte, magic string, n uint64, store [16]byte) {
	clear(b[:sideHeader])
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], sideVersion)
	binary.LittleEndian.PutUint64(b[16:], n)
	copy(b[24:], store[:])
	binary.LittleEndian.PutUint32(b[60:], sumOf(seedOf(store), b[:60]))
}

// checkSideHeader says what is wrong with a header.
func checkSideHeader(b []byte, magic string, n uint64, store [16]byte) error {
	if len(b) < sideHeader || binary.LittleEndian.Uint32(b[60:]) != sumOf(seedOf(store), b[:60]) || string(b[:8]) != magic {
		return errors.New("header is damaged")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != sideVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", ErrUnsupported, v, sideVersion)
	}
	if binary.LittleEndian.Uint64(b[16:]) != n {
		return errors.New("header is of another file")
	}
	return nil
}

// footer ends a checkpoint or a payload file.
type footer struct {
	number uint64
	length int64  // of the content
	sum    uint32 // of the content
	// Where the segment of a checkpoint ends, and its last frame.
	end     int64
	seq     uint64
	lastSum uint32
	flags   uint16 // what the head of the next segment carries on
	epoch   uint32
}

func (f *footer) put(b []byte, magic string, seed uint32) {
	le := binary.LittleEndian
	clear(b[:sideFooter])
	copy(b, magic)
	le.PutUint64(b[8:], f.number)
	le.PutUint64(b[16:], uint64(f.length))
	le.PutUint32(b[24:], f.sum)
	le.PutUint64(b[32:], uint64(f.end))
	le.PutUint64(b[40:], f.seq)
	le.PutUint32(b[48:], f.lastSum)
	le.PutUint16(b[52:], f.flags)
	le.PutUint32(b[56:], f.epoch)
	le.PutUint32(b[60:], sumOf(seed, b[:60]))
}

func parseFooter(b []byte, magic string, seed uint32) (f footer, ok bool) {
	le := binary.LittleEndian
	if len(b) < sideFooter || le.Uint32(b[60:]) != sumOf(seed, b[:60]) || string(b[:8]) != magic {
		return f, false
	}
	return footer{
		number: le.Uint64(b[8:]), length: int64(le.Uint64(b[16:])), sum: le.Uint32(b[24:]),
		end: int64(le.Uint64(b[32:])), seq: le.Uint64(b[40:]), lastSum: le.Uint32(b[48:]),
		flags: le.Uint16(b[52:]), epoch: le.Uint32(b[56:]),
	}, true
}

// checkpoint is a checkpoint file whose header and footer are right.
type checkpoint struct {
	sys   vfs.System
	path  string
	name  string
	n     uint64
	store [16]byte
	size  int64
	foot  footer

	damaged bool // its content ends at the first block that is not sound; it may have no footer
}

// openCheckpoint checks header and footer of a checkpoint; it keeps no file
// open. A missing file is fs.ErrNotExist, a damaged one a *CorruptError.
func openCheckpoint(sys vfs.System, dir string, store [16]byte, n uint64) (*checkpoint, error) {
	return openCheckpointAs(sys, join(dir, checkpointName(n)), store, n)
}

func openCheckpointAs(sys vfs.System, path string, store [16]byte, n uint64) (*checkpoint, error) {
	k := &checkpoint{sys: sys, path: path, name: checkpointName(n), n: n, store: store}
	f, err := sys.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	k.foot, k.size, err = readEnds(f, k.name, checkpointMagic, n, store)
	return k, joinClose(err, f)
}

// readEnds reads and checks header and footer of a checkpoint or payload file.
func readEnds(f vfs.File, name, magic string, n uint64, store [16]byte) (footer, int64, error) {
	damaged := func(off int64, what string) error { return &CorruptError{File: name, Offset: off, What: what} }
	size, err := f.Size()
	if err != nil {
		return footer{}, 0, err
	}
	if size < sideHeader+sideFooter {
		return footer{}, 0, damaged(size, "the file is too short")
	}
	var b [sideHeader]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return footer{}, 0, fmt.Errorf("read %s: %w", name, err)
	}
	if err := checkSideHeader(b[:], magic, n, store); err != nil {
		if errors.Is(err, ErrUnsupported) {
			return footer{}, 0, fmt.Errorf("%s: %w", name, err)
		}
		return footer{}, 0, damaged(0, err.Error())
	}
	if _, err := f.ReadAt(b[:], size-sideFooter); err != nil {
		return footer{}, 0, fmt.Errorf("read %s: %w", name, err)
	}
	foot, ok := parseFooter(b[:], magic, seedOf(store))
	if !ok || foot.number != n {
		return footer{}, 0, damaged(size-sideFooter, "footer is damaged")
	}
	return foot, size, nil
}

// chain is where the log goes on after the checkpoint.
func (k *checkpoint) chain() chain {
	start := Pos{Segment: k.n + 1}
	return chain{pos: start, end: Pos{k.n, k.foot.end}, seq: k.foot.seq, sum: k.foot.lastSum, synced: start, flags: k.foot.flags, epoch: k.foot.epoch}
}

// read hands the content to fn. Each block is verified before its bytes are
// handed out; the end of the content is only reached when all of it is there.
func (k *checkpoint) read(fn func(io.Reader) error) error {
	f, err := k.sys.Open(k.path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	return joinClose(fn(&blockReader{f: f, k: k, off: sideHeader, seed: seedOf(k.store), sum: seedOf(k.store)}), f)
}

// blockReader reads the content of a checkpoint.
type blockReader struct {
	f    vfs.File
	k    *checkpoint
	off  int64 // of the next block
	seed uint32
	sum  uint32 // of the content so far
	n    int64  // bytes of content so far
	buf  []byte
	rest []byte // not yet handed out
	err  error
}

// Read is io.Reader. Damage is a *CorruptError.
func (r *blockReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err == nil {
			r.err = r.block()
			if r.k.damaged && r.err != nil {
				r.err = io.EOF
			}
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *blockReader) damaged(what string) error {
	return &CorruptError{File: r.k.name, Offset: r.off, What: what}
}

// block reads the next block. io.EOF is the end of sound content.
func (r *blockReader) block() error {
	end := r.k.size - sideFooter
	if r.k.damaged {
		end = r.k.size
	}
	if r.off == end {
		if r.n != r.k.foot.length || r.sum != r.k.foot.sum {
			return r.damaged("the content is not that of the footer")
		}
		return io.EOF
	}
	var h [blockHeader]byte
	if _, err := r.f.ReadAt(h[:], r.off); err != nil {
		return fmt.Errorf("read %s: %w", r.k.name, err)
	}
	n := int64(binary.LittleEndian.Uint32(h[:]))
	if n == 0 || n > maxBlock || r.off+blockHeader+n > end {
		return r.damaged("block of an impossible length")
	}
	if r.buf == nil {
		r.buf = make([]byte, maxBlock)
	}
	if _, err := r.f.ReadAt(r.buf[:n], r.off+blockHeader); err != nil {
		return fmt.Errorf("read %s: %w", r.k.name, err)
	}
	r.rest = r.buf[:n]
	if sumOf(r.seed, r.rest) != binary.LittleEndian.Uint32(h[4:]) {
		r.rest = nil
		return r.damaged("checksum of a block")
	}
	r.sum = sumOf(r.sum, r.rest)
	r.n += n
	r.off += blockHeader + n
	return nil
}
