package filebroker

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// everyOperation plays a scripted life of a store: the first open, every call,
// a second process that comes, goes and is killed, segments that fill up,
// checkpoints, and an open that finds nobody alive.
func everyOperation(s *scene) {
	a := s.open(rememberCalls)
	b := s.open()
	everyRecord(s, a, b, 0, false)
	a.maintain()
	b = s.open()
	a.compact()
	everyRecord(s, a, b, 200, true)
	b = s.open()
	a.enqueue("q", labJobs(400, 401)...)
	b.compact()
	b.take("w", hour, 400)
	a.close(b)
	b.end(broker.Ack, nil, 400)
	b.kill(nil)
	c := s.open() // nobody lives
	c.take("w", hour, 401)
	c.end(broker.Ack, func(st *broker.Settlement) { st.Result = []byte("the end") }, 401)
}

// cut is what a power cut left at one moment of a script.
type cut struct {
	name   string
	m      *crashfs.Machine
	acked  uint64 // the last frame that an answer rested on
	handed int    // how many leases had been given out
}

// cuts plays a life of a store and cuts the power before every operation that
// changes what the disk holds, each time in up to limit ways.
func cuts(t *testing.T, cfg crashfs.Config, life func(*scene), limit int) (s *scene, all []cut) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s = newScene(t, cfg)
		var mu sync.Mutex
		var acked uint64
		take := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			for how, m := range s.m.Crashes(limit, uint64(len(all))) {
				all = append(all, cut{name + ": " + how, m, acked, int(s.given.Load())})
			}
		}
		s.acked = func(last uint64) {
			mu.Lock()
			defer mu.Unlock()
			acked = last
		}
		s.m.Inject(func(op crashfs.Op) error {
			if op.Process != s.watcher && changes(s.m, op) {
				take(op.String())
			}
			return nil
		})
		life(s)
		take("the end")
		s.m.Inject(nil)
	})
	s.TB = t
	return s, all
}

// changes says whether an operation can change what a power cut leaves.
func changes(m *crashfs.Machine, op crashfs.Op) bool {
	if op.Kind == crashfs.OpOpen && !strings.Contains(path.Base(op.Path), ".tmp") && !strings.Contains(op.Path, ".new") {
		_, err := m.ReadFile(op.Path)
		return err != nil // it may be created
	}
	return op.Kind.Changes()
}

// last is the moment that the disk holds, as far as the log can be read, and
// whether something acknowledged is missing.
func (c *cut) last(s *scene) (mo *moment, lost bool, err error) {
	seq, err := s.lastFrame(c.m)
	if err != nil || seq < c.acked {
		return nil, true, err
	}
	if mo = s.at[seq]; mo == nil {
		err = fmt.Errorf("frame %d was never written", seq)
	}
	return mo, false, err
}

func TestAPowerCutLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		cfg   crashfs.Config
		limit int
	}{
		{crashfs.Config{Seed: 1}, many(32, 3*thin)},
		{crashfs.Config{Seed: 2, Torn: true, Versions: 2}, many(32, 3*thin)},
	} {
		s, all := cuts(t, of.cfg, everyOperation, of.limit)
		t.Logf("torn sectors %v: %d cuts, %d frames", of.cfg.Torn, len(all), len(s.moments)-1)
		for i := range all {
			if i%stride(1) == 0 {
				all[i].check(s, i)
			}
			if i%(11*thin) == 0 {
				all[i].checkTwice(s, i)
			}
			all[i].m = nil
		}
	}
}

// TestThePowerCutTestNoticesAMissingSync is the control: on a machine whose
// syncs do nothing the same cuts lose what was acknowledged.
func TestThePowerCutTestNoticesAMissingSync(t *testing.T) {
	s, all := cuts(t, crashfs.Config{Seed: 1, IgnoreSync: true}, everyOperation, 3)
	n := 0
	for i := range all {
		if _, lost, _ := all[i].last(s); lost {
			n++
		}
	}
	t.Logf("%d of %d cuts lose something", n, len(all))
	if n < len(all)/4 {
		t.Errorf("only %d of %d cuts lose something that was acknowledged", n, len(all))
	}
}

// check wants that the store holds exactly what it held after some frame, not
// before the last acknowledged one, that tokens grow, and that it goes on.
func (c *cut) check(s *scene, i int) {
	s.Helper()
	defer c.explain(s)
	mo, lost, err := c.last(s)
	must(s, err)
	if lost {
		s.Fatalf("the log ends before frame %d, which was acknowledged", c.acked)
	}
	m := c.m.Crash(crashfs.KeepAll)
	m.Clock.Step(mo.wall.Sub(m.Clock.Wall()))
	alone := i%2 == 0
	if alone {
		withoutHandles(s, m)
	}
	b, err := openOn(m.Process())
	must(s, err)
	switch {
	case mo.due:
	case alone:
		s.sameMoment(b, mo)
	default:
		sameButForLeases(s, b, mo)
	}
	if !proof && i%5 != 0 {
		must(s, b.Close())
		return
	}
	recount(s, b)
	tokensGrow(s, m, b, s.handed[:c.handed])
	goesOn(s, m, b)
}

// checkTwice cuts the power again while the store is recovered, and wants
// everything that was acknowledged to be there still.
func (c *cut) checkTwice(s *scene, i int) {
	s.Helper()
	defer c.explain(s)
	var mu sync.Mutex // several goroutines open a store
	var again []cut
	c.m.Clock.Step(s.at[c.acked].wall.Sub(c.m.Clock.Wall()))
	withoutHandles(s, c.m)
	c.m.Inject(func(op crashfs.Op) error {
		if changes(c.m, op) {
			mu.Lock()
			defer mu.Unlock()
			name := fmt.Sprintf("%s; %v", c.name, op)
			again = append(again, cut{name: name, m: c.m.Crash(crashfs.KeepRandom(uint64(i)))})
		}
		return nil
	})
	b, err := openOn(c.m.Process())
	must(s, err)
	c.m.Inject(nil)
	must(s, b.Close())
	mu.Lock()
	defer mu.Unlock()
	for k := range again {
		if k%stride(4) != 0 {
			continue
		}
		c.name = again[k].name
		m := again[k].m
		m.Clock.Step(s.at[c.acked].wall.Sub(m.Clock.Wall()))
		withoutHandles(s, m)
		b, err := openOn(m.Process())
		must(s, err)
		c.someMoment(s, b)
		must(s, b.Close())
	}
}

// someMoment wants that the store shows what it showed after some frame, not
// before the last acknowledged one, but for leases.
func (c *cut) someMoment(s *scene, b *Broker) {
	s.Helper()
	seen := look(s, b)
	first := s.at[c.acked]
	for _, mo := range s.moments[first.frame:] {
		if butForLeases(mo, seen) == "" {
			return
		}
	}
	s.Fatalf("after a second power cut the store shows what it never did; after frame %d it was:\n%s", first.frame, difference(first.seen, seen))
}

// explain names the cut when the test fails.
func (c *cut) explain(t testing.TB) {
	if t.Failed() {
		t.Logf("the cut was before %s; acknowledged was frame %d", c.name, c.acked)
	}
}

// sameButForLeases is sameMoment for a store whose handles are found dead: what
// they held has come back, all else is as it was.
func sameButForLeases(t testing.TB, b *Broker, mo *moment) {
	t.Helper()
	if diff := butForLeases(mo, look(t, b)); diff != "" {
		t.Fatal(diff)
	}
}

// butForLeases says what is not as it was at a moment, but for leases that the
// death of their handle has ended.
func butForLeases(mo *moment, seen []string) (diff string) {
	was, is := jobLines(mo.seen), jobLines(seen)
	for id, line := range was {
		now, there := is[id]
		delete(is, id)
		switch {
		case now == line:
		case !strings.Contains(line, `"state":"leased"`):
			return fmt.Sprintf("after frame %d, a job changed:\nwas %s\nis  %s", mo.frame, line, now)
		case there && !strings.Contains(now, `"reason":"worker_died"`) && !strings.Contains(now, `"reason":"expired"`) && !strings.Contains(now, `"reason":"crashed"`) && !strings.Contains(now, `"state":"cancelled"`):
			return fmt.Sprintf("after frame %d, a lease ended by something else than the end of its handle or its time:\n%s", mo.frame, now)
		}
	}
	for _, line := range is {
		return fmt.Sprintf("after frame %d there was no such job:\n%s", mo.frame, line)
	}
	return ""
}

// jobLines gives each job of a look by its id.
func jobLines(seen []string) map[string]string {
	jobs := map[string]string{}
	for _, line := range seen {
		_, job, _ := strings.Cut(line, "{")
		if _, id, ok := strings.Cut(job, `"id":"01900000-`); ok {
			jobs[id[:len("0000-7000-8000-000000000000")]] = job
		}
	}
	return jobs
}

// recount wants that the counters equal what is there.
func recount(t testing.TB, b *Broker) {
	t.Helper()
	counts, err := b.Counts(context.Background(), "")
	must(t, err)
	for _, c := range counts {
		for _, state := range broker.States {
			page, err := b.List(context.Background(), broker.Filter{Queue: c.Queue, Task: c.Task, States: []broker.State{state}}, "", broker.MaxPageJobs)
			must(t, err)
			if int64(len(page.Jobs)) != c.Of(state) {
				t.Fatalf("%s/%s counts %d %v, there are %d", c.Queue, c.Task, c.Of(state), state, len(page.Jobs))
			}
		}
	}
}

// tokensGrow lets every lease run out, claims everything, and wants each token
// to be larger than every one that was given out for its job before. Then it
// cuts the power right after the claim, and wants the same again.
func tokensGrow(t testing.TB, m *crashfs.Machine, b *Broker, before []handed) {
	t.Helper()
	first := claimAll(t, m, b)
	larger(t, before, first)
	m = m.Crash(crashfs.KeepNone)
	again, err := openOn(m.Process())
	must(t, err)
	larger(t, first, claimAll(t, m, again))
	must(t, again.Close())
}

// larger wants the tokens of now to be larger than those of before.
func larger(t testing.TB, before, now []handed) {
	t.Helper()
	for _, n := range now {
		for _, h := range before {
			if h.ref == n.ref && h.token >= n.token {
				t.Fatalf("job %v has token %d after the crash, and had %d before", n.ref.ID, n.token, h.token)
			}
		}
	}
}

// claimAll lets every lease run out and takes every job.
func claimAll(t testing.TB, m *crashfs.Machine, b *Broker) (all []handed) {
	t.Helper()
	ctx := context.Background()
	m.Clock.Advance(100 * 24 * time.Hour)
	got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1000, TTL: 1000 * time.Hour, Worker: "w", Remote: true})
	must(t, err)
	for _, l := range got.Leases {
		all = append(all, handed{l.Job.Ref(), l.Token})
	}
	return all
}
