package brokertest

import (
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// turn is how far the tenants of one queue and priority have been served.
type turn struct {
	at      int64            // where the last claim began
	service map[string]int64 // where each tenant's next one begins at the earliest
}

// fullTurn is what a claim costs a tenant of weight 1; another weight divides
// it, to the nearest.
const fullTurn = 720_720

// flowRules are the rules about time and flow that a self-test breaks.
type flowRules struct {
	cost   func(weight int) int64                                       // of one claim
	rejoin func(service, at int64) int64                                // where a tenant's next claim begins
	charge func(s *store, j *job)                                       // the claim of j is charged
	rest   func(s *store, queue string, priority int32, tasks []string) // a claim of such jobs is over
	age    func(place int64, priority int32, step int64) int64          // by which jobs of a queue that ages are ordered

	counts       func(l *broker.Limit, o, j *job) bool         // o's lease counts where j wants one
	earliest     func(b rate, tat, now *big.Rat) *big.Rat      // when a rate allows the next claim
	spend        func(b rate, tat, now *big.Rat) *big.Rat      // what a claim makes of tat
	holds        func(o, j *job) bool                          // o holds j's ordered group
	leave        func(j *job)                                  // j is final: it gives back its ordered group
	ended        func(s *store, j *job)                        // j is final or gone: its batch is told
	depth        func(s *store, queue string) int64            // what a capacity counts
	over         func(c *broker.Capacity, n, bytes int64) bool // that is too much
	oldest       func(s *store, a, b *job) bool                // a is dropped before b
	repeat       func(s *store, queue string, k *keyRecord, n *broker.NewJob)
	change       func(f *flow, c broker.Change)
	wins         func(s *store, t broker.Tick, now time.Time) bool
	late         func(last, began start) bool
	told         func(s *store, queue string, before, now map[broker.SettingName]layers)
	resetCursors func(f *flow, next map[broker.SettingName]layers)
}

func rightFlowRules() flowRules {
	return flowRules{
		cost:   func(weight int) int64 { return max((fullTurn+int64(weight)/2)/int64(weight), 1) },
		rejoin: func(service, at int64) int64 { return max(service, at) },
		charge: (*store).chargeTurn,
		rest:   (*store).restTurn,
		age:    aged,

		counts:   countsHere,
		earliest: rate.earliest,
		spend:    rate.spend,
		holds:    func(o, j *job) bool { return o.started && o.Queue == j.Queue && o.Ordered && o.group() == j.group() },
		leave:    func(j *job) { j.started = false },
		ended:    (*store).ended,
		depth:    (*store).depth,
		over:     over,
		oldest:   (*store).oldest,
		repeat:   (*store).repeat,
		change:   (*flow).change,
		wins:     (*store).wins,

		late:         late,
		told:         (*store).noteSettings,
		resetCursors: (*flow).resetCursors,
	}
}

// before reports whether a is claimed before b, of the same queue: by priority,
// then the tenant that was served least, then by place. In a queue that ages,
// by age first.
func (s *store) before(a, b *job) bool {
	if set := s.setting(a.Queue, broker.AgeingSetting, ""); set != nil {
		x, y := s.rules.age(s.mark(a).at.UnixNano(), a.Priority, int64(set.Ageing)), s.rules.age(s.mark(b).at.UnixNano(), b.Priority, int64(set.Ageing))
		if x != y {
			return x < y
		}
	}
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if x, y := s.served(a), s.served(b); x != y {
		return x < y
	}
	return s.ahead(a, b)
}

// aged is place - priority*step, kept within an int64.
func aged(place int64, priority int32, step int64) int64 {
	x := new(big.Int).Mul(big.NewInt(int64(priority)), big.NewInt(step))
	x.Sub(big.NewInt(place), x)
	switch {
	case x.IsInt64():
		return x.Int64()
	case x.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// mark is j's place among the ready jobs. A job that comes back while it holds
// its ordered group goes before the others of its lane.
func (s *store) mark(j *job) mark {
	first := mark{j.RunAt, j.place}
	if !j.Ordered || !j.started {
		return first
	}
	for _, o := range s.jobs {
		if m := (mark{o.RunAt, o.place}); o.State == broker.Ready && sameLane(o, j) && m.before(first) {
			first = m
		}
	}
	return first
}

// ahead reports whether a has a place before b's.
func (s *store) ahead(a, b *job) bool {
	x, y := s.mark(a), s.mark(b)
	return x.before(y) || x == y && a.place != x.seq // a has taken b's
}

func sameLane(a, b *job) bool {
	return a.Queue == b.Queue && a.Task == b.Task && a.Priority == b.Priority &&
		a.Tenant == b.Tenant && a.Group == b.Group && a.Ordered == b.Ordered
}

func (s *store) turn(j *job) *turn {
	f := s.flow(j.Queue)
	if f.turns[j.Priority] == nil {
		f.turns[j.Priority] = &turn{service: map[string]int64{}}
	}
	return f.turns[j.Priority]
}

// served is where the next claim of j's tenant begins.
func (s *store) served(j *job) int64 {
	t := s.turn(j)
	return s.rules.rejoin(t.service[j.Tenant], t.at)
}

func (s *store) chargeTurn(j *job) {
	weight := 1
	if set := s.setting(j.Queue, broker.WeightSetting, j.Tenant); set != nil {
		weight = set.Weight
	}
	t := s.turn(j)
	t.at = s.served(j)
	t.service[j.Tenant] = t.at + s.rules.cost(weight)
}

// restTurn forgets who was served how much when a claim leaves nothing ready, or
// nothing that it or a live worker would take.
func (s *store) restTurn(queue string, priority int32, tasks []string) {
	workers, same, wanted := s.workers(queue), false, false
	for _, j := range s.in(queue, broker.Ready) {
		if s.late(j) {
			continue
		}
		same = same || j.Priority == priority
		wanted = wanted || canRun(tasks, j.Task) || slices.ContainsFunc(workers, func(w broker.Worker) bool { return canRun(w.Tasks, j.Task) })
	}
	if same && wanted {
		return
	}
	t := s.flow(queue).turns[priority]
	if t == nil {
		return // a broken rule charges nobody
	}
	for _, service := range t.service {
		t.at = max(t.at, service)
	}
}
