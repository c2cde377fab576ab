package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"

	"github.com/spoolq/spool/internal/fuzztest"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// FuzzFrame reads arbitrary bytes as a segment: no panic, and nothing is handed
// out whose checksums do not hold.
func FuzzFrame(f *testing.F) {
	var id [16]byte
	seed := seedOf(id)
	for _, h := range []header{
		{version: frameVersion, kind: KindData, length: 3, pos: Pos{1, 0}, seq: 1},
		{version: frameVersion, kind: KindHead, length: headBody, pos: Pos{1, 0}, seq: 1},
		{version: 9, kind: 9, length: 1 << 31, pos: Pos{1, 0}},
	} {
		b := make([]byte, 200)
		h.bodySum = sumOf(seed, b[headerSize:headerSize+min(h.length, 100)])
		h.put(b, seed)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { fuzztest.Bound(t, func() { readFrames(t, bytes.Clone(b), seed) }) })
}

// readFrames reads b as the header of a frame, and as a segment of them.
func readFrames(t *testing.T, b []byte, seed uint32) {
	if len(b) >= headerSize { // give most inputs a right checksum
		var h header
		putSum(b, seed)
		s, err := parseHeader(b, seed, &h)
		if s == sightFrame && err == nil {
			again := make([]byte, headerSize)
			h.put(again, seed)
			if !bytes.Equal(again, b[:headerSize]) {
				t.Fatalf("%x came back as %x", b[:headerSize], again)
			}
		}
	}
	m := crashfs.New(crashfs.Config{})
	if err := m.WriteFile("/x", b); err != nil {
		t.Fatal(err)
	}
	file, err := m.Process().Open("/x", 0)
	if err != nil {
		t.Fatal(err)
	}
	var w window
	w.on(file)
	c := chain{pos: Pos{Segment: 1}, loose: true}
	s, err := walk(&w, &c, seed, noLimit, func(fr *Frame) error {
		if len(fr.Body) > len(b) {
			t.Fatalf("a body of %d bytes from %d", len(fr.Body), len(b))
		}
		return nil
	})
	if cap(w.buf) > 2*len(b)+4*maxRead+MaxBody {
		t.Fatalf("%d bytes were allocated for a file of %d (%v, %v)", cap(w.buf), len(b), s, err)
	}
	if _, err := surveyFile(file, seed, Pos{Segment: 1}, maxOffset); err != nil {
		t.Fatal(err)
	}
}

// putSum makes the header checksum of b right.
func putSum(b []byte, seed uint32) {
	s := sumOf(seed, b[:76])
	b[76], b[77], b[78], b[79] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
}

func FuzzCurrent(f *testing.F) {
	f.Add(Current{Level: 1, Generation: 3, Checkpoint: 2, First: 3, Payload: []uint64{1, 5}}.line())
	f.Add([]byte("spool-journal 2 crc32c 00000000\n"))
	f.Add([]byte("spool-journal 1 generation 3 checkpoint 2 first 3 store 000102030405060708090a0b0c0d0e0f payload 1,2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		signed := fmt.Appendf(nil, "%s crc32c %08x\n", b, crc32.Checksum(b, castagnoli))
		for _, line := range [][]byte{b, signed} {
			var c Current
			var err error
			fuzztest.Bound(t, func() { c, err = parseCurrent(line) })
			if err != nil {
				continue
			}
			again, err := parseCurrent(c.line())
			if err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%q is read as %+v, which comes back as %+v, %v", line, c, again, err)
			}
		}
	})
}

// FuzzRecover puts arbitrary bytes over a part of a store. What comes back is
// the same the second time, and Verify looks at it without a panic.
func FuzzRecover(f *testing.F) {
	s := newSample(f)
	f.Add(uint8(1), uint16(0), []byte("garbage"))
	f.Add(uint8(3), uint16(200), bytes.Repeat([]byte{0}, 100))
	f.Add(uint8(4), uint16(8), []byte{1, 2, 3})
	f.Add(uint8(0), uint16(0), []byte("spool-journal 1"))
	f.Fuzz(func(t *testing.T, n uint8, off uint16, b []byte) {
		m := s.m.Crash(crashfs.KeepAll)
		name := SegmentFile(uint64(n % 6)).Name()
		if n%6 == 0 {
			name = currentName
		}
		whole, err := m.ReadFile(join(labDir, name))
		if err != nil {
			return
		}
		at := min(int(off), len(whole))
		whole = append(whole[:at], append(bytes.Clone(b), whole[min(len(whole), at+len(b)):]...)...)
		must(t, m.WriteFile(join(labDir, name), whole))
		var l *Log
		var got []string
		fuzztest.Bound(t, func() {
			if _, err := Verify(m.Process(), labDir); err != nil {
				t.Logf("verify: %v", err)
			}
			l, got, err = revive(m.Process())
		})
		if err != nil {
			return
		}
		must(t, prefix(got, s.texts, 0))
		must(t, appendOne(l, "after", Settle))
		must(t, l.Sync())
		_, again, err := revive(m.Crash(crashfs.KeepNone).Process())
		must(t, err)
		if !slices.Equal(again, append(got, "after")) {
			t.Fatalf("then %q, now %q", got, again)
		}
	})
}

// FuzzControl puts arbitrary bytes over a part of CONTROL, which is only a hint:
// whoever has the store open, and whoever opens it then, neither loses nor repeats
// nor refuses a frame, and Verify finds it sound.
func FuzzControl(f *testing.F) {
	f.Add(uint16(0), []byte{})
	f.Add(uint16(0), bytes.Repeat([]byte{0xff}, 64))
	f.Add(uint16(8), bytes.Repeat([]byte{1, 2, 3}, 40))
	f.Add(uint16(64), bytes.Repeat([]byte{0}, 512))
	f.Fuzz(func(t *testing.T, off uint16, b []byte) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		w := &world{m: m}
		old := mustOpenOn(t, m.Process())
		must(t, w.append(old, 3))
		at := int(off) % controlSize
		whole, err := m.ReadFile(join(labDir, controlName))
		must(t, err)
		n := copy(whole[at:], b)
		for word := at / 8; word < (at+n+7)/8; word++ { // as a stray write of another process
			old.control.store(word, binary.NativeEndian.Uint64(whole[8*word:]))
		}
		if old.control.load(ctlPoison) == flagSet || old.control.load(ctlFull) == flagSet {
			return // a hint that is there says what it says
		}
		fuzztest.Bound(t, func() {
			report, err := Verify(m.Process(), labDir)
			must(t, err)
			if report.Damaged() {
				t.Fatalf("verify finds %+v", report.Findings)
			}
			fresh := mustOpenOn(t, m.Process())
			for i, l := range []*Log{fresh, old, fresh} {
				text := fmt.Sprint("after ", i)
				must(t, appendOne(l, text, Enqueue))
				w.tried = append(w.tried, text)
				must(t, l.Sync())
			}
			sameLog(t, old, w.tried)
			sameLog(t, mustOpenOn(t, m.Crash(crashfs.KeepNone).Process()), w.tried)
		})
	})
}

// FuzzSideFiles puts arbitrary bytes over a part of a checkpoint or of a file of
// payloads: what is read of them is what was written, or an error.
func FuzzSideFiles(f *testing.F) {
	m, _, w := compacted(f)
	f.Add(true, uint16(0), []byte("garbage"))
	f.Add(false, uint16(60), []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(true, uint16(1000), bytes.Repeat([]byte{0}, 40))
	f.Add(false, uint16(65535), []byte{1})
	f.Fuzz(func(t *testing.T, checkpoint bool, off uint16, b []byte) {
		after, name := m.Crash(crashfs.KeepAll), PayloadFile(1).Name()
		if checkpoint {
			name = checkpointName(1)
		}
		whole, err := after.ReadFile(join(labDir, name))
		must(t, err)
		at := min(int(off), len(whole))
		damaged := append(slices.Clone(whole[:at]), b...)
		damaged = append(damaged, whole[min(len(whole), at+len(b)):]...)
		must(t, after.WriteFile(join(labDir, name), damaged))
		fuzztest.Bound(t, func() {
			report, err := Verify(after.Process(), labDir)
			if err == nil && report.Damaged() == bytes.Equal(damaged, whole) {
				t.Fatalf("%s is damaged: %v, Verify says %v", name, !bytes.Equal(damaged, whole), report.Damaged())
			}
			l, got, err := revive(after.Process())
			if err != nil {
				return
			}
			sameTexts(t, got, w.tried)
			_, _ = l.ReadMoved(1) // an error is an answer
		})
	})
}

// FuzzMoved reads arbitrary bytes, with a right checksum, as the table of what was
// moved to a file of payloads. Where it says that bytes lie, it says so again once it
// was written anew.
func FuzzMoved(f *testing.F) {
	seed := seedOf([16]byte{})
	m := &Moved{From: SegmentFile(1), To: PayloadFile(2)}
	for i := range uint32(200) {
		m.add(i*40, i*30, 30)
	}
	one := putMoved([]*Moved{m}, seed)
	f.Add(one[:len(one)-4])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t, func() {
			b = binary.LittleEndian.AppendUint32(slices.Clone(b), sumOf(seed, b))
			parts, ok := parseMoved(b, PayloadFile(2), seed)
			if !ok {
				return
			}
			again, ok := parseMoved(putMoved(parts, seed), PayloadFile(2), seed)
			if !ok || len(again) != len(parts) {
				t.Fatalf("%d parts came back as %d, %v", len(parts), len(again), ok)
			}
			for i, p := range parts {
				for _, off := range []uint32{0, p.from, p.marks[0].from} {
					to, ok := p.Find(off, 30)
					if too, same := again[i].Find(off, 30); to != too || ok != same {
						t.Fatalf("at %d: %d, %v and then %d, %v", off, to, ok, too, same)
					}
				}
			}
		})
	})
}
