package brokertest

import (
	"bytes"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

var claimRules = []rule{
	{"a claim leases what it takes", func(f *fixture) {
		ref := f.addOne(plain())
		l := f.takeOne(f.b, broker.ClaimRequest{Queues: []string{queue}, TTL: time.Minute, Worker: "w7"})
		j := f.wantState(ref, broker.Leased, "")
		if diff := diffJobs(l.Job, j); diff != "" {
			f.Errorf("lease and job differ: %s", diff)
		}
		want(f, "worker", j.Worker, "w7")
		want(f, "attempt", j.Attempt, 1)
		want(f, "token", j.Token, l.Token)
		f.wantTime("claimed at", j.ClaimedAt, f.now())
		f.wantTime("expiry", l.ExpiresAt, f.now().Add(time.Minute))
		f.wantTime("expiry of the job", j.LeaseExpiresAt, l.ExpiresAt)
	}},
	{"a TTL of 0 means the default", func(f *fixture) {
		f.wantTime("expiry", f.leased(plain()).ExpiresAt, f.now().Add(broker.DefaultLeaseTTL))
	}},
	{"a leased job is not claimed again", func(f *fixture) {
		f.leased(plain())
		f.none()
		want(f, "leases for another client", len(f.take(f.open(), broker.ClaimRequest{}).Leases), 0)
	}},
	{"a claim takes no more than its free slots", func(f *fixture) {
		f.addMany(5)
		got := f.take(f.b, broker.ClaimRequest{Max: 3})
		want(f, "leases", len(got.Leases), 3)
		want(f, "more", got.More, true)
		want(f, "ready", f.count(queue, task).Ready, 2)
		want(f, "leased", f.count(queue, task).Leased, 3)
		got = f.take(f.b, broker.ClaimRequest{Max: 3})
		want(f, "leases of the second claim", len(got.Leases), 2)
	}},
	{"a claim leaves alone the tasks that it does not name", func(f *fixture) {
		refs := f.add(queue, tasks("a", "b", "a", "c")...)
		before := f.get(refs[1])
		got := f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Tasks: []string{"c", "a", "zz"}})
		f.wantOrder("claims", leaseIDs(got.Leases), refs, 0, 2, 3)
		f.maintain()
		if diff := diffJobs(before, f.get(refs[1])); diff != "" {
			f.Errorf("the job of an unnamed task changed: %s", diff)
		}
	}},
	{"a job behind many of an unnamed task is claimed", func(f *fixture) {
		jobs := make([]broker.NewJob, 1000)
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: "other"}
		}
		f.add(queue, jobs...)
		ref := f.addOne(plain())
		got := f.take(f.b, broker.ClaimRequest{Tasks: []string{task}, Max: 1000})
		f.wantOrder("claims", leaseIDs(got.Leases), []broker.Ref{ref}, 0)
	}},
	{"a claim leaves alone the queues that it does not name", func(f *fixture) {
		f.add("a", plain())
		want(f, "leases", len(f.take(f.b, broker.ClaimRequest{Queues: []string{"b"}}).Leases), 0)
	}},
	{"a claim of an empty store takes nothing and is no error", func(f *fixture) {
		got := f.take(f.b, broker.ClaimRequest{})
		want(f, "leases", len(got.Leases), 0)
		want(f, "more", got.More, false)
	}},
	{"the largest claim is filled", func(f *fixture) {
		for range broker.MaxClaimJobs/500 + 1 {
			f.addMany(500)
		}
		got := f.take(f.b, broker.ClaimRequest{Max: broker.MaxClaimJobs})
		for i := 0; got.More && len(got.Leases) < broker.MaxClaimJobs && i < 100; i++ {
			more := f.take(f.b, broker.ClaimRequest{Max: broker.MaxClaimJobs - len(got.Leases)})
			got.Leases, got.More = append(got.Leases, more.Leases...), more.More
		}
		want(f, "leases", len(got.Leases), broker.MaxClaimJobs)
	}},
	{"a claim of large jobs stops at the bytes of a call", func(f *fixture) {
		const each, n = broker.MaxCallBytes/2 - 4<<10, 7
		for i := range n {
			one := plain()
			one.Payload = bytes.Repeat([]byte{'a'}, each)
			f.add([]string{"a", "b"}[i/4], one)
		}
		taken := 0
		for more := true; more; {
			got := f.take(f.b, broker.ClaimRequest{})
			if more = got.More; len(got.Leases) == 0 && more || len(got.Leases)*each > broker.MaxCallBytes+each {
				f.Fatalf("one claim took %d jobs of %d bytes, more: %v", len(got.Leases), each, more)
			}
			taken += len(got.Leases)
		}
		want(f, "leases of all claims", taken, n)
		f.none()
	}},
}

var leaseRules = []rule{
	{"a lease that is over makes its job ready again", func(f *fixture) {
		ref := f.addOne(plain())
		l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
		f.advance(tick / 2)
		f.maintain()
		if f.h.Advance != nil {
			f.wantState(ref, broker.Leased, "")
		}
		f.pass(tick)
		j := f.wantState(ref, broker.Ready, broker.ReasonExpired)
		want(f, "attempt", j.Attempt, 1)
		want(f, "last token", j.Token, l.Token)
		want(f, "failures", j.Failures, 0)
		want(f, "total expired", f.count(queue, task).Totals.Expired, 1)
		again := f.one()
		want(f, "attempt of the second run", again.Job.Attempt, 2)
	}},
	{"what a lease that is over tries to settle is refused", func(f *fixture) {
		for _, maintained := range []bool{false, true} {
			for kind := broker.Ack; kind <= broker.Cancel; kind++ {
				ref := f.addOne(plain())
				l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick / 8})
				f.advance(tick / 8)
				if maintained {
					f.maintain()
				}
				f.wantErr(kind.String(), f.try(l, broker.Settlement{Kind: kind}).Err, broker.ErrLeaseLost)
				f.maintain()
				f.wantState(ref, broker.Ready, broker.ReasonExpired)
				f.end(f.one(), broker.Ack)
			}
		}
	}},
	{"a lease that is over is not extended", func(f *fixture) {
		f.addOne(plain())
		l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
		f.advance(tick)
		want(f, "status", f.beat(l, time.Hour).Status, broker.Lost)
		f.maintain()
		want(f, "status after upkeep", f.beat(l, time.Hour).Status, broker.Lost)
		want(f, "status after another claim", f.beatAfterClaim(l), broker.Lost)
	}},
	{"a token that was overtaken is refused for every kind", func(f *fixture) {
		for kind := broker.Ack; kind <= broker.Cancel; kind++ {
			old := f.leased(plain())
			f.end(old, broker.Release)
			l := f.one()
			f.wantErr(kind.String(), f.try(old, broker.Settlement{Kind: kind}).Err, broker.ErrLeaseLost)
			j := f.wantState(l.Job.Ref(), broker.Leased, "")
			want(f, "token", j.Token, l.Token)
			f.end(l, broker.Ack)
		}
	}},
	{"a token that was never given is refused", func(f *fixture) {
		l := f.leased(plain())
		for _, token := range []broker.Token{0, 1, l.Token + 1, l.Token - 1, 1<<53 - 1} {
			fake := l
			fake.Token = token
			f.wantErr("token "+token.String(), f.try(fake, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrLeaseLost)
			want(f, "status", f.beat(fake, time.Hour).Status, broker.Lost)
		}
		f.end(l, broker.Ack)
	}},
	{"a job that was never claimed cannot be settled", func(f *fixture) {
		ref := f.addOne(plain())
		fake := broker.Lease{Job: broker.Job{Queue: ref.Queue, ID: ref.ID}, Token: 1}
		f.wantErr("ack", f.try(fake, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrLeaseLost)
		fake.Token = 0
		f.wantErr("ack with token 0", f.try(fake, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrLeaseLost)
		f.wantState(ref, broker.Ready, "")
	}},
	{"a token of a job that is gone is refused by the next one with its id", func(f *fixture) {
		id := broker.NewID()
		var stale []broker.Lease
		for _, gone := range []func(l broker.Lease){
			func(l broker.Lease) { f.end(l, broker.Ack) }, // nothing is kept of it
			func(l broker.Lease) { f.end(l, broker.Release); f.command(broker.DeleteJobs) },
			func(l broker.Lease) { f.end(l, broker.Nack); f.end(f.takeOne(f.b, broker.ClaimRequest{}), broker.Ack) },
		} {
			f.addOne(with(func(n *broker.NewJob) { n.ID, n.MaxAttempts = id, 100 }))
			l := f.takeOne(f.b, broker.ClaimRequest{})
			for _, old := range stale {
				if old.Token >= l.Token {
					f.Errorf("token %v after %v", l.Token, old.Token)
				}
				f.wantErr("ack of one that is gone", f.try(old, broker.Settlement{Kind: broker.Ack}).Err, broker.ErrLeaseLost)
			}
			stale = append(stale, l)
			gone(l)
		}
	}},
	{"tokens grow through every way back", func(f *fixture) {
		f.addOne(with(func(n *broker.NewJob) { n.MaxAttempts = 100 }))
		var last broker.Token
		for _, back := range []broker.SettleKind{broker.Nack, broker.Snooze, broker.Release, broker.Bury, broker.Cancel, 0, broker.Nack} {
			l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick / 4})
			if l.Token <= last || l.Token >= 1<<53 {
				f.Errorf("token %v after %v", l.Token, last)
			}
			last = l.Token
			if back == 0 {
				f.pass(tick / 4)
				continue
			}
			f.end(l, back)
			f.command(broker.RequeueJobs)
		}
	}},
	{"a heartbeat pushes the expiry to now and the TTL", func(f *fixture) {
		f.addOne(plain())
		l := f.takeOne(f.b, broker.ClaimRequest{TTL: tick})
		for range 6 {
			f.advance(tick / 2)
			f.maintain()
			beat := f.beat(l, tick)
			want(f, "status", beat.Status, broker.Held)
			f.wantTime("expiry", beat.ExpiresAt, f.now().Add(tick))
			f.wantTime("expiry of the job", f.get(l.Job.Ref()).LeaseExpiresAt, beat.ExpiresAt)
		}
		want(f, "attempt", f.get(l.Job.Ref()).Attempt, 1)
		f.end(l, broker.Ack)
	}},
	{"a heartbeat can make a lease shorter", func(f *fixture) {
		l := f.leased(plain())
		f.wantTime("expiry", f.beat(l, tick).ExpiresAt, f.now().Add(tick))
		f.pass(tick)
		f.wantState(l.Job.Ref(), broker.Ready, broker.ReasonExpired)
	}},
	{"a heartbeat judges each lease alone and answers in order", func(f *fixture) {
		f.addMany(3)
		leases := f.all(3)
		f.end(leases[1], broker.Ack)
		f.command(broker.CancelJobs, leases[2].Job.ID)
		unknown := leases[0]
		unknown.Job.ID = broker.NewID()
		beats := f.beats(time.Minute, leases[1], leases[0], unknown, leases[2])
		for i, status := range []broker.BeatStatus{broker.Lost, broker.Held, broker.Lost, broker.CancelAsked} {
			want(f, "status", beats[i].Status, status)
		}
		f.wantTime("expiry of the lease to cancel", beats[3].ExpiresAt, f.now().Add(time.Minute))
		f.wantTime("expiry of the job", f.get(leases[2].Job.Ref()).LeaseExpiresAt, beats[3].ExpiresAt)
	}},
	{"a heartbeat with a TTL of 0 gives the default", func(f *fixture) {
		f.wantTime("expiry", f.beat(f.leased(plain()), 0).ExpiresAt, f.now().Add(broker.DefaultLeaseTTL))
	}},
	{"a heartbeat carries progress", func(f *fixture) {
		l := f.leased(plain())
		say := func(p *broker.Progress) broker.Progress {
			f.Helper()
			_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Leases: []broker.Extension{{Ref: l.Job.Ref(), Token: l.Token, Progress: p}}})
			f.must("extend", err)
			return f.get(l.Job.Ref()).Progress
		}
		half := broker.Progress{Percent: 50, Note: "half"}
		want(f, "progress", say(&half), half)
		want(f, "progress that nobody changed", say(nil), half)
		long := say(&broker.Progress{Percent: 60, Note: strings.Repeat("n", broker.MaxNoteBytes+1)})
		if len(long.Note) > broker.MaxNoteBytes || long.Percent != 60 {
			f.Errorf("a note of %d bytes at %d%%", len(long.Note), long.Percent)
		}
	}},
	{"progress and log lines are those of the run", func(f *fixture) {
		l := f.leased(plain())
		say := func(lines ...string) {
			f.Helper()
			_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Leases: []broker.Extension{{
				Ref: l.Job.Ref(), Token: l.Token, Progress: &broker.Progress{Percent: 10}, Log: lines,
			}}})
			f.must("extend", err)
		}
		say("one", "two")
		say()
		say("three \xff\x00")
		f.end(l, broker.Nack)
		want(f, "log", strings.Join(f.get(l.Job.Ref()).Log, ","), "one,two,three \xff\x00")
		l = f.one()
		want(f, "log of the next run", len(l.Job.Log), 0)
		want(f, "progress of the next run", l.Job.Progress, broker.Progress{})
		say("four")
		want(f, "log", strings.Join(f.get(l.Job.Ref()).Log, ","), "four")
	}},
	{"who holds a lease that another client took can settle and extend it", func(f *fixture) {
		l := f.leased(plain())
		f.b = f.open()
		want(f, "status", f.beat(l, time.Minute).Status, broker.Held)
		f.end(l, broker.Ack)
	}},
	{"a lease ends with the client that took it", func(f *fixture) {
		if !f.b.Caps().HandleLeases {
			f.Skipf("a lease of this broker outlives its client")
		}
		other := f.open()
		refs := f.add(queue, with(func(n *broker.NewJob) { n.MaxAttempts = 1 }), plain(), plain())
		leases := exactly(f, "leases", f.take(other, broker.ClaimRequest{Max: 2}).Leases, 2)
		f.must("close", other.Close())
		f.maintain()
		f.wantState(refs[0], broker.Dead, broker.ReasonCrashed)
		f.wantState(refs[1], broker.Ready, broker.ReasonWorkerDied)
		want(f, "total expired", f.count(queue, task).Totals.Expired, 2)
		f.wantErr("ack", f.try(leases[1], broker.Settlement{Kind: broker.Ack}).Err, broker.ErrLeaseLost)
		f.wantOrder("claims", leaseIDs(f.claim(100)), refs, 1, 2)
	}},
	{"a remote lease outlives the client that took it", func(f *fixture) {
		other := f.open()
		ref := f.addOne(plain())
		l := f.takeOne(other, broker.ClaimRequest{Remote: true, TTL: tick})
		f.must("close", other.Close())
		f.maintain()
		f.wantState(ref, broker.Leased, "")
		want(f, "status", f.beat(l, tick).Status, broker.Held)
		f.pass(tick)
		f.wantState(ref, broker.Ready, broker.ReasonExpired)
	}},
	{"upkeep wants to be called again by the time the next lease is over", func(f *fixture) {
		f.leased(plain())
		if after := f.maintain(); after > broker.DefaultLeaseTTL+time.Second {
			f.Errorf("upkeep wants to be called after %v", after)
		}
	}},
}

// beats extends leases of the first client.
func (f *fixture) beats(ttl time.Duration, leases ...broker.Lease) []broker.Beat {
	f.Helper()
	r := broker.ExtendRequest{TTL: ttl}
	for _, l := range leases {
		r.Leases = append(r.Leases, broker.Extension{Ref: l.Job.Ref(), Token: l.Token})
	}
	beats, err := f.b.Extend(f.ctx, r)
	f.must("extend", err)
	return exactly(f, "answers", beats, len(leases))
}

func (f *fixture) beat(l broker.Lease, ttl time.Duration) broker.Beat {
	f.Helper()
	return f.beats(ttl, l)[0]
}

// beatAfterClaim has somebody else claim the job first.
func (f *fixture) beatAfterClaim(l broker.Lease) broker.BeatStatus {
	f.Helper()
	f.one()
	return f.beat(l, time.Hour).Status
}
