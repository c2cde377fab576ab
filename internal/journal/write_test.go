package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestRollsAtEveryByteAroundTheEnd fills a segment up to a last frame that ends
// a little before, at, or a little after what has to stay free.
func TestRollsAtEveryByteAroundTheEnd(t *testing.T) {
	const size = 1024
	rolled := map[bool]int{}
	for n := 1; n < 500; n += thin {
		l := mustOpenOn(t, crashfs.New(crashfs.Config{}).Process())
		must(t, l.Prepare())
		want := []string{strings.Repeat("a", 300), strings.Repeat("b", n), "c"}
		must(t, appendOne(l, want[0], Settle))
		at := l.Pos()
		must(t, appendOne(l, want[1], Settle))
		fits := at.Offset+frameSize(n)+l.endSpace() <= size
		if inFirst := l.Pos().Segment == 1; inFirst != fits {
			t.Fatalf("a body of %d bytes at %v: rolled %v, fits %v", n, at, !inFirst, fits)
		}
		rolled[!fits]++
		must(t, appendOne(l, want[2], Settle))
		if l.Pos().Segment == 1 && l.Pos().Offset+l.endSpace() > size {
			t.Fatalf("segment 1 is filled up to %v", l.Pos())
		}
		sameLog(t, l, want)
		must(t, l.Close())
	}
	if rolled[true] < 100/thin || rolled[false] < 100/thin {
		t.Errorf("rolled and not: %v", rolled)
	}
}

func TestALargeFrameGetsASegmentOfItsOwn(t *testing.T) {
	l := mustOpenOn(t, crashfs.New(crashfs.Config{}).Process(), func(o *Options) { o.FirstSegmentBytes = 64 << 10 })
	must(t, l.Prepare())
	want := []string{"small", strings.Repeat("L", loneBody+1), "small again", strings.Repeat("M", MaxBody)}
	var at []uint64
	for _, s := range want {
		must(t, appendOne(l, s, Settle))
		at = append(at, l.Pos().Segment)
		must(t, l.Prepare())
	}
	if !slices.Equal(at, []uint64{1, 2, 3, 4}) {
		t.Errorf("the frames are in segments %v", at)
	}
	sameLog(t, l, want)
	locked(t, l, func() {
		must(t, l.CatchUp(discard))
		if err := l.Reserve(MaxBody+1, Settle, 0); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Reserve says %v", err)
		}
		if _, err := l.Append(make([]byte, MaxBody+1), FrameHeader{}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Append says %v", err)
		}
	})
}

func TestPlacesAreKnownWhileTheBodyIsWritten(t *testing.T) {
	dir := storeDir(t)
	l := open(t, dir)
	type place struct {
		f    FileID
		off  int64
		text string
	}
	var places []place
	for i := range 60 {
		text := fmt.Sprintf("payload %d", i)
		locked(t, l, func() {
			must(t, l.CatchUp(discard))
			must(t, l.Reserve(20, Settle, 0)) // an estimate that can be too low
			buf, at, file := l.Body()
			buf = append(buf, bytes.Repeat([]byte("h"), i*11)...)
			places = append(places, place{file, at + int64(len(buf)), text})
			_, err := l.Append(append(buf, text...), FrameHeader{Count: 1, Stateful: i%2 == 0})
			must(t, err)
		})
		must(t, l.Prepare())
	}
	if l.Pos().Segment < 4 {
		t.Fatalf("only up to %v", l.Pos())
	}
	peer := open(t, dir)
	for _, p := range places {
		b := make([]byte, len(p.text))
		must(t, peer.ReadAt(p.f, b, p.off))
		if string(b) != p.text {
			t.Fatalf("at %v %d there is %q, want %q", p.f, p.off, b, p.text)
		}
	}
	if err := peer.ReadAt(SegmentFile(1), make([]byte, 10), 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reading after the end says %v", err)
	}
	if err := peer.ReadAt(SegmentFile(99), make([]byte, 10), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading a missing file says %v", err)
	}
}

func TestFramesCarryWhatTheirWriterSaid(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	locked(t, a, func() {
		must(t, a.CatchUp(discard))
		must(t, a.Reserve(3, Enqueue, 0))
		_, err := a.Append([]byte("abc"), FrameHeader{Count: 3, Epoch: 9, Stateful: true})
		must(t, err)
	})
	must(t, a.Sync())
	durable := a.Durable()
	must(t, appendOne(a, "next", Enqueue))
	var got []Frame
	must(t, b.Read(func(f *Frame) error {
		g := *f
		g.Body = bytes.Clone(f.Body)
		got = append(got, g)
		return nil
	}))
	if len(got) != 2 {
		t.Fatalf("%d frames", len(got))
	}
	f, next := got[0], got[1]
	if f.Count != 3 || f.Epoch != 9 || !f.Stateful || f.Wall != m.Clock.Wall().UnixNano() || f.Seq != 2 || f.At.Offset != headSize || f.BodyAt != headSize+headerSize {
		t.Errorf("frame %+v", f)
	}
	if next.At != f.Next || next.SyncedUpTo != durable || durable != f.Next || next.Seq != 3 || next.Stateful {
		t.Errorf("durable %v, next frame %+v", durable, next)
	}
	if b.Durable() != durable {
		t.Errorf("the peer knows %v as durable, want %v", b.Durable(), durable)
	}
}

func TestSkipToEndAppendsWithoutReading(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a := mustOpenOn(t, m.Process())
	w := &world{m: m}
	must(t, w.append(a, 40))
	locked(t, a, func() {
		must(t, a.CatchUp(discard))
		must(t, a.Reserve(2, Enqueue, 0))
		must(t, errOf(a.Append([]byte("st"), FrameHeader{Stateful: true, Epoch: 3})))
		must(t, errOf(a.Seal(0))) // the last frame is a head now
	})
	b := mustOpenOn(t, m.Process())
	locked(t, b, func() {
		last, ok, err := b.SkipToEnd()
		must(t, err)
		if !ok || !last.Stateful || last.Epoch != 3 || last.Next != a.Pos() {
			t.Fatalf("skipped to %+v, %v", last, ok)
		}
		must(t, b.CatchUp(func(*Frame) error { t.Error("a frame was read"); return nil }))
		must(t, b.Reserve(3, Enqueue, 0))
		must(t, errOf(b.Append([]byte("end"), FrameHeader{})))
	})
	must(t, b.Sync())
	want := append(w.tried, "st", "end")
	sameLog(t, b, want)
	_, got, err := revive(m.Crash(crashfs.KeepNone).Process())
	must(t, err)
	sameTexts(t, got, want)
	c := mustOpenOn(t, m.Crash(crashfs.KeepAll).Process())
	locked(t, c, func() {
		if _, ok, err := c.SkipToEnd(); ok || err != nil {
			t.Errorf("after a restart: %v, %v", ok, err)
		}
	})
}

func TestADeadWritersFrameIsCutAndKept(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	var reports []string
	peer := mustOpenOn(t, m.Process(), func(o *Options) {
		o.Report = func(what string, args ...any) { reports = append(reports, fmt.Sprint(what, args)) }
	})
	must(t, appendOne(peer, "first", Settle))
	end := peer.Pos()
	victim := m.Process()
	dead := mustOpenOn(t, victim)
	m.Inject(func(op crashfs.Op) error {
		if op.Process == victim && op.Kind == crashfs.OpWriteAt {
			return crashfs.ShortWrite{N: 85, Err: crashfs.ErrKilled}
		}
		return nil
	})
	if err := appendOne(dead, "never answered", Settle); !errors.Is(err, crashfs.ErrKilled) {
		t.Fatal(err)
	}
	var early []string
	must(t, peer.Read(bodies(&early)))
	if len(early) > 0 {
		t.Fatalf("half a frame was read as %q", early)
	}
	must(t, appendOne(peer, "second", Settle))
	sameLog(t, peer, []string{"first", "second"})
	torn, err := m.ReadFile(join(labDir, fmt.Sprintf("torn-000001-%d", end.Offset)))
	must(t, err)
	if len(torn) != 85 || !bytes.HasSuffix(torn, []byte("never")) {
		t.Errorf("kept %q", torn)
	}
	if len(reports) != 1 || !strings.Contains(reports[0], "torn tail cut") {
		t.Errorf("reports %q", reports)
	}
	report, err := Verify(m.Process(), labDir)
	must(t, err)
	if len(report.Findings) != 1 || report.Findings[0].Kind != Leftover || report.Damaged() {
		t.Errorf("findings %+v", report.Findings)
	}
}

// TestADeadWriterCanLeaveItsFrameWithoutAStart has the later part of a frame
// reach the file, and not its header.
func TestADeadWriterCanLeaveItsFrameWithoutAStart(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	peer := mustOpenOn(t, m.Process())
	must(t, appendOne(peer, "first", Settle))
	end := peer.Pos()
	victim := m.Process()
	dead := mustOpenOn(t, victim)
	m.Inject(func(op crashfs.Op) error {
		if op.Process == victim && op.Kind == crashfs.OpWriteAt {
			m.Inject(nil)
			f, err := dead.files.get(SegmentFile(1))
			must(t, err)
			must(t, errOf(f.WriteAt([]byte("the later part"), end.Offset+200)))
			return crashfs.ErrKilled
		}
		return nil
	})
	if err := appendOne(dead, strings.Repeat("x", 300), Settle); !errors.Is(err, crashfs.ErrKilled) {
		t.Fatal(err)
	}
	must(t, appendOne(peer, "second", Settle))
	report, err := Verify(m.Crash(crashfs.KeepAll).Process(), labDir)
	must(t, err)
	if len(report.Findings) != 1 || report.Findings[0].Kind != Leftover {
		t.Errorf("findings %+v", report.Findings)
	}
}

// TestEnqueuesLeaveTheLastPreparedSegment lets nobody prepare: the active
// segment grows up to twice its size, and only a settlement may go on.
func TestEnqueuesLeaveTheLastPreparedSegment(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, l.Prepare())
	text := strings.Repeat("e", 200)
	for l.Pos().Segment == 1 {
		must(t, appendOne(l, text, Enqueue))
	}
	if l.Pos().Segment != 2 {
		t.Fatalf("at %v", l.Pos())
	}
	for l.Pos().Offset < 1024+300 {
		must(t, appendOne(l, text, Enqueue))
		if l.Pos().Segment != 2 {
			t.Fatalf("an enqueue went to %v", l.Pos())
		}
	}
	must(t, appendOne(l, text, Settle))
	if l.Pos().Segment != 3 {
		t.Fatalf("a settlement went to %v", l.Pos())
	}
	for l.Pos().Segment == 3 {
		must(t, appendOne(l, text, Enqueue))
	}
	if size, err := l.FileBytes(SegmentFile(3)); err != nil || size > 2*1024 {
		t.Errorf("segment 3 grew to %d bytes (%v)", size, err)
	}
}

// TestASegmentGrowsOnWhileSomebodyPrepares has a peer hold PREP: the active
// segment grows far over its size, and the log goes on as soon as PREP is free.
func TestASegmentGrowsOnWhileSomebodyPrepares(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l, peer := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	if ok, err := peer.tryPrep(); !ok {
		t.Fatal(err)
	}
	var want []string
	for l.Pos().Offset < 4*1024 {
		want = append(want, strings.Repeat("g", 200))
		must(t, appendOne(l, want[0], Enqueue))
	}
	if l.Pos().Segment != 1 {
		t.Errorf("the log is at %v", l.Pos())
	}
	locked(t, l, func() {
		must(t, l.CatchUp(discard))
		if _, err := l.Seal(0); !errors.Is(err, ErrBusy) {
			t.Errorf("Seal says %v", err)
		}
	})
	peer.prepUnlock()
	must(t, appendOne(l, want[0], Enqueue))
	if l.Pos().Segment != 2 {
		t.Errorf("then the log is at %v", l.Pos())
	}
	sameLog(t, peer, append(want, want[0]))
	total, spare, err := l.Disk()
	must(t, err)
	if total < 4*1024+controlSize || spare > total-4*1024-controlSize {
		t.Errorf("%d bytes, %d of them to spare", total, spare)
	}
}

func TestMoreFilesThanAHandleKeepsOpen(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, appendOne(l, "one", Settle))
	must(t, errOf(l.TryCompactLock()))
	const files = 3 * maxOpenFiles
	for n := uint64(1); n <= files; n++ {
		w, err := l.NewPayloadFile(n)
		must(t, err)
		must(t, errOf(w.Append(fmt.Appendf(nil, "%06d", n))))
		must(t, w.Finish())
	}
	for i := range 2 * files {
		n := uint64(i*7%files + 1)
		var b [6]byte
		must(t, l.ReadAt(PayloadFile(n), b[:], sideHeader))
		if string(b[:]) != fmt.Sprintf("%06d", n) {
			t.Fatalf("file %d holds %q", n, b)
		}
	}
	if n := len(l.files.open); n > maxOpenFiles {
		t.Errorf("%d files are open", n)
	}
	must(t, appendOne(l, "two", Settle))
	must(t, l.Sync())
	sameLog(t, l, []string{"one", "two"})
}

func TestAFrameThatIsRefusedComesAgain(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, appendOne(a, "one", Settle))
	must(t, appendOne(a, "two", Settle))
	no := fmt.Errorf("not now: %w", ErrCorrupt) // passed on, though reading keeps its own from Read's caller
	n := 0
	refuse := func(f *Frame) error {
		if n++; n == 2 {
			return no
		}
		return nil
	}
	if err := b.Read(refuse); err != no {
		t.Errorf("Read says %v", err)
	}
	var rest []string
	must(t, b.Read(bodies(&rest)))
	sameTexts(t, rest, []string{"two"})
}

func TestManyHandlesAppendAtOnce(t *testing.T) {
	dir := storeDir(t)
	const handles, each = 4, 60
	var wg sync.WaitGroup
	for h := range handles {
		l := open(t, dir)
		wg.Go(func() {
			for i := range each {
				if err := appendOne(l, fmt.Sprintf("%d:%d", h, i), Enqueue); err != nil {
					t.Error(err)
					return
				}
				if err := l.Sync(); err != nil {
					t.Error(err)
				}
				if i%7 == 0 {
					if err := l.Prepare(); err != nil && !errors.Is(err, ErrBusy) {
						t.Error(err)
					}
				}
			}
		})
		wg.Go(func() {
			for !t.Failed() && l.Durable().Segment < 3 {
				if err := l.Sync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	next := map[int]int{}
	all := readAllFrames(t, dir)
	for _, s := range all {
		var h, i int
		if _, err := fmt.Sscanf(s, "%d:%d", &h, &i); err != nil || next[h] != i {
			t.Fatalf("frame %q of handle %d, want number %d", s, h, next[h])
		}
		next[h]++
	}
	if len(all) != handles*each {
		t.Errorf("%d frames, want %d", len(all), handles*each)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	l := open(t, storeDir(t), func(o *Options) { o.FirstSegmentBytes = 8 << 20 })
	body := bytes.Repeat([]byte("b"), 300)
	one := func() {
		must(t, l.Lock())
		must(t, l.CatchUp(discard))
		must(t, l.Reserve(len(body), Settle, 0))
		buf, _, _ := l.Body()
		must(t, errOf(l.Append(append(buf, body...), FrameHeader{Count: 1})))
		l.Unlock()
	}
	one()
	if n := testing.AllocsPerRun(100, one); n > 0 {
		t.Errorf("a commit allocates %v times", n)
	}
}
