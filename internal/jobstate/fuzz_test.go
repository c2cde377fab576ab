package jobstate

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/fuzztest"
)

// FuzzDecode reads what is no checkpoint: an error, and neither a panic nor
// room for what is not there.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(8) {
		h := newHistory(f, seed)
		h.calls = seed%2 == 0
		for range 60 {
			h.step()
		}
		f.Add(encode(f, h.s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t, func() {
			s := New(nil, nil)
			if s.Decode(bytes.NewReader(b)) != nil {
				return
			}
			again := New(nil, nil)
			if err := again.Decode(bytes.NewReader(encode(t, s))); err != nil {
				t.Fatalf("what was read cannot be written and read again: %v", err)
			}
		})
	})
}

// frames packs the bodies of frames as FuzzApply takes them: each behind its
// length in two bytes.
func frames(bodies [][]byte) (b []byte) {
	for _, body := range bodies {
		if len(body) > 1<<16-1 {
			break
		}
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(body))), body...)
	}
	return b
}

// FuzzApply replays arbitrary bytes as the bodies of frames, one after the other,
// up to the first that is refused. No panic and no room for what is not there; a
// state that took them all can be saved and read again; a repair, and whoever
// describes them for people, lives through them too.
func FuzzApply(f *testing.F) {
	for seed := range uint64(8) {
		h := newHistory(f, seed)
		h.calls = seed%2 == 1
		for range 25 {
			h.step()
		}
		f.Add(frames(h.frames))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t, func() {
			s, saved := New(nil, nil), New(nil, nil)
			var err error
			for n := uint32(1); len(b) >= 2 && err == nil; n++ {
				k := min(int(binary.LittleEndian.Uint16(b)), len(b)-2)
				body := b[2 : 2+k]
				b = b[2+k:]
				_ = Describe(body, func(Record) {}) // an error is an answer
				_, _ = saved.Salvage(body, n, 64)   // likewise
				err = s.Apply(body, n, 64)
			}
			if err != nil {
				return
			}
			if err := New(nil, nil).Decode(bytes.NewReader(encode(t, s))); err != nil {
				t.Fatalf("the state that came of it cannot be saved and read again: %v", err)
			}
		})
	})
}

// FuzzBody reads arbitrary bytes as what a log keeps of a job's payload, headers
// and timeout. What is read can be written, and is read as the same.
func FuzzBody(f *testing.F) {
	for _, n := range []broker.NewJob{
		{Payload: []byte("x")},
		{Payload: []byte(`{"a":1}`), Timeout: 1e9, Headers: map[string]string{"traceparent": "00", "x": ""}},
	} {
		f.Add(appendBody(nil, &n))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t, func() {
			var j, again broker.Job
			if DecodeBody(b, &j) != nil {
				return
			}
			written := appendBody(nil, &broker.NewJob{Payload: j.Payload, Headers: j.Headers, Timeout: j.Timeout})
			if err := DecodeBody(written, &again); err != nil || !bytes.Equal(again.Payload, j.Payload) || again.Timeout != j.Timeout || len(again.Headers) != len(j.Headers) {
				t.Fatalf("%x was read as %+v and then as %+v, %v", b, j, again, err)
			}
		})
	})
}

// FuzzSelect chooses jobs by a filter and a cursor that somebody made up: an error,
// or jobs that the filter names, none of them twice in one walk.
func FuzzSelect(f *testing.F) {
	h := newHistory(f, 3)
	for range 60 {
		h.step()
	}
	for _, state := range broker.States {
		_, cursor, err := h.s.Select(h.now, broker.Filter{Queue: "q0"}, state, "", 1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(cursor, uint8(state), "", "", []byte(nil))
		f.Add(cursor, uint8(state), "t1", "k", h.ids[0][:])
	}
	f.Add("00000000000000000000000000000000.0.0.0", uint8(5), "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, cursor string, n uint8, task, key string, ids []byte) {
		state := broker.States[int(n)%len(broker.States)]
		filter := broker.Filter{Queue: "q0", Task: task, Key: key}
		for ; len(ids) >= 16; ids = ids[16:] {
			filter.IDs = append(filter.IDs, broker.ID(ids[:16]))
		}
		seen := map[broker.ID]bool{}
		for {
			found, next, err := h.s.Select(h.now, filter, state, cursor, 3)
			if err != nil {
				return
			}
			for _, one := range found {
				j := one.Job
				if seen[j.ID] || j.State != state || task != "" && j.Task != task || key != "" && j.Key != key {
					t.Fatalf("behind the cursor %q, %+v chose %+v (seen before: %v)", cursor, filter, j, seen[j.ID])
				}
				seen[j.ID] = true
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	})
}
