package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestTwoProcessesCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, crashfs.Config{Seed: 1})
		a, b, c := s.open(), s.open(), s.open()
		for round := range 3 {
			everyRecord(s, a, c, 200*round, round == 1)
			a.compact()
			b.done(false)
			b.enqueue("q", labJobs(200*round+150, 200*round+151)...)
			b.compact()
			a.take("far", 40*hour, 200*round+150, 200*round+151)
			atOnce(s, a, b)
			c = s.open() // from a checkpoint
		}
	})
}

// atOnce lets two handles compact at the same time: one of them does.
func atOnce(s *scene, a, b *twin) {
	s.Helper()
	var wg sync.WaitGroup
	var did [2]Compacted
	var errs [2]error
	for i, c := range []*twin{a, b} {
		wg.Go(func() { did[i], errs[i] = c.real.Compact(context.Background()) })
	}
	wg.Wait()
	must(s, errors.Join(errs[:]...))
	if did[0].Checkpoint == 0 && did[1].Checkpoint == 0 {
		s.Errorf("none of two compactions took place")
	}
	a.done(false)
	b.done(false)
}

// TestAHandleFarBehindLoadsTheCheckpoint leaves a handle idle while segments
// that it has not read are dropped.
func TestAHandleFarBehindLoadsTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, crashfs.Config{Seed: 1})
		a, b, idle := s.open(), s.open(), s.open()
		at := idle.real.cur.Load().log.Pos().Segment
		everyRecord(s, a, b, 0, false)
		n := a.compact()
		if at > n {
			t.Fatalf("the idle handle is at segment %d, past checkpoint %d", at, n)
		}
		idle.done(false) // holds what it shows against the model
		if got := idle.real.cur.Load().log.Pos().Segment; got <= n {
			t.Errorf("the idle handle is still at segment %d", got)
		}
		b = s.open()
		everyRecord(s, idle, b, 200, true) // it decides by what it loaded
		a.done(false)
	})
}

// TestAHandlePastTheCheckpointTakesOverMovedPayloads: it has read all that the
// checkpoint stands for, but the payloads lie elsewhere now.
func TestAHandlePastTheCheckpointTakesOverMovedPayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, crashfs.Config{Seed: 1})
		a, b, other := s.open(), s.open(), s.open()
		everyRecord(s, a, b, 0, false)
		other.enqueue("q", labJobs(150, 151)...)
		old := tickets(other.real, "q", broker.Ready)
		if len(old) != 2 {
			t.Fatalf("%d jobs are ready", len(old))
		}
		a.step("compact")
		got, err := a.real.Compact(context.Background())
		must(t, err)
		if got.Moved == 0 || got.Removed == 0 {
			t.Fatalf("nothing was moved: %+v", got)
		}
		s.takeFrames(a)
		var uses [2][]uint32
		for i, c := range []*twin{other, a} {
			c.real.cur.Load().readForward()
			uses[i] = neededFiles(c.real)
		}
		if !slices.Equal(uses[0], uses[1]) {
			t.Errorf("one handle needs the files %x, the other %x", uses[0], uses[1])
		}
		jobs, err := other.real.cur.Load().fill(old) // places that were looked up before the compaction
		must(t, err)
		for i, n := range []int{150, 151} {
			if jobs[i].ID != labID(n) || !slices.Equal(jobs[i].Payload, labJob(n).Payload) {
				t.Errorf("job %d was moved, and reads as %+v", n, jobs[i])
			}
		}
		other.take("w", hour, 150, 151)
		other.end(broker.Ack, nil, 150, 151)
	})
}

// tickets are the jobs of one state as a handle knows them now.
func tickets(c *Broker, queue string, state broker.State) []jobstate.Ticket {
	b := c.cur.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	found, _, err := b.s.Select(b.now(), broker.Filter{Queue: queue}, state, "", 100)
	if err != nil {
		return nil
	}
	return found
}

// neededFiles are those that a handle reads its jobs from.
func neededFiles(c *Broker) (all []uint32) {
	b := c.cur.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s.EachLoc(func(_ broker.Ref, _ string, l jobstate.Loc) { all = append(all, b.where(l).File) })
	slices.Sort(all)
	return slices.Compact(all)
}

// TestACompactionKilledAnywhereChangesNothing kills the process that compacts
// before each of its operations, with half a write where it writes. Another
// process goes on, compacts, and shows what it showed before.
func TestACompactionKilledAnywhereChangesNothing(t *testing.T) {
	c := newCorpus(t, true) // with a checkpoint and a payload file already
	for n := 0; ; n += stride(1) {
		m := c.copy()
		m.Clock.Step(c.moments[len(c.moments)-1].wall.Sub(m.Clock.Wall()))
		p := m.Process()
		a, err := openOn(p)
		must(t, err)
		b, err := openOn(m.Process())
		must(t, err)
		seen := look(t, b)
		dead := killAt(m, p, n, anyOp)
		_, err = a.Compact(context.Background())
		m.Inject(nil)
		if !dead.Load() {
			must(t, err)
		}
		if now := look(t, b); !slices.Equal(now, seen) {
			t.Fatalf("killed at operation %d, the compaction changed the store:\n%s", n, difference(seen, now))
		}
		a.Close() // the process is dead
		got, err := b.Compact(context.Background())
		if err != nil || got.Checkpoint == 0 {
			t.Fatalf("after a compaction was killed at operation %d, another: %+v %v", n, got, err)
		}
		if now := look(t, b); !slices.Equal(now, seen) {
			t.Fatalf("killed at operation %d, the next compaction changed the store:\n%s", n, difference(seen, now))
		}
		soundAndTidy(t, m)
		goesOn(t, m, b)
		if !dead.Load() {
			t.Logf("%d operations", n)
			return
		}
	}
}

func anyOp(crashfs.Op) bool { return true }

// syncsLog fits the operation that makes a segment durable.
func syncsLog(op crashfs.Op) bool {
	return op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log")
}

// killAt kills p at the n-th operation from now on that fits.
func killAt(m *crashfs.Machine, p *crashfs.Process, n int, fits func(crashfs.Op) bool) (dead *atomic.Bool) {
	dead = new(atomic.Bool)
	var mu sync.Mutex
	left := n
	m.Inject(func(op crashfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Process != p || !fits(op) {
			return nil
		}
		if left--; left >= 0 {
			return nil
		}
		dead.Store(true)
		if op.Kind == crashfs.OpWriteAt {
			return crashfs.ShortWrite{N: op.Length / 2, Err: crashfs.ErrKilled}
		}
		return crashfs.ErrKilled
	})
	return dead
}

// soundAndTidy wants that the store is sound and has no file too many, but for
// a segment that is being prepared, and what the dead process half wrote.
func soundAndTidy(t testing.TB, m *crashfs.Machine) {
	t.Helper()
	r, err := journal.Verify(m.Process(), labDir)
	must(t, err)
	for _, f := range r.Findings {
		if f.Kind != journal.Leftover || !strings.HasSuffix(f.File, ".new") && !strings.HasPrefix(f.File, "torn-") {
			t.Errorf("%+v", f)
		}
	}
}

// TestAProcessKilledAnywhereLeavesTheStoreToTheOthers plays the records of the
// script in one process, which is killed before one of its operations, each in
// turn. The other, or the next one, shows the store as it was after some frame,
// not before the last acknowledged one, with the dead one's leases ended.
func TestAProcessKilledAnywhereLeavesTheStoreToTheOthers(t *testing.T) {
	var moments []*moment
	script := func(t *testing.T, n int, fits func(crashfs.Op) bool) (died bool) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, crashfs.Config{Seed: 1})
			b := s.open()
			a := s.open()
			acked := 0
			s.acked = func(last uint64) { acked = s.at[last].frame }
			dead := killAt(s.m, a.proc, n, fits)
			s.TB = mortal{t, dead}
			func() {
				defer func() {
					if r := recover(); r != nil && r != killed {
						panic(r)
					}
				}()
				everyFinal(a, a, 40)
				everyWait(a, a, 20)
				everyCommand(a, a, 60)
				everyExpiry(a, a, 80)
			}()
			s.m.Inject(nil)
			if died = dead.Load(); !died {
				moments = s.moments
				return
			}
			a.drop()
			synctest.Wait()
			left := b.real
			if n%2 == 1 { // the other one dies as well: who opens the store next finds nobody
				b.drop()
				var err error
				left, err = openOn(s.m.Process())
				must(t, err)
			}
			someMomentAfter(t, left, moments[acked:])
			goesOn(t, s.m, left)
		})
		return died
	}
	script(t, 1<<30, anyOp)
	for name, of := range map[string]struct {
		fits func(crashfs.Op) bool
		step int
	}{
		"operations": {anyOp, stride(29)},
		"syncs":      {syncsLog, stride(1)},
	} {
		n := 0
		for script(t, n, of.fits) {
			n += of.step
		}
		t.Logf("%d %s", n, name)
	}
}

// killed is what mortal panics with.
const killed = "the process was killed"

// mortal is a test that is left by a panic once a process was killed: what its
// calls answer is no failure.
type mortal struct {
	*testing.T
	dead *atomic.Bool
}

func (m mortal) Fatal(args ...any) {
	m.Helper()
	if m.dead.Load() {
		panic(killed)
	}
	m.T.Fatal(args...)
}

func (m mortal) Fatalf(format string, args ...any) {
	m.Helper()
	if m.dead.Load() {
		panic(killed)
	}
	m.T.Fatalf(format, args...)
}

// someMomentAfter wants that a handle shows one of the moments, but for leases
// that have ended and for what has become due since.
func someMomentAfter(t testing.TB, b *Broker, moments []*moment) {
	t.Helper()
	waiting := func(lines []string) (all []string) {
		for _, l := range lines {
			all = append(all, strings.ReplaceAll(l, `"state":"scheduled"`, `"state":"ready"`))
		}
		return all
	}
	seen := waiting(look(t, b))
	var diffs []string
	for _, mo := range moments {
		diff := butForLeases(&moment{frame: mo.frame, seen: waiting(mo.seen)}, seen)
		if diff == "" {
			return
		}
		diffs = append(diffs, diff)
	}
	t.Fatalf("the store is as it was after no frame since the last acknowledged one:\n%s", strings.Join(diffs[:min(3, len(diffs))], "\n"))
}

// TestADamagedPayloadShowsInItsJob flips bits of what a checkpoint left where
// it lies, or moved: the state is whole, only the job whose bytes they were
// says that it is damaged, and a claim makes that one dead.
func TestADamagedPayloadShowsInItsJob(t *testing.T) {
	c := newCorpus(t, true)
	last := c.moments[len(c.moments)-1]
	seen, buried := 0, 0
	for name, content := range logFiles(c, c.image) {
		var n uint64
		if _, err := fmt.Sscanf(name, "%06d", &n); err != nil || n > c.checkpoint || strings.HasSuffix(name, ".idx") {
			continue
		}
		for i := range 8 * len(content) {
			if i%stride(37) != 0 {
				continue
			}
			b := []byte(content)
			b[i/8] ^= 1 << (i % 8)
			m := c.copy()
			put(c, m, name, b)
			m.Clock.Step(last.wall.Sub(m.Clock.Wall()))
			h, err := openOn(m.Process())
			must(t, err)
			if id := damagedJob(t, last.seen, look(t, h)); id != "" {
				seen++
				buried += buries(t, h, id)
			}
			must(t, h.Close())
		}
	}
	t.Logf("%d flips were seen in a job, %d of them buried it", seen, buried)
	if seen == 0 || buried == 0 {
		t.Error("no flip hit a payload: this test proves nothing")
	}
}

// damagedJob wants that a store shows what it did, but for one job that says
// that it is damaged, and returns the id of that one, if any.
func damagedJob(t *testing.T, was, is []string) (id string) {
	t.Helper()
	for i, line := range was {
		if is[i] == line {
			continue
		}
		_, rest, _ := strings.Cut(line, `"id":"`)
		id, _, _ = strings.Cut(rest, `"`)
		if !strings.Contains(is[i], id) || !strings.Contains(is[i], `"reason":"damaged"`) {
			t.Fatalf("a flipped bit was not noticed:\n%s", difference(was, is))
		}
	}
	return id
}

// buries claims all that is ready and wants a damaged job to be dead instead of
// handed out; 0 when it was not ready.
func buries(t *testing.T, b *Broker, id string) int {
	t.Helper()
	got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Max: 100, Worker: "w"})
	must(t, err)
	for _, l := range got.Leases {
		if l.Job.ID.String() == id {
			t.Fatalf("a damaged job was handed out: %+v", l.Job)
		}
	}
	for _, line := range look(t, b) {
		if strings.Contains(line, id) && strings.Contains(line, `"state":"dead"`) && strings.Contains(line, `"reason":"damaged"`) {
			return 1
		}
	}
	return 0
}

func TestACompactorThatStandsStillIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		open := func(log io.Writer) (*crashfs.Process, *Broker) {
			p := m.Process()
			b, err := openLazy(p, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
			must(t, err)
			return p, b
		}
		var log strings.Builder
		var own strings.Builder
		stands, compactor := open(&own)
		_, witness := open(&log)
		still := func() {
			ok, err := compactor.cur.Load().log.TryCompactLock()
			if err != nil || !ok {
				t.Fatal("COMPACT is not free", err)
			}
			compactor.cur.Load().log.CompactGoesOn()
		}
		told := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(log.String(), fmt.Sprintf("stands still, and no other can; stop or continue it\" store=%s pid=%d", labDir, stands.PID())); got != want {
				t.Errorf("reported %d times, want %d: %s", got, want, &log)
			}
		}
		still()
		time.Sleep(2 * time.Second)
		told(1)
		time.Sleep(time.Minute)
		told(1)
		compactor.cur.Load().log.CompactUnlock()
		_, err := witness.Compact(context.Background())
		must(t, err)
		time.Sleep(2 * time.Second)
		still() // again
		time.Sleep(2 * time.Second)
		told(2)
		compactor.cur.Load().log.CompactUnlock()
		time.Sleep(2 * time.Second)
		still()
		stands.Kill() // which frees COMPACT
		time.Sleep(time.Minute)
		told(2)
		must(t, witness.Close())
		_ = compactor.Close() // a killed process has no files to close
		if strings.Contains(own.String(), "stands still") {
			t.Errorf("who compacts said of itself %s", &own)
		}
	})
}

// What takes long is not said to stand still.
func TestACompactorThatGoesOnIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		var log strings.Builder
		witness, err := openLazy(m.Process(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		must(t, err)
		slow := m.Process()
		b, err := openOn(slow)
		must(t, err)
		fill(t, b, 10)
		m.Inject(func(op crashfs.Op) error {
			if op.Process == slow && strings.HasSuffix(op.Path, ".idx") || strings.Contains(op.Path, ".tmp") {
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		began := time.Now()
		got, err := b.Compact(context.Background())
		if err != nil || got.Checkpoint == 0 || time.Since(began) < 3*time.Second {
			t.Errorf("compacted %+v in %v, %v", got, time.Since(began), err)
		}
		m.Inject(nil)
		must(t, errors.Join(b.Close(), witness.Close()))
		if strings.Contains(log.String(), "stands still") {
			t.Errorf("reported %s", &log)
		}
	})
}
