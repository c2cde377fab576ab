package filebroker

import (
	"fmt"
	"hash/maphash"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// player plays store operations on one handle. Each can be played in any state.
type player struct {
	*scene
	a     *twin
	mode  func(*Config)
	next  int // number of the next job
	taken int // how many of leased were settled
}

// smallOps are the operations that short scripts are made of, in a fixed order.
var smallOps = []struct {
	name string
	play func(*player)
}{
	{"enqueue", func(p *player) { p.enqueue(1) }},
	{"batch", func(p *player) { p.enqueue(3) }},
	{"claim", func(p *player) {
		p.a.claim(broker.ClaimRequest{Queues: []string{"q"}, Max: 1, TTL: hour, Worker: "w"})
	}},
	{"ack", func(p *player) { p.settle(broker.Ack) }},
	{"nack", func(p *player) { p.settle(broker.Nack) }},
	{"delete", func(p *player) {
		p.a.command(broker.DeleteJobs, broker.Filter{States: []broker.State{broker.Ready}}, "")
	}},
	{"compact", func(p *player) { p.a.tidy() }},
	{"roll", func(p *player) { p.large() }},
	{"reopen", func(p *player) { p.reopen() }},
}

func (p *player) enqueue(n int) {
	var jobs []broker.NewJob
	for range n {
		jobs = append(jobs, labJob(p.next))
		p.next++
	}
	p.a.enqueue("q", jobs...)
}

// large enqueues a job that fits into a segment of its own alone.
func (p *player) large() {
	p.a.enqueue("q", labJob(p.next, func(j *broker.NewJob) { j.Payload = make([]byte, 5<<10) }))
	p.next++
}

// settle settles the oldest lease that was not settled yet, or one that is over.
func (p *player) settle(kind broker.SettleKind) {
	h := p.handed[min(p.taken, len(p.handed)-1)]
	p.taken++
	for n := range p.next {
		if labRef(n) == h.ref {
			p.a.end(kind, func(st *broker.Settlement) { st.Error = map[bool]string{true: "no luck"}[kind == broker.Nack] }, n)
		}
	}
}

// reopen closes the store and opens it again, with nobody else alive.
func (p *player) reopen() {
	p.a.step("reopen")
	must(p, p.a.real.Close())
	must(p, p.a.model.Close())
	p.a = p.open(p.mode)
}

// sequences are all sequences of one to n operations, by their numbers.
func sequences(n int) (all [][]int) {
	last := [][]int{nil}
	for range n {
		var longer [][]int
		for _, s := range last {
			for op := range smallOps {
				longer = append(longer, append(append([]int(nil), s...), op))
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

func sequenceName(seq []int) string {
	var names []string
	for _, op := range seq {
		names = append(names, smallOps[op].name)
	}
	return strings.Join(names, ",")
}

// maxUnits is up to how many undecided sectors and directory entries every way
// to keep some of them is tried; of more, some by chance.
const maxUnits = 12

// enumeration is the power cuts of one script: before every operation on files
// of its last step.
type enumeration struct {
	tally
	mu    sync.Mutex
	s     *scene
	cuts  []cut
	seen  map[uint64]bool // disks, with what has to be on them
	hash  maphash.Seed
	acked uint64
}

// tally counts what was enumerated.
type tally struct {
	points int // moments of power cuts
	more   int // of them with more than maxUnits
	ways   int // to keep some of what was not durable
	disks  int // different ones, each with what has to be on it
}

func (n *tally) add(m tally) {
	n.points += m.points
	n.more += m.more
	n.ways += m.ways
	n.disks += m.disks
}

// take cuts the power now, in every way or in some.
func (e *enumeration) take(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.points++
	limit := many(1<<maxUnits, 8)
	if len(e.s.m.Units()) > maxUnits {
		limit = many(200, 8)
		e.more++
	}
	for how, m := range e.s.m.Crashes(limit, uint64(e.points)) {
		e.ways++
		c := cut{name + ": " + how, m, e.acked, int(e.s.given.Load())}
		if id := e.identity(&c); !e.seen[id] {
			e.seen[id] = true
			e.disks++
			e.cuts = append(e.cuts, c)
		}
	}
}

// identity is the same for two cuts that leave the same files and have to keep the
// same. What CONTROL holds is of no use after a restart.
func (e *enumeration) identity(c *cut) uint64 {
	var h maphash.Hash
	h.SetSeed(e.hash)
	fmt.Fprintln(&h, c.acked, c.handed)
	e.hashDir(&h, c.m, c.m.Process(), "/")
	return h.Sum64()
}

func (e *enumeration) hashDir(h *maphash.Hash, m *crashfs.Machine, p *crashfs.Process, dir string) {
	names, err := p.ReadDir(dir)
	must(e.s, err)
	for _, base := range names {
		name := path.Join(dir, base)
		if b, err := m.ReadFile(name); err != nil {
			e.hashDir(h, m, p, name)
		} else if base != "CONTROL" {
			fmt.Fprintln(h, name, len(b))
			h.Write(b)
		}
	}
}

// enumerate plays a script, and cuts the power in its last step: those in the
// steps before are those of a shorter script. Without steps it is the first open.
func enumerate(t *testing.T, cfg crashfs.Config, seq []int, mode SyncMode) (e *enumeration) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, cfg)
		e = &enumeration{s: s, seen: map[uint64]bool{}, hash: maphash.MakeSeed()}
		s.acked = func(last uint64) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if mode == SyncAlways {
				e.acked = last
			}
		}
		begin := func() {
			s.m.Inject(func(op crashfs.Op) error {
				if op.Process != s.watcher && changes(s.m, op) {
					e.take(op.String())
				}
				return nil
			})
		}
		if len(seq) == 0 {
			begin()
		}
		p := &player{scene: s, mode: func(c *Config) { c.Sync = mode }}
		p.a = s.open(p.mode)
		if len(seq) > 0 {
			p.enqueue(6)
			p.a.take("w", hour, 0, 1, 2)
		}
		for i, op := range seq {
			if i == len(seq)-1 {
				begin()
			}
			smallOps[op].play(p)
		}
		e.take("the end")
		s.m.Inject(nil)
	})
	e.s.TB = t
	return e
}

// TestAPowerCutAnywhereInAShortScriptLosesNothing plays every script of up to
// three operations (of two without SPOOL_PROOF), synced and not, and cuts the power
// before every operation on files, with every subset of what was not durable (some
// by chance without SPOOL_PROOF, and of more than 12 units). What comes back is what the
// store held after some frame, none that was acknowledged is missing, tokens grow,
// it goes on, and what it says then survives the next cut. The name of a subtest
// repeats it.
func TestAPowerCutAnywhereInAShortScriptLosesNothing(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		name string
		mode SyncMode
	}{{"synced", SyncAlways}, {"not synced", SyncNever}} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			var all tally
			n := 0
			for _, seq := range append([][]int{nil}, sequences(many(3, 2))...) {
				t.Run("open,"+sequenceName(seq), func(t *testing.T) {
					e := enumerate(t, crashfs.Config{Seed: 1}, seq, of.mode)
					e.check(&n)
					all.add(e.tally)
				})
			}
			t.Logf("%d moments of power cuts (%d with more than %d units), %d ways to keep some of what was not durable, %d different disks, each with what it had to keep",
				all.points, all.more, maxUnits, all.ways, all.disks)
		})
	}
}

// TestTheShortScriptsNoticeAMissingSync is the control: on a machine whose syncs do
// nothing most of them lose what was acknowledged.
func TestTheShortScriptsNoticeAMissingSync(t *testing.T) {
	notice := 0
	for _, seq := range sequences(1) {
		e := enumerate(t, crashfs.Config{Seed: 1, IgnoreSync: true}, seq, SyncAlways)
		for i := range e.cuts {
			if _, lost, err := e.cuts[i].last(e.s); lost || err != nil {
				notice++
				break
			}
		}
	}
	if notice < len(smallOps)/2 {
		t.Errorf("%d of %d scripts lose something", notice, len(smallOps))
	}
}

// check judges the cuts of a script; n counts those of all.
func (e *enumeration) check(n *int) {
	for i := range e.cuts {
		c := &e.cuts[i]
		if *n++; proof || *n%23 == 0 {
			c.check(e.s, *n/23)
		}
		if *n%many(61, 31) == 0 {
			c.checkTwice(e.s, *n)
		}
		c.m = nil
	}
}
