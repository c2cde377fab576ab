package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spoolq/spool/internal/vfs"
)

// FindingKind is the sort of a Finding.
type FindingKind string

const (
	BadCurrent     FindingKind = "bad current"     // CURRENT is missing or garbled
	BadCheckpoint  FindingKind = "bad checkpoint"  // the checkpoint is missing or damaged
	BadPayload     FindingKind = "bad payload"     // a payload file in use is missing or damaged
	BadFrame       FindingKind = "bad frame"       // a frame that was durable is damaged
	BadLink        FindingKind = "bad link"        // a frame or a segment does not continue the one before
	MissingSegment FindingKind = "missing segment" // a segment that must exist does not
	TornTail       FindingKind = "torn tail"       // an unfinished end: the next opener cuts it
	Leftover       FindingKind = "leftover"        // a file that is unfinished or no longer needed
	IsPoisoned     FindingKind = "poisoned"        // a write or a sync failed: the next lone opener recovers
)

// Damage reports whether something that was durable is lost.
func (k FindingKind) Damage() bool { return k != TornTail && k != Leftover && k != IsPoisoned }

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind   FindingKind
	File   string // name in the directory
	Offset int64
	What   string
}

// Report is what Verify and Salvage saw.
type Report struct {
	Findings []Finding
	Current  Current // the zero StoreID when it is not known
	End      Pos     // where the log ends
	Segments int     // with frames in them
	Frames   int64   // sound ones, heads and ends too
	Bytes    int64   // of sound frames
}

// Damaged reports whether a finding is damage.
func (r *Report) Damaged() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind.Damage() })
}

// Verify reads the whole store: CURRENT, checkpoint, payload files, every
// frame and every link between them. What it finds is in the report; its error
// is only for what keeps it from looking.
func Verify(sys vfs.System, dir string) (Report, error) {
	x := examiner{side: true, resync: true}
	r, err := x.run(sys, dir)
	if err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	return r, nil
}

// Salvage hands out every frame that is still readable, in the order of the
// log, passing over damage, for a repair that builds a new store. After a
// damaged place the state that frames rely on may be missing: that is for the
// caller to judge. fn's error ends it.
func Salvage(sys vfs.System, dir string, fn func(*Frame) error) (Report, error) {
	x := examiner{frame: fn, side: true, resync: true}
	r, err := x.run(sys, dir)
	if err != nil {
		return r, fmt.Errorf("salvage: %w", err)
	}
	return r, nil
}

// examiner walks through a store.
type examiner struct {
	frame  func(*Frame) error  // may be nil
	found  func(Finding) error // may be nil; its error ends the walk
	side   bool                // look at checkpoint, payload files and leftovers
	resync bool                // go on after damage, at the next sound frame

	v *view
	r Report
	c chain
}

func (x *examiner) find(kind FindingKind, file string, off int64, what string) error {
	f := Finding{Kind: kind, File: file, Offset: off, What: what}
	x.r.Findings = append(x.r.Findings, f)
	if x.found != nil {
		return x.found(f)
	}
	return nil
}

func (x *examiner) run(sys vfs.System, dir string) (r Report, err error) {
	if x.v, err = openView(sys, dir); err != nil {
		return x.r, err
	}
	defer func() { err = errors.Join(err, x.v.close()) }()
	x.r.Current = x.v.cur
	if x.v.curErr != nil {
		if err := x.sideError(BadCurrent, currentName, x.v.curErr); err != nil {
			return x.r, err
		}
	}
	if x.side {
		if err := x.sideFiles(); err != nil {
			return x.r, err
		}
	}
	err = x.segments()
	x.r.End = x.c.pos
	return x.r, err
}

// sideFiles looks at all files but the segments.
func (x *examiner) sideFiles() error {
	cur := x.v.cur
	if n := cur.Checkpoint; n > 0 {
		k, err := openCheckpoint(x.v.sys, x.v.dir, cur.StoreID, n)
		if err == nil {
			err = k.read(func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		}
		if err := x.sideError(BadCheckpoint, checkpointName(n), err); err != nil {
			return err
		}
	}
	for _, n := range cur.Payload {
		_, err := verifyPayload(x.v.sys, x.v.dir, cur.StoreID, n, false)
		if err := x.sideError(BadPayload, PayloadFile(n).Name(), err); err != nil {
			return err
		}
	}
	for _, name := range x.v.names {
		kind, what := x.judgeName(name)
		if what == "" {
			continue
		}
		if err := x.find(kind, name, 0, what); err != nil {
			return err
		}
	}
	return nil
}

// sideError makes damage a finding.
func (x *examiner) sideError(kind FindingKind, name string, err error) error {
	var c *CorruptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &c):
		return x.find(kind, name, c.Offset, c.What)
	case errors.Is(err, fs.ErrNotExist):
		return x.find(kind, name, 0, "the file is missing")
	}
	return err
}

func (x *examiner) judgeName(name string) (FindingKind, string) {
	cur := x.v.cur
	if name == poisonName {
		return IsPoisoned, "a write or a sync failed"
	}
	if strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".tmp") {
		return Leftover, "unfinished"
	}
	if strings.HasPrefix(name, "torn-") {
		return Leftover, "bytes that were cut"
	}
	if n, ok := parseNumber(name, ".idx"); ok && n != cur.Checkpoint && x.v.curErr == nil {
		return Leftover, "not the current checkpoint"
	}
	if n, ok := parseNumber(name, ".pay"); ok && !slices.Contains(cur.Payload, n) && x.v.curErr == nil {
		return Leftover, "not in use"
	}
	return "", ""
}

// segments walks through the segments.
func (x *examiner) segments() error {
	v := x.v
	if v.cur.First == 0 && len(v.segments) == 0 {
		return nil
	}
	first := v.cur.First
	for _, n := range v.segments {
		if n >= first {
			break
		}
		x.c = chain{pos: Pos{Segment: n}, loose: true} // kept for its payloads alone
		if _, err := x.segment(n); err != nil {
			return err
		}
	}
	x.c = chain{pos: Pos{Segment: first}, loose: first != 1}
	for n := first; ; n++ {
		if v.files[n] == nil {
			return x.missing(n)
		}
		more, err := x.segment(n)
		if err != nil || !more {
			return err
		}
	}
}

// missing reports the segments that lack from n on, and walks what follows.
func (x *examiner) missing(n uint64) error {
	if err := x.find(MissingSegment, SegmentFile(n).Name(), 0, "the log continues in a segment that is missing"); err != nil {
		return err
	}
	for _, m := range x.v.segments {
		if m < n || !x.resync {
			continue
		}
		x.c = chain{pos: Pos{Segment: m}, loose: true}
		if _, err := x.segment(m); err != nil {
			return err
		}
	}
	return nil
}

// segment walks through segment n, which the chain has reached; more says that
// the log goes on in the next.
func (x *examiner) segment(n uint64) (more bool, err error) {
	var w window
	w.on(x.v.files[n])
	before := x.r.Frames
	defer func() {
		if x.r.Frames > before {
			x.r.Segments++
		}
	}()
	for {
		s, err := walk(&w, &x.c, x.v.seed, x.v.limit, x.take)
		var bad *CorruptError
		var own stop
		switch {
		case errors.As(err, &own) || (err != nil && !errors.As(err, &bad)):
			return false, err
		case x.c.pos.Segment != n:
			return true, nil
		case !x.c.pos.Before(x.v.limit):
			return false, nil
		case bad == nil && x.crosses(n):
			return true, nil
		}
		if s == sightFrame && bad == nil {
			return false, nil
		}
		if over, err := x.trouble(n, s, bad); over || err != nil {
			return x.c.pos.Segment != n, err
		}
		w.reset()
	}
}

func (x *examiner) take(f *Frame) error {
	if x.frame != nil {
		if err := x.frame(f); err != nil {
			return stop{err}
		}
	}
	x.r.Frames++
	x.r.Bytes += frameSize(len(f.Body))
	return nil
}

// stop carries a caller's error past those that this package makes.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// crosses moves the chain to the next segment when its head says that the log
// ends here and goes on there.
func (x *examiner) crosses(n uint64) bool {
	f := x.v.files[n+1]
	if f == nil || x.c.pos.Offset == 0 {
		return false
	}
	next := x.c
	next.pos = Pos{Segment: n + 1}
	c := next
	var w window
	w.on(f)
	var frame Frame
	if s, err := w.look(&c, x.v.seed, headSize, &frame); err != nil || s != sightFrame {
		return false
	}
	x.c = next
	return true
}

// trouble judges the place where the chain found no frame. over says that the
// segment has no more frames to look for.
func (x *examiner) trouble(n uint64, s sight, bad *CorruptError) (over bool, err error) {
	p := x.c.pos
	t, next, err := x.survey(n)
	if err != nil {
		return true, err
	}
	bound := later(later(x.c.synced, t.synced), x.v.owed(p))
	name := SegmentFile(n).Name()
	switch {
	case bad != nil:
		err = x.find(BadLink, bad.File, bad.Offset, bad.What)
	case p.Before(bound):
		err = x.find(BadFrame, name, p.Offset, fmt.Sprintf("no sound frame, but the log was durable up to %v", bound))
	case t.end > 0:
		return true, x.find(TornTail, name, p.Offset, fmt.Sprintf("%d bytes after the end of the log", t.end-p.Offset))
	default:
		return true, nil
	}
	if err != nil {
		return true, err
	}
	if next < 0 {
		if !bound.Before(Pos{Segment: n + 1}) {
			x.c = chain{pos: Pos{Segment: n + 1}, loose: true}
		}
		return true, nil
	}
	x.c = chain{pos: Pos{n, next}, loose: true, synced: x.c.synced}
	return false, nil
}

// survey looks at what follows the chain's position: what it says was durable,
// and where the next sound header of this segment is, -1 for none.
func (x *examiner) survey(n uint64) (t tail, next int64, err error) {
	f := x.v.files[n]
	t, err = surveyFile(f, x.v.seed, x.c.pos, maxOffset)
	if err != nil {
		return t, -1, err
	}
	for _, m := range x.v.segments {
		if m <= n {
			continue
		}
		begun, err := begunFile(x.v.files[m], x.v.seed, m, maxOffset)
		if err != nil {
			return t, -1, err
		}
		if begun {
			t.synced = later(t.synced, Pos{Segment: m})
		}
	}
	next = -1
	for _, off := range t.found {
		if off > x.c.pos.Offset {
			next = off
			break
		}
	}
	return t, next, nil
}
