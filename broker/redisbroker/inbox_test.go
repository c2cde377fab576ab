package redisbroker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// lying is how many jobs lie in the inbox of a queue.
func lying(s *redistest.Server) (n int) {
	list, _ := s.Must("LRANGE", "ns:{q}:I", 0, -1).([]any)
	for _, e := range list {
		if len(e.(string)) > 7 { // it is no time
			n++
		}
	}
	return n
}

// plainJob is one that may go to the inbox.
func plainJob(payload string) broker.NewJob {
	n := broker.NewJob{Task: "t", Payload: []byte(payload)}
	n.MakeID()
	return n
}

func enqueueOne(t *testing.T, b broker.Broker, c broker.Call, n broker.NewJob) {
	t.Helper()
	got, err := b.Enqueue(t.Context(), c, "q", []broker.NewJob{n})
	if err != nil || len(got) != 1 || got[0].ID != n.ID || got[0].Existing {
		t.Fatalf("enqueue: %v, %v", got, err)
	}
}

func TestEachCallSeesTheJobsThatLieInTheInbox(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	var all []broker.NewJob
	add := func() {
		for range 3 {
			all = append(all, plainJob("x"))
			enqueueOne(t, b, broker.NewCall(), all[len(all)-1])
		}
		if lying(s) == 0 {
			t.Error("nothing lies in the inbox: this shows nothing")
		}
	}
	add()
	counts, err := b.Counts(t.Context(), "q")
	if err != nil || len(counts) != 1 || counts[0].Depth != 3 {
		t.Errorf("counts: %+v, %v; want a depth of 3", counts, err)
	}
	add()
	if j, err := b.Get(t.Context(), []broker.Ref{{Queue: "q", ID: all[5].ID}}); err != nil || len(j) != 1 || j[0].State != broker.Ready {
		t.Errorf("get: %+v, %v; want a ready job", j, err)
	}
	add()
	for i, l := range take(t, b, "q", 9) {
		if l.Job.ID != all[i].ID {
			t.Errorf("lease %d is of %s, want those that came first, first", i, l.Job.ID)
		}
	}
	if n := lying(s); n > 0 {
		t.Errorf("%d lie in the inbox, and are taken", n)
	}
}

func TestARepeatOfACallWhoseJobLiesInTheInboxAddsNothing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	enqueueOne(t, b, broker.NewCall(), plainJob("first"))
	n, c := plainJob("x"), broker.NewCall()
	again := func(when string, ready int64) {
		t.Helper()
		enqueueOne(t, b, c, n)
		if counts, err := b.Counts(t.Context(), "q"); err != nil || counts[0].Depth != ready {
			t.Errorf("%s: depth %d, %v; want %d", when, counts[0].Depth, err, ready)
		}
	}
	enqueueOne(t, b, c, n)
	if lying(s) < 2 {
		t.Error("the jobs do not lie in the inbox: this shows nothing")
	}
	again("while it lies there", 2)
	again("when it was taken in", 2)
	for _, l := range take(t, b, "q", 2) {
		settle1(t, b, l)
	}
	again("when the job is done and gone", 0)
}

func TestCallsWithoutAnIDAreNoRepeatsOfEachOther(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	enqueueOne(t, b, broker.NewCall(), plainJob("first"))
	take(t, b, "q", 1)
	for range 2 {
		for range 3 {
			enqueueOne(t, b, broker.Call{}, plainJob("x"))
		}
		if lying(s) < 3 {
			t.Error("the jobs do not lie in the inbox: this shows nothing")
		}
		take(t, b, "q", 3)
	}
}

func settle1(t *testing.T, b broker.Broker, l broker.Lease) {
	t.Helper()
	got, err := b.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}})
	if err != nil || got[0].Err != nil {
		t.Fatalf("ack: %v, %v", got, err)
	}
}

func TestTheInboxStaysSmall(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	most := 0
	for range 500 {
		enqueueOne(t, b, broker.NewCall(), plainJob("x"))
		most = max(most, lying(s))
	}
	if most < 2 || most > mostWeight {
		t.Errorf("up to %d jobs lay in the inbox, want some and at most %d, as many as one run has", most, mostWeight)
	}
}

// What the inbox holds is taken in by one script, which has it in memory twice.
func TestLargeJobsDoNotLieInTheInbox(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	most := int64(0)
	for _, size := range []int{100, 1_000, 10_000, 100_000, 1_000_000} {
		payload := strings.Repeat("x", size)
		for range 120 {
			enqueueOne(t, b, broker.NewCall(), plainJob(payload))
			n, _ := s.Must("MEMORY", "USAGE", "ns:{q}:I", "SAMPLES", 0).(int64)
			most = max(most, n)
		}
	}
	if most == 0 || most > 4<<20 {
		t.Errorf("the inbox took up to %d bytes, want some and at most 4 MiB", most)
	}
}

func TestAJobOfTheInboxCameWhenItWasEnqueued(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	clock := brokertest.NewManualClock(wall)
	b := open(t, s.URL(), "ns", clock)
	defer b.Close()
	enqueueOne(t, b, broker.NewCall(), plainJob("first"))
	clock.Advance(time.Second)
	n, at := plainJob("x"), clock.Wall()
	enqueueOne(t, b, broker.NewCall(), n)
	clock.Advance(time.Minute)
	j, err := b.Get(t.Context(), []broker.Ref{{Queue: "q", ID: n.ID}})
	if err != nil || !j[0].EnqueuedAt.Equal(at) || !j[0].RunAt.Equal(at) {
		t.Errorf("enqueued at %v, to run at %v, %v; want %v", j[0].EnqueuedAt, j[0].RunAt, err, at)
	}
}

func TestAJobThatFellDueBeforeOneOfTheInboxCameIsListedBeforeIt(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	clock := brokertest.NewManualClock(wall)
	b := open(t, s.URL(), "ns", clock)
	defer b.Close()
	jobs := []broker.NewJob{plainJob("steady"), plainJob("wall"), plainJob("x"), plainJob("y")}
	jobs[0].Delay, jobs[1].At = 50*time.Millisecond, wall.Add(60*time.Millisecond)
	for i, n := range jobs {
		if i == 2 {
			clock.Advance(100 * time.Millisecond)
		}
		enqueueOne(t, b, broker.NewCall(), n)
	}
	if lying(s) == 0 {
		t.Error("nothing lies in the inbox: this shows nothing")
	}
	clock.Advance(100 * time.Millisecond)
	got, err := b.List(t.Context(), broker.Filter{Queue: "q", States: []broker.State{broker.Ready}}, "", 10)
	if err != nil || len(got.Jobs) != len(jobs) {
		t.Fatalf("list: %d jobs, %v; want %d", len(got.Jobs), err, len(jobs))
	}
	for i, j := range got.Jobs {
		if j.ID != jobs[i].ID {
			t.Errorf("job %d is %s, want %s", i, j.Payload, jobs[i].Payload)
		}
	}
}

// A job that was due by the wall clock, which has stepped on, has a place behind now.
func TestAPlainJobMayComeBeforeThoseOfItsLane(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	clock := brokertest.NewManualClock(wall)
	b := open(t, s.URL(), "ns", clock)
	defer b.Close()
	late := plainJob("late")
	late.At = wall.Add(time.Hour)
	enqueueOne(t, b, broker.NewCall(), late)
	clock.StepWall(2 * time.Hour)
	if _, err := b.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, second := plainJob("first"), plainJob("second")
	second.Task = "u"
	enqueueOne(t, b, broker.NewCall(), first)
	if lying(s) == 0 {
		t.Error("nothing lies in the inbox: this shows nothing")
	}
	clock.Advance(time.Millisecond)
	enqueueOne(t, b, broker.NewCall(), second)
	for i, l := range take(t, b, "q", 3) {
		if want := []broker.ID{first.ID, second.ID, late.ID}[i]; l.Job.ID != want {
			t.Errorf("lease %d is of %s, want %s", i, l.Job.ID, want)
		}
	}
}

func TestWhoWaitsIsWokenByAJobThatComesAlone(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	enqueueOne(t, b, broker.NewCall(), plainJob("first"))
	take(t, b, "q", 1)
	got := make(chan error, 1)
	go func() {
		c, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, TTL: time.Minute, Worker: "w", Wait: time.Minute})
		if err == nil && len(c.Leases) != 1 {
			err = fmt.Errorf("%d leases", len(c.Leases))
		}
		got <- err
	}()
	for s.Must("ZCARD", "ns:{q}:Z") != int64(1) { // until it waits
	}
	begun := time.Now()
	enqueueOne(t, b, broker.NewCall(), plainJob("x"))
	if err := <-got; err != nil || time.Since(begun) > pollEvery/2 {
		t.Errorf("after %v: %v; want to be woken", time.Since(begun), err)
	}
}

// What is remembered of calls must not stay for ever, nor go before its time.
func TestAnswersAreRememberedForFiveMinutes(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	fill(t, b, "q", 100, 1, nil)
	for _, l := range take(t, b, "q", 100) {
		settle1(t, b, l)
	}
	keys, _ := s.Must("KEYS", "ns:{q}:i*").([]any)
	if len(keys) == 0 || len(keys) > 150 {
		t.Errorf("%d keys hold the answers of 201 calls, want some, each for many", len(keys))
	}
	for _, k := range keys {
		if ms, _ := s.Must("PTTL", k.(string)).(int64); ms < 300_000 || ms > 360_000 {
			t.Errorf("what is in %q is forgotten after %d ms, want 5 to 6 minutes", strings.TrimPrefix(k.(string), "ns:{q}:"), ms)
		}
	}
}
