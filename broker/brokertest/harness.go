package brokertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
)

// Harness is one empty store under test, and what the suite may do to it.
type Harness struct {
	// Open returns another client of the store, as another process would have
	// it. The suite closes it. It may fail the test, and is never nil.
	Open func() broker.Broker
	// Reopen says that what the store holds outlives the last of its clients.
	Reopen bool

	// Restart restarts the machine, of which nothing that was written is lost.
	// The suite has closed all clients, or the processes of those that are open
	// end with it, and Kill is called for them all the same. A store that may have forgotten its last
	// claims then begins a new epoch with its next claim, in which every rate's
	// bucket starts empty. nil: it cannot, or the store does not outlive it.
	Restart func()
	// Kill ends the process of a client, which has no call under way: it does
	// nothing any more. Another client that is then opened finds it gone. The
	// suite closes it afterwards, whatever comes of that. nil: it cannot.
	Kill func(b broker.Broker)

	// Clock is the clock that the broker reads. nil: it reads package time, or
	// that of the machine.
	Clock Clock
	// Advance lets time pass on that clock. nil: the suite sleeps, and leaves
	// out the cases that would take long.
	Advance func(d time.Duration)
	// StepWall moves the wall clock alone, also backwards. nil: it cannot.
	StepWall func(d time.Duration)
	// Frozen says that the clock moves by Advance alone, so that a call which
	// waits for a due time would wait for ever.
	Frozen bool
	// Repeats says that histories make their calls again, with their ids, and want
	// to be answered the same: for a broker that has Caps.Retry on a clock that
	// stands still during a call.
	Repeats bool
	// Grain is to what the store keeps times. Histories of a queue that moves let
	// so much pass between two steps, since of what is within one the order of the
	// jobs' numbers is all that arrives.
	Grain time.Duration
	// Unordered says that histories compare each list as a set: for a store that is
	// saved and loaded in between, which keeps no order of what entered a list in one
	// commit, or by the wall clock. The order of claims is compared all the same.
	Unordered bool
	// Idle returns when every other goroutine waits. nil: nothing can tell.
	Idle func()

	// Check is called at the end of every case, after the suite's own checks,
	// while the clients are open. nil: there is no more to check.
	Check func(t testing.TB)
}

// Case is one rule of the contract.
type Case struct {
	Topic string
	Name  string // a sentence
	Run   func(t testing.TB, h Harness)
}

// Cases returns the whole suite, for who wants to run it in a way that neither
// Run nor RunInBubbles does. Each case wants a fresh store.
func Cases() []Case {
	var all []Case
	for _, topic := range []struct {
		name  string
		rules []rule
	}{
		{"enqueue", enqueueRules}, {"sizes", sizeRules}, {"fidelity", fidelityRules},
		{"order", orderRules}, {"due", dueRules}, {"claim", claimRules}, {"lease", leaseRules},
		{"settle", settleRules}, {"attempts", attemptRules}, {"keys", keyRules},
		{"retention", retentionRules}, {"follow-ups", followUpRules},
		{"cancel", cancelRules}, {"commands", commandRules}, {"pause", pauseRules},
		{"counts", countRules}, {"list", listRules}, {"workers", workerRules},
		{"explain", explainRules}, {"watch", watchRules}, {"wait", waitRules},
		{"close", closeRules}, {"clients", clientRules}, {"clock", clockRules}, {"call ids", callRules},
		{"settings", settingRules}, {"limits", limitRules}, {"rates", rateRules},
		{"ordered groups", groupRules}, {"fairness", fairRules}, {"ageing", ageRules},
		{"capacity", capacityRules}, {"key repeats", repeatRules}, {"batches", batchRules},
		{"schedules", scheduleRules}, {"retention settings", retentionSettingRules}, {"reasons", reasonRules},
	} {
		for _, r := range topic.rules {
			all = append(all, r.of(topic.name))
		}
	}
	return all
}

// rule is a case as its topic's file writes it.
type rule struct {
	name  string
	check func(f *fixture)
}

func (r rule) of(topic string) Case {
	return Case{topic, r.name, func(t testing.TB, h Harness) {
		f := begin(t, h)
		r.check(f)
		f.finish()
	}}
}

// Run runs every case against a fresh store, each as a subtest.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	runCases(t, func(t *testing.T, c Case) { c.Run(t, open(t)) })
}

// RunInBubbles is Run with every case in a testing/synctest bubble of its own:
// for brokers that read package time and block on nothing outside the bubble.
// Where the harness says nothing of time, time is the bubble's.
func RunInBubbles(t *testing.T, open func(t *testing.T) Harness) {
	runCases(t, func(t *testing.T, c Case) {
		skipped := false
		synctest.Test(t, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			c.Run(t, bubble(open(t)))
		})
		if skipped {
			t.SkipNow() // a bubble does not tell
		}
	})
}

// bubble fills in what a harness can do inside a bubble.
func bubble(h Harness) Harness {
	if h.Clock == nil {
		h.Clock = packageClock{time.Now()}
	}
	if h.Advance == nil {
		h.Advance = func(d time.Duration) { time.Sleep(d); synctest.Wait() }
	}
	if h.Idle == nil {
		h.Idle = synctest.Wait
	}
	return h
}

func runCases(t *testing.T, run func(t *testing.T, c Case)) {
	all := Cases()
	for len(all) > 0 {
		topic := all[0].Topic
		end := slices.IndexFunc(all, func(c Case) bool { return c.Topic != topic })
		if end < 0 {
			end = len(all)
		}
		t.Run(topic, func(t *testing.T) {
			for _, c := range all[:end] {
				t.Run(c.Name, func(t *testing.T) { run(t, c) })
			}
		})
		all = all[end:]
	}
}
