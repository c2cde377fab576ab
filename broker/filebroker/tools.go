package filebroker

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs"
)

// Entry is one record of the log, or the head or end of a segment, for people.
type Entry struct {
	Segment  uint64      `json:"segment"`
	Offset   int64       `json:"offset"` // of its frame
	Sequence uint64      `json:"sequence"`
	Epoch    uint32      `json:"epoch"`
	At       time.Time   `json:"at"`     // the writer's wall clock
	Record   string      `json:"record"` // its type; "head" and "end" are a segment's own
	Queue    string      `json:"queue,omitempty"`
	IDs      []broker.ID `json:"ids,omitempty"`
	Text     string      `json:"text,omitempty"` // name=value pairs
}

// Inspect hands every record of the log in dir to fn, oldest first. It takes
// no lock, creates nothing, and leaves every byte as it is; the store may be
// in use. Its error wraps ErrCorrupt at a damaged place, after everything
// before it was handed out.
func Inspect(dir string, fn func(Entry) error) error {
	dir, err := storeDir(dir)
	if err != nil {
		return err
	}
	return public(journal.Inspect(vfs.OS(), dir, func(f *journal.Frame) error {
		e := Entry{Segment: f.At.Segment, Offset: f.At.Offset, Sequence: f.Seq, Epoch: f.Epoch, At: time.Unix(0, f.Wall).UTC()}
		if f.Kind != journal.KindData {
			e.Record = f.Kind.String()
			return fn(e)
		}
		var failed error
		err := jobstate.Describe(f.Body, func(r jobstate.Record) {
			e.Record, e.Queue, e.IDs, e.Text = r.Type, r.Queue, r.IDs, r.Text
			if failed == nil {
				failed = fn(e)
			}
		})
		return errors.Join(failed, err)
	}))
}

// storeDir makes dir absolute and says so when it cannot be a store, before
// anything looks into it.
func storeDir(dir string) (string, error) {
	if dir == "" {
		return "", errNoName
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sys := vfs.OS()
	info, err := sys.Stat(abs)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", broker.ErrInvalid, dir, err)
	}
	if !info.Dir {
		return "", fmt.Errorf("%w: %s is not a directory", broker.ErrInvalid, dir)
	}
	names, err := sys.ReadDir(abs)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", broker.ErrInvalid, dir, err)
	}
	for _, n := range names {
		if n == "CURRENT" || n == "LOCK" || filepath.Ext(n) == ".log" {
			return abs, nil
		}
	}
	return "", fmt.Errorf("%w: %s holds no store (no CURRENT, no segment)", broker.ErrInvalid, dir)
}

// IsStore reports whether dir looks like a store, without touching it; the
// error says why not.
func IsStore(dir string) error {
	_, err := storeDir(dir)
	return err
}

// Finding is something in a store that is not as it should be.
type Finding struct {
	Kind   string `json:"kind"`
	Damage bool   `json:"damage"` // something that was durable is lost
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset"`
	What   string `json:"what"`
}

// Verified is what Verify saw.
type Verified struct {
	OK       bool      `json:"ok"` // no finding is damage
	Findings []Finding `json:"findings"`
	Segments int       `json:"segments"`
	Frames   int64     `json:"frames"`
	Bytes    int64     `json:"bytes"`
	Jobs     int       `json:"jobs"`     // in the state that the log gives
	Payloads int       `json:"payloads"` // payloads, results and texts, each read and checked
}

// Verify reads the whole store in dir: every file, frame and link, the state
// that they give, and the checksum of everything that a job refers to. It
// takes no lock and changes nothing; of a store in use it sees some moment.
// Its error is for what keeps it from looking; damage is in the findings.
func Verify(dir string) (Verified, error) {
	abs, err := storeDir(dir)
	if err != nil {
		return Verified{}, err
	}
	sys := vfs.OS()
	report, err := journal.Verify(sys, abs)
	if err != nil {
		return Verified{}, public(err)
	}
	v := Verified{OK: !report.Damaged(), Segments: report.Segments, Frames: report.Frames, Bytes: report.Bytes, Findings: []Finding{}}
	for _, f := range report.Findings {
		v.Findings = append(v.Findings, Finding{Kind: string(f.Kind), Damage: f.Kind.Damage(), File: f.File, Offset: f.Offset, What: f.What})
	}
	if !v.OK {
		return v, nil // what a damaged log gives proves nothing
	}
	s, err := replay(sys, abs)
	if errors.Is(err, jobstate.ErrNewer) {
		return v, public(err) // a repair would lose what it cannot read
	}
	if err != nil {
		v.add(Finding{Kind: "bad state", Damage: true, What: err.Error()})
		return v, nil
	}
	v.Jobs = s.Len()
	s.EachLoc(func(ref broker.Ref, what string, l jobstate.Loc) {
		v.Payloads++
		if _, err := readLoc(sys, abs, l); err != nil {
			v.add(Finding{
				Kind: "bad " + what, Damage: true, File: journal.FileID(l.File).Name(), Offset: int64(l.Off),
				What: fmt.Sprintf("%s of job %s in queue %s: %v", what, ref.ID, ref.Queue, err),
			})
		}
	})
	return v, nil
}

func (v *Verified) add(f Finding) {
	v.OK = v.OK && !f.Damage
	v.Findings = append(v.Findings, f)
}

// replay builds the state of a store without opening it.
func replay(sys vfs.System, dir string) (*jobstate.State, error) {
	s := jobstate.New(nil, nil)
	var from uint64
	err := journal.InspectCheckpoint(sys, dir, func(n uint64, r io.Reader) error {
		from = n
		return s.Decode(r)
	})
	if err != nil {
		return nil, err
	}
	err = journal.Inspect(sys, dir, func(f *journal.Frame) error {
		if f.Kind != journal.KindData || f.At.Segment <= from {
			return nil
		}
		return s.Apply(f.Body, uint32(journal.SegmentFile(f.At.Segment)), f.BodyAt)
	})
	return s, err
}

// readLoc reads and checks stored bytes without opening the store.
func readLoc(sys vfs.System, dir string, l jobstate.Loc) ([]byte, error) {
	p := make([]byte, l.Len)
	if err := journal.InspectAt(sys, dir, journal.FileID(l.File), p, int64(l.Off)); err != nil {
		return nil, err
	}
	if jobstate.Checksum(p) != l.Sum {
		return nil, errDamaged
	}
	return p, nil
}
