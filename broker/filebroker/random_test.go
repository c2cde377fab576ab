package filebroker

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// chance plays random calls on a scene.
type chance struct {
	*rand.Rand
	s       *scene
	clients []*twin
}

func pickOne[V any](r *chance, from ...V) V { return from[r.IntN(len(from))] }

// randomLife returns a life of that many steps of two clients.
func randomLife(seed uint64, steps int) func(s *scene) {
	return func(s *scene) {
		s.unordered = true
		r := &chance{Rand: rand.New(rand.NewPCG(seed, 0x11fe)), s: s}
		r.clients = []*twin{s.open(rememberCalls), s.open()}
		for range steps {
			r.step(r.clients[r.IntN(2)])
		}
	}
}

func (r *chance) step(c *twin) {
	switch n := r.IntN(100); {
	case n < 26:
		var jobs []broker.NewJob
		for _, k := range r.Perm(30)[:1+r.IntN(3)] {
			jobs = append(jobs, r.job(k))
		}
		c.enqueue("q", jobs...)
	case n < 48:
		c.claim(broker.ClaimRequest{
			Queues: []string{"q"}, Max: 1 + r.IntN(4), TTL: pickOne(r, time.Second, time.Minute, hour),
			Worker: pickOne(r, "w1", "w2"), Remote: r.IntN(3) == 0,
		})
	case n < 68:
		r.settle(c)
	case n < 74:
		c.extend(broker.ExtendRequest{TTL: hour}, &broker.Progress{Percent: r.IntN(100)}, nil, r.leased()...)
	case n < 82:
		r.command(c)
	case n < 90:
		c.pass(pickOne(r, 10*time.Millisecond, time.Second, time.Minute, 2*hour))
	case n < 94:
		c.tidy()
	default:
		r.reopen()
	}
}

func (r *chance) job(n int) broker.NewJob {
	return labJob(n, func(j *broker.NewJob) {
		j.Payload = bytes.Repeat([]byte("x"), r.IntN(300))
		j.Priority = pickOne[int32](r, 0, 0, 0, 1)
		j.MaxAttempts = pickOne(r, 0, 1, 2)
		j.Retain = pickOne(r, 0, 0, -1, time.Minute)
		j.Delay = pickOne(r, 0, 0, 0, r.moment())
		j.StartWithin = pickOne(r, 0, 0, 0, time.Minute)
		if r.IntN(3) == 0 {
			j.Key, j.KeyHold = pickOne(r, "k", "l"), pickOne(r, broker.HoldUntilFinal, broker.HoldUntilStarted)
		}
	})
}

// moment is a time that no other delay ends at: the order of two jobs of one
// call that are due at once is open.
func (r *chance) moment() time.Duration {
	return time.Second + time.Duration(r.IntN(1_000_000))*time.Microsecond
}

// leased are the numbers of some jobs that have or had a lease.
func (r *chance) leased() (all []int) {
	for n := range 30 {
		if _, ok := r.s.runs[labRef(n)]; ok && r.IntN(3) == 0 {
			all = append(all, n)
		}
	}
	return all
}

func (r *chance) settle(c *twin) {
	kind := pickOne(r, broker.Ack, broker.Ack, broker.Ack, broker.Nack, broker.Snooze, broker.Release, broker.Bury, broker.Cancel)
	c.end(kind, func(st *broker.Settlement) {
		switch kind {
		case broker.Ack:
			st.Result = pickOne(r, nil, nil, []byte("result"))
		case broker.Nack, broker.Snooze:
			st.Delay = pickOne(r, 0, r.moment())
			st.Error = pickOne(r, "", "an error")
		}
	}, r.leased()...)
}

func (r *chance) command(c *twin) {
	kind := pickOne(r, broker.CancelJobs, broker.RequeueJobs, broker.DeleteJobs)
	c.command(kind, broker.Filter{IDs: []broker.ID{labID(r.IntN(30))}}, pickOne(r, "", "by ada"))
}

// remembers lets a client remember its calls, or not.
func (r *chance) remembers() func(*Config) {
	on := r.IntN(2) == 0
	return func(c *Config) { c.RememberCalls = on }
}

// reopen lets one client end, in one way or another, and another one begin.
func (r *chance) reopen() {
	i := r.IntN(2)
	if r.IntN(2) == 0 {
		r.clients[i].close(r.clients[1-i])
	} else {
		r.clients[i].kill(r.clients[1-i])
	}
	r.clients[i] = r.s.open(r.remembers())
}

// TestAPowerCutInARandomLife is the test of power cuts for lives that chance
// makes up.
func TestAPowerCutInARandomLife(t *testing.T) {
	t.Parallel()
	for seed := range uint64(many(60, 2)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s, all := cuts(t, crashfs.Config{Seed: seed}, randomLife(seed, 80), many(8, 1))
			t.Logf("%d cuts, %d frames", len(all), len(s.moments)-1)
			for i := range all {
				all[i].check(s, i)
				all[i].m = nil
			}
		})
	}
}

// TestARepeatedSettlementIsKnownAfterACancel: what came of the job since does
// not make the first one undone.
func TestARepeatedSettlementIsKnownAfterACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, crashfs.Config{Seed: 1})
		a, b := s.open(), s.open()
		later := func(st *broker.Settlement) { st.Delay = time.Minute }
		a.enqueue("q", labJobs(1)...)
		a.take("w", hour, 1)
		a.end(broker.Snooze, later, 1)
		b.command(broker.CancelJobs, broker.Filter{}, "")
		if got := b.end(broker.Snooze, later, 1); got[0].Err != nil || got[0].State != broker.Cancelled {
			t.Errorf("repeated: %+v", got)
		}
	})
}

// inAnyOrder is a look without the places in the lists.
func inAnyOrder(seen []string) (lines []string) {
	for _, l := range seen {
		what, text, _ := bytes.Cut([]byte(l), []byte("{"))
		if fields := bytes.Fields(what); len(fields) == 3 {
			what = bytes.Join(fields[:2], []byte(" "))
		}
		lines = append(lines, string(what)+" {"+string(text))
	}
	slices.Sort(lines)
	return lines
}
