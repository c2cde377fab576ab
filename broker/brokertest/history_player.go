package brokertest

import (
	"bytes"
	"slices"

	"github.com/spoolq/spool/broker"
)

// player plays a history on a broker and on the model at once.
type player struct {
	f       *fixture
	m       *Model // never closed, so that the model's store goes on
	clients [historyClients]struct {
		real  broker.Broker
		model *Model
	}
	runs    map[broker.Ref][]tokens
	settled map[lease]bool     // the leases that a settlement has ended
	used    map[broker.ID]bool // an enqueue had it: it is not new any more
	repeats *repeats           // nil: no call is made again
	whole   bool               // both queues were there when the store was last looked at
}

// lease names a lease by the model's token.
type lease struct {
	ref   broker.Ref
	token broker.Token
}

// tokens are those of one lease, by the broker and by the model.
type tokens struct{ real, model broker.Token }

func newPlayer(f *fixture) *player {
	p := &player{f: f, m: NewModel(f.h.Clock), runs: map[broker.Ref][]tokens{}, settled: map[lease]bool{}, used: map[broker.ID]bool{}}
	if f.h.Repeats {
		p.repeats = &repeats{p: p, ended: map[lease]bool{}}
	}
	for i := range p.clients {
		p.open(i)
	}
	return p
}

func (p *player) open(i int) {
	p.clients[i].real, p.clients[i].model = p.f.open(), p.m.Open()
}

func (p *player) real(i int) broker.Broker {
	if p.repeats == nil {
		return p.clients[i].real
	}
	return repeater{p.clients[i].real, p.repeats, p.clients[(i+1)%historyClients].real}
}

func (p *player) model(i int) *Model { return p.clients[i].model }

func (p *player) failed() bool { return p.f.Failed() }

// tokens finds a lease, or makes one up.
func (p *player) tokens(r run) tokens {
	given := p.runs[r.slot.ref()]
	if n := len(given) - 1 - r.back; n >= 0 {
		return given[n]
	}
	return tokens{7, 7}
}

// added forgets the leases of an id's former life.
func (p *player) added(queue string, a broker.Enqueued) {
	if a.Existing {
		return
	}
	ref := broker.Ref{Queue: queue, ID: a.ID}
	for _, t := range p.runs[ref] {
		delete(p.settled, lease{ref, t.model})
	}
	delete(p.runs, ref)
}

// aged returns jobs of which only those are known as new that are.
func (p *player) aged(jobs []broker.NewJob) []broker.NewJob {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		n := &jobs[i]
		id := n.ID
		if p.used[id] {
			n.ClearID()
			n.ID = id
		}
		p.used[id] = true
	}
	return jobs
}

// maintain does the upkeep of both.
func (p *player) maintain() {
	p.f.maintain()
	if _, err := p.m.Maintain(p.f.ctx); err != nil {
		p.f.Errorf("model: maintain: %v", err)
	}
}

// compare wants that the broker shows what the model shows.
func (p *player) compare() {
	b := p.clients[0].real
	for _, q := range historyQueues {
		for n, s := range broker.States {
			filter := broker.Filter{Queue: q, States: []broker.State{s}}
			got, wanted := p.f.list(b, filter, 3+n), p.f.list(p.m, filter, 100)
			p.arrange(got, wanted)
			if same(p, q+": "+s.String(), slotsOf(jobIDs(got)), slotsOf(jobIDs(wanted))); p.failed() {
				return
			}
			for i := range got {
				p.sameJob(q+": "+s.String(), got[i], wanted[i])
			}
		}
	}
	got, err := b.Counts(p.f.ctx, "")
	p.f.must("counts", err)
	wanted, err := p.m.Counts(p.f.ctx, "")
	p.f.must("counts of the model", err)
	p.whole = p.whole || len(wanted) > 0 && wanted[0].Queue != wanted[len(wanted)-1].Queue
	p.sameCounts(got, wanted)
	p.compareWorkers(b)
	p.compareSettings(b)
}

// sameCounts compares all but the bytes, which are at least those of the
// payloads.
func (p *player) sameCounts(got, wanted []broker.Count) {
	for i := range min(len(got), len(wanted)) {
		g, w := &got[i], &wanted[i]
		if g.Bytes < w.Bytes || (g.Bytes == 0) != (w.Depth == 0) && w.Bytes > 0 {
			p.f.Errorf("counts: %s has %d bytes, want at least %d", g.Queue, g.Bytes, w.Bytes)
		}
		g.Bytes, w.Bytes = 0, 0
	}
	same(p, "counts", got, wanted)
}

// arrange brings both lists into one order where the order is open: among jobs
// that one upkeep, one closing client or one command moved.
func (p *player) arrange(got, wanted []broker.Job) {
	if p.f.h.Unordered {
		byID(got)
		byID(wanted)
		return
	}
	for at := 0; at < len(wanted); {
		sweep, end := p.sweep(wanted[at]), at+1
		for sweep != 0 && end < len(wanted) && p.sweep(wanted[end]) == sweep {
			end++
		}
		for _, list := range [][]broker.Job{got, wanted} {
			if len(list) >= end {
				byID(list[at:end])
			}
		}
		at = end
	}
}

func byID(list []broker.Job) {
	slices.SortFunc(list, func(a, b broker.Job) int { return bytes.Compare(a.ID[:], b.ID[:]) })
}

func (p *player) sweep(j broker.Job) uint64 { return p.m.s.find(j.Ref()).sweep }

func (p *player) compareWorkers(b broker.Broker) {
	got, err := b.Workers(p.f.ctx, "")
	p.f.must("workers", err)
	wanted, err := p.m.Workers(p.f.ctx, "")
	p.f.must("workers of the model", err)
	type held struct {
		id     string
		leases int
	}
	heldBy := func(workers []broker.Worker) (all []held) {
		for _, w := range workers {
			all = append(all, held{w.ID, w.Leases})
		}
		slices.SortFunc(all, func(a, b held) int { return bytes.Compare([]byte(a.id), []byte(b.id)) })
		return all
	}
	same(p, "workers", heldBy(got), heldBy(wanted))
}

// slotsOf shows jobs as a script names them.
func slotsOf(ids []broker.ID) (slots []int) {
	for _, id := range ids {
		slots = append(slots, int(id[15])-1)
	}
	return slots
}
