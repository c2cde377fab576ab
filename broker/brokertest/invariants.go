package brokertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spoolq/spool/broker"
)

// checkInvariants reads the whole store through the contract and fails the case
// when what it says of itself does not fit together.
func checkInvariants(f *fixture, b broker.Broker) {
	f.Helper()
	counts, err := b.Counts(f.ctx, "")
	f.must("counts", err)
	if !slices.IsSortedFunc(counts, func(a, b broker.Count) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Task, b.Task))
	}) {
		f.Errorf("counts are not sorted by queue and task: %+v", counts)
	}
	recount := map[taskName]*broker.Count{}
	for _, c := range counts {
		name := taskName{c.Queue, c.Task}
		if recount[name] != nil {
			f.Errorf("%v is counted twice", name)
		}
		recount[name] = &broker.Count{}
	}
	seen := map[broker.Ref]broker.State{}
	bytes := map[string]int64{}
	for name := range recount {
		checkQueue(f, b, name.queue, seen, recount, bytes)
	}
	for _, c := range counts {
		checkCount(f, c, recount[taskName{c.Queue, c.Task}])
	}
	checkDepths(f, counts, bytes)
}

// checkQueue lists every state of a queue and counts what it finds. A queue
// that was counted before, for another task, is passed over.
func checkQueue(f *fixture, b broker.Broker, queue string, seen map[broker.Ref]broker.State, recount map[taskName]*broker.Count, bytes map[string]int64) {
	f.Helper()
	for ref := range seen {
		if ref.Queue == queue {
			return
		}
	}
	for _, s := range broker.States {
		jobs := f.list(b, broker.Filter{Queue: queue, States: []broker.State{s}}, broker.MaxPageJobs)
		for i := range jobs {
			j := &jobs[i]
			if old := seen[j.Ref()]; old != 0 {
				f.Errorf("%v is listed as %v and as %v", j.Ref(), old, s)
			}
			seen[j.Ref()] = s
			if j.State != s {
				f.Errorf("%v is listed as %v and says %v", j.Ref(), s, j.State)
			}
			if n := recount[taskName{j.Queue, j.Task}]; n == nil {
				f.Errorf("%v of task %s is listed but not counted", j.Ref(), j.Task)
			} else {
				*stateCount(n, s)++
			}
			if !s.Final() {
				bytes[queue] += int64(len(j.Payload))
			}
			if bad := jobFault(j); bad != "" {
				f.Errorf("%v is %v (%q), attempt %d of %d: %s", j.Ref(), j.State, j.Reason, j.Attempt, j.MaxAttempts, bad)
			}
		}
		checkGet(f, b, jobs)
	}
}

// checkGet wants that Get says what List said.
func checkGet(f *fixture, b broker.Broker, jobs []broker.Job) {
	f.Helper()
	for part := range slices.Chunk(jobs, 500) {
		var refs []broker.Ref
		for i := range part {
			refs = append(refs, part[i].Ref())
		}
		again, err := b.Get(f.ctx, refs)
		f.must("get", err)
		for i := range part {
			if diff := diffJobs(part[i], again[i]); diff != "" {
				f.Errorf("%v: list and get differ: %s", refs[i], diff)
			}
			want(f, "token by list and by get", part[i].Token, again[i].Token)
		}
	}
}

// reasons are those that a job can have in a state.
var reasons = map[broker.State][]string{
	broker.Scheduled: {"", broker.ReasonRetry, broker.ReasonSnoozed, broker.ReasonReplaced, broker.ReasonBatch},
	broker.Ready: {"", broker.ReasonRetry, broker.ReasonSnoozed, broker.ReasonReleased, broker.ReasonExpired, broker.ReasonWorkerDied,
		broker.ReasonRequeued, broker.ReasonReplaced, broker.ReasonBatch},
	broker.Leased:    {"", broker.ReasonCancelAsked},
	broker.Done:      {broker.ReasonAcked},
	broker.Dead:      {broker.ReasonAttempts, broker.ReasonCrashed, broker.ReasonBuried, broker.ReasonDamaged},
	broker.Cancelled: {broker.ReasonCancelled, broker.ReasonDropped, broker.ReasonNotStarted, broker.ReasonDuplicate},
}

// jobFault says what is wrong with a job as it was read, or "".
func jobFault(j *broker.Job) string {
	leased := j.State == broker.Leased
	switch {
	case !slices.Contains(reasons[j.State], j.Reason):
		return "that is no reason for this state"
	case j.Attempt < 0 || j.Attempt > j.MaxAttempts || j.MaxAttempts < 1:
		return "the attempt is out of range"
	case (j.State == broker.Scheduled || j.State == broker.Ready) && j.Attempt == j.MaxAttempts:
		return "it waits though its attempts are used up"
	case leased && (j.Attempt == 0 || j.Token == 0 || j.LeaseExpiresAt.IsZero() || j.ClaimedAt.IsZero()):
		return "a lease without attempt, token, expiry or time of claim"
	case leased && j.CancelRequested != (j.Reason == broker.ReasonCancelAsked):
		return "the reason does not say whether it is to be cancelled"
	case !leased && (!j.LeaseExpiresAt.IsZero() || j.CancelRequested):
		return "what belongs to a lease stays without one"
	case j.State.Final() == j.FinishedAt.IsZero():
		return fmt.Sprintf("finished at %v", j.FinishedAt)
	case j.EnqueuedAt.IsZero() || j.RunAt.IsZero() && !neverDue(j):
		return "no time of enqueue or run"
	case j.HasResult && j.State != broker.Done, !j.HasResult && len(j.Result) > 0:
		return "a result that cannot be"
	}
	return ""
}

// neverDue reports whether j may be a completion job that still waits for its
// batch, or was cancelled while it did.
func neverDue(j *broker.Job) bool {
	waits := j.State == broker.Scheduled && (j.Reason == broker.ReasonBatch || j.Reason == broker.ReasonReplaced)
	return j.ClaimedAt.IsZero() && (waits || j.State == broker.Cancelled)
}

// checkDepths compares what the capacity of each queue counts with a recount.
func checkDepths(f *fixture, counts []broker.Count, bytes map[string]int64) {
	f.Helper()
	depth := map[string]int64{}
	for _, c := range counts {
		depth[c.Queue] += c.Scheduled + c.Ready + c.Leased
	}
	for _, c := range counts {
		if c.Depth != depth[c.Queue] || c.HighWater < c.Depth {
			f.Errorf("%s/%s has depth %d and a high-water mark of %d, a recount %d", c.Queue, c.Task, c.Depth, c.HighWater, depth[c.Queue])
		}
		if c.Bytes < bytes[c.Queue] || c.Depth == 0 && c.Bytes != 0 {
			f.Errorf("%s/%s has %d bytes in %d jobs, their payloads have %d", c.Queue, c.Task, c.Bytes, c.Depth, bytes[c.Queue])
		}
	}
}

// checkCount compares the kept numbers of one task with a recount.
func checkCount(f *fixture, c broker.Count, again *broker.Count) {
	f.Helper()
	present := int64(0)
	for _, s := range broker.States {
		if c.Of(s) != again.Of(s) {
			f.Errorf("%s/%s counts %d %v, a recount %d", c.Queue, c.Task, c.Of(s), s, again.Of(s))
		}
		present += c.Of(s)
	}
	t := c.Totals
	for _, sum := range []struct {
		what      string
		part, all int64
	}{
		{"jobs there or deleted, of enqueued", present + t.Deleted, t.Enqueued},
		{"leased, acked, failed or expired, of claimed", c.Leased + t.Acked + t.Failed + t.Expired, t.Claimed},
		{"done, of acked", c.Done, t.Acked},
		{"dead, of died", c.Dead, t.Died},
		{"cancelled, of ever cancelled", c.Cancelled, t.Cancelled},
	} {
		if sum.part > sum.all {
			f.Errorf("%s/%s: %d %s %d: %+v", c.Queue, c.Task, sum.part, sum.what, sum.all, c)
		}
	}
}
