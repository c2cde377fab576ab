package jobstate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// madeCall is a call of a history that can be made again.
type madeCall struct {
	id     broker.ID
	at     int64
	make   func() string
	first  string
	wrote  bool
	leases []Ticket // of a claim
}

// call makes a call with an id, or makes one again.
func (h *history) call(queue string) {
	if len(h.made) > 0 && h.rnd.IntN(2) == 0 {
		h.callAgain(&h.made[len(h.made)-1-h.rnd.IntN(min(len(h.made), 30))])
		return
	}
	m := madeCall{id: broker.NewID(), at: h.now.Steady}
	n := h.w.Count()
	h.prepare(&m, queue)
	if m.leases == nil {
		m.first = m.make()
	}
	m.wrote = h.w.Count() > n && (m.leases == nil || len(m.leases) > 0)
	h.made = append(h.made, m)
}

// callAgain makes a call again, which has to answer what it did and to write
// nothing, as long as it is remembered.
func (h *history) callAgain(m *madeCall) {
	h.t.Helper()
	want, known := m.first, m.wrote && h.now.Steady-m.at < int64(callMemory)
	if known != h.s.KnowsCall(h.now, m.id) {
		h.t.Fatalf("known: %v, want %v: %v after %s", !known, known, time.Duration(h.now.Steady-m.at), m.first)
	}
	if !known {
		return
	}
	if m.leases != nil {
		want = h.leaseText(m.leases, true)
	}
	n := h.w.Count()
	if got := m.make(); got != want || h.w.Count() != n {
		h.t.Fatalf("made again: %s, %d records more, want %s", got, h.w.Count()-n, want)
	}
}

func (h *history) leaseText(list []Ticket, held bool) (text string) {
	for _, l := range list {
		if !held || h.s.held(l.Job.Ref(), l.Job.Token) != nil {
			text += fmt.Sprintln(l.Job.Ref(), l.Job.Token)
		}
	}
	return text
}

func (h *history) prepare(m *madeCall, queue string) {
	r := h.rnd
	said := func(answer any, err error) string { return fmt.Sprint(answer, err) }
	switch r.IntN(6) {
	case 0:
		jobs := make([]broker.NewJob, 1+r.IntN(3))
		for i := range jobs {
			jobs[i].Task = "t1"
			if r.IntN(4) == 0 {
				jobs[i].Key, jobs[i].KeyRepeat = "k1", broker.KeyRepeat(r.IntN(3))
			}
		}
		m.make = func() string { return said(h.s.EnqueueOnce(&h.w, h.now, m.id, queue, jobs)) }
	case 1:
		req := broker.ClaimRequest{Max: 1 + r.IntN(4), TTL: time.Duration(1+r.IntN(60)) * time.Second, Worker: "w"}
		got, _, _, err := h.s.ClaimOnce(&h.w, h.now, m.id, &req, "m1")
		if err != nil {
			h.t.Fatal(err)
		}
		h.leases = append(h.leases, got...)
		m.leases = append([]Ticket{}, got...)
		m.make = func() string {
			got, _, again, err := h.s.ClaimOnce(&h.w, h.now, m.id, &req, "m1")
			if err != nil || !again {
				h.t.Fatalf("made again: %v, error %v", again, err)
			}
			return h.leaseText(got, false)
		}
	case 2:
		list := h.settlements()
		m.make = func() string { return said(h.s.SettleOnce(&h.w, h.now, m.id, list)) }
	case 3:
		cmd, ids := broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}}, h.someIDs()
		m.make = func() string { return said(h.s.CommandOnce(&h.w, h.now, m.id, &cmd, ids, "3:cursor")) }
	case 4:
		c := broker.Change{Set: []broker.Setting{{Kind: broker.WeightSetting, Name: "a", Weight: 1 + r.IntN(5)}}}
		m.make = func() string { return said(nil, h.s.ConfigureOnce(&h.w, h.now, m.id, queue, &c)) }
	case 5:
		t := broker.Tick{Queue: queue, Schedule: "s", Next: time.Unix(0, h.now.Wall+1e9), Jobs: []broker.NewJob{{Task: "t2"}}}
		if sched := h.s.schedule(queue, "s"); sched != nil && sched.due != 0 && sched.due != never {
			t.Due = time.Unix(0, sched.due)
		}
		m.make = func() string { return said(h.s.TickOnce(&h.w, h.now, m.id, &t)) }
	}
}

func (h *history) someIDs() (ids []broker.ID) {
	for range min(3, len(h.ids)) {
		ids = append(ids, h.ids[h.rnd.IntN(len(h.ids))])
	}
	return ids
}

// settlements end some leases, some of which are over.
func (h *history) settlements() (list []broker.Settlement) {
	for range min(3, len(h.leases)) {
		l := h.leases[h.rnd.IntN(len(h.leases))]
		st := broker.Settlement{Ref: l.Job.Ref(), Token: l.Job.Token, Kind: broker.SettleKind(1 + h.rnd.IntN(6))}
		if st.Kind == broker.Ack && h.rnd.IntN(2) == 0 {
			st.FollowUps = []broker.FollowUp{{Queue: "q1", Job: broker.NewJob{Task: "t1"}}, {Queue: "q0", Job: broker.NewJob{Task: "t1", Key: "k1"}}}
		}
		list = append(list, st)
	}
	return list
}

func TestACallThatIsMadeAgainAnswersTheSameAndWritesNothing(t *testing.T) {
	kinds := map[callKind]int{}
	for seed := range uint64(20) {
		h := newHistory(t, seed)
		h.calls = true
		for range 400 {
			h.step()
		}
		for _, f := range h.frames {
			if err := Describe(f, func(Record) {}); err != nil {
				t.Fatal(err)
			}
			for r, _ := newReader(f, 0, 0); ; {
				kind, ok := r.next()
				if !ok {
					break
				}
				if kind == recCall {
					_, kind, _ := r.callRec()
					kinds[kind]++
				}
			}
		}
	}
	for kind := callAdded; kind <= callTick; kind++ {
		if kinds[kind] < 5 {
			t.Errorf("%d calls of kind %d: %v", kinds[kind], kind, kinds)
		}
	}
}

// remembering is a state that is handed calls of one enqueued job each.
type remembering struct {
	s   *State
	w   Writer
	now Now
	ids []broker.ID
}

func (m *remembering) add(n int, every time.Duration) {
	for range n {
		m.now.Steady += int64(every)
		m.w.Reset(m.w.Body(), 1, 0, m.now)
		id := broker.NewID()
		m.s.remember(&m.w, id, callAdded, id[:])
		m.s.Wrote(&m.w)
		m.ids = append(m.ids, id)
	}
}

// knows wants that exactly the last n calls are remembered.
func (m *remembering) knows(t *testing.T, n int) {
	t.Helper()
	for i, id := range m.ids {
		if known := m.s.KnowsCall(m.now, id); known != (len(m.ids)-i <= n) {
			t.Fatalf("call %d of %d is remembered: %v, want the last %d", i+1, len(m.ids), known, n)
		}
	}
}

func TestCallsAreForgottenInTheirOrderAndGiveTheirRoomBack(t *testing.T) {
	// Numbers of calls begin anew once all 2^32 are used.
	for _, last := range []uint32{0, math.MaxUint32 - 20_000} {
		m := remembering{s: New(nil, nil), now: Now{Steady: 1e18}}
		m.s.calls = &calls{first: (last + 1) >> callBits, last: last}
		m.add(50_000, 10*time.Millisecond)
		m.knows(t, 13_000)
		if n := len(m.s.calls.chunks); n > 13_000/chunkCalls+2 {
			t.Errorf("13000 calls take %d chunks", n)
		}
		checkCalls(t, m.s.calls)
		full := m.s.CallBytes()
		m.now.Steady += int64(callMemory) - 1
		m.knows(t, 1)
		m.add(3000, 0)
		m.knows(t, 3001)
		checkCalls(t, m.s.calls)
		if m.s.CallBytes() >= full/2 {
			t.Errorf("%d bytes are counted, %d before most were forgotten", m.s.CallBytes(), full)
		}
		m.now.Steady += int64(callMemory)
		m.w.Reset(nil, 1, 0, m.now)
		m.s.Wrote(&m.w)
		if m.s.calls != nil || m.s.CallBytes() != 0 {
			t.Error("something is left of calls that are all over")
		}
	}
}

// checkCalls holds the table against the calls.
func checkCalls(t *testing.T, c *calls) {
	t.Helper()
	all, heads, bytes := 0, 0, int64(0)
	for i, chunk := range c.chunks {
		for k := range chunk.calls {
			if chunk.calls[k].kind != 0 {
				all++
				bytes += callBytes + 16
				n := (c.first+uint32(i))<<callBits | uint32(k)
				if got := c.find(chunk.calls[k].id, chunk.calls[k].at); got != n {
					t.Fatalf("call %d is found as %d", n, got)
				}
			}
		}
	}
	longest := 0
	for _, sh := range c.shards {
		heads += len(sh)
		for _, h := range sh {
			n := 0
			for at := h.call(); c.live(at); at = c.at(at).next {
				n++
			}
			longest = max(longest, n)
		}
	}
	if bytes != c.bytes {
		t.Fatalf("%d bytes are counted instead of %d", c.bytes, bytes)
	}
	if heads > 8*(all+chunkCalls) || longest > 16 {
		t.Fatalf("%d calls have %d chains, one is of %d", all, heads, longest)
	}
}

// TestARememberedCallIsSmall counts bytes: in memory, in a checkpoint, and in the
// log.
func TestARememberedCallIsSmall(t *testing.T) {
	const n = 1_000_000
	m := remembering{s: New(nil, nil), now: Now{Steady: 1e18}}
	before := heapBytes()
	logged := 0
	for range n {
		m.w.Reset(m.w.Body(), 1, 0, m.now)
		id := broker.NewID()
		m.s.remember(&m.w, id, callAdded, id[:])
		logged += len(m.w.Body()) - 16
		m.s.Wrote(&m.w)
	}
	if each := float64(heapBytes()-before) / n; each > 64 {
		t.Errorf("a remembered call takes %.1f bytes of the heap, at most 64 are allowed", each)
	} else {
		t.Logf("%.1f bytes of the heap", each)
	}
	var size counter
	if err := m.s.Encode(&size); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f bytes of a checkpoint, of which %.1f are counted; %d of the log", float64(size)/n, float64(m.s.CallBytes())/n, logged/n)
	if each, counted := float64(size)/n, float64(m.s.CallBytes())/n; each > 40 || counted < each || counted > each+12 {
		t.Errorf("a remembered call takes %.1f bytes of a checkpoint, %.1f are counted", each, counted)
	}
	if logged/n > 40 {
		t.Errorf("a call takes %d bytes of the log", logged/n)
	}
	runtime.KeepAlive(m)
}

func TestACheckpointIsOfTheOldVersionUnlessACallIsRemembered(t *testing.T) {
	m := remembering{s: New(nil, nil), now: Now{Steady: 1e18}}
	version := func() uint32 { return binary.LittleEndian.Uint32(encode(t, m.s)) }
	if v := version(); v != checkpointVersion {
		t.Errorf("without calls it has version %d", v)
	}
	m.add(2000, time.Millisecond)
	if v := version(); v != checkpointWithCalls {
		t.Errorf("with calls it has version %d", v)
	}
	loaded := New(nil, nil)
	if err := loaded.Decode(bytes.NewReader(encode(t, m.s))); err != nil {
		t.Fatal(err)
	}
	m.s = loaded
	m.knows(t, 2000)
	m.now.Steady += int64(callMemory)
	m.w.Reset(nil, 1, 0, m.now)
	m.s.Wrote(&m.w)
	if v := version(); v != checkpointVersion {
		t.Errorf("once they are forgotten it has version %d", v)
	}
}

func TestTheIDOfACallIsNotThatOfAnother(t *testing.T) {
	h := newHistory(t, 1)
	h.commit(func() {
		id := broker.NewID()
		if _, err := h.s.EnqueueOnce(&h.w, h.now, id, "q", []broker.NewJob{{Task: "t"}}); err != nil {
			t.Fatal(err)
		}
		n := h.w.Count()
		_, _, _, err := h.s.ClaimOnce(&h.w, h.now, id, &broker.ClaimRequest{Max: 1, TTL: time.Minute}, "")
		if !errors.Is(err, broker.ErrInvalid) || h.w.Count() != n {
			t.Errorf("a claim with the id of an enqueue: error %v, %d records", err, h.w.Count()-n)
		}
	})
}

// BenchmarkEnqueueOnce is an enqueue of one job, by the state alone, with and
// without an id that is remembered, at 20,000 calls a second of its clock.
func BenchmarkEnqueueOnce(b *testing.B) {
	for _, remembered := range []bool{false, true} {
		b.Run(fmt.Sprintf("remembered=%v", remembered), func(b *testing.B) {
			s, w, now := New(nil, nil), &Writer{}, Now{Wall: 1e18, Steady: 1e18}
			w.Reset(nil, 1, 0, now)
			s.OpenEpoch(w, 1, "m", [16]byte{1}, 0, false)
			b.ReportAllocs()
			for range b.N {
				now.Steady += 50_000
				w.Reset(w.Body(), 1, 0, now)
				var id broker.ID
				if remembered {
					id = broker.NewID()
				}
				jobs := []broker.NewJob{{ID: broker.NewID(), Task: "t"}}
				if _, err := s.EnqueueOnce(w, now, id, "q", jobs); err != nil {
					b.Fatal(err)
				}
				s.Wrote(w)
				s.Delete(w, "q", []broker.ID{jobs[0].ID})
			}
		})
	}
}
