package jobstate

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// history runs random decisions and keeps the bodies they wrote.
type history struct {
	t      testing.TB
	s      *State
	w      Writer
	rnd    *rand.Rand
	now    Now
	frames [][]byte
	leases []Ticket
	ids    []broker.ID
	once   bool // no id is enqueued twice
	calls  bool // some calls have ids, and are made again
	made   []madeCall
}

func newHistory(t testing.TB, seed uint64) *history {
	h := &history{t: t, s: New(nil, nil), rnd: rand.New(rand.NewPCG(seed, 1)), now: Now{Wall: 1e18, Steady: 1e18}}
	h.commit(func() { h.s.OpenEpoch(&h.w, 1, "m1", [16]byte{1}, 5, false) })
	return h
}

// commit runs decide as one frame.
func (h *history) commit(decide func()) {
	h.w.Reset(nil, uint32(len(h.frames)+1), 64, h.now)
	decide()
	h.s.Wrote(&h.w)
	h.frames = append(h.frames, bytes.Clone(h.w.Body()))
}

func (h *history) step() {
	r := h.rnd
	h.now.Steady += r.Int64N(int64(3 * time.Second))
	h.now.Wall += r.Int64N(int64(4*time.Second)) - int64(time.Second)
	queue := fmt.Sprintf("q%d", r.IntN(2))
	if h.calls && r.IntN(3) == 0 {
		h.commit(func() { h.call(queue) })
		return
	}
	h.commit(func() {
		switch r.IntN(14) {
		case 0, 1, 2, 3:
			h.enqueue(queue)
		case 4, 5:
			c := Claim{Queue: queue, Max: 1 + r.IntN(3), TTL: time.Duration(1+r.IntN(20)) * time.Second, Worker: "w", Member: fmt.Sprintf("m%d", r.IntN(3))}
			if r.IntN(2) == 0 {
				c.Tasks = []string{"t1", "none"}
			}
			got, _ := h.s.Claim(&h.w, h.now, c)
			h.leases = append(h.leases, got...)
		case 6, 7:
			h.settle()
		case 8:
			h.s.Upkeep(&h.w, h.now, 1+r.IntN(5), func(string) bool { return r.IntN(2) == 0 })
		case 9:
			h.command(queue)
		case 10:
			if len(h.leases) > 0 {
				l := h.leases[r.IntN(len(h.leases))]
				if r.IntN(4) == 0 {
					h.s.Hold(&h.w, l.Job.Ref(), l.Job.Token, "lock")
				}
				h.s.Extend(&h.w, h.now, 10*time.Second, []broker.Extension{{Ref: l.Job.Ref(), Token: l.Job.Token, Progress: &broker.Progress{Percent: 7}, Log: []string{"line"}}})
			}
		case 11:
			h.membership()
		case 12:
			h.configure(queue)
		case 13:
			h.batch(queue)
		}
	})
}

func (h *history) enqueue(queue string) {
	r := h.rnd
	jobs := make([]broker.NewJob, 1+r.IntN(4))
	for i := range jobs {
		j := &jobs[i]
		*j = broker.NewJob{ID: broker.NewID(), Task: fmt.Sprintf("t%d", r.IntN(3)), Payload: make([]byte, r.IntN(30)), Priority: int32(r.IntN(3) - 1), MaxAttempts: r.IntN(3)}
		switch r.IntN(5) {
		case 0:
			j.Delay = time.Duration(r.IntN(10)) * time.Second
		case 1:
			j.At = time.Unix(0, h.now.Wall+r.Int64N(1e10)-2e9)
		case 2:
			j.KeyRepeat = broker.KeyRepeat(r.IntN(3))
			j.Key, j.KeyHold, j.KeyFor = fmt.Sprintf("k%d", r.IntN(4)), broker.KeyHold(r.IntN(3)), time.Minute
		case 3:
			j.Ordered = r.IntN(2) == 0
			j.Tenant, j.Group, j.StartWithin, j.Retain = "a", "b", 5*time.Second, time.Duration(r.IntN(3)-1)*time.Minute
		case 4:
			if !h.once && len(h.ids) > 0 && r.IntN(3) == 0 {
				j.ID = h.ids[r.IntN(len(h.ids))]
			}
			j.Headers = map[string]string{"spool.codec": "json", "x": "y"}
		}
		h.ids = append(h.ids, j.ID)
	}
	if _, err := h.s.Enqueue(&h.w, h.now, queue, jobs); err != nil && !errors.Is(err, broker.ErrFull) {
		h.t.Fatal(err)
	}
}

func (h *history) batch(queue string) {
	n := 1 + h.rnd.IntN(3)
	jobs := []broker.NewJob{{ID: broker.NewID(), Task: "whole", BatchSize: uint32(n)}}
	for i := range n {
		jobs = append(jobs, broker.NewJob{ID: broker.NewID(), Task: "t1", Tenant: "z", Batch: jobs[0].ID, BatchOrdinal: uint32(i)})
	}
	for _, j := range jobs {
		h.ids = append(h.ids, j.ID)
	}
	if _, err := h.s.Enqueue(&h.w, h.now, queue, jobs); err != nil && !errors.Is(err, broker.ErrFull) {
		h.t.Fatal(err)
	}
}

func (h *history) configure(queue string) {
	r := h.rnd
	settings := []broker.Setting{
		{Kind: broker.LimitSetting, Name: "run", Limit: &broker.Limit{Tasks: []string{"t0", "t1"}, Running: 1 + r.IntN(3), Per: []broker.Scope{"", "tenant", "group"}[r.IntN(3)]}},
		{Kind: broker.LimitSetting, Name: "rate", Limit: &broker.Limit{Tasks: []string{"t1", "t2"}, Count: 1 + r.Int64N(3), Every: time.Duration(1+r.IntN(7)) * time.Second}},
		{Kind: broker.WeightSetting, Name: "a", Weight: 1 + r.IntN(5)},
		{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 5 + r.Int64N(20), DropOldest: r.IntN(2) == 0}},
		{Kind: broker.CapacitySetting, Name: "tenant", Capacity: &broker.Capacity{Bytes: 50 + r.Int64N(200), DropOldest: r.IntN(2) == 0}},
		{Kind: broker.AgeingSetting, Ageing: time.Second},
		{Kind: broker.RetentionSetting, Name: "t2", Retention: &broker.Retention{Done: time.Minute, Dead: -1}},
		{Kind: broker.ScheduleSetting, Name: "s", Schedule: &broker.Schedule{Spec: fmt.Sprint("@every ", r.IntN(2)), Job: broker.NewJob{Task: "t1"}}},
	}
	r.Shuffle(len(settings), func(i, k int) { settings[i], settings[k] = settings[k], settings[i] })
	c := broker.Change{Declare: r.IntN(2) == 0, Set: settings[:r.IntN(len(settings))]}
	if c.Declare {
		c.Owner, c.Start = fmt.Sprint("app", r.IntN(3)), broker.NewID()
	} else {
		for _, n := range []broker.SettingName{{Kind: broker.LimitSetting, Name: "run"}, {Kind: broker.CapacitySetting}} {
			if !slices.ContainsFunc(c.Set, func(t broker.Setting) bool { return t.Kind == n.Kind && t.Name == n.Name }) {
				c.Clear = append(c.Clear, n)
			}
		}
		if r.IntN(3) == 0 {
			c.Owner, c.Undeclare = "app0", []broker.SettingName{{Kind: broker.WeightSetting, Name: "a"}, {Kind: broker.ScheduleSetting, Name: "s"}}
		}
		pick := []*[]string{&c.Pause, &c.Resume}[r.IntN(2)]
		if h.s.schedule(queue, "s") != nil && c.Undeclare == nil {
			*pick = []string{"s"}
		}
	}
	if err := h.s.Configure(&h.w, queue, &c); err != nil && !(h.once && errors.Is(err, broker.ErrConflict)) { // of two clocks that drift apart
		h.t.Fatal(err)
	}
	for _, t := range h.s.Settings(queue) {
		if t.Schedule != nil {
			tick := broker.Tick{Queue: queue, Schedule: t.Name, Due: t.Schedule.Due, Next: time.Unix(0, h.now.Wall+1e9)}
			if !tick.Due.IsZero() {
				tick.Jobs = []broker.NewJob{{ID: broker.NewID(), Task: "t2"}}
			}
			if _, err := h.s.Tick(&h.w, h.now, &tick); err != nil && tick.Due.Before(tick.Next) {
				h.t.Fatal(err)
			}
		}
	}
}

func (h *history) settle() {
	if len(h.leases) == 0 {
		return
	}
	i := h.rnd.IntN(len(h.leases))
	l := h.leases[i]
	st := broker.Settlement{Ref: l.Job.Ref(), Token: l.Job.Token, Kind: broker.SettleKind(1 + h.rnd.IntN(6)), Delay: time.Duration(h.rnd.IntN(3)) * time.Second, Error: "boom"}
	if st.Kind == broker.Ack {
		st.Error = ""
		if h.rnd.IntN(2) == 0 {
			st.Result = []byte("result")
		}
		if h.rnd.IntN(3) == 0 {
			st.FollowUps = []broker.FollowUp{{Queue: "q1", Job: broker.NewJob{ID: broker.NewID(), Task: "t1"}}}
		}
	}
	h.s.Settle(&h.w, h.now, &st)
}

func (h *history) command(queue string) {
	var ids []broker.ID
	for range 3 {
		if len(h.ids) > 0 {
			ids = append(ids, h.ids[h.rnd.IntN(len(h.ids))])
		}
	}
	switch h.rnd.IntN(4) {
	case 0:
		h.s.Cancel(&h.w, queue, ids, "stop it")
	case 1:
		h.s.Requeue(&h.w, h.now, queue, ids)
	case 2:
		h.s.Delete(&h.w, queue, ids)
	case 3:
		h.s.Pause(&h.w, queue, h.rnd.IntN(2) == 0)
	}
}

func (h *history) membership() {
	name := fmt.Sprintf("m%d", h.rnd.IntN(3))
	switch h.rnd.IntN(4) {
	case 0:
		h.s.Gone(&h.w, name)
	case 1:
		h.s.Register(&h.w, broker.Worker{ID: "w" + name, Name: "worker", Queues: []string{"q1"}, Tasks: []string{"t1", "t2"}, Concurrency: h.rnd.IntN(4)}, name)
	case 2:
		h.s.Leave(&h.w, "w"+name)
	case 3:
		h.s.OpenEpoch(&h.w, h.s.Epoch().Number+uint32(h.rnd.IntN(2)), name, [16]byte{9}, 77, h.rnd.IntN(2) == 0)
	}
}

func encode(t testing.TB, s *State) []byte {
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// check compares the kept numbers with a recount.
func check(t testing.TB, s *State) {
	t.Helper()
	checkRoom(t, s)
	jobs, withLife := 0, 0
	for _, q := range s.queues {
		for j := range q.kept() {
			jobs++
			if j.lived() {
				withLife++
			}
		}
	}
	free := 0
	for r := s.jobs.free; r != 0; r = s.jobs.at(r).next {
		free++
	}
	if int(s.jobs.used) != jobs+free || int(s.lives.used) != withLife+len(s.lives.free) {
		t.Fatalf("of %d entries %d are used and %d free, of %d lives %d and %d", s.jobs.used, jobs, free, s.lives.used, withLife, len(s.lives.free))
	}
	for name, q := range s.queues {
		byState := map[*task][broker.Cancelled + 1]int64{}
		for j := range q.jobs.all(&s.jobs) {
			if q.job(j.id) != j || s.queueOf(j) != q {
				t.Fatalf("%s: job %s is not found by its id", name, j.id)
			}
			n := byState[s.taskOf(j)]
			n[j.state()]++
			byState[s.taskOf(j)] = n
			if (j.state() == broker.Leased) != (s.lifeOf(j).lease.expires != 0) {
				t.Fatalf("job %s is %v, its lease is %v", j.id, j.state(), s.lifeOf(j).lease)
			}
		}
		checkLists(t, s, q)
		depth := int64(0)
		for _, tk := range q.order {
			depth += tk.n[broker.Scheduled] + tk.n[broker.Ready] + tk.n[broker.Leased]
			if tk.n != byState[tk] {
				t.Fatalf("%s/%s: kept %v, counted %v", name, tk.name, tk.n, byState[tk])
			}
			ready := int64(0)
			for _, l := range tk.lanes {
				ready += int64(l.n)
				if n := l.counted(); n != l.n || s.lanes[l.self] != l {
					t.Fatalf("%s/%s: a lane of %d jobs holds %d", name, tk.name, l.n, n)
				}
				if (l.n > 0) != (l.stand != nil) {
					t.Fatalf("%s/%s: a lane of %d jobs stands at %v", name, tk.name, l.n, l.stand)
				}
			}
			if ready != tk.n[broker.Ready] {
				t.Fatalf("%s/%s: %d in lanes, %d ready", name, tk.name, ready, tk.n[broker.Ready])
			}
		}
		if q.load.jobs != depth {
			t.Fatalf("%s: load %d, counted %d", name, q.load.jobs, depth)
		}
		for _, r := range q.rules {
			for _, m := range r.meters {
				running := 0
				for j := s.firstOf(&q.lists[broker.Leased]); j != nil; j = s.nextOf(j) {
					if r.Running > 0 && slices.Contains(r.Tasks, s.taskOf(j).name) && r.valueOf(s.laneOf(j)) == m.value {
						running++
					}
				}
				if m.running != running {
					t.Fatalf("%s: limit %s of %q counts %d running, there are %d", name, r.name, m.value, m.running, running)
				}
			}
		}
	}
}

// checkLists walks the lists of a queue.
func checkLists(t testing.TB, s *State, q *queue) {
	t.Helper()
	all := 0
	for state := range q.lists {
		l := &q.lists[state]
		n, before := 0, ref(0)
		for j := s.firstOf(l); j != nil; j = s.nextOf(j) {
			if int(j.state()) != state || j.prev != before || before != 0 && s.jobs.at(before).order >= j.order {
				t.Fatalf("job %s, %v, stands in the list of %v behind the wrong one", j.id, j.state(), broker.State(state))
			}
			before = j.self
			n++
		}
		if n != l.n || l.last != before {
			t.Fatalf("the list of %v has %d jobs, %d are linked", broker.State(state), l.n, n)
		}
		all += n
	}
	if all != q.jobs.len() {
		t.Fatalf("the lists have %d jobs, the index %d", all, q.jobs.len())
	}
}

// counted counts the jobs of a lane where they stand.
func (l *lane) counted() (n int) {
	s := l.state()
	for _, b := range l.fifo.blocks {
		live := 0
		for _, r := range b.refs[b.off:] {
			if r != 0 {
				live++
			}
		}
		if live != b.live {
			return -1
		}
		n += live
	}
	for i := range l.late {
		if s.live(&l.late[i]) {
			n++
		}
	}
	if l.first != nil {
		n++
	}
	return n
}

func TestReplayAndCheckpointsGiveTheSameState(t *testing.T) {
	for seed := range uint64(80) {
		t.Logf("seed %d", seed)
		h := newHistory(t, seed)
		h.calls = seed%2 == 0
		var saved []byte
		cut := 0
		for n := range 400 {
			h.step()
			if n == 200 {
				saved, cut = encode(t, h.s), len(h.frames)
			}
		}
		h.checkReplay(saved, cut)
	}
}

// checkReplay compares the state with what its frames give, all of them, and
// those behind a checkpoint.
func (h *history) checkReplay(saved []byte, cut int) {
	t := h.t
	t.Helper()
	check(t, h.s)
	want := encode(t, h.s)
	replayed := New(nil, nil)
	for i, f := range h.frames {
		if err := replayed.Apply(f, uint32(i+1), 64); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
	check(t, replayed)
	if !bytes.Equal(want, encode(t, replayed)) {
		t.Fatal("the replayed state differs")
	}
	loaded := New(nil, nil)
	if err := loaded.Decode(bytes.NewReader(saved)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saved, encode(t, loaded)) {
		t.Fatal("a loaded checkpoint is written differently")
	}
	for i, f := range h.frames[cut:] {
		if err := loaded.Apply(f, uint32(cut+i+1), 64); err != nil {
			t.Fatalf("frame %d after the checkpoint: %v", i, err)
		}
	}
	check(t, loaded)
	if !bytes.Equal(want, encode(t, loaded)) {
		t.Fatal("checkpoint and replay differ from replay")
	}
	compareUses(t, replayed, loaded)
}

func compareUses(t testing.TB, a, b *State) {
	t.Helper()
	if len(a.uses.files) != len(b.uses.files) {
		t.Fatalf("uses: %d files and %d", len(a.uses.files), len(b.uses.files))
	}
	for f, u := range a.uses.files {
		if *u != *b.uses.files[f] {
			t.Fatalf("uses of file %d: %v and %v", f, *u, *b.uses.files[f])
		}
	}
}

func TestDamagedBodiesAreRefusedWithoutPanic(t *testing.T) {
	h := newHistory(t, 3)
	h.calls = true
	for range 150 {
		h.step()
	}
	rnd := rand.New(rand.NewPCG(4, 4))
	refused := 0
	for range 3000 {
		s := New(nil, nil)
		for i, f := range h.frames {
			if rnd.IntN(len(h.frames)) == 0 {
				f = bytes.Clone(f)
				if rnd.IntN(2) == 0 {
					f[rnd.IntN(len(f))] ^= 1 << rnd.IntN(8)
				} else {
					f = f[:rnd.IntN(len(f))]
				}
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
