package journal

import (
	"bytes"
	"testing"
)

func benchLog(b *testing.B) *Log {
	l := open(b, storeDir(b), func(o *Options) { o.FirstSegmentBytes = 8 << 20 })
	must(b, l.Prepare())
	must(b, l.Lock())
	must(b, l.CatchUp(discard))
	l.Unlock()
	return l
}

func BenchmarkLock(b *testing.B) {
	l := benchLog(b)
	for b.Loop() {
		must(b, l.Lock())
		l.Unlock()
	}
}

// commitOne is a commit without its sync.
func commitOne(b *testing.B, l *Log, body []byte) {
	must(b, l.Lock())
	must(b, l.CatchUp(discard))
	must(b, l.Reserve(len(body), Settle, 0))
	buf, _, _ := l.Body()
	must(b, errOf(l.Append(append(buf, body...), FrameHeader{Count: 1})))
	l.Unlock()
}

func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{256, 16 << 10} {
		b.Run(map[int]string{256: "256B", 16 << 10: "16KiB"}[size], func(b *testing.B) {
			l := benchLog(b)
			body := bytes.Repeat([]byte("b"), size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				commitOne(b, l, body)
			}
		})
	}
}

// BenchmarkCommitInTurns is two handles that commit one after the other, so
// that each has to find the end of the log.
func BenchmarkCommitInTurns(b *testing.B) {
	l := benchLog(b)
	peer := open(b, l.dir, func(o *Options) { o.FirstSegmentBytes = 8 << 20 })
	body := bytes.Repeat([]byte("b"), 256)
	b.ReportAllocs()
	for b.Loop() {
		commitOne(b, l, body)
		commitOne(b, peer, body)
	}
}

func BenchmarkCommitAndSync(b *testing.B) {
	l := benchLog(b)
	body := bytes.Repeat([]byte("b"), 256)
	for b.Loop() {
		commitOne(b, l, body)
		must(b, l.Sync())
	}
}

func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	body := bytes.Repeat([]byte("b"), 256)
	for range 20000 {
		commitOne(b, l, body)
	}
	b.SetBytes(20000 * frameSize(256))
	for b.Loop() {
		must(b, errOf2(l.Start()))
		n := 0
		must(b, l.Read(func(*Frame) error { n++; return nil }))
		if n < 20000 {
			b.Fatalf("%d frames", n)
		}
	}
}

func errOf2[T, U any](_ T, _ U, err error) error { return err }
