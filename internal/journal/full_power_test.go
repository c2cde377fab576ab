package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

const (
	shortText = 1 << 31 // in the length of a text: there is only its stem
	shortStem = 1<<16 - 1
)

// encodeShort is encodeTexts, but that of the x at the end of a text it writes how
// many there are: a state that is much smaller than the log.
func encodeShort(w io.Writer, texts []string) error {
	for _, s := range texts {
		stem := strings.TrimRight(s, "x")
		n := shortText | uint32(len(stem)) | uint32(len(s)-len(stem))<<16
		if _, err := w.Write(append(binary.LittleEndian.AppendUint32(nil, n), stem...)); err != nil {
			return err
		}
	}
	return nil
}

// fullAdds is what one text more takes in a checkpoint of these at most.
const fullAdds = 20

func fullSegments(o *Options) { o.FirstSegmentBytes = 32 << 10 }

// full is a life of a store whose disk is full: what was enqueued fills it, and
// what is settled then goes on, through segments that are prepared, that RESERVE
// lends, and that compactions give back.
func (w *world) full() error {
	l, err := openOn(w.m.Process(), fullSegments)
	if err != nil {
		return err
	}
	if err := l.Prepare(); err != nil {
		return err
	}
	w.m.SetDiskBytes(w.m.Used() + 64<<10)
	for err == nil {
		err = w.long(l, Enqueue)
		if perr := l.Prepare(); perr != nil && !errors.Is(perr, ErrDiskFull) {
			return perr
		}
	}
	if !errors.Is(err, ErrDiskFull) {
		return err
	}
	w.m.SetDiskBytes(w.m.Used())
	for range 60 {
		err := w.long(l, Settle)
		for try := 0; errors.Is(err, ErrDiskFull) && try < 3; try++ {
			if err = l.Prepare(); errors.Is(err, ErrDiskFull) {
				err = w.compactFull(l)
			}
			if err == nil {
				err = w.long(l, Settle)
			}
		}
		if err != nil {
			return err
		}
	}
	w.m.SetDiskBytes(0)
	if err := l.Prepare(); err != nil {
		return err
	}
	return w.long(l, Enqueue)
}

// long appends a large frame, and syncs.
func (w *world) long(l *Log, class Class) error {
	s := fmt.Sprintf("%d %s", len(w.tried), strings.Repeat("x", 4000))
	err := l.Lock()
	if err != nil {
		return err
	}
	if err = l.CatchUp(discard); err == nil {
		err = l.Reserve(len(s), class, fullAdds)
	}
	if err == nil {
		w.tried = append(w.tried, s)
		buf, _, _ := l.Body()
		_, err = l.Append(append(buf, s...), FrameHeader{Count: 1, Epoch: 7, Adds: fullAdds})
	}
	l.Unlock()
	if err == nil {
		err = l.Sync()
	}
	if err == nil {
		w.acked = len(w.tried)
	}
	return err
}

// compactFull is a compaction of a full disk.
func (w *world) compactFull(l *Log) error {
	if ok, err := l.TryCompactLock(); err != nil || !ok {
		return fmt.Errorf("COMPACT not free: %w", err)
	}
	defer l.CompactUnlock()
	if err := l.Lock(); err != nil {
		return err
	}
	n, err := uint64(0), l.CatchUp(discard)
	if err == nil {
		n, err = l.Seal(0)
	}
	l.Unlock()
	if err != nil {
		return err
	}
	var state []string
	cur := l.Current()
	if cur.Checkpoint > 0 {
		err = l.ReadCheckpoint(cur.Checkpoint, func(r io.Reader) (err error) {
			state, err = decodeTexts(r)
			return err
		})
	}
	if err == nil {
		err = l.Scan(cur.Checkpoint+1, n, bodies(&state))
	}
	if err != nil {
		return err
	}
	var size counter
	if err := encodeShort(&size, state); err != nil {
		return err
	}
	giveBack, err := l.Lend(int64(size))
	if err != nil {
		return err
	}
	if err = l.WriteCheckpoint(n, func(w io.Writer) error { return encodeShort(w, state) }); err == nil {
		err = l.Flip(Current{Checkpoint: n})
	}
	if err == nil {
		_, err = l.Drop(func(FileID) bool { return false })
	}
	giveBack()
	if err != nil {
		return err
	}
	if err := l.Prepare(); err != nil && !errors.Is(err, ErrDiskFull) {
		return err
	}
	return nil
}

// TestTheScriptOfAFullDiskDoesWhatAFullDiskDoes is what gives the test below its worth.
func TestTheScriptOfAFullDiskDoesWhatAFullDiskDoes(t *testing.T) {
	w := &world{m: crashfs.New(crashfs.Config{Seed: 1})}
	seen := map[string]int{}
	reserve := join(labDir, reserveName)
	w.m.Inject(func(op crashfs.Op) error {
		switch {
		case op.Path == reserve && op.Kind == crashfs.OpWriteAt:
			seen["RESERVE grows"]++
		case op.Path == reserve && op.Kind == crashfs.OpTruncate:
			seen["RESERVE lends"]++
		case op.Path == reserve && op.Kind == crashfs.OpRename:
			seen["a checkpoint takes the room of RESERVE"]++
		}
		return nil
	})
	must(t, w.full())
	for _, what := range []string{"RESERVE grows", "RESERVE lends", "a checkpoint takes the room of RESERVE"} {
		if seen[what] < 2 {
			t.Errorf("%s: %d times", what, seen[what])
		}
	}
	t.Logf("%d frames, %v", len(w.tried), seen)
}

func TestPowerCutsOfAFullDiskLoseNothingThatWasDurable(t *testing.T) {
	for _, cfg := range []crashfs.Config{{Seed: 1}, {Seed: 2, Torn: true, Versions: 2}} {
		judged, failures := powerCuts(cfg, (*world).full, samples(3))
		for _, err := range failures {
			t.Error(err)
		}
		t.Logf("%d power cuts", judged)
		if judged < 300/thin {
			t.Errorf("only %d power cuts were judged", judged)
		}
	}
}
