//go:build linux

package proctest

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// forgery is a history of one job, whose operations come one after the other, and
// what is left of it, written by hand.
type forgery struct {
	ops  []*operation
	ends map[string]time.Duration
	left []broker.Job
	sums broker.Count
	now  time.Duration
}

// did adds an operation with its answer.
func (f *forgery) did(verb string, asked, got part) *operation {
	f.now += 10 * time.Millisecond
	o := &operation{part: asked, verb: verb, process: "p", call: f.now, ret: f.now + time.Millisecond, got: got, ttl: time.Minute}
	f.ops = append(f.ops, o)
	return o
}

func (f *forgery) enqueued() { f.did(doEnqueue, part{}, part{OK: true}); f.sums.Totals.Enqueued++ }

func (f *forgery) claimed(token broker.Token, attempt int) *operation {
	f.sums.Totals.Claimed++
	return f.did(doClaim, part{}, part{OK: true, Token: token, Attempt: attempt})
}

func (f *forgery) settled(kind broker.SettleKind, token broker.Token, then broker.State) *operation {
	return f.did(doSettle, part{Token: token, Kind: kind}, part{OK: true, State: then})
}

func (f *forgery) refused(kind broker.SettleKind, token broker.Token) {
	f.did(doSettle, part{Token: token, Kind: kind}, part{Lost: true})
}

// remains says how the job is at the end, in every way in which it can be seen.
func (f *forgery) remains(state broker.State, token broker.Token, attempt int, reason string) {
	f.did(doGet, part{}, part{OK: true, State: state, Token: token, Attempt: attempt})
	f.left = append(f.left, broker.Job{ID: historyID(0), State: state, Token: token, Attempt: attempt, MaxAttempts: historyMax, Reason: reason})
	switch state {
	case broker.Ready:
		f.sums.Ready++
	case broker.Done:
		f.sums.Done++
		f.sums.Totals.Acked++
	case broker.Dead:
		f.sums.Dead++
		f.sums.Totals.Died++
	case broker.Leased:
		f.sums.Leased++
	}
}

// expires lets the lease of a claim be short, and its time pass.
func (f *forgery) expires(claim *operation) {
	claim.ttl = time.Millisecond
	f.now += time.Second
}

// seenBy says what each checker finds.
func (f *forgery) seenBy() (orders, audit []string) {
	h := &history{ops: f.ops, ends: f.ends}
	s := &store{jobs: map[int][]broker.Job{}, counts: map[int]broker.Count{0: f.sums}}
	if len(f.left) > 0 {
		s.jobs[0] = f.left
	}
	return h.notLinearizable(10 * time.Second), h.audit(s).findings
}

// TestTheCheckersOfHistoriesNoticeWhatIsWrong gives both checkers histories that
// somebody made up: what is right passes, and what is wrong is found by those that
// can see it.
func TestTheCheckersOfHistoriesNoticeWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name          string
		orders, audit bool // who finds it
		forge         func(f *forgery)
	}{
		{"nothing is wrong", false, false, func(f *forgery) {
			f.enqueued()
			f.expires(f.claimed(1, 1))
			f.claimed(5, 2)
			f.refused(broker.Ack, 1)
			f.settled(broker.Nack, 5, broker.Ready)
			f.claimed(6, 3)
			f.settled(broker.Ack, 6, broker.Done)
			f.settled(broker.Ack, 6, broker.Done) // repeated
			f.remains(broker.Done, 6, 3, broker.ReasonAcked)
		}},
		{"nothing is wrong where nobody was answered", false, false, func(f *forgery) {
			f.enqueued()
			f.claimed(1, 1)
			f.settled(broker.Bury, 1, 0).ret = math.MaxInt64
			f.remains(broker.Dead, 1, 1, broker.ReasonBuried)
		}},
		{"nothing is wrong where a process that held the job was killed", false, false, func(f *forgery) {
			f.enqueued()
			f.claimed(1, 1)
			f.ends = map[string]time.Duration{"p": f.now}
			f.claimed(2, 2).process = "another"
			f.settled(broker.Bury, 2, broker.Dead)
			f.remains(broker.Dead, 2, 2, broker.ReasonBuried)
		}},
		{"two workers are told that theirs is the ack", true, true, func(f *forgery) {
			f.enqueued()
			f.expires(f.claimed(1, 1))
			f.settled(broker.Ack, 1, broker.Done)
			f.claimed(2, 2)
			f.settled(broker.Ack, 2, broker.Done)
			f.remains(broker.Done, 2, 2, broker.ReasonAcked)
		}},
		{"a job that was acknowledged is lost", true, true, func(f *forgery) {
			f.enqueued()
			f.did(doGet, part{}, part{})
		}},
		{"a stale token is accepted", true, true, func(f *forgery) {
			f.enqueued()
			f.expires(f.claimed(1, 1))
			f.claimed(2, 2)
			f.settled(broker.Release, 1, broker.Ready)
			f.remains(broker.Ready, 2, 1, broker.ReasonReleased)
		}},
		{"a stale token extends the lease of another", true, false, func(f *forgery) {
			f.enqueued()
			f.expires(f.claimed(1, 1))
			f.claimed(2, 2)
			f.did(doExtend, part{Token: 1}, part{OK: true})
			f.settled(broker.Bury, 2, broker.Dead)
			f.remains(broker.Dead, 2, 2, broker.ReasonBuried)
		}},
		{"a dead letter has attempts left", true, true, func(f *forgery) {
			f.enqueued()
			f.claimed(1, 1)
			f.settled(broker.Nack, 1, broker.Ready)
			f.remains(broker.Dead, 1, 1, broker.ReasonAttempts)
		}},
		{"a job runs once more than it may", true, true, func(f *forgery) {
			f.enqueued()
			for n := range broker.Token(3) {
				f.claimed(n+1, int(n)+1)
				f.settled(broker.Nack, n+1, broker.Ready)
			}
			f.claimed(4, 4)
			f.settled(broker.Nack, 4, broker.Dead)
			f.remains(broker.Dead, 4, 4, broker.ReasonAttempts)
		}},
		{"two leases have one token", true, true, func(f *forgery) {
			f.enqueued()
			f.expires(f.claimed(1, 1))
			f.claimed(1, 2)
			f.settled(broker.Bury, 1, broker.Dead)
			f.remains(broker.Dead, 1, 2, broker.ReasonBuried)
		}},
		{"a later lease has a smaller token", true, true, func(f *forgery) {
			f.enqueued()
			f.expires(f.claimed(2, 1))
			f.claimed(1, 2)
			f.settled(broker.Bury, 1, broker.Dead)
			f.remains(broker.Dead, 1, 2, broker.ReasonBuried)
		}},
		{"a lease ends before its time", true, false, func(f *forgery) {
			f.enqueued()
			f.claimed(1, 1)
			f.claimed(2, 2)
			f.settled(broker.Bury, 2, broker.Dead)
			f.remains(broker.Dead, 2, 2, broker.ReasonBuried)
		}},
		{"a done job is claimed", true, true, func(f *forgery) {
			f.enqueued()
			f.claimed(1, 1)
			f.settled(broker.Ack, 1, broker.Done)
			f.claimed(2, 2)
			f.remains(broker.Done, 2, 2, broker.ReasonAcked)
		}},
		{"a claim finds nothing though the job waits", true, false, func(f *forgery) {
			f.enqueued()
			f.did(doClaim, part{}, part{})
			f.claimed(1, 1)
			f.settled(broker.Ack, 1, broker.Done)
			f.remains(broker.Done, 1, 1, broker.ReasonAcked)
		}},
		{"a job is there that nobody enqueued", true, true, func(f *forgery) {
			f.sums.Totals.Enqueued++
			f.remains(broker.Ready, 0, 0, "")
		}},
		{"an enqueue adds what is there already", true, false, func(f *forgery) {
			f.enqueued()
			f.did(doEnqueue, part{}, part{OK: true})
			f.remains(broker.Ready, 0, 0, "")
		}},
		{"a deleted job is back", true, false, func(f *forgery) {
			f.enqueued()
			f.did(doDelete, part{}, part{OK: true})
			f.remains(broker.Ready, 0, 0, "")
		}},
		{"a job is in two lists", false, true, func(f *forgery) {
			f.enqueued()
			f.remains(broker.Ready, 0, 0, "")
			f.left = append(f.left, f.left[0])
		}},
		{"a counter of jobs is wrong", false, true, func(f *forgery) {
			f.enqueued()
			f.remains(broker.Ready, 0, 0, "")
			f.sums.Ready++
		}},
		{"a counter of what ever happened is wrong", false, true, func(f *forgery) {
			f.enqueued()
			f.claimed(1, 1)
			f.settled(broker.Ack, 1, broker.Done)
			f.remains(broker.Done, 1, 1, broker.ReasonAcked)
			f.sums.Totals.Claimed++
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &forgery{}
			c.forge(f)
			orders, audit := f.seenBy()
			if found := len(orders) > 0; found != c.orders {
				t.Errorf("that no order explains it was found: %v; want %v\n%s%s", found, c.orders, strings.Join(orders, "\n"), tell(f.ops))
			}
			if found := len(audit) > 0; found != c.audit {
				t.Errorf("the audit found %q; something was to be found: %v", audit, c.audit)
			}
		})
	}
}

// TestAHistoryThatIsNotCheckedInTimeIsAFailure: extensions at one time, each of
// which leaves another deadline, have too many orders.
func TestAHistoryThatIsNotCheckedInTimeIsAFailure(t *testing.T) {
	f := &forgery{}
	f.enqueued()
	f.claimed(1, 1)
	for range 40 {
		o := f.did(doExtend, part{Token: 1}, part{OK: true})
		o.call = f.ops[2].call
		o.ret = time.Hour
	}
	f.now = 2 * time.Hour
	f.did(doGet, part{}, part{})
	h := &history{ops: f.ops}
	wrong := h.notLinearizable(20 * time.Millisecond)
	if len(wrong) != 1 || !strings.Contains(wrong[0], "no answer within") {
		t.Errorf("found: %q", wrong)
	}
}
