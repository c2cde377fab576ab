package brokertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// flowBreakages are breakages of time and flow.
var flowBreakages = []breakage{
	{"claims cost nothing", func(r *rules) { r.charge = func(*store, *job) {} }, []string{"fairness", "ageing"}, true},
	{"a weight means nothing", func(r *rules) { r.cost = func(int) int64 { return fullTurn } }, []string{"fairness"}, true},
	{"a weight is rounded", func(r *rules) { r.cost = func(weight int) int64 { return max(fullTurn/int64(weight)>>10, 1) << 10 } }, []string{"fairness"}, false},
	{"an idle tenant saves its turns", func(r *rules) { r.rejoin = func(service, _ int64) int64 { return service } }, []string{"fairness"}, true},
	{"turns are remembered for ever", func(r *rules) { r.rest = func(*store, string, int32, []string) {} }, []string{"fairness"}, true},
	{"a tenant comes back as the last", func(r *rules) { r.rejoin = func(service, at int64) int64 { return max(service, at+fullTurn) } }, []string{"fairness"}, true},
	{"age is ignored", func(r *rules) { r.age = func(int64, int32, int64) int64 { return 0 } }, []string{"ageing"}, true},
	{"age is all", func(r *rules) { r.age = func(place int64, _ int32, _ int64) int64 { return place } }, []string{"ageing"}, true},
	{"age runs over", func(r *rules) {
		r.age = func(place int64, priority int32, step int64) int64 { return place - int64(priority)*step }
	}, []string{"ageing"}, false},

	{"a limit counts nothing", func(r *rules) { r.counts = func(*broker.Limit, *job, *job) bool { return false } }, []string{"limits", "reasons"}, true},
	{"a limit counts all in one", func(r *rules) {
		r.counts = func(l *broker.Limit, o, _ *job) bool { return slices.Contains(l.Tasks, o.Task) }
	}, []string{"limits"}, true},
	{"a limit counts each task by itself", func(r *rules) {
		r.counts = func(l *broker.Limit, o, j *job) bool { return o.Task == j.Task && countsHere(l, o, j) }
	}, []string{"limits"}, true},
	{"a limit counts each claim for ever", func(r *rules) {
		r.valid = func(*job, time.Time) bool { return true }
	}, []string{"limits"}, true},
	{"a rate allows one more", func(r *rules) {
		r.earliest = func(b rate, tat, now *big.Rat) *big.Rat {
			return new(big.Rat).Sub(rate.earliest(b, tat, now), b.interval)
		}
	}, []string{"rates", "reasons"}, true},
	{"a rate allows one less", func(r *rules) {
		r.earliest = func(b rate, tat, now *big.Rat) *big.Rat {
			return new(big.Rat).Add(rate.earliest(b, tat, now), b.interval)
		}
	}, []string{"rates"}, true},
	{"a rate forgets what was claimed", func(r *rules) {
		r.spend = func(b rate, _, now *big.Rat) *big.Rat { return new(big.Rat).Add(now, b.interval) }
	}, []string{"rates"}, true},
	{"a rate pays for idle time", func(r *rules) {
		r.spend = func(b rate, tat, _ *big.Rat) *big.Rat { return new(big.Rat).Add(tat, b.interval) }
	}, []string{"rates"}, true},
	{"a rate rounds its interval down", func(r *rules) { r.spend = rounded(0) }, []string{"rates"}, false},
	{"a rate rounds its interval up", func(r *rules) { r.spend = rounded(1) }, []string{"rates"}, false},

	{"a group is held while its job runs, and no longer", func(r *rules) {
		right := r.holds
		r.holds = func(o, j *job) bool { return o.State == broker.Leased && right(o, j) }
	}, []string{"ordered groups"}, true},
	{"a group is held within a task", func(r *rules) {
		right := r.holds
		r.holds = func(o, j *job) bool { return o.Task == j.Task && right(o, j) }
	}, []string{"ordered groups"}, true},
	{"a group holds up jobs of no group", func(r *rules) {
		r.holds = func(o, j *job) bool { return o.started && o.Ordered }
	}, []string{"ordered groups"}, true},
	{"a group is held by a job that has ended", func(r *rules) { r.leave = func(*job) {} }, []string{"ordered groups"}, true},
	{"a holder comes back behind its group", func(r *rules) {
		r.before = func(s *store, a, b *job) bool {
			if a.Priority != b.Priority {
				return a.Priority > b.Priority
			}
			if x, y := s.served(a), s.served(b); x != y {
				return x < y
			}
			return mark{a.RunAt, a.place}.before(mark{b.RunAt, b.place})
		}
	}, []string{"ordered groups"}, true},

	{"a batch hears nothing", func(r *rules) { r.ended = func(*store, *job) {} }, []string{"batches"}, true},
	{"a batch hears of the done alone", func(r *rules) {
		right := r.ended
		r.ended = func(s *store, j *job) {
			if j.State == broker.Done {
				right(s, j)
			}
		}
	}, []string{"batches"}, true},
	{"a batch is complete with its first member", func(r *rules) {
		right := r.ended
		r.ended = func(s *store, j *job) {
			if c := s.find(broker.Ref{Queue: j.Queue, ID: j.Batch}); c != nil && c.waits != nil {
				c.waits = map[uint32]bool{j.BatchOrdinal: true}
			}
			right(s, j)
		}
	}, []string{"batches"}, true},

	{"a capacity counts what is ready", func(r *rules) {
		r.depth = func(s *store, queue string) int64 { return int64(len(s.in(queue, broker.Ready))) }
	}, []string{"capacity", "batches"}, true},
	{"a capacity takes one too many", func(r *rules) {
		r.over = func(c *broker.Capacity, n, bytes int64) bool { return over(c, n-1, bytes) }
	}, []string{"capacity"}, true},
	{"a capacity is reached one too early", func(r *rules) {
		r.over = func(c *broker.Capacity, n, bytes int64) bool { return over(c, n+1, bytes) }
	}, []string{"capacity"}, true},
	{"a capacity counts no bytes", func(r *rules) {
		r.over = func(c *broker.Capacity, n, _ int64) bool { return over(c, n, 0) }
	}, []string{"capacity"}, false},
	{"the newest is dropped", func(r *rules) { r.oldest = func(s *store, a, b *job) bool { return s.oldest(b, a) } }, []string{"capacity"}, true},
	{"what waits longest is dropped, whatever its priority", func(r *rules) {
		r.oldest = func(s *store, a, b *job) bool { return s.mark(a).before(s.mark(b)) }
	}, []string{"capacity"}, true},

	{"a repeat changes nothing", func(r *rules) {
		r.repeat = func(*store, string, *keyRecord, *broker.NewJob) {}
	}, []string{"key repeats"}, true},
	{"a debounce is a replacement", func(r *rules) {
		right := r.repeat
		r.repeat = func(s *store, queue string, k *keyRecord, n *broker.NewJob) {
			c := *n
			c.KeyRepeat = min(c.KeyRepeat, broker.RepeatReplace)
			right(s, queue, k, &c)
		}
	}, []string{"key repeats"}, true},
	{"a replacement is a debounce", func(r *rules) {
		right := r.repeat
		r.repeat = func(s *store, queue string, k *keyRecord, n *broker.NewJob) {
			c := *n
			c.KeyRepeat = 2 * min(c.KeyRepeat, 1)
			right(s, queue, k, &c)
		}
	}, []string{"key repeats"}, true},
	{"a repeat keeps the digest of the first payload", func(r *rules) {
		right := r.repeat
		r.repeat = func(s *store, queue string, k *keyRecord, n *broker.NewJob) {
			payload := k.payload
			right(s, queue, k, n)
			k.payload = payload
		}
	}, []string{"key repeats"}, true},

	{"a declaration adds to what was declared", func(r *rules) {
		right := r.change
		r.change = func(f *flow, c broker.Change) {
			before := maps.Clone(f.settings)
			right(f, c)
			for name, l := range before {
				if _, there := f.settings[name]; !there && c.Declare {
					f.settings[name] = l
				}
			}
		}
	}, []string{"settings", "schedules"}, true},
	{"a declaration wins over an operator", func(r *rules) {
		right := r.change
		r.change = func(f *flow, c broker.Change) {
			right(f, c)
			for i := range c.Set {
				if name := nameOf(&c.Set[i]); c.Declare {
					f.put(name, layers{declared: f.settings[name].declared})
				}
			}
		}
	}, []string{"settings", "schedules"}, true},
	{"an operator's change cannot be cleared", func(r *rules) {
		right := r.change
		r.change = func(f *flow, c broker.Change) { c.Clear = nil; right(f, c) }
	}, []string{"settings", "limits"}, true},
	{"the last declaration wins, however old its start", func(r *rules) { r.late = func(_, _ start) bool { return false } }, []string{"settings"}, true},
	{"a start declares once", func(r *rules) {
		r.late = func(last, began start) bool {
			return began.at.Before(last.at) || began.id == last.id && !began.id.IsZero()
		}
	}, []string{"settings"}, true},
	{"nobody is told of settings", func(r *rules) {
		r.told = func(*store, string, map[broker.SettingName]layers, map[broker.SettingName]layers) {}
	}, []string{"watch"}, false},
	{"a pause is told to nobody", func(r *rules) {
		right := r.told
		r.told = func(s *store, queue string, before, now map[broker.SettingName]layers) {
			now = maps.Clone(now)
			for name, l := range now {
				l.paused = before[name].paused
				now[name] = l
			}
			right(s, queue, before, now)
		}
	}, []string{"watch"}, false},
	{"a declaration ends a pause", func(r *rules) {
		right := r.change
		r.change = func(f *flow, c broker.Change) {
			right(f, c)
			for name, l := range f.settings {
				l.paused = l.paused && !c.Declare
				f.settings[name] = l
			}
		}
	}, []string{"schedules"}, true},
	{"a redeclaration is always a change", func(r *rules) {
		right := r.change
		r.change = func(f *flow, c broker.Change) {
			for name, l := range f.settings {
				if c.Declare && l.declared != nil {
					copied := *l.declared
					copied.Weight++
					l.declared = &copied
					f.settings[name] = l
				}
			}
			right(f, c)
		}
	}, []string{"settings"}, true},

	{"a tick is won from anywhere", func(r *rules) {
		right := r.wins
		r.wins = func(s *store, t broker.Tick, now time.Time) bool {
			t.Due = s.flow(t.Queue).cursors[t.Schedule]
			return right(s, t, now)
		}
	}, []string{"schedules"}, true},
	{"a tick is won before its time", func(r *rules) {
		right := r.wins
		r.wins = func(s *store, t broker.Tick, _ time.Time) bool { return right(s, t, never) }
	}, []string{"schedules"}, true},
	{"a tick is won when its time is over", func(r *rules) {
		right := r.wins
		r.wins = func(s *store, t broker.Tick, now time.Time) bool { return right(s, t, now.Add(-1)) }
	}, []string{"schedules"}, false},
	{"a paused schedule fires", func(r *rules) {
		r.wins = func(s *store, t broker.Tick, now time.Time) bool {
			return s.setting(t.Queue, broker.ScheduleSetting, t.Schedule) != nil &&
				s.flow(t.Queue).cursors[t.Schedule].Equal(t.Due) && !now.Before(t.Due) && (t.Next.IsZero() || t.Next.After(t.Due))
		}
	}, []string{"schedules"}, true},
	{"a cursor is never reset", func(r *rules) { r.resetCursors = func(*flow, map[broker.SettingName]layers) {} }, []string{"schedules"}, true},
	{"a cursor is reset by every change", func(r *rules) {
		r.resetCursors = func(f *flow, _ map[broker.SettingName]layers) { clear(f.cursors) }
	}, []string{"schedules"}, true},

	{"retention settings are ignored", func(r *rules) {
		right := r.keep
		r.keep = func(s *store, j *job) time.Duration {
			f := s.flow(j.Queue)
			settings := f.settings
			f.settings = nil
			defer func() { f.settings = settings }()
			return right(s, j)
		}
	}, []string{"retention settings"}, true},
	{"a retention setting goes before the job's own", func(r *rules) {
		right := r.keep
		r.keep = func(s *store, j *job) time.Duration {
			c := *j
			if s.retention(j) != (broker.Retention{}) {
				c.Retain = 0
			}
			return right(s, &c)
		}
	}, []string{"retention settings"}, true},
}

// rounded spends an interval in whole nanoseconds.
func rounded(up int64) func(b rate, tat, now *big.Rat) *big.Rat {
	return func(b rate, tat, now *big.Rat) *big.Rat {
		n := new(big.Int).Div(b.interval.Num(), b.interval.Denom())
		if !b.interval.IsInt() {
			n.Add(n, big.NewInt(up))
		}
		b.interval = new(big.Rat).SetInt(n)
		return rate.spend(b, tat, now)
	}
}

// flowLies are lies about time and flow.
var flowLies = []lie{
	{"every tick is won", "schedules", func(m *Model) broker.Broker { return braggart{m} }},
	{"settings hide what is declared below them", "settings", func(m *Model) broker.Broker { return shallow{m} }},
	{"what is full is not said", "capacity", func(m *Model) broker.Broker { return curt{m} }},
	{"a change is made setting by setting", "settings", func(m *Model) broker.Broker { return piecemeal{m} }},
	{"a change is made whatever its revision", "settings", func(m *Model) broker.Broker { return careless{m} }},
	{"no holder is named", "reasons", func(m *Model) broker.Broker { return discreet{m} }},
	{"a follow-up needs room", "capacity", func(m *Model) broker.Broker { return strict{m} }},
}

type braggart struct{ *Model }

func (b braggart) Tick(ctx context.Context, c broker.Call, t broker.Tick) (bool, time.Time, error) {
	_, now, err := b.Model.Tick(ctx, c, t)
	return err == nil, now, err
}

type shallow struct{ *Model }

func (b shallow) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	all, err := b.Model.Settings(ctx, queue)
	for i := range all {
		all[i].Declared = nil
	}
	return all, err
}

type curt struct{ *Model }

func (b curt) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	answers, err := b.Model.Enqueue(ctx, c, queue, jobs)
	if errors.Is(err, broker.ErrFull) {
		err = fmt.Errorf("%w: sorry", broker.ErrFull)
	}
	return answers, err
}

type piecemeal struct{ *Model }

func (b piecemeal) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	for i := range change.Set {
		if err := b.Model.Configure(ctx, c, queue, broker.Change{Set: change.Set[i : i+1]}); err != nil {
			return err
		}
	}
	return b.Model.Configure(ctx, c, queue, change)
}

type careless struct{ *Model }

func (b careless) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	change.Set = slices.Clone(change.Set)
	for i := range change.Set {
		change.Set[i].Revision = 0
	}
	return b.Model.Configure(ctx, c, queue, change)
}

type discreet struct{ *Model }

func (b discreet) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	e, err := b.Model.Explain(ctx, r)
	e.Holders = nil
	return e, err
}

type strict struct{ *Model }

func (b strict) Settle(ctx context.Context, c broker.Call, s []broker.Settlement) ([]broker.Settled, error) {
	for i := range s {
		for _, f := range s[i].FollowUps {
			b.s.mu.Lock()
			err := b.s.room(f.Queue, []broker.NewJob{f.Job})
			b.s.mu.Unlock()
			if err != nil {
				return nil, err
			}
		}
	}
	return b.Model.Settle(ctx, c, s)
}

// TestTheSuiteNoticesARestart runs a broker that begins no epoch when the
// machine restarts, and one that begins one whenever all clients were closed.
func TestTheSuiteNoticesARestart(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart func(m *Model)
		open    func(m *Model)
	}{
		{"none after a restart", func(*Model) {}, func(*Model) {}},
		{"one with each client", func(*Model) {}, func(m *Model) { m.s.reboot = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := noticed(t, []string{"rates"}, func() Harness {
				m := NewModel(nil)
				h := modelHarness(m)
				h.Restart = func() { c.restart(m) }
				h.Open = func() broker.Broker { c.open(m); return m.Open() }
				return h
			})
			if failed["rates"] == 0 {
				t.Error("no case failed")
			}
		})
	}
}
