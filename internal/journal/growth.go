package journal

import (
	"fmt"
	"time"
)

const (
	// segmentDoublings bounds the size of a segment: 16 times the smallest.
	segmentDoublings = 4
	// fillTime is how long a segment should last: less, and sealing shows in
	// the times of commits; more, and a store that is small holds much room.
	fillTime = 4 * time.Second
)

// sizeFor is the size to prepare segments with, from what the last one tells:
// its size, how many bytes it took, and in which time. The next is at most
// twice as large, and no larger when that one was sealed half empty. Without a
// time that makes sense the size stays.
func sizeFor(first, size, bytes int64, took time.Duration) int64 {
	limit := size
	if bytes > size/2 {
		limit = 2 * size
	}
	want := size
	if took > 0 {
		want = int64(float64(bytes) * fillTime.Seconds() / took.Seconds())
	}
	next := first
	for next < first<<segmentDoublings && next < want && 2*next <= limit {
		next *= 2
	}
	return next
}

// shareAhead is what part of the store's size one prepared segment has at
// least, as far as sizes go: on a full disk the two ahead are what settlements
// go into, and the more jobs wait the more there are.
const shareAhead = 4

// least is the smallest size that suits a store of so many bytes.
func (l *Log) least(used int64) int64 {
	size := l.o.FirstSegmentBytes
	for size < l.o.FirstSegmentBytes<<segmentDoublings && size < used/shareAhead {
		size *= 2
	}
	return size
}

// nextSize is the size of the next segment that is prepared: by how much the
// store holds, and how fast the one before the active was filled.
func (l *Log) nextSize() int64 {
	all, spare, err := l.Disk()
	if err != nil {
		return l.fastSize()
	}
	return max(l.least(all-spare-controlSize), l.fastSize())
}

func (l *Log) fastSize() int64 {
	n := l.active()
	h, r, s, err := l.headOf(n)
	if err != nil || s != sightFrame || n == 1 {
		return l.o.FirstSegmentBytes
	}
	before, _, s, err := l.headOf(n - 1)
	if err != nil || s != sightFrame {
		return l.sizeOf(n) // it was dropped: nothing tells of a change
	}
	return sizeFor(l.o.FirstSegmentBytes, l.sizeOf(n-1), r.prevEnd, time.Duration(h.wall-before.wall))
}

// sizeOf is the size of segment n, within those that are prepared: it may have
// been made without bytes, or grown. The smallest one when it is not there.
func (l *Log) sizeOf(n uint64) int64 {
	first := l.o.FirstSegmentBytes
	size, err := l.FileBytes(SegmentFile(n))
	if err != nil {
		return first
	}
	return min(max(size, first), first<<segmentDoublings)
}

// limit is how many bytes the active segment should hold: its size when this
// handle came to it.
func (l *Log) limit() int64 {
	if n := l.at.pos.Segment; l.limitOf != n {
		l.limitOf, l.limitIs = n, l.sizeOf(n)
	}
	return l.limitIs
}

// trimAhead cuts the blank segments after the active one down to what a store of
// so many bytes and the rate of the active one ask for. On a full disk nothing is cut: others
// would take the room. LOCK is held, so nobody begins them. The cut need
// not be durable: what comes back is zeros.
func (l *Log) trimAhead(used int64) error {
	if l.Full() {
		return nil
	}
	n := l.at.pos.Segment
	h, _, s, err := l.headOf(n)
	if err != nil || s != sightFrame {
		return err
	}
	took := time.Duration(l.sys.Wall().UnixNano() - h.wall)
	want := sizeFor(l.o.FirstSegmentBytes, l.limit(), l.at.pos.Offset, took)
	if took < fillTime/4 && l.at.pos.Offset < l.limit()/2 {
		want = l.fastSize() // just begun: it tells nothing yet
	}
	want = max(want, l.least(used))
	for k := n + 1; k <= n+2; k++ {
		if size, err := l.FileBytes(SegmentFile(k)); err != nil || size <= want {
			continue // not there, or small enough
		}
		f, err := l.files.get(SegmentFile(k))
		if err != nil {
			return err
		}
		err = f.Truncate(want)
		l.files.put(f)
		if err != nil {
			return fmt.Errorf("cut segment %d down: %w", k, err)
		}
	}
	return nil
}
