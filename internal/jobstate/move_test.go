package jobstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// movers are two histories between which queues move while both go on.
type movers struct {
	t     testing.TB
	rnd   *rand.Rand
	sides [2]*history
	moves map[string]*moving // by queue
	moved int
}

// moving is how far the driver of a move is.
type moving struct {
	id    broker.ID
	from  int // the side
	batch uint64
	on    bool
}

func (m *movers) step() {
	for _, h := range m.sides {
		for range m.rnd.IntN(4) {
			h.step()
		}
	}
	queue := fmt.Sprintf("q%d", m.rnd.IntN(2))
	mv := m.moves[queue]
	switch {
	case mv == nil:
		mv = &moving{from: m.rnd.IntN(2)}
		m.moves[queue] = mv
		fallthrough
	case !mv.on:
		m.begin(queue, mv)
	case m.rnd.IntN(25) == 0:
		m.turn(queue, mv)
	default:
		m.batch(queue, mv)
	}
}

// begin begins a move, back or on from where the queue is.
func (m *movers) begin(queue string, mv *moving) {
	from, to := m.sides[mv.from], m.sides[1-mv.from]
	if !mv.id.IsZero() && m.rnd.IntN(2) == 0 {
		mv.from, mv.id = 1-mv.from, broker.ID{}
		from, to = to, from
	}
	if mv.id.IsZero() {
		mv.id, mv.batch = broker.NewID(), 0
	}
	var here broker.Move
	from.do(func() (err error) {
		here, err = from.s.BeginMove(&from.w, from.now, &broker.MoveBegin{ID: mv.id, Queue: queue, State: broker.Leaving, Peer: "there", Runner: broker.ID{1}})
		return err
	})
	to.do(func() error {
		_, err := to.s.BeginMove(&to.w, to.now, &broker.MoveBegin{ID: mv.id, Queue: queue, State: broker.Arriving, Peer: "here", Batch: mv.batch, Now: here.Now, First: here.First, Seq: here.Seq})
		return err
	})
	mv.on = true
}

// turn takes a move back, once its last batch has arrived.
func (m *movers) turn(queue string, mv *moving) {
	from, to := m.sides[mv.from], m.sides[1-mv.from]
	b := broker.MoveBegin{ID: broker.NewID(), Queue: queue, State: broker.Arriving, Peer: "there", Turn: mv.id, TurnBatch: mv.batch, Now: time.Unix(0, to.now.Steady), First: to.s.queues[queue].firstSeq(), Seq: to.s.seq}
	from.do(func() error { _, err := from.s.BeginMove(&from.w, from.now, &b); return err })
	b.State, b.Runner = broker.Leaving, broker.ID{1}
	to.do(func() error { _, err := to.s.BeginMove(&to.w, to.now, &b); return err })
	mv.id, mv.from, mv.batch = b.ID, 1-mv.from, 0
}

// do makes a call that has to succeed.
func (h *history) do(call func() error) {
	h.t.Helper()
	h.commit(func() {
		if err := call(); err != nil {
			h.t.Fatal(err)
		}
	})
}

// batch moves the next batch; steps are repeated at random.
func (m *movers) batch(queue string, mv *moving) {
	from, to := m.sides[mv.from], m.sides[1-mv.from]
	before := len(m.all(queue))
	r := broker.MoveTake{ID: mv.id, Queue: queue, Runner: broker.ID{1}, Batch: mv.batch + 1, Max: 1 + m.rnd.IntN(5)}
	b := from.take(&r)
	for b.Number == r.Batch && m.rnd.IntN(3) == 0 { // the driver was killed here
		for range m.rnd.IntN(3) {
			from.step()
		}
		before = len(m.all(queue))
		b = from.take(&r)
	}
	if b.Number == mv.batch {
		if b.Done {
			m.end(queue, mv)
		}
		return
	}
	lost := 0
	for range 1 + m.rnd.IntN(2) { // or here
		to.do(func() error {
			a, err := to.s.Put(&to.w, to.now, &broker.MovePut{ID: mv.id, Queue: queue, Batch: b})
			lost += a.Duplicates
			return err
		})
	}
	m.compare(queue, to, &b)
	if after := len(m.all(queue)); after < before-lost || after > before {
		m.t.Fatalf("%d jobs before a batch of %d, %d after it, %d of them duplicates", before, len(b.Jobs), after, lost)
	}
	mv.batch = b.Number
	m.moved += len(b.Jobs)
}

func (h *history) take(r *broker.MoveTake) (b broker.MoveBatch) {
	h.t.Helper()
	var out []OutJob
	h.do(func() (err error) { b, out, err = h.s.Take(&h.w, h.now, r); return err })
	for i := range out {
		if _, err := out[i].Fill(h.read, func(error) bool { return false }, b.Now); err != nil {
			h.t.Fatal(err)
		}
		b.Jobs = append(b.Jobs, out[i].Moved)
	}
	return b
}

// read reads from the frames.
func (h *history) read(l Loc) ([]byte, error) {
	b := h.frames[l.File-1][l.Off-64:][:l.Len]
	if Checksum(b) != l.Sum {
		return nil, errors.New("checksum")
	}
	return bytes.Clone(b), nil
}

// all are the ids of a queue's jobs, wherever they are: none is at two places.
func (m *movers) all(queue string) map[broker.ID]bool {
	all := map[broker.ID]bool{}
	onWay := map[broker.ID]bool{}
	for _, h := range m.sides {
		q := h.s.queues[queue]
		if q == nil {
			continue
		}
		for j := range q.jobs.all(&h.s.jobs) {
			if all[j.id] {
				m.t.Fatalf("job %s is at both sides", j.id)
			}
			all[j.id] = true
		}
		if q.move != nil {
			for _, o := range q.move.out.jobs {
				onWay[o.job.id] = true
			}
		}
	}
	mv := m.moves[queue]
	if mv == nil || !mv.on {
		return all
	}
	if to := m.sides[1-mv.from].s.queues[queue]; to != nil && to.move != nil && to.move.batch == mv.batch {
		from := m.sides[mv.from].s.queues[queue].move
		if from.batch == mv.batch+1 { // on its way, and not there yet
			for id := range onWay {
				all[id] = true
			}
		}
	}
	return all
}

// compare wants the jobs of a batch to be the same at the other side.
func (m *movers) compare(queue string, to *history, b *broker.MoveBatch) {
	delta := time.Duration(to.s.queues[queue].move.delta)
	for i := range b.Jobs {
		want := b.Jobs[i]
		t, ok := to.s.Get(to.now, broker.Ref{Queue: queue, ID: want.ID})
		if !ok || t.Job.Reason == broker.ReasonDuplicate || t.Job.Reason == broker.ReasonBatch && t.Job.State == broker.Ready {
			continue
		}
		if err := t.Fill(to.read); err != nil {
			m.t.Fatal(err)
		}
		shift := func(at *time.Time) {
			if !at.IsZero() {
				*at = at.Add(delta)
			}
		}
		for _, at := range []*time.Time{&want.EnqueuedAt, &want.ClaimedAt, &want.FinishedAt} {
			shift(at)
		}
		if !want.ByWall {
			shift(&want.RunAt)
		}
		if !want.State.Final() {
			want.State = t.Job.State // whether it is due is a matter of this side's clock
		}
		if got, want := fmt.Sprintf("%+v", t.Job), fmt.Sprintf("%+v", want.Job); got != want {
			m.t.Fatalf("a job is\n%s\nand was\n%s", got, want)
		}
	}
}

func (m *movers) end(queue string, mv *moving) {
	for _, i := range []int{mv.from, 1 - mv.from} {
		h := m.sides[i]
		h.do(func() error { return h.s.EndMove(&h.w, &broker.MoveEnd{ID: mv.id, Queue: queue, Batch: mv.batch}) })
	}
	mv.on = false
}

// checkLoadedMoves wants a loaded checkpoint to have the same on its way.
func (h *history) checkLoadedMoves(saved []byte) {
	h.t.Helper()
	loaded := New(nil, nil)
	if err := loaded.Decode(bytes.NewReader(saved)); err != nil {
		h.t.Fatal(err)
	}
	for _, q := range h.s.moves() {
		var said [2]string
		for i, s := range []*State{h.s, loaded} {
			b, out := s.describeOut(h.now, s.queues[q.name])
			text, err := json.Marshal(b)
			if err != nil {
				h.t.Fatal(err)
			}
			said[i] = fmt.Sprintf("%+v %s %+v %v", s.queues[q.name].move.moveRec, text, out, s.queues[q.name].move.early)
		}
		if said[0] != said[1] {
			h.t.Fatalf("a loaded checkpoint has\n%s\nand was written of\n%s", said[1], said[0])
		}
	}
}

func newMovers(t testing.TB, seed uint64) *movers {
	m := &movers{t: t, rnd: rand.New(rand.NewPCG(seed, 77)), moves: map[string]*moving{}}
	for i := range m.sides {
		m.sides[i] = newHistory(t, 2*seed+uint64(i)+1000)
		m.sides[i].once = true
		m.sides[i].now.Steady += m.rnd.Int64N(1e12) // clocks differ
	}
	return m
}

func TestQueuesThatMoveToAndFroAreReplayedAsTheyWere(t *testing.T) {
	moved := 0
	for seed := range uint64(15) {
		m := newMovers(t, seed)
		t.Logf("seed %d", seed)
		var saved [2][]byte
		var cut [2]int
		at := 100 + m.rnd.IntN(300)
		for n := range 500 {
			m.step()
			if n == at {
				for i, h := range m.sides {
					saved[i], cut[i] = encode(t, h.s), len(h.frames)
					h.checkLoadedMoves(saved[i])
				}
			}
		}
		for i, h := range m.sides {
			h.checkReplay(saved[i], cut[i])
		}
		moved += m.moved
	}
	if t.Logf("%d jobs moved", moved); moved < 5000 {
		t.Errorf("only %d jobs moved: the test shows little", moved)
	}
}

func TestDamagedBodiesOfMovesAreRefusedWithoutPanic(t *testing.T) {
	m := newMovers(t, 5)
	for range 60 {
		m.step()
	}
	rnd := rand.New(rand.NewPCG(5, 5))
	refused := 0
	for n := range 800 {
		s := New(nil, nil)
		frames := m.sides[n%2].frames
		at := rnd.IntN(len(frames))
		for i, f := range frames {
			if i == at {
				f = bytes.Clone(f)
				f[rnd.IntN(len(f))] ^= 1 << rnd.IntN(8)
			}
			if err := s.Apply(f, uint32(i+1), 64); err != nil {
				refused++
				break
			}
		}
	}
	if refused == 0 {
		t.Fatal("no damage was ever refused")
	}
}

// leavesItsKey begins a move of a queue whose only job is done, and holds its
// key all the same.
func (m *movers) leavesItsKey(queue string) {
	h := m.sides[0]
	h.do(func() error {
		n := broker.NewJob{Task: "t1", Key: "k", KeyHold: broker.HoldFor, KeyFor: time.Hour}
		_, err := h.s.Enqueue(&h.w, h.now, queue, []broker.NewJob{n})
		return err
	})
	h.do(func() error {
		got, _ := h.s.Claim(&h.w, h.now, Claim{Queue: queue, Max: 1, TTL: time.Minute, Worker: "w"})
		return h.s.Settle(&h.w, h.now, &broker.Settlement{Ref: got[0].Job.Ref(), Token: got[0].Job.Token, Kind: broker.Ack}).Err
	})
	mv := &moving{from: 0}
	m.moves[queue] = mv
	for m.begin(queue, mv); mv.on; {
		m.batch(queue, mv)
	}
}

func TestDescribeNamesTheRecordsOfMoves(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(2) {
		m := newMovers(t, seed)
		m.leavesItsKey("q0")
		for range 400 {
			m.step()
		}
		for _, h := range m.sides {
			for _, f := range h.frames {
				if err := Describe(f, func(r Record) { seen[r.Type] = true }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, name := range recordNames[recMove:recCall] {
		if !seen[name] {
			t.Errorf("no record %q in 800 steps", name)
		}
	}
}

func TestACheckpointIsOfTheOldVersionUnlessAQueueMoves(t *testing.T) {
	m := newMovers(t, 9)
	for _, h := range m.sides {
		for range 30 {
			h.step()
		}
		if v := encode(t, h.s)[0]; v != checkpointVersion {
			t.Errorf("without moves it has version %d", v)
		}
	}
	m.leavesItsKey("q0")
	for i, h := range m.sides {
		if v := encode(t, h.s)[0]; v != checkpointWithMoves {
			t.Errorf("with moves it has version %d", v)
		}
		m.sides[i].checkLoadedMoves(encode(t, h.s))
	}
}

func TestResetKeepsWhatIsOnItsWay(t *testing.T) {
	m := newMovers(t, 11)
	h := m.sides[0]
	jobs := []broker.NewJob{{ID: broker.NewID(), Task: "t", Payload: []byte("one")}, {ID: broker.NewID(), Task: "t", Payload: []byte("two")}}
	h.do(func() error { _, err := h.s.Enqueue(&h.w, h.now, "q0", jobs); return err })
	mv := &moving{}
	m.moves["q0"] = mv
	m.begin("q0", mv)
	r := broker.MoveTake{ID: mv.id, Queue: "q0", Runner: broker.ID{1}, Batch: 1}
	before := h.take(&r)
	lose := jobs[1].ID
	err := h.s.Reset(h.now, func(ref broker.Ref, what string, l Loc) (Loc, bool, error) { return l, ref.ID != lose, nil })
	if err != nil {
		t.Fatal(err)
	}
	loaded := New(nil, nil)
	if err := loaded.Decode(bytes.NewReader(encode(t, h.s))); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*State{"reset": h.s, "and loaded": loaded} {
		_, out := s.describeOut(h.now, s.queues["q0"])
		if len(out) != len(before.Jobs) || out[0].Moved.State != broker.Ready || out[1].Moved.State != broker.Dead || out[1].Moved.Reason != broker.ReasonDamaged {
			t.Errorf("%s: on its way are %+v", name, out)
		}
		if uses := s.Uses(); len(uses) != 1 {
			t.Errorf("%s: uses of %d files", name, len(uses))
		}
	}
}

func TestMovesToAndFroDoNotUseUpTheNumbersOfEnqueues(t *testing.T) {
	m := newMovers(t, 13)
	h := m.sides[0]
	h.do(func() error {
		_, err := h.s.Enqueue(&h.w, h.now, "q0", []broker.NewJob{{Task: "t"}, {Task: "t"}})
		return err
	})
	const moves = 300
	for n := range moves {
		mv := &moving{from: n % 2}
		m.begin("q0", mv)
		from, to := m.sides[mv.from], m.sides[1-mv.from]
		for done := false; !done; {
			b := from.take(&broker.MoveTake{ID: mv.id, Queue: "q0", Runner: broker.ID{1}, Batch: mv.batch + 1})
			if b.Number > mv.batch {
				to.do(func() error {
					_, err := to.s.Put(&to.w, to.now, &broker.MovePut{ID: mv.id, Queue: "q0", Batch: b})
					return err
				})
				mv.batch = b.Number
			}
			done = b.Done
		}
		m.end("q0", mv)
	}
	for _, h := range m.sides {
		if most := uint64(moves * moves * seqRoom); h.s.seq > most || most > 1<<47 {
			t.Errorf("the last number is %d after %d moves, 2^48 is the end", h.s.seq, moves)
		}
	}
}

func TestMovesFromABrokerWithLargeNumbersDoNotUseUpThoseOfEnqueues(t *testing.T) {
	h := newMovers(t, 1).sides[0]
	begin := func(first, seq uint64) uint64 {
		t.Helper()
		id := broker.NewID()
		h.do(func() error {
			_, err := h.s.BeginMove(&h.w, h.now, &broker.MoveBegin{ID: id, Queue: "far", State: broker.Arriving, Peer: "there", Now: time.Unix(1, 0), First: first, Seq: seq})
			return err
		})
		h.do(func() error { return h.s.EndMove(&h.w, &broker.MoveEnd{ID: id, Queue: "far", Forget: true}) })
		return h.s.seq
	}
	begin(1<<47, 1<<48)
	if seq := begin(0, 1<<46); seq < 1<<46 || seq > 1<<46+1<<22 {
		t.Errorf("numbers are at %d", seq)
	}
	for range 10 {
		if seq := begin(0, 1<<46); seq > 1<<47+1<<24 {
			t.Fatalf("numbers are at %d", seq)
		}
	}
}
