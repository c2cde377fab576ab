package filebroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

const (
	// What a file holds beside live bytes is waste: dead jobs, and in a segment
	// frames and records too. A segment is evacuated when more than this share
	// of it is waste, a payload file, which was moved once already, when more
	// than that.
	segmentWaste = 0.20
	payloadWaste = 1. / 3
	// evacuateMax bounds the bytes that one step moves, and with them the room
	// that it takes for a moment; a large store moves up to an eighth of itself.
	evacuateMax = 64 << 20
	evacuateTop = 512 << 20
	// Each compaction can leave a payload file for the few jobs that live long.
	// So many of them that are smaller than that are put together.
	smallFile  = 4 << 20
	smallFiles = 16
)

// evacuated is what a step moved.
type evacuated struct {
	bytes int64
	parts []*journal.Moved
}

// sparse is a file that holds little beside what is wasted.
type sparse struct {
	file uint32
	live int64
	size int64
}

func (f sparse) waste() float64 { return float64(f.size-f.live) / float64(max(f.size, 1)) }

// evacuate copies what is needed out of files that hold much else into one
// payload file, and lets the state point there. more says that a step's bound
// left some for the next.
func (b *handle) evacuate(ctx context.Context, s *jobstate.State, sealed uint64) (e evacuated, more bool, err error) {
	files, live, err := b.sparseFiles(s.Uses())
	if err != nil || len(files) == 0 {
		return e, false, err
	}
	bound := min(max(evacuateMax, live/8), evacuateTop)
	from, moving := map[uint32]int{}, int64(0)
	for _, f := range files {
		if moving > 0 && moving+f.live > bound {
			more = true
			continue
		}
		from[f.file] = len(from)
		moving += f.live
	}
	e, whole, err := b.move(ctx, s, sealed, from)
	return e, more && whole, err
}

// sparseFiles are the files worth evacuating, the most wasteful first, with the
// small ones when they are many; live is what all files hold that is needed.
func (b *handle) sparseFiles(uses map[uint32]*jobstate.Use) (files []sparse, live int64, err error) {
	var small []sparse
	for file, use := range uses {
		size, err := b.log.FileBytes(journal.FileID(file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // damage: there is nothing to move
		}
		if err != nil {
			return nil, 0, err
		}
		live += use.Bytes
		most := segmentWaste
		if journal.FileID(file).Payload() {
			most = payloadWaste
		}
		f := sparse{file, use.Bytes, size}
		switch {
		case f.waste() > most:
			files = append(files, f)
		case journal.FileID(file).Payload() && size < smallFile:
			small = append(small, f)
		}
	}
	if len(small) >= smallFiles {
		rare.Reached(rare.SmallFilesMerged)
		files = append(files, small...)
	}
	slices.SortFunc(files, func(a, b sparse) int {
		return cmp.Or(cmp.Compare(b.waste(), a.waste()), cmp.Compare(a.file, b.file))
	})
	return files, live, nil
}

// move copies what the state needs of some files, one after the other as from
// says, and in the order in which it lies there. Not whole when there was no room
// for all: what fits is moved.
func (b *handle) move(ctx context.Context, s *jobstate.State, sealed uint64, from map[uint32]int) (e evacuated, whole bool, err error) {
	var list []jobstate.Loc
	s.EachLoc(func(_ broker.Ref, _ string, l jobstate.Loc) {
		if _, ok := from[l.File]; ok {
			list = append(list, l)
		}
	})
	slices.SortFunc(list, func(a, b jobstate.Loc) int {
		return cmp.Or(cmp.Compare(from[a.File], from[b.File]), cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len))
	})
	list = slices.Compact(list)
	w, err := b.log.NewPayloadFile(sealed)
	if err != nil {
		return e, false, err
	}
	bytes, err := b.copyOut(ctx, w, list)
	if whole = err == nil; !whole && w.Back() {
		err = nil
	}
	if err != nil || bytes == 0 {
		return e, false, errors.Join(err, w.Discard())
	}
	if err := w.Finish(); err != nil {
		return e, false, err
	}
	rare.Reached(rare.PayloadEvacuated)
	e = evacuated{bytes, w.Moved()}
	s.Relocate(places{}.with(e.parts).at)
	return e, whole, nil
}

// copyOut copies the bytes at the places of a sorted list; after an error moved
// are those of the files that were kept. What is damaged stays where it is, and
// with it its file: damage is not tidied away.
func (b *handle) copyOut(ctx context.Context, w *journal.PayloadWriter, list []jobstate.Loc) (moved int64, err error) {
	var buf []byte
	kept := int64(0)
	for file := uint32(0); len(list) > 0; {
		if err := ctx.Err(); err != nil {
			return kept, err
		}
		if list[0].File != file {
			if err := w.Keep(); err != nil {
				return kept, err
			}
			file, kept = list[0].File, moved
		}
		n, first := 1, list[0]
		for n < len(list) && list[n].File == first.File && list[n].Off+list[n].Len-first.Off <= maxSpan {
			n++
		}
		buf = slices.Grow(buf[:0], int(list[n-1].Off+list[n-1].Len-first.Off))[:list[n-1].Off+list[n-1].Len-first.Off]
		err := b.log.ReadAt(journal.FileID(first.File), buf, int64(first.Off))
		if errors.Is(err, journal.ErrCorrupt) { // the file is cut short: what lies before that is read alone
			n, err = 1, b.log.ReadAt(journal.FileID(first.File), buf[:first.Len], int64(first.Off))
		}
		if errors.Is(err, journal.ErrCorrupt) {
			list = list[1:]
			continue
		}
		if err != nil {
			return kept, fmt.Errorf("move payloads: %w", err)
		}
		for _, l := range list[:n] {
			p := buf[l.Off-first.Off:][:l.Len]
			if jobstate.Checksum(p) != l.Sum {
				rare.Reached(rare.DamageLeft)
				continue
			}
			if err := w.Move(journal.FileID(l.File), l.Off, p); err != nil {
				return kept, err
			}
			moved += int64(l.Len)
		}
		list = list[n:]
	}
	if err := w.Keep(); err != nil {
		return kept, err
	}
	return moved, nil
}
