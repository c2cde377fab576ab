package spool

import (
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// Bounds of the notes of one lease that wait to be sent.
const (
	maxLines     = 100
	maxLineBytes = 1 << 10
)

// Progress says how far the handler is: percent from 0 to 100, and a short note
// (cut at 256 bytes). It is sent with the next extension; only the last one
// counts.
func (l *Lease) Progress(percent int, note string) {
	p := broker.Progress{Percent: min(max(percent, 0), 100), Note: head(note, broker.MaxNoteBytes)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil && l.state == leaseOpen {
		l.progress = &p
	}
}

// Log keeps a line with the job (cut at 1 KiB). Lines are sent with the next
// extension or before the settlement, at most 100 at a time: how many did not
// fit is said in a line of its own.
func (l *Lease) Log(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil || l.state != leaseOpen {
		return
	}
	if len(l.lines) == maxLines {
		l.dropped++
		return
	}
	l.lines = append(l.lines, head(line, maxLineBytes))
}

// extension takes what is to be sent with the next Extend.
func (l *Lease) extension() broker.Extension {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := broker.Extension{Ref: l.Job.Ref(), Token: l.Token, Progress: l.progress, Log: l.lines}
	if l.dropped > 0 {
		x.Log = append(x.Log, fmt.Sprintf("(%d lines did not fit)", l.dropped))
	}
	l.progress, l.lines, l.dropped = nil, nil, 0
	return x
}

// extensionWithin is extension for a call with room for so many bytes of notes:
// those of a lease that do not fit any more wait for the next one.
func (l *Lease) extensionWithin(room *int) (x broker.Extension, fits bool) {
	x = l.extension()
	size := x.Size()
	if size > *room {
		l.putBack(x)
		return broker.Extension{Ref: x.Ref, Token: x.Token}, false
	}
	*room -= size
	return x, true
}

// putBack keeps what could not be sent for the next time.
func (l *Lease) putBack(x broker.Extension) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progress == nil {
		l.progress = x.Progress
	}
	lines := append(x.Log, l.lines...)
	if n := len(lines) - maxLines; n > 0 {
		l.dropped, lines = l.dropped+n, lines[:maxLines]
	}
	l.lines = lines
}

// hasNotes reports whether something waits to be sent.
func (l *Lease) hasNotes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress != nil || len(l.lines) > 0
}

// sendNotes sends what waits, before a settlement. Notes are not worth failing
// a settlement for: when they cannot be sent they are lost.
func (l *Lease) sendNotes(ctx context.Context) {
	if !l.hasNotes() {
		return
	}
	req := broker.ExtendRequest{Leases: []broker.Extension{l.extension()}, TTL: l.ttl}
	if _, err := l.client.broker.Extend(ctx, req); err != nil {
		l.client.log.Warn("job's notes are lost", "job", l.Job.ID, "error", err)
	}
}
