package filebroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// proof says whether the tests of crashes go through every case. Without
// SPOOL_PROOF=1 they take a part of them, always the same.
var proof = os.Getenv("SPOOL_PROOF") != ""

// stride is 1 in a proof of everything, and otherwise takes one case of n.
func stride(n int) int {
	if proof {
		return 1
	}
	return n * thin
}

// many is how many cases to take of those without number.
func many(proven, n int) int {
	if proof {
		return proven
	}
	return max(n/thin, 1)
}

// corpus is a log that holds every record, as the disk has it. The second half
// was not synced: all frames there are above the last SyncedUpTo.
type corpus struct {
	*scene
	image      *crashfs.Machine
	synced     journal.Pos // the largest SyncedUpTo in the log
	checkpoint uint64      // 0: none
}

// newCorpus builds a log. compacted puts a checkpoint in its middle.
func newCorpus(t *testing.T, compacted bool) *corpus {
	t.Helper()
	c := &corpus{}
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, crashfs.Config{Seed: 1})
		a, b := s.open(rememberCalls), s.open()
		everyRecord(s, a, b, 0, false)
		if compacted {
			c.checkpoint = a.compact()
		}
		d, e := s.open(neverSync, rememberCalls), s.open(neverSync)
		a.close(d)
		everyRecord(s, d, e, 200, true)
		c.scene, c.image = s, s.m.Crash(crashfs.KeepAll)
	})
	c.TB = t
	for _, f := range c.frames {
		if c.synced.Before(f.SyncedUpTo) {
			c.synced = f.SyncedUpTo
		}
	}
	return c
}

// copy is a machine of its own with the files of the corpus.
func (c *corpus) copy() *crashfs.Machine {
	m := c.image.Crash(crashfs.KeepAll)
	withoutHandles(c, m)
	return m
}

// read returns a file of the corpus.
func (c *corpus) read(name string) []byte {
	c.Helper()
	b, err := c.image.ReadFile(path.Join(labDir, name))
	must(c, err)
	return b
}

// segments lists the numbers of the segments that are there.
func (c *corpus) segments() (all []uint64) {
	for name := range logFiles(c, c.image) {
		var n uint64
		if _, err := fmt.Sscanf(name, "%06d.log", &n); err == nil && strings.HasSuffix(name, ".log") {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// used is where the last frame of a segment ends.
func (c *corpus) used(segment uint64) (end int64) {
	for i := range c.frames {
		if f := &c.frames[i]; f.At.Segment == segment {
			end = c.endOf(f)
		}
	}
	return end
}

// endOf is the offset after a frame, in its own segment.
func (c *corpus) endOf(f *journal.Frame) int64 {
	if f.Kind == journal.KindEnd {
		return (f.BodyAt + int64(len(jobstate.New(nil, nil).Digest())) + 7) &^ 7
	}
	return f.Next.Offset
}

// before is the moment after the last frame that lies wholly before p.
func (c *corpus) before(p journal.Pos) *moment {
	mo := c.moments[0]
	for i := range c.frames {
		if f := &c.frames[i]; f.At.Segment < p.Segment || f.At.Segment == p.Segment && c.endOf(f) <= p.Offset {
			mo = c.at[f.Seq]
		}
	}
	return mo
}

// put replaces a file.
func put(t testing.TB, m *crashfs.Machine, name string, content []byte) {
	t.Helper()
	must(t, m.WriteFile(path.Join(labDir, name), content))
}

func segmentName(n uint64) string { return journal.SegmentFile(n).Name() }

// recovers wants that the store of m holds what it held at mo, that it goes on
// from there, and that the next recovery keeps what was acknowledged then.
func (c *corpus) recovers(m *crashfs.Machine, mo *moment) {
	c.Helper()
	m.Clock.Step(mo.wall.Sub(m.Clock.Wall()))
	b, err := openOn(m.Process())
	must(c, err)
	c.sameMoment(b, mo)
	goesOn(c, m, b)
}

// goesOn works with a store after a recovery, loses the power, and wants all
// that was acknowledged to be there.
func goesOn(t testing.TB, m *crashfs.Machine, b *Broker) {
	t.Helper()
	ctx := context.Background()
	jobs := []broker.NewJob{{ID: labID(5001), Task: "t", Payload: []byte("one")}, {ID: labID(5002), Task: "t", Payload: []byte("two")}}
	_, err := b.Enqueue(ctx, broker.NewCall(), "after", jobs)
	must(t, err)
	got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"after"}, Max: 1, Worker: "w"})
	must(t, err)
	if len(got.Leases) != 1 || string(got.Leases[0].Job.Payload) != "one" {
		t.Fatalf("after the recovery, claimed %+v", got.Leases)
	}
	l := got.Leases[0]
	settled, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, Result: []byte("done")}})
	must(t, err)
	must(t, settled[0].Err)
	seen := look(t, b)
	must(t, b.Close())

	m = m.Crash(crashfs.KeepNone)
	again, err := openOn(m.Process())
	must(t, err)
	if diff := butForLeases(&moment{seen: seen}, look(t, again)); diff != "" {
		t.Fatalf("the second recovery lost something: %s", diff)
	}
	must(t, again.Close())
}

// refuses wants that the store of m is refused as corrupt, and that every file
// is as it was.
func (c *corpus) refuses(m *crashfs.Machine, what error) {
	c.Helper()
	was := logFiles(c, m)
	b, err := openOn(m.Process())
	if err == nil {
		b.Close() // the test fails anyway
	}
	if !errors.Is(err, what) {
		c.Fatalf("open: %v, want %v", err, what)
	}
	for name, is := range logFiles(c, m) {
		if is != was[name] {
			c.Fatalf("%s of a refused store was changed; the refusal was: %v", name, err)
		}
		delete(was, name)
	}
	if len(was) > 0 {
		c.Fatalf("files of a refused store are gone: %v", slices.Collect(maps.Keys(was)))
	}
}

func TestACutLogGivesExactlyThePrefix(t *testing.T) {
	t.Parallel()
	for _, compacted := range []bool{false, true} {
		c := newCorpus(t, compacted)
		n := 0
		for _, segment := range c.segments() {
			for at := int64(0); at <= c.used(segment); at++ {
				if n++; n%stride(43) != 0 {
					continue
				}
				c.cutAt(journal.Pos{Segment: segment, Offset: at}, n%2 == 0)
				if proof {
					c.cutAt(journal.Pos{Segment: segment, Offset: at}, n%2 != 0)
				}
			}
		}
		t.Logf("compacted %v: %d places", compacted, n)
	}
}

// cutAt cuts the log at p: what follows is zeros, or the file ends there.
func (c *corpus) cutAt(p journal.Pos, short bool) {
	c.Helper()
	m := c.copy()
	mo := c.before(p)
	for _, n := range c.segments() {
		b := c.read(segmentName(n))
		switch {
		case n < p.Segment:
			continue
		case n > p.Segment:
			clear(b)
		case short:
			b = b[:p.Offset]
		default:
			mo = c.before(journal.Pos{Segment: n, Offset: p.Offset + zerosAt(b[p.Offset:])})
			clear(b[p.Offset:])
		}
		put(c, m, segmentName(n), b)
	}
	c.recovers(m, mo)
}

// zerosAt is how many zeros b begins with.
func zerosAt(b []byte) int64 { return int64(len(b) - len(bytes.TrimLeft(b, "\x00"))) }

func TestAFlippedBitIsCutOrRefusedNeverApplied(t *testing.T) {
	t.Parallel()
	for _, compacted := range []bool{false, true} {
		c := newCorpus(t, compacted)
		n := 0
		for _, segment := range c.segments() {
			end := min(c.used(segment)+1200, int64(len(c.read(segmentName(segment)))))
			for at := int64(0); at < end && c.inLog(segment); at++ {
				for bit := range 8 {
					if n++; n%stride(601) == 0 {
						c.garbleAt(segment, at, []byte{1 << bit})
					}
				}
			}
		}
		t.Logf("compacted %v: %d bits", compacted, n)
	}
}

func TestAGarbledStretchIsCutOrRefusedNeverApplied(t *testing.T) {
	c := newCorpus(t, false)
	r := rand.New(rand.NewPCG(1, 2))
	for range many(4000, 250) {
		segment := c.segments()[r.IntN(3)]
		mask := make([]byte, 1+r.IntN(600))
		for i := range mask {
			mask[i] = byte(1 + r.IntN(255))
		}
		c.garbleAt(segment, r.Int64N(c.used(segment)), mask)
	}
}

// inLog says whether a segment is read when the store is opened: not when a
// checkpoint stands for it.
func (c *corpus) inLog(segment uint64) bool { return segment > c.checkpoint }

// garbleAt changes bytes of a segment by xor.
func (c *corpus) garbleAt(segment uint64, at int64, mask []byte) {
	c.Helper()
	b := c.read(segmentName(segment))
	mask = mask[:min(int64(len(mask)), int64(len(b))-at)]
	for i := range mask {
		b[at+int64(i)] ^= mask[i]
	}
	m := c.copy()
	put(c, m, segmentName(segment), b)
	defer func() {
		if c.Failed() {
			c.Logf("%d bytes were changed from %d of %s", len(mask), at, segmentName(segment))
		}
	}()
	first := journal.Pos{Segment: segment, Offset: at}
	switch f := c.frameAt(first, int64(len(mask))); {
	case f == nil:
		c.recovers(m, c.moments[len(c.moments)-1])
	case f.At.Before(c.synced):
		c.refuses(m, broker.ErrCorrupt)
	default:
		c.recovers(m, c.before(f.At))
	}
}

// frameAt is the first frame that has one of the n bytes at p, or nil.
func (c *corpus) frameAt(p journal.Pos, n int64) *journal.Frame {
	for i := range c.frames {
		if f := &c.frames[i]; f.At.Segment == p.Segment && f.At.Offset < p.Offset+n && p.Offset < c.endOf(f) {
			return f
		}
	}
	return nil
}

const sector = 512

// TestAHoleInTheTailIsCut leaves what real kernels leave: good bytes, a hole of
// zeros, good bytes. What was not synced can lose any of its sectors.
func TestAHoleInTheTailIsCut(t *testing.T) {
	t.Parallel()
	c := newCorpus(t, false)
	last := c.synced.Segment
	from, to := c.synced.Offset/sector, (c.used(last)-1)/sector
	n := 0
	for first := from; first <= to; first++ {
		for end := first; end <= to; end++ {
			if n++; n%stride(7) == 0 {
				c.holes(last, func(i int64) bool { return first <= i && i <= end })
			}
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range many(4000, 60) {
		lost := r.Uint64()
		c.holes(last, func(i int64) bool { return lost>>(i-from)&1 != 0 })
	}
	t.Logf("%d sectors, %d holes", to-from+1, n)
}

// holes loses the sectors of the unsynced tail that lost names.
func (c *corpus) holes(segment uint64, lost func(sector int64) bool) {
	c.Helper()
	b := c.read(segmentName(segment))
	good := c.used(segment)
	for at := c.synced.Offset; at < c.used(segment); at++ {
		if lost(at/sector) && b[at] != 0 {
			good, b[at] = min(good, at), 0
		}
	}
	m := c.copy()
	put(c, m, segmentName(segment), b)
	c.recovers(m, c.before(journal.Pos{Segment: segment, Offset: good}))
	c.keepsWhatWasCut(m, segment, b, good)
}

// keepsWhatWasCut wants a file with the bytes that the recovery cut: those of
// the frame that has the byte at first, and all after it.
func (c *corpus) keepsWhatWasCut(m *crashfs.Machine, segment uint64, b []byte, first int64) {
	c.Helper()
	f := c.frameAt(journal.Pos{Segment: segment, Offset: first}, 1)
	if f == nil {
		return
	}
	want := bytes.TrimRight(b[f.At.Offset:], "\x00")
	got, err := m.ReadFile(path.Join(labDir, fmt.Sprintf("torn-%06d-%d", segment, f.At.Offset)))
	if len(want) == 0 && err != nil {
		return
	}
	must(c, err)
	if !bytes.Equal(got, want) {
		c.Fatalf("%d bytes were cut and %d kept", len(want), len(got))
	}
}

// TestAHoleInWhatWasDurableIsRefused loses sectors that were synced.
func TestAHoleInWhatWasDurableIsRefused(t *testing.T) {
	c := newCorpus(t, false)
	for _, segment := range c.segments() {
		end := c.used(segment)
		if segment == c.synced.Segment {
			end = c.synced.Offset
		}
		for at := int64(0); at < end; at += sector {
			b := c.read(segmentName(segment))
			clear(b[at:min(at+sector, end)])
			m := c.copy()
			put(c, m, segmentName(segment), b)
			c.refuses(m, broker.ErrCorrupt)
		}
	}
}

// TestAStaleFrameIsNeverApplied puts a frame of another life of the log behind
// one of this life: number and place are right, only it continues another one.
func TestAStaleFrameIsNeverApplied(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	first, err := openOn(m.Process(), roomy)
	must(t, err)
	must(t, first.Close())
	live := func(payload string) (m2 *crashfs.Machine, log []byte, second int64, seen []string) {
		m2 = m.Crash(crashfs.KeepAll)
		b, err := openOn(m2.Process(), roomy, neverSync)
		must(t, err)
		for n := range 2 {
			second, seen = b.cur.Load().log.Pos().Offset, look(t, b)
			_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{ID: labID(n), Task: "t", Payload: []byte(payload)}})
			must(t, err)
		}
		name := segmentName(b.cur.Load().log.Pos().Segment)
		must(t, b.Close())
		log, err = m2.ReadFile(path.Join(labDir, name))
		must(t, err)
		return m2, log, second, seen
	}
	_, other, at, _ := live("other")
	m2, log, same, seen := live("these")
	if at != same {
		t.Fatalf("the second frames are at %d and %d", at, same)
	}
	put(t, m2, segmentName(1), append(slices.Clone(log[:at]), other[at:]...))
	b, err := openOn(m2.Process(), roomy)
	if errors.Is(err, broker.ErrCorrupt) {
		return // refused: that will do
	}
	must(t, err)
	if now := look(t, b); !slices.Equal(now, seen) {
		t.Errorf("a stale frame was applied:\n%s", difference(seen, now))
	}
	must(t, b.Close())
}

// TestEveryByteOfTheSmallFilesIsGuarded flips bits of CURRENT and of the
// checkpoint: the store is refused, and stays as it is.
func TestEveryByteOfTheSmallFilesIsGuarded(t *testing.T) {
	c := newCorpus(t, true)
	for name, content := range logFiles(c, c.image) {
		if name != "CURRENT" && !strings.HasSuffix(name, ".idx") {
			continue
		}
		for i := range 8 * len(content) {
			if i%stride(61) != 0 {
				continue
			}
			b := []byte(content)
			b[i/8] ^= 1 << (i % 8)
			m := c.copy()
			put(c, m, name, b)
			c.refuses(m, broker.ErrCorrupt)
		}
	}
}

func TestTheCorpusHoldsEveryRecord(t *testing.T) {
	c := newCorpus(t, false)
	for _, half := range [][][]byte{c.bodies[:len(c.bodies)/2], c.bodies[len(c.bodies)/2:]} {
		types := map[string]int{}
		for _, body := range half {
			must(t, jobstate.Describe(body, func(r jobstate.Record) { types[r.Type]++ }))
		}
		for _, want := range []string{"enqueue", "claim", "wait", "final", "drop", "extend", "ask", "note", "pause", "worker", "leave", "epoch", "gone", "hold", "set", "tick", "replace", "call"} {
			if types[want] == 0 {
				t.Errorf("there is no %s in %v", want, types)
			}
		}
	}
	kinds := map[journal.Kind]int{}
	for _, f := range c.frames {
		kinds[f.Kind]++
	}
	if kinds[journal.KindHead] < 3 || kinds[journal.KindEnd] < 2 {
		t.Errorf("frames by kind: %v", kinds)
	}
	all := ""
	for _, mo := range c.moments {
		all += strings.Join(mo.seen, "\n")
	}
	for _, r := range []string{
		broker.ReasonAcked, broker.ReasonRetry, broker.ReasonSnoozed, broker.ReasonReleased, broker.ReasonExpired, broker.ReasonAttempts,
		broker.ReasonCrashed, broker.ReasonBuried, broker.ReasonCancelled, broker.ReasonNotStarted, broker.ReasonRequeued, broker.ReasonWorkerDied, broker.ReasonCancelAsked,
	} {
		if !strings.Contains(all, `"reason":"`+r+`"`) {
			t.Errorf("no job was ever %q", r)
		}
	}
}
