package jobstate

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/spoolq/spool/broker"
)

// backlogOf makes a state with n jobs that wait, enqueued 1000 at a time.
func backlogOf(n int) *State {
	s, w := New(nil, nil), &Writer{}
	now := Now{Wall: 1e18, Steady: 1e18}
	payload := bytes.Repeat([]byte("x"), 100)
	var buf []byte
	for i := range n {
		if i%1000 == 0 {
			now.Steady += 1e6
			w.Reset(buf, 1, int64(i*150), now)
		}
		s.enqueue(w, now, "q", &broker.NewJob{ID: broker.NewID(), Task: "waits", Payload: payload})
		buf = w.Body()
	}
	return s
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // what the first one only marked
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAWaitingJobIsSmall counts bytes, not time: in memory, and in a
// checkpoint.
func TestAWaitingJobIsSmall(t *testing.T) {
	const n = 1_000_000
	before := heapBytes()
	s := backlogOf(n)
	if each := float64(heapBytes()-before) / n; each > 100 {
		t.Errorf("a waiting job takes %.1f bytes of the heap, at most 100 are allowed", each)
	}
	var size counter
	if err := s.Encode(&size); err != nil {
		t.Fatal(err)
	}
	if each := float64(size) / n; each > 24 {
		t.Errorf("a waiting job takes %.1f bytes of a checkpoint, at most 24 are allowed", each)
	}
	runtime.KeepAlive(s)
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// BenchmarkCheckpoint measures a million waiting jobs.
func BenchmarkCheckpoint(b *testing.B) {
	s := backlogOf(1_000_000)
	var saved bytes.Buffer
	b.Run("encode", func(b *testing.B) {
		for range b.N {
			saved.Reset()
			if err := s.Encode(&saved); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for range b.N {
			if err := New(nil, nil).Decode(bytes.NewReader(saved.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
