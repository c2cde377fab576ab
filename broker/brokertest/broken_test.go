package brokertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
)

// breakage is a broker that keeps all of the contract but one thing.
type breakage struct {
	name   string
	broken func(r *rules)
	topics []string // some of those in which the suite has to notice
	seen   bool     // random histories notice as well
}

var breakages = []breakage{
	{"the token does not grow", func(r *rules) { r.token = func(*store, *job) uint64 { return 1 } }, []string{"lease", "settle", "attempts"}, true},
	{"the token shrinks", func(r *rules) { r.token = func(_ *store, j *job) uint64 { return 1000 - j.claims } }, []string{"lease"}, true},
	{"a token is given again to a job with the id of one that is gone", func(r *rules) { r.token = func(_ *store, j *job) uint64 { return j.claims } }, []string{"lease"}, false},
	{"a key is never freed", func(r *rules) { r.free = func(*store, *job) {} }, []string{"keys"}, true},
	{"a key is freed by who does not hold it", func(r *rules) {
		r.free = func(s *store, j *job) { delete(s.keys, keyName{j.Queue, j.Task, j.Key}) }
	}, []string{"keys"}, true},
	{"priority is ignored", func(r *rules) {
		r.before = func(s *store, a, b *job) bool { return s.mark(a).before(s.mark(b)) }
	}, []string{"order"}, true},
	{"priority is the wrong way round", func(r *rules) {
		right := r.before
		r.before = func(s *store, a, b *job) bool {
			if a.Priority != b.Priority {
				return a.Priority < b.Priority
			}
			return right(s, a, b)
		}
	}, []string{"order", "due"}, true},
	{"the last comes first", func(r *rules) {
		right := r.before
		r.before = func(s *store, a, b *job) bool { return right(s, b, a) }
	}, []string{"order"}, true},
	{"the order is that of the ids", func(r *rules) {
		r.before = func(_ *store, a, b *job) bool { return a.ID.String() < b.ID.String() }
	}, []string{"order"}, true},
	{"a counter is lost", func(r *rules) { r.tally = func(*int64) {} }, []string{"counts", "attempts"}, true},
	{"a counter counts double", func(r *rules) { r.tally = func(n *int64) { *n += 2 } }, []string{"counts"}, true},
	{"a job is due a little early", func(r *rules) {
		r.due = func(now, at time.Time) bool { return !now.Add(2 * time.Millisecond).Before(at) }
	}, []string{"due"}, false},
	{"a job is due a little late", func(r *rules) {
		r.due = func(now, at time.Time) bool { return now.After(at) }
	}, []string{"due"}, false},
	{"a job is never due", func(r *rules) { r.due = func(now, at time.Time) bool { return false } }, []string{"due", "order"}, true},
	{"a lease never ends", func(r *rules) { r.valid = func(*job, time.Time) bool { return true } }, []string{"lease", "attempts"}, true},
	{"a lease ends at half its time", func(r *rules) {
		r.valid = func(j *job, now time.Time) bool {
			return now.Before(j.ClaimedAt.Add(j.LeaseExpiresAt.Sub(j.ClaimedAt) / 2))
		}
	}, []string{"lease"}, true},
	{"a done job is dropped though it has a result", func(r *rules) {
		right := r.keep
		r.keep = func(s *store, j *job) time.Duration {
			if j.State == broker.Done {
				return 0
			}
			return right(s, j)
		}
	}, []string{"retention", "fidelity"}, true},
	{"a finished job is never dropped", func(r *rules) {
		r.keep = func(*store, *job) time.Duration { return -1 }
	}, []string{"retention", "settle"}, true},
	{"a snooze uses the attempt", func(r *rules) { r.back = func(*job) {} }, []string{"settle", "attempts"}, true},
	{"nobody who waits is woken", func(r *rules) { r.wake = func(*store) {} }, []string{"wait"}, false},
}

// noticed runs the cases of some topics, nil for all, and counts those that
// failed by topic.
func noticed(t *testing.T, topics []string, harness func() Harness) map[string]int {
	t.Helper()
	failed := map[string]int{}
	for _, c := range Cases() {
		if topics != nil && !slices.Contains(topics, c.Topic) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			failures, _ := recorded(t, func(t testing.TB) { c.Run(t, bubble(harness())) })
			if len(failures) > 0 {
				failed[c.Topic]++
			}
		})
	}
	return failed
}

func TestTheSuiteNoticesABrokenBroker(t *testing.T) {
	for _, b := range slices.Concat(breakages, flowBreakages) {
		t.Run(b.name, func(t *testing.T) {
			failed := noticed(t, b.topics, func() Harness {
				m := NewModel(nil)
				b.broken(&m.s.rules)
				return modelHarness(m)
			})
			for _, topic := range b.topics {
				if failed[topic] == 0 {
					t.Errorf("no case of %q failed", topic)
				}
			}
		})
	}
}

func TestTheSuiteNoticesALie(t *testing.T) {
	for _, l := range slices.Concat(lies, flowLies) {
		t.Run(l.name, func(t *testing.T) {
			failed := noticed(t, []string{l.topic}, func() Harness {
				m := NewModel(nil)
				return Harness{Open: func() broker.Broker { return l.tell(m.Open()) }, Reopen: true}
			})
			if failed[l.topic] == 0 {
				t.Errorf("no case of %q failed", l.topic)
			}
		})
	}
}

func TestTheSuiteFailsNobodyWhoKeepsTheContract(t *testing.T) {
	if failed := noticed(t, nil, func() Harness { return modelHarness(NewModel(nil)) }); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}

func TestHistoriesNoticeABrokenBroker(t *testing.T) {
	for _, b := range slices.Concat(breakages, flowBreakages) {
		if !b.seen {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			historiesNotice(t, func() Harness { return manualHarness(b.broken) })
		})
	}
}

// historiesNotice fails the test unless one of some histories fails.
func historiesNotice(t *testing.T, harness func() Harness) {
	t.Helper()
	on := func(t *testing.T, run func(t *testing.T, h Harness)) {
		t.Run("history", func(t *testing.T) { run(t, harness()) })
	}
	const histories = 60
	for seed := range uint64(histories) {
		if play(t, newScript(seed), on) != "" {
			return
		}
	}
	t.Errorf("none of %d histories noticed", histories)
}

// TestHistoriesNoticeAMachine runs brokers that go wrong when the wall clock
// steps, the machine restarts, or a process ends.
func TestHistoriesNoticeAMachine(t *testing.T) {
	for name, broken := range map[string]func(m *Model, h *Harness){
		"time goes on with the wall clock": func(m *Model, h *Harness) {
			step := h.StepWall
			h.StepWall = func(d time.Duration) { step(d); m.s.start -= d }
		},
		"time goes on from the wall clock after a restart": func(m *Model, h *Harness) {
			restart := h.Restart
			h.Restart = func() { restart(); m.s.start -= h.Clock.Wall().Sub(m.s.now()) }
		},
		"a restart leaves rates as they are": func(m *Model, h *Harness) {
			restart := h.Restart
			h.Restart = func() { restart(); m.s.reboot = false }
		},
		"the leases of a killed process go on": func(_ *Model, h *Harness) {
			open := h.Open
			h.Open = func() broker.Broker { return &survivor{Model: open().(*Model)} }
			h.Kill = func(b broker.Broker) { b.(*survivor).killed = true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			historiesNotice(t, func() Harness {
				m, h := manual()
				broken(m, &h)
				return h
			})
		})
	}
}

// survivor is a client that holds on to its leases when it is killed.
type survivor struct {
	*Model
	killed bool
}

func (b *survivor) Close() error {
	if b.killed {
		return nil
	}
	return b.Model.Close()
}

func TestAFailingHistoryIsMadeShort(t *testing.T) {
	on := func(t *testing.T, run func(t *testing.T, h Harness)) {
		t.Run("history", func(t *testing.T) {
			run(t, manualHarness(func(r *rules) { r.back = func(*job) {} }))
		})
	}
	for seed := range uint64(60) {
		script := newScript(seed)
		failure := play(t, script, on)
		if failure == "" {
			continue
		}
		short, failure := shrink(t, script, failure, on)
		if len(short) > 4 || failure == "" { // an enqueue, a claim, a snooze or release, and what is in between
			t.Errorf("seed %d: %d steps are left of %d: %v", seed, len(short), len(script), short)
		}
		return
	}
	t.Error("no history failed")
}
