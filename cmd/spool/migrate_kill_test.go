package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokerurl"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/internal/redistest"
)

// travels are jobs whose queue moves to and fro between two stores, both of
// which have producers, workers and an operator.
type travels struct {
	t      *testing.T
	s      *tool
	places [2]string
	stormy bool // a server may be away
	sides  [2]broker.Broker
	mu     sync.Mutex
	jobs   map[broker.ID]*travel
	groups map[string]broker.ID // who holds an ordered group
	ran    [2]int               // runs, by side
	told   []broker.ID          // to choose from
	ended  int
	failed []string

	turnedAway int // processes that found no server
}

// travel is what became of one job.
type travel struct {
	token     broker.Token
	running   bool
	done      int
	cancelled bool
	batch     *int // of a completion job: how many members have not ended; of a member: the same
	completes bool
	ordered   bool
}

func (v *travels) fail(format string, args ...any) {
	if len(v.failed) < 20 {
		v.failed = append(v.failed, fmt.Sprintf(format, args...))
	}
}

const travelQueue = "q"

// backlog is how many jobs wait, run and move at most.
const backlog = 400

// produce enqueues jobs at one side until ctx ends: plain ones, ordered ones,
// batches.
func (v *travels) produce(ctx context.Context, side int) {
	for n := 0; ctx.Err() == nil; n++ {
		jobs := []broker.NewJob{{Task: "t", Payload: []byte("p")}}
		jobs[0].MakeID()
		switch n % 5 {
		case 0:
			jobs[0].Group, jobs[0].Ordered = fmt.Sprint("g", side, n%3), true
		case 1:
			jobs[0].Key = fmt.Sprint("k", side, n)
		case 2:
			jobs[0].Delay = rand.N(20 * time.Millisecond)
		case 3:
			jobs[0].BatchSize = 3
			for i := range uint32(3) {
				jobs = append(jobs, broker.NewJob{ID: broker.NewID(), Task: "t", Batch: jobs[0].ID, BatchOrdinal: i})
			}
		}
		v.mu.Lock()
		if len(v.jobs)-v.ended > backlog { // a busy machine has to keep up
			v.mu.Unlock()
			rest(ctx, 10*time.Millisecond)
			continue
		}
		open := len(jobs) - 1
		for i := range jobs {
			j := &travel{ordered: jobs[i].Ordered}
			if len(jobs) > 1 {
				j.batch, j.completes = &open, i == 0
			}
			v.jobs[jobs[i].ID] = j
			v.told = append(v.told, jobs[i].ID)
		}
		v.mu.Unlock()
		if _, err := v.sides[side].Enqueue(context.Background(), broker.NewCall(), travelQueue, jobs); err != nil {
			v.mu.Lock()
			v.fail("enqueue at side %d: %v", side, err)
			v.mu.Unlock()
			return
		}
		rest(ctx, rand.N(8*time.Millisecond))
	}
}

// rest waits, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// work runs what a side gives out until ctx ends.
func (v *travels) work(ctx context.Context, side int) {
	b := v.sides[side]
	for ctx.Err() == nil {
		got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{travelQueue}, Max: 4, Wait: 50 * time.Millisecond, Worker: "w"})
		if err != nil {
			v.mu.Lock()
			v.fail("claim at side %d: %v", side, err)
			v.mu.Unlock()
			return
		}
		for _, l := range got.Leases {
			v.starts(side, &l)
			rest(ctx, rand.N(3*time.Millisecond))
			v.ends(b, &l)
		}
	}
}

func (v *travels) starts(side int, l *broker.Lease) {
	v.mu.Lock()
	defer v.mu.Unlock()
	j := v.jobs[l.Job.ID]
	v.ran[side]++
	switch {
	case j == nil:
		v.fail("job %s was never enqueued", l.Job.ID)
		v.jobs[l.Job.ID] = &travel{}
		return
	case j.running:
		v.fail("job %s runs twice at once", l.Job.ID)
	case j.done > 0:
		v.fail("job %s runs again after it was done", l.Job.ID)
	case j.cancelled:
		v.fail("job %s runs after it was cancelled", l.Job.ID)
	case l.Token <= j.token:
		v.fail("job %s has token %d after %d", l.Job.ID, l.Token, j.token)
	case j.completes && *j.batch > 0:
		v.fail("job %s runs, and %d of its batch have not ended", l.Job.ID, *j.batch)
	}
	if l.Job.Ordered {
		if holder, held := v.groups[l.Job.Group]; held && holder != l.Job.ID {
			v.fail("job %s runs while %s holds its group", l.Job.ID, holder)
		}
		v.groups[l.Job.Group] = l.Job.ID
	}
	j.token, j.running = l.Token, true
}

func (v *travels) ends(b broker.Broker, l *broker.Lease) {
	s := broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
	switch rand.IntN(6) {
	case 0:
		s.Kind, s.Delay = broker.Nack, rand.N(5*time.Millisecond)
	case 1:
		s.Kind = broker.Release
	case 2:
		s.Kind, s.Delay = broker.Snooze, rand.N(30*time.Millisecond)
	}
	if l.Job.Attempt > 15 {
		s.Kind, s.Delay = broker.Ack, 0
	}
	v.mu.Lock() // before it can be claimed again
	j := v.jobs[l.Job.ID]
	j.running = false
	if s.Kind == broker.Ack {
		j.done++
		v.ended++
		v.final(j, l.Job.Group, l.Job.Ordered)
	}
	v.mu.Unlock()
	answers, err := b.Settle(context.Background(), broker.NewCall(), []broker.Settlement{s})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		v.mu.Lock()
		v.fail("%v of job %s: %v", s.Kind, l.Job.ID, err)
		v.mu.Unlock()
	}
}

// final notes the end of a job; mu is held.
func (v *travels) final(j *travel, group string, ordered bool) {
	if ordered {
		delete(v.groups, group)
	}
	if j.batch != nil && !j.completes {
		*j.batch--
	}
}

// operate deletes a job now and then, wherever it is, as long as it waits.
func (v *travels) operate(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		rest(ctx, 5*time.Millisecond)
		v.mu.Lock()
		if len(v.told) == 0 {
			v.mu.Unlock()
			continue
		}
		id := v.told[max(0, len(v.told)-1-rand.IntN(30))]
		j := v.jobs[id]
		if j.ordered || j.batch != nil { // what that lets run may do so before it is noted here
			v.mu.Unlock()
			continue
		}
		v.mu.Unlock()
		cmd := broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: travelQueue, IDs: []broker.ID{id}, States: []broker.State{broker.Scheduled, broker.Ready}}}
		step, err := v.sides[n%2].Apply(context.Background(), broker.NewCall(), cmd)
		v.mu.Lock()
		if err != nil {
			v.fail("delete: %v", err)
		}
		if step.Changed > 0 {
			j.cancelled = true
			v.ended++
		}
		v.mu.Unlock()
	}
}

// leg moves the queue from one side to the other by processes that are killed at
// random moments, until one comes to the end. It returns how many were killed.
func (v *travels) leg(s *tool, from, to string, until time.Time) (kills int) {
	for {
		cmd := s.process("migrate", from, to, "--runner-ttl", "40ms")
		out := &lockedBuffer{}
		cmd.Stderr = out
		if err := cmd.Start(); err != nil {
			v.t.Fatal(err)
		}
		spare := time.Now().After(until)
		if !spare {
			time.AfterFunc(rand.N(120*time.Millisecond), func() { _ = cmd.Process.Kill() }) // it may have ended
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return kills
		case errors.As(err, &exit) && exit.ExitCode() == -1 && !spare:
			kills++
		case v.stormy && away.MatchString(out.String()):
			v.turnedAway++
		default:
			v.t.Fatalf("migrate: %v: %s", err, out.String())
		}
	}
}

// away is what a process says that finds no server when it starts.
var away = regexp.MustCompile(`refused|reset by peer|EOF`)

// lockedBuffer is written to by a process and read by a test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}

func TestJobsOfAQueueThatMovesToAndFroUnderKillsEndOnce(t *testing.T) {
	s := newTool(t)
	v := newTravels(t, s, s.dir, s.other("new").dir)
	v.journey(travelTime, func(context.Context) {})
}

// The directory's producers, workers and operator, and those of Redis, live on; who
// moves the queue is killed, and the server, which syncs whatever it acknowledges.
func TestJobsOfAQueueThatMovesBetweenADirectoryAndRedisUnderKillsEndOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("the full run makes it")
	}
	s := newTool(t)
	server := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	v := newTravels(t, s, s.dir, server.URL())
	v.stormy = true
	deaths := 0
	v.journey(3*travelTime, func(ctx context.Context) {
		for {
			rest(ctx, 300*time.Millisecond+rand.N(time.Second))
			if ctx.Err() != nil {
				return
			}
			server.Kill()
			rest(ctx, rand.N(100*time.Millisecond))
			server.Restart()
			deaths++
		}
	})
	proveAll(t, server, v.sides[1])
	t.Logf("the server was killed %d times, %d processes found none", deaths, v.turnedAway)
	if done := len(v.jobs); deaths < 5 || done < 1000 {
		t.Errorf("%d deaths and %d jobs show little", deaths, done)
	}
}

// proveAll lets upkeep prove every index of the queue by its records, and wants that
// it finds nothing to put right.
func proveAll(t *testing.T, server *redistest.Server, b broker.Broker) {
	t.Helper()
	proof := "spool:{" + travelQueue + "}:E"
	server.Must("DEL", proof)
	for server.Must("HGET", proof, "over") == nil {
		if _, err := b.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, field := range server.Must("HKEYS", proof).([]any) {
		if strings.HasPrefix(field.(string), "fixed:") {
			t.Errorf("upkeep put right %v", field)
		}
	}
}

// newTravels opens both sides: a directory each, or a URL.
func newTravels(t *testing.T, s *tool, places ...string) *travels {
	v := &travels{t: t, s: s, jobs: map[broker.ID]*travel{}, groups: map[string]broker.ID{}}
	for i, place := range places {
		b, err := brokerurl.Open(t.Context(), place, brokerurl.Config{File: filebroker.Config{AllowUnsafeFS: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		v.sides[i], v.places[i] = b, place
	}
	return v
}

// journey moves the queue to and fro for a while, in the storm that strike makes
// until its context ends, and wants that every job has ended once.
func (v *travels) journey(span time.Duration, strike func(ctx context.Context)) {
	ctx, stopWork := context.WithCancel(context.Background())
	fill, stopFilling := context.WithCancel(ctx)
	defer stopWork()
	defer stopFilling()
	var filling, working sync.WaitGroup
	for side := range 2 {
		filling.Go(func() { v.produce(fill, side) })
		working.Go(func() { v.work(ctx, side) })
		working.Go(func() { v.work(ctx, side) })
	}
	filling.Go(func() { v.operate(fill) })
	filling.Go(func() { strike(fill) })
	kills, legs := 0, 0
	for until := time.Now().Add(span); time.Now().Before(until); legs++ {
		kills += v.leg(v.s, v.places[legs%2], v.places[1-legs%2], time.Now().Add(time.Second))
	}
	stopFilling()
	filling.Wait()
	v.leg(v.s, v.places[legs%2], v.places[1-legs%2], time.Now()) // what is at the side that it left last
	await(v.t, "every job to end", func() bool { return v.open() == 0 })
	stopWork()
	working.Wait()
	for _, f := range v.failed {
		v.t.Error(f)
	}
	v.check(v.t, kills, legs)
}

const travelTime = 6 * time.Second

// open counts the jobs that have not ended, none once something is wrong.
func (v *travels) open() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.failed) > 0 {
		return 0
	}
	return len(v.jobs) - v.ended
}

func (v *travels) check(t *testing.T, kills, legs int) {
	done, cancelled := 0, 0
	for id, j := range v.jobs {
		switch {
		case j.done == 1 && !j.cancelled:
			done++
		case j.cancelled && j.done == 0:
			cancelled++
		default:
			t.Errorf("job %s was done %d times, cancelled: %v", id, j.done, j.cancelled)
		}
	}
	for i, b := range v.sides {
		counts, err := b.Counts(context.Background(), travelQueue)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range counts {
			if n.Depth != 0 || n.Dead+n.Cancelled != 0 {
				t.Errorf("side %d has left %+v", i, n)
			}
		}
	}
	t.Logf("%d jobs done, %d deleted, runs by side %v, %d moves, %d kills", done, cancelled, v.ran, legs+1, kills)
	if kills < 5 || v.ran[0] < 50 || v.ran[1] < 50 {
		t.Errorf("%d kills, runs by side %v: the test shows little", kills, v.ran)
	}
}
