package journal

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"

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
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
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
	})
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
			c, err := parseCurrent(line)
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
		if _, err := Verify(m.Process(), labDir); err != nil {
			t.Logf("verify: %v", err)
		}
		l, got, err := revive(m.Process())
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
