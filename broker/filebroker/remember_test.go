package filebroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func rememberCalls(c *Config) { c.RememberCalls = true }

func TestKeepsTheContractWithCallsRemembered(t *testing.T) {
	slow(t)
	brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness { return onMachine(t, Config{RememberCalls: true}) })
}

func TestRandomHistoriesMatchTheModelWhileCallsAreMadeAgain(t *testing.T) {
	slow(t)
	brokertest.RunHistoriesInBubbles(t, func(t *testing.T) brokertest.Harness {
		h := onMachine(t, Config{RememberCalls: true})
		h.Repeats = true
		return h
	}, histories(40), firstHistory())
}

// server is one of several processes in front of a store.
type server struct {
	testing.TB
	m *crashfs.Machine
	p *crashfs.Process
	*Broker
}

func newServer(t testing.TB, m *crashfs.Machine, change ...func(*Config)) *server {
	t.Helper()
	s := &server{TB: t, m: m, p: m.Process()}
	var err error
	s.Broker, err = openOn(s.p, append([]func(*Config){rememberCalls, roomy}, change...)...)
	must(t, err)
	t.Cleanup(func() { s.Close() }) // it may be dead
	return s
}

// request is a call of some client, which answers in words.
type request struct {
	name   string
	before func(s *server) // what has to be there
	make   func(s *server, c broker.Call) (string, error)
}

// requests are of all sorts, each of which changes something.
func requests() []request {
	ctx := context.Background()
	filter := broker.Filter{Queue: "q"}
	var leases []broker.Lease
	return []request{
		{"enqueue", nil, func(s *server, c broker.Call) (string, error) {
			got, err := s.Enqueue(ctx, c, "q", []broker.NewJob{{Task: "t"}, {Task: "t", Delay: time.Hour}})
			return fmt.Sprint(got), err
		}},
		{"claim", func(s *server) { enqueueSome(s, 3) }, func(s *server, c broker.Call) (text string, err error) {
			got, err := s.Claim(ctx, c, broker.ClaimRequest{Queues: []string{"q"}, Max: 2, Remote: true})
			for _, l := range got.Leases {
				text += fmt.Sprintln(l.Job.ID, l.Token)
			}
			return text, err
		}},
		{"settle", func(s *server) { enqueueSome(s, 2); leases = take(s, s.Broker, 2) }, func(s *server, c broker.Call) (string, error) {
			got, err := s.Settle(ctx, c, []broker.Settlement{
				{Ref: leases[0].Job.Ref(), Token: leases[0].Token, Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: "next", Job: broker.NewJob{Task: "t"}}}},
				{Ref: leases[1].Job.Ref(), Token: leases[1].Token, Kind: broker.Release},
			})
			return fmt.Sprint(got), err
		}},
		{"apply", func(s *server) { enqueueSome(s, 5) }, func(s *server, c broker.Call) (string, error) {
			got, err := s.Apply(ctx, c, broker.Command{Kind: broker.CancelJobs, Filter: filter, Limit: 2})
			return fmt.Sprint(got), err
		}},
		{"configure", func(s *server) { s.change(weightOf(1, 0)) }, func(s *server, c broker.Call) (string, error) {
			return "", s.Configure(ctx, c, "q", weightOf(2, 1))
		}},
		{"tick", func(s *server) {
			s.change(broker.Change{Set: []broker.Setting{{Kind: broker.ScheduleSetting, Name: "s", Schedule: &broker.Schedule{Spec: "@every 1s", Job: broker.NewJob{Task: "t"}}}}})
			_, _, err := s.Tick(ctx, broker.NewCall(), broker.Tick{Queue: "q", Schedule: "s", Next: time.Unix(1000, 0)})
			must(s, err)
		}, func(s *server, c broker.Call) (string, error) {
			won, _, err := s.Tick(ctx, c, broker.Tick{Queue: "q", Schedule: "s", Due: time.Unix(1000, 0), Next: time.Unix(2000, 0), Jobs: []broker.NewJob{{Task: "t"}}})
			return fmt.Sprint(won), err
		}},
	}
}

func weightOf(n int, revision uint64) broker.Change {
	return broker.Change{Set: []broker.Setting{{Kind: broker.WeightSetting, Name: "x", Weight: n, Revision: revision}}}
}

func (s *server) change(c broker.Change) {
	s.Helper()
	must(s, s.Configure(context.Background(), broker.NewCall(), "q", c))
}

func enqueueSome(s *server, n int) {
	_, err := s.Enqueue(context.Background(), broker.NewCall(), "q", slices.Repeat([]broker.NewJob{{Task: "t"}}, n))
	must(s, err)
}

// TestAServerIsKilledAtAnyOperationOfACallAndItsRepeatChangesNothing kills the
// process of a server before each operation on the disk that a call makes, and
// makes the call again in another process: it has taken place once, and whoever
// asks once more, also of a process that loads a checkpoint, is told the same.
func TestAServerIsKilledAtAnyOperationOfACallAndItsRepeatChangesNothing(t *testing.T) {
	for _, r := range requests() {
		t.Run(r.name, func(t *testing.T) {
			committed := 0
			for at := 0; ; at++ {
				var end, taken bool
				synctest.Test(t, func(t *testing.T) { end, taken = killedAt(t, r, at) })
				if taken {
					committed++
				}
				if end || t.Failed() {
					t.Logf("%d operations, the call had taken place in %d of them", at, committed)
					break
				}
			}
			if committed == 0 {
				t.Error("no kill was between the commit and its answer")
			}
		})
	}
}

// killedAt kills a server before its at-th operation from the beginning of the
// call on; end says that there are not so many. taken says that the call had
// taken place.
func killedAt(t *testing.T, r request, at int) (end, taken bool) {
	m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
	a, b := newServer(t, m), newServer(t, m)
	if r.before != nil {
		r.before(b)
	}
	synctest.Wait()
	before := counted(b)
	var n atomic.Int64
	m.Inject(func(op crashfs.Op) error {
		if op.Process == a.p && n.Add(1) == int64(at+1) {
			a.p.Kill()
		}
		return nil
	})
	c := broker.NewCall()
	first, err := r.make(a, c)
	m.Inject(nil)
	end = n.Load() <= int64(at)
	if end {
		must(t, err)
	}
	synctest.Wait()
	left := counted(b)
	answer, err := r.make(b, c)
	must(t, err)
	if end && answer != first {
		t.Errorf("operation %d: made again: %s, first: %s", at, answer, first)
	}
	after := counted(b)
	if taken = left != before; taken && after != left || after == before {
		t.Errorf("operation %d: before %s, then %s, after it was made again %s", at, before, left, after)
	}
	_, err = b.Compact(context.Background())
	must(t, err)
	again := newServer(t, m)
	for _, s := range []*server{b, again} {
		if got, err := r.make(s, c); err != nil || got != answer {
			t.Errorf("operation %d: made once more: %s %v, first: %s", at, got, err, answer)
		}
	}
	if got := counted(again); got != after {
		t.Errorf("operation %d: made once more, from %s to %s", at, after, got)
	}
	return end, taken
}

// counted is what a call changes.
func counted(s *server) string {
	s.Helper()
	all, err := s.Counts(context.Background(), "")
	must(s, err)
	settings, err := s.Settings(context.Background(), "q")
	must(s, err)
	text := fmt.Sprint(all)
	for _, t := range settings {
		text += fmt.Sprintf(" %s %d %d", t.Name, t.Revision, t.Weight)
	}
	return text
}

// TestACallIsRememberedForTwoMinutesAndForgottenSoonAfter makes a call again just before two
// minutes are over, and some seconds after, in processes that took it in from the log and from a
// checkpoint.
func TestACallIsRememberedForTwoMinutesAndForgottenSoonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		a := newServer(t, m)
		c, jobs := broker.NewCall(), []broker.NewJob{{Task: "t"}}
		first, err := a.Enqueue(context.Background(), c, "q", jobs)
		must(t, err)
		depth := func(s *server, want int64) {
			t.Helper()
			if got := counts(t, s.Broker).Ready; got != want {
				t.Errorf("%d jobs are ready, want %d", got, want)
			}
		}
		time.Sleep(2*time.Minute - time.Millisecond)
		_, err = a.Compact(context.Background())
		must(t, err)
		b := newServer(t, m)
		for _, s := range []*server{a, b} {
			got, err := s.Enqueue(context.Background(), c, "q", jobs)
			must(t, err)
			if !slices.Equal(got, first) {
				t.Errorf("made again: %v, first %v", got, first)
			}
			depth(s, 1)
		}
		time.Sleep(10*time.Second + 2*time.Millisecond) // what was sent in time has come
		got, err := b.Enqueue(context.Background(), c, "q", jobs)
		must(t, err)
		if slices.Equal(got, first) {
			t.Error("a call is remembered for longer than 130 seconds")
		}
		depth(a, 2)
	})
}

// TestACallIsRememberedThroughProcessesThatRememberNone: their own calls write no
// record, but those of others are kept, and forgotten in time.
func TestACallIsRememberedThroughProcessesThatRememberNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		a := newServer(t, m)
		c, jobs := broker.NewCall(), []broker.NewJob{{Task: "t"}, {Task: "t", Key: "k"}}
		first, err := a.Enqueue(context.Background(), c, "q", jobs)
		must(t, err)
		must(t, a.Close())

		plain := newServer(t, m, func(c *Config) { c.RememberCalls = false })
		if plain.Caps().Retry != 0 {
			t.Error("a client that remembers no calls says that it does")
		}
		enqueueSome(plain, 1)
		if n := plain.cur.Load().s.CallBytes(); n == 0 || n > 80 {
			t.Errorf("remembered calls take %d bytes, there is one of two jobs", n)
		}
		_, err = plain.Compact(context.Background())
		must(t, err)
		must(t, plain.Close())
		m = m.Crash(crashfs.KeepNone) // what the answers rested on is there

		b := newServer(t, m)
		got, err := b.Enqueue(context.Background(), c, "q", jobs)
		must(t, err)
		if !slices.Equal(got, first) || counts(t, b.Broker).Ready != 3 {
			t.Errorf("made again: %v, first %v, %+v", got, first, counts(t, b.Broker))
		}
		plain = newServer(t, m, func(c *Config) { c.RememberCalls = false })
		time.Sleep(3 * time.Minute)
		enqueueSome(plain, 1)
		if n := plain.cur.Load().s.CallBytes(); n != 0 {
			t.Errorf("calls that are over take %d bytes", n)
		}
	})
}

// TestARefusedCallIsJudgedAnew: it changed nothing, and so is not remembered.
func TestARefusedCallIsJudgedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		s := newServer(t, m)
		s.change(broker.Change{Set: []broker.Setting{{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 1}}}})
		enqueueSome(s, 1)
		c, claim := broker.NewCall(), broker.NewCall()
		jobs, want := []broker.NewJob{{Task: "t"}}, broker.ClaimRequest{Queues: []string{"q"}, Tasks: []string{"t"}, Max: 5}
		if _, err := s.Enqueue(context.Background(), c, "q", jobs); !errors.Is(err, broker.ErrFull) {
			t.Errorf("over the capacity: %v", err)
		}
		for _, n := range []int{1, 1} { // the second time, the lease of the first
			if got, err := s.Claim(context.Background(), claim, want); err != nil || len(got.Leases) != n {
				t.Errorf("claimed %d, %v", len(got.Leases), err)
			}
		}
		empty := broker.NewCall()
		if got, err := s.Claim(context.Background(), empty, want); err != nil || len(got.Leases) != 0 {
			t.Errorf("claimed %d of nothing, %v", len(got.Leases), err)
		}
		s.change(broker.Change{Clear: []broker.SettingName{{Kind: broker.CapacitySetting}}})
		if _, err := s.Enqueue(context.Background(), c, "q", jobs); err != nil {
			t.Errorf("with room: %v", err)
		}
		if got, err := s.Claim(context.Background(), empty, want); err != nil || len(got.Leases) != 1 {
			t.Errorf("a claim that found nothing, made again, claimed %d, %v", len(got.Leases), err)
		}
		if _, err := s.Settle(context.Background(), claim, []broker.Settlement{{Ref: labRef(1), Token: 1, Kind: broker.Ack}}); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("a settlement with the call id of a claim: %v", err)
		}
	})
}

// TestARepeatedClaimOfAKilledServerReturnsItsRemoteLeases: those that were its own
// ended with it.
func TestARepeatedClaimOfAKilledServerReturnsItsRemoteLeases(t *testing.T) {
	for _, remote := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
			a, b := newServer(t, m), newServer(t, m)
			enqueueSome(b, 3)
			c, r := broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 2, Remote: remote, TTL: time.Minute}
			first, err := a.Claim(context.Background(), c, r)
			must(t, err)
			a.p.Kill()
			time.Sleep(time.Second)
			got, err := b.Claim(context.Background(), c, r)
			must(t, err)
			want := 0
			if remote {
				want = 2
			}
			if len(first.Leases) != 2 || len(got.Leases) != want {
				t.Fatalf("remote %v: claimed %d, then %d", remote, len(first.Leases), len(got.Leases))
			}
			for i, l := range got.Leases {
				if l.Job.ID != first.Leases[i].Job.ID || l.Token != first.Leases[i].Token || string(l.Job.Payload) != string(first.Leases[i].Job.Payload) {
					t.Errorf("lease %d: %+v, first %+v", i, l, first.Leases[i])
				}
			}
		})
	}
}

// BenchmarkEnqueueRemembered is BenchmarkEnqueue of 64 goroutines: in a process
// that only enqueues, in one that has loaded the state, and in one that remembers
// its calls.
func BenchmarkEnqueueRemembered(b *testing.B) {
	for _, c := range []struct {
		name   string
		cfg    Config
		loaded bool
	}{{"without the state", Config{}, false}, {"with the state", Config{}, true}, {"remembered", Config{RememberCalls: true}, true}} {
		b.Run(c.name, func(b *testing.B) {
			c.cfg.AllowUnsafeFS = true
			q, err := Open(b.TempDir(), c.cfg)
			must(b, err)
			defer q.Close()
			if c.loaded {
				must(b, q.cur.Load().want(context.Background()))
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for i := 0; i < b.N/64; i++ {
						if _, err := q.Enqueue(context.Background(), broker.NewCall(), "default", []broker.NewJob{{Task: "t", Payload: payload100}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
