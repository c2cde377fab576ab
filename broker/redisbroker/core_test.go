package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// failing is a transport on which some scripts do not get through.
type failing struct {
	transport
	fails func(script string) bool
	ran   func(script string) // told of those that got through; nil: nobody
}

func (f *failing) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	if f.fails != nil && f.fails(s.name) {
		return nil, fmt.Errorf("%w: the test says so", broker.ErrUnknown)
	}
	answers, err := f.transport.run(ctx, s, queue, calls)
	if f.ran != nil {
		f.ran(s.name)
	}
	return answers, err
}

func take(t *testing.T, b broker.Broker, queue string, n int) []broker.Lease {
	t.Helper()
	got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 100, TTL: time.Minute, Worker: "w"})
	if err != nil || len(got.Leases) != n {
		t.Fatalf("%d leases of %s, %v, want %d", len(got.Leases), queue, err, n)
	}
	return got.Leases
}

func ack(t *testing.T, b broker.Broker, l broker.Lease, then ...broker.FollowUp) {
	t.Helper()
	got, err := b.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, FollowUps: then}})
	if err != nil || got[0].Err != nil {
		t.Fatalf("ack: %v, %v", got, err)
	}
}

func put1(t *testing.T, b broker.Broker, queue string, n broker.NewJob) {
	t.Helper()
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), queue, []broker.NewJob{n}); err != nil {
		t.Fatal(err)
	}
}

func TestAFollowUpToAnotherQueueIsDeliveredOnceWhoeverDies(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	for step, dies := range []string{"deliver", "outbox"} {
		ns := newNamespace()
		other := open(t, s.URL(), ns, nil)
		defer other.Close()
		f := &failing{transport: open(t, s.URL(), ns, nil).t}
		b := newBrokerWith(f, usualScripts())
		defer b.Close()
		put1(t, b, "a", broker.NewJob{Task: "t"})
		l := take(t, b, "a", 1)[0]
		f.fails = func(script string) bool { return script == dies }
		ack(t, b, l, broker.FollowUp{Queue: "b", Job: broker.NewJob{Task: "u"}})
		for _, l := range take(t, other, "b", step) { // so that no job is left to know it by
			ack(t, other, l)
		}
		for range 3 {
			if _, err := other.Maintain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		take(t, other, "b", 1-step)
		if n := s.Must("HLEN", ns+":{a}:O"); n != int64(0) {
			t.Errorf("the outbox has %v entries", n)
		}
	}
}

func TestFollowUpsThatCannotBeDeliveredHoldNoOthersUp(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	other := open(t, s.URL(), "ns", nil)
	defer other.Close()
	f := &failing{transport: open(t, s.URL(), "ns", nil).t, fails: func(script string) bool { return script == "deliver" }}
	b := newBrokerWith(f, usualScripts())
	defer b.Close()
	put1(t, b, "newer", broker.NewJob{Task: "t"})
	s.Must("SETRANGE", "ns:{newer}:c", 0, "\xff")
	put1(t, b, "a", broker.NewJob{Task: "t"})
	var then []broker.FollowUp
	for i := range 240 {
		queue := "newer"
		if i%24 == 0 {
			queue = "b"
		}
		then = append(then, broker.FollowUp{Queue: queue, Job: broker.NewJob{Task: "u", Payload: make([]byte, 100)}})
	}
	ack(t, b, take(t, b, "a", 1)[0], then...)
	for range 60 {
		_, _ = other.Maintain(t.Context()) // it says that a queue is of a newer version
	}
	take(t, other, "b", 10)
}

func TestAQueueThatCannotBeKeptUpHoldsNoOthersUp(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	put1(t, b, "a-newer", broker.NewJob{Task: "t"})
	s.Must("SETRANGE", "ns:{a-newer}:c", 0, "\xff")
	put1(t, b, "b", broker.NewJob{Task: "t", StartWithin: time.Millisecond})
	<-time.After(5 * time.Millisecond)
	if _, err := b.Maintain(t.Context()); !errors.Is(err, broker.ErrUnsupported) {
		t.Errorf("maintain: %v, want %v", err, broker.ErrUnsupported)
	}
	if counts, err := b.Counts(t.Context(), "b"); err != nil || counts[0].Cancelled != 1 {
		t.Errorf("counts %+v, %v; want one job that was not started in time", counts, err)
	}

	lost := &away{b.t, "b", "maintain"} // a cluster's node that is away
	other := newBrokerWith(lost, usualScripts())
	defer other.Close()
	put1(t, b, "c", broker.NewJob{Task: "t", StartWithin: time.Millisecond})
	<-time.After(5 * time.Millisecond)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := other.Maintain(ctx); err == nil {
			t.Error("upkeep of a queue whose node is away is no error")
		}
		cancel()
	}
	if counts, err := b.Counts(t.Context(), "c"); err != nil || counts[0].Cancelled != 1 {
		t.Errorf("counts %+v, %v; want one job that was not started in time", counts, err)
	}
}

func TestAQueueOfANewerFormatIsLeftAlone(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	put1(t, b, "q", broker.NewJob{Task: "t"})
	s.Must("SETRANGE", "ns:{q}:c", 0, "\xff")
	before := s.Must("GET", "ns:{q}:c")
	for name, call := range map[string]func() error{
		"enqueue": func() error {
			_, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
			return err
		},
		"claim": func() error {
			_, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1})
			return err
		},
		"counts":   func() error { _, err := b.Counts(t.Context(), "q"); return err },
		"maintain": func() error { _, err := b.Maintain(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, broker.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", name, err, broker.ErrUnsupported)
		}
	}
	if after := s.Must("GET", "ns:{q}:c"); after != before {
		t.Errorf("the configuration has changed")
	}
}

func TestAtTheMemoryLimitOnlyWhatBringsMoreIsRefused(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	fill(t, b, "q", 1000, 100, nil)
	l := take(t, b, "q", 100)
	s.Must("CONFIG", "SET", "maxmemory", memory(s)-1<<20)
	_, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
	if !errors.Is(err, broker.ErrFull) {
		t.Errorf("enqueue: %v, want %v", err, broker.ErrFull)
	}
	beats, err := b.Extend(t.Context(), broker.ExtendRequest{Worker: broker.Worker{ID: "w"}, Leases: []broker.Extension{{Ref: l[0].Job.Ref(), Token: l[0].Token, Log: []string{"line"}}}, TTL: time.Minute})
	if err != nil || beats[0].Status != broker.Held {
		t.Errorf("extend: %v, %v", beats, err)
	}
	for _, one := range l {
		ack(t, b, one)
	}
	if _, err := b.Maintain(t.Context()); err != nil {
		t.Errorf("maintain: %v", err)
	}
	take(t, b, "q", 100)
	if _, err := b.Apply(t.Context(), broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: "q"}}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestAJobWakesOneOfThoseWhoWait(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	const waiting, jobs = 8, 3
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	leases := make(chan broker.Lease, waiting)
	looks := make(chan bool, 1000)
	for range waiting {
		b := newBrokerWith(&failing{transport: open(t, s.URL(), "ns", nil).t, ran: func(script string) {
			if script == "claim" {
				looks <- true
			}
		}}, usualScripts())
		defer b.Close()
		wg.Go(func() {
			got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Wait: 20 * time.Second, Worker: "w"})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			for _, l := range got.Leases {
				leases <- l
			}
		})
	}
	for range 2 * waiting { // each looks, and looks again when it can be told
		<-looks
	}
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	for range jobs {
		began := time.Now()
		put1(t, b, "q", broker.NewJob{Task: "t"})
		<-leases
		if took := time.Since(began); took > time.Second {
			t.Errorf("a job waited %v for a claim that waits for it", took)
		}
	}
	if n := len(looks); n != jobs {
		t.Errorf("%d claims looked for %d jobs", n, jobs)
	}
	cancel()
	wg.Wait()
}

// away is a transport on which the server of one queue is away for a script.
type away struct {
	transport
	queue, script string
}

func (a away) run(ctx context.Context, s *script, queue string, calls [][]byte) ([][]byte, error) {
	if s.name == a.script && queue == a.queue {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.transport.run(ctx, s, queue, calls)
}

func TestAClaimThatHasLeasesDoesNotLetThemRunOutWhileAnotherQueueIsAway(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := newBrokerWith(away{open(t, s.URL(), "ns", nil).t, "b", "claim"}, usualScripts())
	defer b.Close()
	put1(t, b, "a", broker.NewJob{Task: "t"})
	put1(t, b, "b", broker.NewJob{Task: "t"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const ttl = 2 * time.Second
	began := time.Now()
	got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"a", "b"}, Max: 10, TTL: ttl, Worker: "w"})
	if err != nil || len(got.Leases) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if took := time.Since(began); took > ttl {
		t.Errorf("a lease of %v came after %v", ttl, took)
	}
}

func TestLeasesEndWithAClientThatIsClosed(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b, other := open(t, s.URL(), "ns", nil), open(t, s.URL(), "ns", nil)
	defer b.Close()
	fill(t, b, "q", 3, 3, nil)
	l := take(t, other, "q", 3)
	ack(t, other, l[0])
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	jobs, err := b.Get(t.Context(), []broker.Ref{l[1].Job.Ref(), l[2].Job.Ref()})
	for _, j := range jobs {
		if err != nil || j.State != broker.Ready || j.Reason != broker.ReasonWorkerDied {
			t.Errorf("a job of a closed client is %v (%s), %v", j.State, j.Reason, err)
		}
	}
}

// wallTime is the part time.lua of scripts that are given the wall clock alone, as
// servers have it.
const wallTime = `
local Time = {}
function Time.read(arg)
	return unpack_('>I8', arg, #arg - 15), nil
end
`

func TestAServersClockThatStepsBackEndsNoLeaseLaterAndNoneEarlier(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	clock := brokertest.NewManualClock(wall)
	b := newBrokerWith(timed{open(t, s.URL(), "ns", nil).t, clock}, newScripts(wallTime))
	defer b.Close()
	put1(t, b, "q", broker.NewJob{Task: "t"})
	put1(t, b, "q", broker.NewJob{Task: "u", Delay: 2 * time.Minute})
	l := take(t, b, "q", 1)[0]
	clock.StepWall(-time.Hour)
	state := func() string {
		t.Helper()
		if _, err := b.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := b.Counts(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(fmt.Sprint(c[0].Ready, c[0].Leased, c[1].Scheduled, c[1].Ready))
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "0 1 1 0"}, {time.Minute - time.Second, "0 1 1 0"}, {time.Second, "1 0 1 0"}, {time.Minute - time.Second, "1 0 1 0"}, {time.Second, "1 0 0 1"}} {
		clock.Advance(step.after)
		if got := state(); got != step.want {
			t.Errorf("%v on: %s, want %s", step.after, got, step.want)
		}
	}
	if again := take(t, b, "q", 2); again[0].Token <= l.Token {
		t.Errorf("token %v after %v", again[0].Token, l.Token)
	}
}

func TestLargeJobsAreReadInSeveralAnswers(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	var refs []broker.Ref
	for range 5 {
		n := broker.NewJob{Task: "t", Payload: make([]byte, 3<<20)}
		n.MakeID()
		put1(t, b, "q", n)
		refs = append(refs, broker.Ref{Queue: "q", ID: n.ID})
	}
	refs = append(refs, broker.Ref{Queue: "q", ID: broker.NewID()})
	jobs, err := b.Get(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		if j.ID != refs[i].ID || i < 5 && len(j.Payload) != 3<<20 || i == 5 && j.State != 0 {
			t.Errorf("job %d has %d bytes and is %v", i, len(j.Payload), j.State)
		}
	}
	var got broker.Claimed
	for n := 0; n < 5; n += len(got.Leases) {
		got, err = b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 100, Worker: "w"})
		if err != nil || len(got.Leases) == 0 || len(got.Leases) > 3 || n+len(got.Leases) < 5 && !got.More {
			t.Fatalf("a claim took %d after %d, more %v, %v", len(got.Leases), n, got.More, err)
		}
	}
}

func TestWhatCameAndWentIsForgotten(t *testing.T) {
	x := openShop(t, redistest.Start(t, redistest.Options{}))
	rate := broker.Setting{Kind: broker.LimitSetting, Name: "each", Limit: &broker.Limit{Tasks: []string{"many"}, Count: 1, Every: time.Second, Per: broker.PerTenant}}
	x.must(x.b.Configure(x.t.Context(), broker.NewCall(), "q", broker.Change{Set: []broker.Setting{rate}}))
	x.add(broker.NewJob{Task: "never", Priority: -5}) // a worker takes it, so that nobody begins anew
	_, err := x.b.Extend(t.Context(), broker.ExtendRequest{Worker: broker.Worker{ID: "w"}})
	x.must(err)
	const tenants = 100
	for i := range tenants {
		x.add(broker.NewJob{Task: "many", Tenant: fmt.Sprint("tenant-", i), Priority: -5})
	}
	for range tenants {
		x.end(x.claim("many")[0], broker.Ack)
	}
	key := func(name string) string { return x.ns + ":{q}:" + name }
	served := "v" + "\x7f\xff\xff\xfb" // of priority -5
	for _, name := range []string{"meach", served} {
		if n := x.s.Must("HLEN", key(name)); n != int64(tenants) {
			t.Fatalf("%q has %v fields, not %d", name, n, tenants)
		}
	}
	x.clock.Advance(time.Minute)
	for i := range 2 { // a turn of all later
		x.add(broker.NewJob{Task: "many", Tenant: fmt.Sprint("last-", i), Priority: -5}, broker.NewJob{Task: "many", Tenant: "y", Priority: -5})
		x.claim("many")
		x.clock.Advance(time.Minute)
		x.claim("many")
	}
	for range 200 {
		_, err := x.b.Maintain(t.Context())
		x.must(err)
	}
	for _, name := range []string{"meach", served} {
		if n := x.s.Must("HLEN", key(name)).(int64); n > 5 {
			t.Errorf("%q has %d fields after they said nothing any more", name, n)
		}
	}
}
