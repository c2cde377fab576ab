package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// deadReach is how far after the end of the log a dead writer's frame can reach.
const deadReach = MaxBody + headerSize + frameAlign

// tail is what lies after the end of the log.
type tail struct {
	end    int64   // offset after the last byte of the segment that is not zero; 0 when all are
	synced Pos     // what the frames found there say was durable
	found  []int64 // offsets of headers found there
}

// trimTail deals with bytes after the position: damage when something says
// that the position was durable, else a torn tail, which is cut. thorough looks
// at everything to the end of the log, as after a power cut; else only as far as one dead
// writer's frame reaches. LOCK is held.
func (l *Log) trimTail(thorough bool) error {
	t, err := l.survey(l.at.pos, thorough)
	if err != nil {
		return err
	}
	if bound := later(t.synced, l.at.synced); l.at.pos.Before(bound) {
		rare.Reached(rare.DamageRefused)
		return corruptAt(l.at.pos, "bad frame, but the log was durable up to %v", bound)
	}
	if t.end == 0 {
		return nil
	}
	return l.cut(l.at.pos, t)
}

// survey looks at what follows p. It changes nothing.
func (l *Log) survey(p Pos, thorough bool) (tail, error) {
	f, err := l.files.get(SegmentFile(p.Segment))
	if err != nil {
		return tail{}, l.missing(err)
	}
	defer l.files.put(f)
	limit := int64(maxOffset)
	if !thorough {
		limit = p.Offset + deadReach
	}
	t, err := surveyFile(f.File, l.seed, p, limit)
	if err != nil {
		return t, fmt.Errorf("survey segment %d: %w", p.Segment, err)
	}
	names, err := l.sys.ReadDir(l.dir)
	if err != nil {
		return t, fmt.Errorf("list the store: %w", err)
	}
	for _, name := range names {
		n, ok := parseNumber(name, ".log")
		if !ok || n <= p.Segment {
			continue
		}
		begun, err := l.begun(n, thorough)
		if err != nil {
			return t, fmt.Errorf("survey segment %d: %w", n, err)
		}
		if begun {
			t.synced = later(t.synced, Pos{Segment: n})
		}
	}
	return t, nil
}

func (l *Log) begun(n uint64, thorough bool) (bool, error) {
	f, err := l.files.get(SegmentFile(n))
	if err != nil {
		return false, err
	}
	defer l.files.put(f)
	limit := int64(maxOffset)
	if !thorough {
		limit = minRead
	}
	return begunFile(f.File, l.seed, n, limit)
}

// begunFile reports whether the log reached segment n, file f, which proves
// that all before it was durable: it begins with the magic of a frame, whole
// or not, or a header of its own is found up to limit. Other bytes in a blank
// segment are damage of no consequence; they are cut when the log gets there.
func begunFile(f vfs.File, seed uint32, n uint64, limit int64) (bool, error) {
	var b [4]byte
	k, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return false, err
	}
	if k == len(b) && binary.LittleEndian.Uint32(b[:]) == frameMagic {
		return true, nil
	}
	t, err := surveyFile(f, seed, Pos{Segment: n}, limit)
	return len(t.found) > 0, err
}

// surveyFile looks for headers of frames, and for the last byte that is not
// zero, in segment file f from p to limit.
func surveyFile(f vfs.File, seed uint32, p Pos, limit int64) (tail, error) {
	var t tail
	var carry []byte // the end of one chunk and the start of the next
	look := func(at int64, b []byte) {
		var h header
		for i := 0; i+headerSize <= len(b); i += frameAlign {
			if b[i] != frameMagic&0xff || b[i+1] != frameMagic>>8&0xff {
				continue
			}
			if s, _ := parseHeader(b[i:], seed, &h); s == sightFrame && h.pos == (Pos{p.Segment, at + int64(i)}) {
				t.synced = later(t.synced, h.synced)
				t.found = append(t.found, at+int64(i))
			}
		}
	}
	err := eachChunk(f, p.Offset, func(at int64, b []byte) bool {
		b = b[:max(0, min(int64(len(b)), limit-at))]
		if len(carry) == 0 && allZero(b) {
			return at+int64(len(b)) < limit
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != 0 {
				t.end = at + int64(i) + 1
				break
			}
		}
		if len(carry) > 0 {
			n := len(carry)
			carry = append(carry, b[:min(len(b), headerSize-frameAlign)]...)
			look(at-int64(n), carry)
		}
		look(at, b)
		carry = append(carry[:0], b[max(0, len(b)-headerSize+frameAlign):]...)
		return at+int64(len(b)) < limit
	})
	return t, err
}

// cut keeps the bytes from p to the end of the tail in a torn- file, and puts
// zeros in their place, durably. LOCK is held.
//
// The zeros are written over the bytes: truncating would give blocks back, and
// a full disk might not have them again when a settlement needs them.
func (l *Log) cut(p Pos, t tail) error {
	f, err := l.files.get(SegmentFile(p.Segment))
	if err != nil {
		return l.missing(err)
	}
	defer l.files.put(f)
	name, err := l.saveTorn(f.File, p, t.end)
	if noSpace(err) {
		rare.Reached(rare.TailNotKept)
		name = "not kept: disk full" // they were never acknowledged; settling must go on
	} else if err != nil {
		return fmt.Errorf("keep the torn tail at %v: %w", p, err)
	}
	l.control.store(ctlFlight, pack(p))
	if err := l.wipe(f, p.Offset, t.end); err != nil {
		return fmt.Errorf("cut the torn tail at %v: %w", p, err)
	}
	rare.Reached(rare.TailCut)
	l.report("torn tail cut", "segment", p.Segment, "offset", p.Offset, "bytes", t.end-p.Offset, "frames", len(t.found), "kept", name)
	return nil
}

// saveTorn copies the bytes from p to end into a new torn- file.
func (l *Log) saveTorn(f vfs.File, p Pos, end int64) (string, error) {
	base := fmt.Sprintf("torn-%06d-%d", p.Segment, p.Offset)
	name := base
	var out vfs.File
	var err error
	for i := 2; ; i++ {
		out, err = l.sys.Open(join(l.dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
		rare.Reached(rare.TornNameTaken)
		name = base + "-" + strconv.Itoa(i)
	}
	if err != nil {
		return "", err
	}
	var werr error
	err = eachChunk(f, p.Offset, func(at int64, b []byte) bool {
		b = b[:max(0, min(int64(len(b)), end-at))]
		if len(b) > 0 {
			_, werr = out.WriteAt(b, at-p.Offset)
		}
		return werr == nil && at+int64(len(b)) < end
	})
	if err == nil {
		err = werr
	}
	if err == nil {
		err = out.Sync()
	}
	err = joinClose(err, out)
	if err == nil {
		err = l.sys.SyncDir(l.dir)
	}
	if noSpace(err) {
		err = errors.Join(err, l.sys.Remove(join(l.dir, name)))
	}
	return name, err
}

// wipe puts zeros over the bytes from off to end and syncs them.
func (l *Log) wipe(f *openFile, off, end int64) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	end = min(end, size)
	zeros := make([]byte, min(max(end-off, 0), zeroChunk))
	for at := off; at < end && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), end-at)], at)
	}
	if err != nil {
		rare.Reached(rare.WipedByTruncating)
		if terr := f.Truncate(off); terr != nil {
			return errors.Join(err, terr)
		}
		if err = f.Truncate(size); err != nil {
			return err
		}
	}
	return l.syncFile(f)
}
