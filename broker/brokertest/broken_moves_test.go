package brokertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// forgetter is a client of a store at which what arrives has lost something.
type forgetter struct {
	*membroker.Broker
	loses func(b *broker.MoveBatch)
}

func (f forgetter) PutMoved(ctx context.Context, c broker.Call, r broker.MovePut) (broker.MovePutAnswer, error) {
	f.loses(&r.Batch)
	return f.Broker.PutMoved(ctx, c, r)
}

// doubler is a client of a store that puts a batch again, under the next number
// that nobody has used, whenever it is told to.
type doubler struct{ *membroker.Broker }

func (d doubler) PutMoved(ctx context.Context, c broker.Call, r broker.MovePut) (broker.MovePutAnswer, error) {
	a, err := d.Broker.PutMoved(ctx, c, r)
	for i := range r.Batch.Jobs {
		j := &r.Batch.Jobs[i]
		if j.State == broker.Ready && j.Key == "" {
			n := broker.NewJob{Task: j.Task, Payload: j.Payload}
			if _, err := d.Enqueue(ctx, broker.NewCall(), r.Queue, []broker.NewJob{n}); err != nil {
				return a, err
			}
		}
	}
	return a, err
}

// eachJob loses something of every job.
func eachJob(lose func(j *broker.MovedJob)) func(b *broker.MoveBatch) {
	return func(b *broker.MoveBatch) {
		for i := range b.Jobs {
			lose(&b.Jobs[i])
		}
	}
}

func eachSetting(lose func(t *broker.MovedSetting)) func(b *broker.MoveBatch) {
	return func(b *broker.MoveBatch) {
		for i := range b.Settings {
			lose(&b.Settings[i])
		}
	}
}

var losses = []struct {
	name  string
	loses func(b *broker.MoveBatch)
}{
	{"the tokens", eachJob(func(j *broker.MovedJob) { j.Token = 0 })},
	{"the attempts", eachJob(func(j *broker.MovedJob) { j.Attempt = 0 })},
	{"the failures", eachJob(func(j *broker.MovedJob) { j.Failures = 0 })},
	{"the places", eachJob(func(j *broker.MovedJob) { j.Place = time.Unix(1e9, 0) })},
	{"the order of one place", eachJob(func(j *broker.MovedJob) { j.Seq = 0 })},
	{"the due times", eachJob(func(j *broker.MovedJob) { j.RunAt = j.RunAt.Add(time.Hour) })},
	{"which clock a due time is on", func(b *broker.MoveBatch) {
		for i := range b.Jobs {
			b.Jobs[i].Later = false
		}
	}},
	{"the headers", eachJob(func(j *broker.MovedJob) { j.Headers = nil })},
	{"the results", eachJob(func(j *broker.MovedJob) { j.Result = nil })},
	{"the retention", eachJob(func(j *broker.MovedJob) { j.KeepUntil = time.Time{} })},
	{"how a lease was settled", eachJob(func(j *broker.MovedJob) { j.Ended = 0 })},
	{"the log", eachJob(func(j *broker.MovedJob) { j.Log = nil })},
	{"that keys are held", eachJob(func(j *broker.MovedJob) { j.KeyHeld = false })},
	{"how long a key is held", eachJob(func(j *broker.MovedJob) {
		if !j.KeyUntil.IsZero() {
			j.KeyUntil = j.KeyUntil.Add(time.Hour)
		}
	})},
	{"the digest of a key", eachJob(func(j *broker.MovedJob) { j.KeyDigest = [16]byte{} })},
	{"keys of jobs that are gone", func(b *broker.MoveBatch) { b.Keys = nil }},
	{"who holds an ordered group", eachJob(func(j *broker.MovedJob) { j.HoldsGroup = false })},
	{"which members have ended", eachJob(func(j *broker.MovedJob) { clear(j.Seen) })},
	{"the ends of members", func(b *broker.MoveBatch) { b.Signals = nil }},
	{"the batch of a member", eachJob(func(j *broker.MovedJob) {
		if j.BatchSize == 0 {
			j.Batch = broker.ID{}
		}
	})},
	{"cursors", eachSetting(func(t *broker.MovedSetting) { t.Due = time.Time{} })},
	{"stops of schedules", eachSetting(func(t *broker.MovedSetting) { t.Paused = false })},
	{"what was declared", eachSetting(func(t *broker.MovedSetting) {
		if t.Operator != nil {
			t.Declared = nil
		}
	})},
	{"revisions", eachSetting(func(t *broker.MovedSetting) {
		for _, s := range []*broker.Setting{t.Declared, t.Operator} {
			if s != nil {
				s.Revision = 0
			}
		}
	})},
	{"starts", func(b *broker.MoveBatch) { b.Starts = nil }},
	{"a pause", func(b *broker.MoveBatch) { b.Paused = false }},
	{"a job of each batch", func(b *broker.MoveBatch) { b.Jobs = b.Jobs[:max(0, len(b.Jobs)-1)] }},
}

func TestMoveCasesNoticeWhatIsLost(t *testing.T) {
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			noticesMove(t, func(b *membroker.Broker) broker.Broker { return forgetter{b, l.loses} })
		})
	}
	t.Run("nothing, but jobs come twice", func(t *testing.T) {
		noticesMove(t, func(b *membroker.Broker) broker.Broker { return doubler{b} })
	})
}

// noticesMove wants a case to fail where queues move to a broken store.
func noticesMove(t *testing.T, breaks func(b *membroker.Broker) broker.Broker) {
	t.Helper()
	failed := 0
	for _, c := range MoveCases() {
		synctest.Test(t, func(t *testing.T) {
			harness := func(of func(b *membroker.Broker) broker.Broker) Harness {
				b := membroker.New(membroker.Config{})
				return bubble(Harness{Open: func() broker.Broker { return of(b.Another()) }, Reopen: true})
			}
			from := harness(func(b *membroker.Broker) broker.Broker { return b })
			failures, _ := recorded(t, func(t testing.TB) { c.Run(t, from, harness(breaks)) })
			if len(failures) > 0 {
				failed++
			}
		})
	}
	if failed == 0 {
		t.Error("no case notices")
	}
}
