package brokertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
)

// RunMovedHistoriesInBubbles plays n random histories on two stores at once, a
// twin that stays where it is and one whose queue moves to and fro between from
// and to, and wants every answer and every job of them to be the same.
func RunMovedHistoriesInBubbles(t *testing.T, from, to func(t *testing.T) Harness, n int, seed uint64) {
	for i := range n {
		t.Run(fmt.Sprint(seed+uint64(i)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pair{fixture: begin(t, bubble(from(t))), to: begin(t, bubble(to(t)))}
				h := &movedHistory{pair: p, twin: begin(t, bubble(from(t))), rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
				h.play(150)
				p.finish()
				p.to.finish()
				h.twin.finish()
			})
		})
	}
}

// movedHistory is a history on a queue that moves, and on its twin.
type movedHistory struct {
	*pair
	twin   *fixture
	rnd    *rand.Rand
	ids    []broker.ID
	leases [][2]broker.Lease // of the store that it moves in, and of the twin
	move   broker.ID         // that is under way; zero: none
	batch  uint64
	said   []string // what was done
}

func (h *movedHistory) play(steps int) {
	limits := []broker.Setting{running("n", broker.PerGroup, 2), retention("b", broker.Retention{Done: time.Minute, Dead: time.Hour})}
	h.set(limits...)
	h.twin.set(limits...)
	for range steps {
		h.step()
		h.compare()
	}
	for !h.move.IsZero() {
		h.moves()
		h.settleAll()
	}
	h.compare()
}

func (h *movedHistory) say(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func (h *movedHistory) step() {
	if grain := max(h.h.Grain, h.to.h.Grain); grain > 0 {
		h.advance(grain)
	}
	switch r := h.rnd; r.IntN(12) {
	case 0, 1, 2:
		h.enqueues()
	case 3, 4:
		if h.move.IsZero() {
			h.claims(1 + r.IntN(4))
		}
	case 5, 6:
		h.settles()
	case 7:
		h.commands()
	case 8:
		d := time.Duration(r.IntN(4000)) * time.Millisecond
		h.say("advance %v", d)
		h.advance(d)
		h.maintain()
		h.to.maintain()
		h.twin.maintain()
	default:
		h.moves()
	}
}

// random makes jobs of many sorts. The state that a store keeps of tenants' turns
// and of rates does not move along, and a batch is complete a little later when
// the end of a member has to follow it.
func (h *movedHistory) random() []broker.NewJob {
	r := h.rnd
	jobs := make([]broker.NewJob, 1+r.IntN(3))
	for i := range jobs {
		j := &jobs[i]
		*j = broker.NewJob{Task: []string{"a", "b", task}[r.IntN(3)], Payload: []byte{byte(r.IntN(256))}, Priority: int32(r.IntN(3)), MaxAttempts: 1 + r.IntN(3)}
		j.MakeID()
		switch r.IntN(6) {
		case 0:
			j.Delay = time.Duration(r.IntN(5000)) * time.Millisecond
		case 1:
			j.At = h.now().Add(time.Duration(r.IntN(5000)-1000) * time.Millisecond)
		case 2:
			j.Key, j.KeyHold, j.KeyFor = fmt.Sprint("k", r.IntN(4)), broker.KeyHold(r.IntN(3)), 3*time.Second
		case 3:
			j.Group, j.Ordered = fmt.Sprint("g", r.IntN(2)), true
		case 4:
			j.StartWithin, j.Retain = 4*time.Second, time.Duration(r.IntN(3)-1)*5*time.Second
		}
	}
	return jobs
}

func (h *movedHistory) enqueues() {
	jobs := h.random()
	h.say("enqueue %d", len(jobs))
	a, b := h.enqueue(queue, jobs...), h.twin.enqueue(queue, jobs...)
	if !slices.Equal(a, b) {
		h.fatal("enqueued %+v and %+v", a, b)
	}
	for i := range a {
		if !a[i].Existing {
			h.ids = append(h.ids, a[i].ID)
		}
	}
}

func (h *movedHistory) fatal(format string, args ...any) {
	h.Helper()
	h.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(h.said, "\n"))
}

func (h *movedHistory) claims(n int) {
	c := broker.ClaimRequest{Queues: []string{queue}, Max: n, TTL: 5 * time.Second}
	if h.rnd.IntN(3) == 0 {
		c.Tasks = []string{"a", task}
	}
	a, b := h.take(h.b, c).Leases, h.twin.take(h.twin.b, c).Leases
	h.say("claim %d of %q: %d", n, c.Tasks, len(a))
	if x, y := leaseIDs(a), leaseIDs(b); !slices.Equal(x, y) {
		h.fatal("claimed %v and %v", x, y)
	}
	for i := range a {
		h.leases = append(h.leases, [2]broker.Lease{a[i], b[i]})
	}
}

func (h *movedHistory) settles() {
	if len(h.leases) == 0 {
		return
	}
	i := h.rnd.IntN(len(h.leases))
	l := h.leases[i]
	h.leases = slices.Delete(h.leases, i, i+1)
	s := broker.Settlement{Kind: broker.SettleKind(1 + h.rnd.IntN(6)), Delay: time.Duration(h.rnd.IntN(3)) * time.Second}
	if s.Kind == broker.Ack && h.rnd.IntN(2) == 0 {
		s.Result = []byte("r")
	}
	a, b := h.try(l[0], s), h.twin.try(l[1], s)
	h.say("%v of %s: %v", s.Kind, l[0].Job.ID, a.State)
	if a.State != b.State && !h.wentAway(a, b) {
		h.fatal("settled %+v and %+v", a, b)
	}
}

// wentAway reports whether a refused settlement is of a job that has left since
// its lease ended.
func (h *movedHistory) wentAway(a, b broker.Settled) bool {
	return !h.move.IsZero() && a.Err != nil && b.Err != nil && a.State == 0
}

// settleAll ends every lease, so that a move can end.
func (h *movedHistory) settleAll() {
	for len(h.leases) > 0 {
		h.settles()
	}
}

// commands changes a job. While the queue moves the key of one that has left
// would stay held here, whatever ends it there.
func (h *movedHistory) commands() {
	if len(h.ids) == 0 || !h.move.IsZero() {
		return
	}
	kind := []broker.CommandKind{broker.CancelJobs, broker.RequeueJobs, broker.DeleteJobs}[h.rnd.IntN(3)]
	id := h.ids[h.rnd.IntN(len(h.ids))]
	h.say("command %d of %s", kind, id)
	a, b := h.command(kind, id), h.twin.command(kind, id)
	if a != b {
		h.fatal("changed %d and %d", a, b)
	}
}

// moves begins a move, or does a step of it.
func (h *movedHistory) moves() {
	if h.move.IsZero() {
		h.say("begin a move")
		h.move, h.batch = h.began(), 0
		return
	}
	b := h.pair.batch(h.move, h.batch+1, 1+h.rnd.IntN(4))
	h.say("a batch of %d, %d left, %d of them leased", len(b.Jobs), b.Left, b.Leased)
	if b.Number > h.batch {
		h.batch = b.Number
	}
	if !b.Done {
		return
	}
	h.say("end of the move")
	for _, f := range []*fixture{h.fixture, h.to} {
		h.must("end", mover(f.b).EndMove(h.ctx, broker.NewCall(), broker.MoveEnd{ID: h.move, Queue: queue, Batch: h.batch}))
	}
	h.fixture, h.to, h.move = h.to, h.fixture, broker.ID{}
}

// compare wants all jobs to be the same, wherever they are. Upkeep comes first,
// since brokers see to what is due at different calls.
func (h *movedHistory) compare() {
	h.Helper()
	for _, f := range []*fixture{h.fixture, h.to, h.twin} {
		f.maintain()
	}
	for _, id := range h.ids {
		ref := broker.Ref{Queue: queue, ID: id}
		a, b := h.get(ref), h.twin.get(ref)
		if there := h.to.get(ref); there.State != 0 {
			if a.State != 0 {
				h.fatal("job %s is at both sides", id)
			}
			a = there
		}
		a.Worker, b.Worker = "", ""
		if diff := diffJobs(a, b); diff != "" {
			h.fatal("job %s differs: %s", id, diff)
		}
	}
}
