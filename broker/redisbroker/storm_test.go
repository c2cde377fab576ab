package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// storm is producers and workers, each with a client of its own, while somebody
// does something to the server. It notes what was acknowledged.
type storm struct {
	t       *testing.T
	url     string
	cfg     Config
	forgets bool        // claims may be forgotten: their leases are lost then
	fills   bool        // the server may have no room for an enqueue
	over    atomic.Bool // producers stop
	added   sync.Map    // broker.ID → true: its enqueue was acknowledged
	acked   sync.Map    // broker.ID → true: its ack was acknowledged
	count   atomic.Int64
	done    atomic.Int64
}

// open opens the store, again where the server goes away meanwhile.
func (s *storm) open() *Broker {
	for began := time.Now(); ; {
		b, err := Open(context.Background(), s.url, s.cfg)
		if err == nil {
			return b
		}
		if time.Since(began) > time.Minute {
			panic(err) // in a goroutine of the storm, which nobody can end by Fatal
		}
		<-time.After(10 * time.Millisecond)
	}
}

// until repeats a call with its id until its outcome is known.
func until[T any](call func() (T, error)) (T, error) {
	for {
		if v, err := call(); !errors.Is(err, broker.ErrUnknown) {
			return v, err
		}
	}
}

// stormJobs are those of one call: as often as not a plain job alone.
func stormJobs() []broker.NewJob {
	if rand.IntN(2) == 0 {
		return []broker.NewJob{plainJob("p")}
	}
	jobs := make([]broker.NewJob, 1+rand.IntN(20))
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: []byte("p"), Tenant: fmt.Sprint(rand.IntN(3))}
		jobs[i].MakeID()
	}
	return jobs
}

// produce enqueues from several goroutines through one client.
func (s *storm) produce() {
	b := s.open()
	defer func() { _ = b.Close() }()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { s.enqueue(b) })
	}
	wg.Wait()
}

func (s *storm) enqueue(b *Broker) {
	for !s.over.Load() {
		jobs, c := stormJobs(), broker.NewCall()
		for !s.t.Failed() {
			got, err := until(func() ([]broker.Enqueued, error) { return b.Enqueue(context.Background(), c, "q", jobs) })
			if s.fills && errors.Is(err, broker.ErrFull) {
				<-time.After(time.Millisecond)
				continue
			}
			if err != nil {
				s.t.Errorf("enqueue: %v", err)
				return
			}
			for _, a := range got {
				s.added.Store(a.ID, true)
			}
			break
		}
		s.count.Add(int64(len(jobs)))
	}
}

// work claims and acks until everything that was added is done.
func (s *storm) work(worker string) {
	b := s.open()
	defer func() { _ = b.Close() }()
	for !s.t.Failed() && (!s.over.Load() || s.done.Load() < s.count.Load()) {
		c := broker.NewCall()
		got, err := until(func() (broker.Claimed, error) {
			return b.Claim(context.Background(), c, broker.ClaimRequest{Queues: []string{"q"}, Max: 10, TTL: time.Minute, Worker: worker, Wait: 100 * time.Millisecond})
		})
		if err != nil {
			s.t.Errorf("claim: %v", err)
			return
		}
		if len(got.Leases) > 0 && !s.settle(b, got.Leases) {
			return
		}
	}
}

func (s *storm) settle(b *Broker, leases []broker.Lease) bool {
	list := make([]broker.Settlement, len(leases))
	for i, l := range leases {
		if _, twice := s.acked.Load(l.Job.ID); twice {
			s.t.Errorf("job %s runs again after its ack was acknowledged", l.Job.ID)
		}
		list[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
	}
	c := broker.NewCall()
	answers, err := until(func() ([]broker.Settled, error) { return b.Settle(context.Background(), c, list) })
	if err != nil {
		s.t.Errorf("settle: %v", err)
		return false
	}
	for i, a := range answers {
		if s.forgets && (errors.Is(a.Err, broker.ErrLeaseLost) || errors.Is(a.Err, broker.ErrNotFound)) {
			continue // claimed again, with a larger token; or forgotten with its enqueue, which is repeated
		}
		if a.Err != nil {
			s.t.Errorf("job %s: %v", list[i].Ref.ID, a.Err)
			continue
		}
		if _, twice := s.acked.Swap(list[i].Ref.ID, true); twice {
			s.t.Errorf("job %s was acked twice", list[i].Ref.ID)
		}
		s.done.Add(1)
	}
	return true
}

// keepAll keeps jobs that are done, to be counted.
func (s *storm) keepAll() {
	b := s.open()
	defer func() { _ = b.Close() }()
	keep := broker.Setting{Kind: broker.RetentionSetting, Retention: &broker.Retention{Done: time.Hour}}
	if err := b.Configure(context.Background(), broker.NewCall(), "q", broker.Change{Set: []broker.Setting{keep}}); err != nil {
		s.t.Fatal(err)
	}
}

// run lets the storm rage while weather is made, and judges what is left.
func (s *storm) run(weather func(more func(jobs int64))) {
	s.keepAll()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.over.Store(true) // when the weather ends the test
	for i := range 4 {
		wg.Go(s.produce)
		wg.Go(func() { s.work(fmt.Sprint("w", i)) })
	}
	weather(func(jobs int64) {
		for from, end := s.done.Load(), time.Now().Add(time.Minute); s.done.Load() < from+jobs; <-time.After(time.Millisecond) {
			if s.t.Failed() || time.Now().After(end) {
				s.t.Fatal("no job is done any more")
			}
		}
	})
	s.over.Store(true)
	wg.Wait()
	s.added.Range(func(id, _ any) bool {
		if _, ok := s.acked.Load(id); !ok {
			s.t.Errorf("job %s was enqueued, and never done", id)
		}
		return true
	})
	b := s.open()
	defer func() { _ = b.Close() }()
	counts, err := b.Counts(context.Background(), "q")
	if err != nil || len(counts) != 1 {
		s.t.Fatalf("counts %+v, %v", counts, err)
	}
	n, all := counts[0], s.count.Load()
	if n.Done != all || n.Ready+n.Leased+n.Scheduled+n.Dead+n.Cancelled != 0 || n.Depth != 0 || n.Totals.Enqueued != all || n.Totals.Acked != all {
		s.t.Errorf("%d jobs were enqueued and done; the queue counts %+v", all, n)
	}
	s.t.Logf("%d jobs", all)
}

func TestAStormLosesAndDoublesNothingWhileTheServerIsKilled(t *testing.T) {
	slow(t)
	server := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	s := &storm{t: t, url: server.URL()}
	s.run(func(more func(jobs int64)) {
		for range 5 {
			more(500)
			server.Kill()
			server.Restart()
		}
		more(500)
	})
}

func TestAStormLosesAndDoublesNothingWhileConnectionsAreCut(t *testing.T) {
	slow(t)
	server := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, server.Addr())
	s := &storm{t: t, url: p.URL()}
	s.run(func(more func(jobs int64)) {
		for range 20 {
			more(100)
			p.Cut()
		}
		more(100)
	})
}

func TestAStormLosesAndDoublesNothingWhileTheSlotMoves(t *testing.T) {
	slow(t)
	set := redistest.StartCluster(t, redistest.Options{})
	s := &storm{t: t, url: set.URL()}
	slot := set.Slot(namesOf("spool")("q").config)
	s.run(func(more func(jobs int64)) {
		for range 3 {
			more(300)
			m := set.Migrate(slot)
			m.Begin()
			for m.Move(50) == 50 {
			}
			m.End()
		}
		more(300)
	})
}

func TestAStormDoublesNothingAndLosesNothingThatAReplicaHas(t *testing.T) {
	slow(t)
	set := redistest.StartSentinel(t, redistest.Options{})
	s := &storm{t: t, url: set.URL(), forgets: true, cfg: Config{WaitReplicas: 1, WaitTimeout: 300 * time.Millisecond}}
	s.run(func(more func(jobs int64)) {
		more(300)
		set.Failover()
		more(300)
	})
}

// Clients give up on replies and repeat their calls while the server stands
// still; when it goes on it runs both.
func TestAStormLosesAndDoublesNothingWhileTheServerStandsStill(t *testing.T) {
	slow(t)
	server := redistest.Start(t, redistest.Options{})
	s := &storm{t: t, url: server.URL(), cfg: Config{CallTimeout: 200 * time.Millisecond}}
	s.run(func(more func(jobs int64)) {
		for range 4 {
			more(300)
			server.Stop()
			<-time.After(700 * time.Millisecond)
			server.Cont()
		}
		more(300)
	})
}

// Replies are lost while many calls of a client are on their way at once, most of
// them enqueues of one job each.
func TestAStormLosesAndDoublesNothingWhileRepliesAreLost(t *testing.T) {
	slow(t)
	server := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, server.Addr())
	p.Judge(func(args []string) redistest.Verdict {
		switch n := rand.IntN(60); {
		case args[0] != "EVALSHA":
			return redistest.Pass
		case n == 0:
			return redistest.DropReply
		case n == 1:
			return redistest.DropRequest
		}
		return redistest.Pass
	})
	s := &storm{t: t, url: p.URL()}
	s.run(func(more func(jobs int64)) { more(5000) })
}

// The server forgets its scripts, ends connections and has no room, again and again.
func TestAStormLosesAndDoublesNothingOnABadDay(t *testing.T) {
	slow(t)
	server := redistest.Start(t, redistest.Options{})
	s := &storm{t: t, url: server.URL(), fills: true}
	s.run(func(more func(jobs int64)) {
		for range 30 {
			server.Must("SCRIPT", "FLUSH")
			server.Must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			server.Must("CONFIG", "SET", "maxmemory", "1mb")
			<-time.After(10 * time.Millisecond)
			server.Must("CONFIG", "SET", "maxmemory", "0")
			more(100)
		}
	})
}
