package filebroker

import (
	"slices"
	"sync"

	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

// ahead reads payloads ahead of those who claim one job at a time: as a rule
// they take them in about the order in which they were written. Bytes of the log
// never change, but what is read past its end may be no payload yet: who takes
// from here checks the sum, and reads for himself when it is wrong. Safe for
// concurrent use.
type ahead struct {
	log *journal.Log

	mu   sync.Mutex
	file uint32
	from uint32 // where span begins
	span []byte
	end  uint32 // where what was read last ends
}

const (
	aheadBytes = 32 << 10
	aheadGap   = 4 << 10 // from what was read last to what is still next to it
)

// read returns a copy of the bytes at l, or nil when they are none that it has
// or would read ahead.
func (a *ahead) read(l jobstate.Loc) []byte {
	if l.Len > aheadGap {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.File != a.file {
		a.file, a.span, a.end = l.File, nil, l.Off+l.Len
		return nil
	}
	if !a.has(l) {
		a.follow(l)
	}
	if !a.has(l) {
		return nil
	}
	p := make([]byte, l.Len)
	copy(p, a.span[l.Off-a.from:])
	return p
}

func (a *ahead) has(l jobstate.Loc) bool {
	return l.Off >= a.from && uint64(l.Off)+uint64(l.Len) <= uint64(a.from)+uint64(len(a.span))
}

// follow reads what comes after the last bytes when l is next to them. What lies
// before them is left to others.
func (a *ahead) follow(l jobstate.Loc) {
	switch {
	case l.Off < a.end:
		return
	case l.Off-a.end+l.Len > 2*aheadGap:
		a.span, a.end = a.span[:0], l.Off+l.Len
		return
	}
	a.span = slices.Grow(a.span[:0], aheadBytes)[:aheadBytes]
	a.from, a.end = a.end, a.end+aheadBytes
	if err := a.log.ReadAt(journal.FileID(a.file), a.span, int64(a.from)); err != nil {
		a.span, a.end = a.span[:0], l.Off+l.Len // the file may end here; who asked reads for himself
	}
}
